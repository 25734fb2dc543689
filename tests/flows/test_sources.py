"""Named sources with weights and temperatures: trained, told of, resumed, verified, compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import Result
from published import copied

from bpeline.flows.requests.corpus_files import corpus_sources, read_corpus_file
from bpeline.flows.requests.source_spelling import NamedSource
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.flows.serving import run_names
from bpeline.registry import load_tokenizer
from bpeline.registry.evaluation.measured import read_evaluation
from bpeline.registry.opening import open_registry
from bpeline.registry.word_counts.store import WordCountStore
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidOption

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
CORPUS = """
temperature = 2

[[source]]
name = "docs"
files = ["corpus/part-0.txt", "corpus/part-1.txt"]
language = "en"

[[source]]
name = "lines"
files = "lines/*.jsonl"
text_field = "said"
weight = 1.5
"""


@pytest.fixture
def lines(corpus: Path, tmp_path: Path, english_and_code: str) -> Path:
    """A second source, of JSON lines whose text has another name, and a corpus file of both."""
    folder = tmp_path / "lines"
    folder.mkdir()
    documents = [english_and_code[at : at + 500] for at in range(300_000, 320_000, 500)]
    records = [json.dumps({"said": one, "text": "zzz " * 9}) for one in documents]
    (folder / "a.jsonl").write_text("\n".join(records), encoding="utf-8")
    (tmp_path / "corpus.toml").write_text(CORPUS, encoding="utf-8")
    return folder


OPTIONS = ("--vocab-size", 500, "--held-out", 0.2, "--name", "two")


def trained(bpeline: Command, *arguments: Any) -> dict[str, Any]:
    ended = bpeline("train", *arguments, *OPTIONS, "--json")
    assert ended.exit_code == 0, ended.output
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


def counts_of(path: Path) -> dict[bytes, int]:
    with duckdb.connect(path, read_only=True) as connection:
        return dict(connection.execute("SELECT word, count FROM word_counts").fetchall())


def test_sources_whose_files_belong_to_earlier_ones_are_named(
    bpeline: Command, corpus: Path
) -> None:
    files = [corpus / "part-0.txt", corpus / "part-1.txt"]
    spelt = {"one": files[0], "same": files[0], "both": corpus / "*.txt", "last": files[1]}
    asked = [part for name, path in spelt.items() for part in ("--source", f"{name}={path}")]
    ended = bpeline("train", *asked, *OPTIONS, "--dry-run", "--json")
    assert ended.exit_code == 0, ended.output
    notes = json.loads(ended.stdout)["notes"]
    for expected in (
        "source same names 1 file, which one names first: a file is read once, and no text is left "
        "to same",
        "source both names 1 file, which one names first: a file is read once, for the first",
        "source last names 1 file, which both names first: a file is read once, and no text is "
        "left to last",
    ):
        assert expected in notes, notes


@pytest.mark.night
def test_many_sources_without_text_are_named_in_few_lines_by_the_training_and_the_sweep(
    bpeline: Command, corpus: Path
) -> None:
    file = corpus / "part-0.txt"
    asked = [part for at in range(9) for part in ("--source", f"s{at}={file}")]
    for command in ("train", "sweep"):
        size = ["--vocab-size", 500] if command == "train" else ["--sizes", "500"]
        ended = bpeline(command, *asked, *size, "--held-out", 0.2, "--name", "nine")
        assert ended.exit_code == 0, ended.output
        told = [line for line in ended.stderr.splitlines() if line.startswith("note: source s")]
        assert "s1" in told[0]
        assert len(told) == 5, ended.stderr
        assert "note: 3 more sources" in ended.stderr


@pytest.mark.night
def test_a_corpus_file_is_trained_told_of_and_verified(
    bpeline: Command, lines: Path, tmp_path: Path
) -> None:
    summary = trained(bpeline, "corpus.toml")
    docs, said = summary["sources"]
    assert (docs["source"], docs["language"], docs["weight"]) == ("docs", "en", 1.0)
    assert said["weight"] > 1.5, "the smaller share gains by temperature"
    # 1.5 times the small source, flattened: the square roots of the shares.
    sizes = docs["bytes"], 1.5 * said["bytes"]
    shares = [size**0.5 / sum(one**0.5 for one in sizes) for size in sizes]
    assert said["weighted_share"] == pytest.approx(shares[1], abs=0.01)
    assert docs["share"] + said["share"] == pytest.approx(1)
    assert {"bytes_per_token/docs", "bytes_per_token/lines"} <= summary["metrics"].keys()

    tables = tmp_path / ".bpeline" / "tables"
    counts_digest = json.loads(bpeline("show", "two/1", "--json").stdout)["lineage"][
        "counts_digest"
    ]
    registry = open_registry()
    table = next(iter(registry.catalogue.count_tables(counts_digest)), None)
    assert table is not None
    with duckdb.connect(tables / f"{table.key}.sources.duckdb", read_only=True) as connection:
        rows = connection.execute("SELECT source, weight, words, weighted_words FROM sources")
        assert [(*row,) for row in rows.fetchall()] == [
            (one["source"], one["weight"], one["words"], one["weighted_words"])
            for one in (docs, said)
        ]
    own = [(counts_of(tables / one["table"]), Fraction(str(one["weight"]))) for one in (docs, said)]
    assert not any(b"zzz" in word for word in own[1][0]), "the source's own field was read"
    assert counts_of(tables / f"{table.key}.duckdb") == reference.mix(own)

    shown = bpeline("show", "two/1", "--json").stdout
    assert json.loads(shown)["sources"] == summary["sources"]
    assert "weighted" in bpeline("show", "two/1").stdout
    page = tmp_path / "page.html"
    assert bpeline("report", "two/1", "--output", page).exit_code == 0
    assert "<h3>Sources</h3>" in page.read_text(encoding="utf-8")

    tracked = registry.tracker.version("two", 1)
    assert tracked is not None
    run = registry.tracker._client.get_run(tracked.mlflow_run_id)
    assert run.data.params["temperature"] == "2.0"
    assert run.data.params["weights"].startswith("docs=1, lines=")
    read = {one.dataset.name: one.dataset.source for one in run.inputs.dataset_inputs}
    assert str(lines / "*.jsonl") in read["lines"]
    place = registry.workspace.mlflow_artifacts / "two" / tracked.mlflow_run_id / "artifacts"
    logged = json.loads((place / "sources" / "sources.json").read_bytes())
    assert [row[0] for row in logged["data"]] == ["docs", "lines"]

    verified = bpeline("verify", "two/1", "--json")
    assert json.loads(verified.stdout)["verdict"] == "identical", verified.output
    assert bpeline("verify", "two/1", "--reuse-counts").exit_code == 0


@pytest.mark.night
def test_changing_weights_counts_nothing_again(
    bpeline: Command, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(bpeline, "corpus.toml")
    monkeypatch.setattr(WordCountStore, "put", None)
    typed = ["--source", "docs:language=en=corpus/part-[01].txt",
             "--source", "lines:text_field=said:weight=4=lines"]  # fmt: skip
    summary = trained(bpeline, *typed)
    assert [one["weight"] for one in summary["sources"]] == [1, 4]
    assert summary["chunks_reused"] == summary["chunks"]
    cooler = trained(bpeline, "corpus.toml", "--temperature", 1)
    assert [one["weight"] for one in cooler["sources"]] == [1, 1.5]


@pytest.mark.night
def test_weights_of_one_train_what_paths_train(bpeline: Command, corpus: Path) -> None:
    plain = trained(bpeline, corpus)
    named = trained(
        bpeline, "--source", "a=corpus/part-0.txt", "--source", "b=corpus/part-[12].txt"
    )
    assert (named["digest"], named["words"]) == (plain["digest"], plain["words"])
    assert (named["newly_registered"], plain["sources"]) == (False, [])
    tables = open_registry().catalogue.count_tables()
    assert len({(one.key, one.counts_digest) for one in tables}) == 1
    assert bpeline("verify", "two/1").exit_code == 0


@pytest.mark.night
def test_weights_hide_no_token_of_one_document_alone(
    bpeline: Command, tmp_path: Path, fresh_workspace: Path, english_and_code: str
) -> None:
    """Twice the counts are more than any chunk has; the screen looks at what was counted."""
    copied(fresh_workspace, tmp_path / ".bpeline")
    pieces = [{"text": english_and_code[at : at + 2_000]} for at in range(0, 20_000, 2_000)]
    (tmp_path / "plain.jsonl").write_text("\n".join(map(json.dumps, pieces)), encoding="utf-8")
    (tmp_path / "secret.txt").write_text("zqxjvk " * 50, encoding="utf-8")
    (tmp_path / "copy.txt").write_text("zqxjvk " * 70, encoding="utf-8")
    found = {}
    for weights in ((1, 0), (2, 0), (2, 1)):
        sources = ["plain=plain.jsonl", f"secret:weight={weights[0]}=secret.txt",
                   f"copy:weight={weights[1]}=copy.txt"]  # fmt: skip
        typed = [part for one in sources for part in ("--source", one)]
        ended = bpeline("train", *typed, "--name", "n", "--vocab-size", 600, "--held-out", 0,
                        "--json")  # fmt: skip
        assert ended.exit_code == 0, ended.output
        evaluation = read_evaluation(Path(json.loads(ended.stdout)["directory"]))
        assert evaluation is not None
        ids = evaluation["screening"]["one_document"]
        tokenizer = load_tokenizer("n@candidate")
        found[weights] = {tokenizer.vocab[id_] for id_ in ids}
    assert all(b" zqxjvk" in found[weights] for weights in ((1, 0), (2, 0)))
    assert b" zqxjvk" not in found[2, 1]


@pytest.mark.night
def test_an_interrupted_run_is_resumed_with_its_weights(
    bpeline: Command, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.flows import train_tokenizer

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train_tokenizer, "learn_merges", interrupted)
        bpeline("train", "corpus.toml", *OPTIONS)
    (tmp_path / "corpus.toml").unlink()  # what it said is remembered with the run
    resumed = bpeline("resume", "--json")
    assert resumed.exit_code == 0, resumed.output
    assert [one["source"] for one in json.loads(resumed.stdout)["sources"]] == ["docs", "lines"]


@pytest.mark.night
def test_mixtures_are_compared_and_nothing_is_registered(
    bpeline: Command, lines: Path, tmp_path: Path
) -> None:
    trained(bpeline, "corpus.toml")
    said = bpeline(
        "sweep", "two/1", "--weights", "lines=40", "--weights", "docs=0", "--temperatures",
        "1,2", "--json",
    )  # fmt: skip
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    choices = {one["mixture"]: one for one in found["combinations"]}
    assert list(choices) == ["as it is", "lines=40", "docs=0", "T=1"]
    assert (found["name"], choices["T=1"]["vocab_size"]) == ("two", 500)
    assert choices["as it is"]["bytes_per_token"].keys() == {"all", "docs", "lines"}
    lines_of = {title: one["bytes_per_token"]["lines"] for title, one in choices.items()}
    assert lines_of["T=1"] < lines_of["as it is"] < lines_of["lines=40"]
    assert choices["docs=0"]["sources"][0]["weighted_share"] == 0
    assert len(json.loads(bpeline("versions", "--json").stdout)) == 1
    assert '"published": []' in bpeline("resume", "--json").stdout

    tracker = open_registry().tracker
    experiment = tracker._client.get_experiment_by_name("two")
    runs = tracker._client.search_runs([experiment.experiment_id])
    nested = {r.info.run_name: r.data for r in runs if "mlflow.parentRunId" in r.data.tags}
    assert nested.keys() == {f"gpt2-{one}-500" for one in ("as-it-is", "lines=40", "docs=0", "T=1")}
    assert nested["gpt2-T=1-500"].params["temperature"] == "1.0"
    assert nested["gpt2-docs=0-500"].params["weights"].startswith("docs=0, lines=")
    (parent,) = [r for r in runs if r.data.params.get("mixtures")]
    (figure,) = tracker._client.list_artifacts(parent.info.run_id, "figures")
    drawn = Path(tracker._client.download_artifacts(parent.info.run_id, figure.path, str(tmp_path)))
    assert "lines=40" in drawn.read_text()

    # What the report says is what training gives.
    heavier = trained(bpeline, "--source", "docs:language=en=corpus/part-[01].txt", "--source",
                      "lines:text_field=said:weight=40=lines", "--temperature", 2)  # fmt: skip
    assert heavier["metrics"]["bytes_per_token/lines"] == lines_of["lines=40"]
    (tmp_path / "few.txt").write_text("a few words of text")
    few = bpeline("sweep", "two/1", "--weights", "lines=40", "--eval", "t=few.txt").stdout
    assert "few documents" in few.splitlines()[3]
    assert "register:  bpeline train --source NAME=FILES --name two --vocab-size N" in few
    for title, one in choices.items():
        change = one["metrics"].get("vs_present-mixture_percent/lines")
        assert (change is None) is (title == "as it is")
        assert change is None or (change < 0) is (lines_of[title] > lines_of["as it is"])


@pytest.mark.night
def test_mixtures_are_one_more_dimension_of_a_sweep(bpeline: Command, lines: Path) -> None:
    """Each size of a mixture meets the same size of the present one; words are counted once."""
    asked = ("sweep", "corpus.toml", "--weights", "lines=3", "--sizes", "300,400", "--text-field")
    asked += ("said", "--held-out", "0.3")
    ended = bpeline(*asked, "--variant", "superbpe", "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found["name"] == "corpus"
    combinations = found["combinations"]
    assert [(one["variant"], one["mixture"], one["vocab_size"]) for one in combinations] == [
        (variant, mixture, size)
        for variant in ("plain", "superbpe")
        for mixture in ("as it is", "lines=3")
        for size in (300, 400)
    ]
    by = {(one["variant"], one["mixture"], one["vocab_size"]): one for one in combinations}
    for size in (300, 400):
        present, other = (by["plain", mixture, size] for mixture in ("as it is", "lines=3"))
        ratio = other["bytes_per_token"]["lines"] / present["bytes_per_token"]["lines"]
        change = other["metrics"]["vs_present-mixture_percent/lines"]
        assert 100 * (1 / ratio - 1) == pytest.approx(change, abs=0.01)
    assert ended.stderr.count("count words") == 2, "once for each way to cut text"
    titles = bpeline(*asked).stdout.splitlines()[1]
    assert [one in titles for one in ("mixture", "bytes/token docs", "docs share")] == [True] * 3


@pytest.mark.night
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two/1", "--weights", "docs=1"], "was not trained on named sources"),
        (["corpus", "lines", "--weights", "docs=1", "--name", "x"], "has no named sources"),
        (["corpus.toml", "--temperatures", "2"], "the one that there is"),
        (["corpus.toml", "--weights", "nobody=1"], "no source nobody"),
        (["corpus.toml", "--weights", "docs=x"], "--weights is 'docs=x'"),
        (["corpus.toml", "--temperatures", "hot"], "--temperatures is 'hot'"),
        (["corpus.toml", "--temperatures", "-1"], "temperature is -1.0"),
    ],
)
def test_choices_that_are_none_are_refused(
    arguments: list[str], said: str, bpeline: Command, lines: Path
) -> None:
    if arguments[0] == "two/1":
        trained(bpeline, "corpus")
    sizes = () if arguments[0] == "two/1" else ("--sizes", "300")
    ended = bpeline("sweep", *arguments, *sizes)
    assert (ended.exit_code, said in ended.stderr) == (2, True), ended.output


def test_a_corpus_file_needs_no_temperature(bpeline: Command, lines: Path) -> None:
    file = Path("corpus.toml")
    file.write_text(file.read_text().replace("temperature = 2\n", ""))
    assert "temperature" not in file.read_text()
    plan = bpeline("train", file, "--name", "two", "--dry-run")
    assert plan.exit_code == 0, plan.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["corpus", "--source", "a=corpus"], "given together"),
        (["--source", "corpus"], "names no source"),
        (["--source", "a:weight=-1=corpus"], "names no source"),
        (["--source", "a:weight=0.0000001=corpus"], "weight 1e-07"),
        (["--source", "a:weight=2=corpus", "--source", "a=lines"], "different labels"),
        (["--source", "all=corpus"], "names no source"),
        (["--source", "a=missing/*.txt"], "missing/*.txt"),
        (["--source", "a=corpus", "--temperature", "2"], "no two named sources"),
        (["corpus", "--temperature", "2"], "no two named sources"),
        (["corpus.toml", "--temperature", "0"], "temperature is 0.0"),
        (["missing.toml"], "missing.toml cannot be used"),
        (["--source", "a:weight=0=corpus", "--source", "b:weight=0=lines"], "weight above 0"),
    ],
)
def test_sources_that_are_none_are_refused(
    arguments: list[str], said: str, bpeline: Command, lines: Path
) -> None:
    ended = bpeline("train", *arguments, "--name", "two", "--text-field", "said")
    assert (ended.exit_code, said in ended.stderr) == (2, True), ended.output


@pytest.mark.parametrize(
    "content",
    [
        "", "[[source]]", "[[sources]]\nname='a'\nfiles='a'", "source = 1", "x = 1",
        "[[source]]\nname='a'\nfiles='a'\nweight='2'", "[[source]]\nname='a'\nfiles='a'\nweight=-1",
        "[[source]]\nname='a'\nfiles=[]", "[[source]]\nname='a'\nfiles='a'\nlabel='x'",
        "[[source]]\nname='a b'\nfiles='a'", "temperature='hot'\n[[source]]\nname='a'\nfiles='a'",
        "[[source]]\nname='a'\nfiles='a'\nweight=true", "[[source]\n",
    ],
)  # fmt: skip
def test_corpus_files_that_are_none_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.toml"
    path.write_text(content)
    with pytest.raises(InvalidOption):
        read_corpus_file(path)


def test_a_corpus_file_is_what_one_would_type(tmp_path: Path) -> None:
    (tmp_path / "corpus.toml").write_text(CORPUS)
    spelt, temperature = read_corpus_file(tmp_path / "corpus.toml")
    assert temperature == 2
    assert spelt[2] == f"lines:weight=1.5:text_field=said={tmp_path}/lines/*.jsonl"
    assert corpus_sources(spelt) == (
        NamedSource(
            "docs", tuple(f"{tmp_path}/corpus/part-{k}.txt" for k in (0, 1)), language="en"
        ),
        NamedSource("lines", (f"{tmp_path}/lines/*.jsonl",), weight=1.5, text_field="said"),
    )


def test_requests_of_before_there_were_sources_are_the_same() -> None:
    usual = {
        "paths": ["a"], "name": "n", "vocab_size": 400, "pattern": None, "special_tokens": [],
        "tie_break": None, "min_count": None, "max_token_bytes": None, "invalid_utf8": "strict",
        "held_out": 0.0, "text_field": "text", "workers": 1, "min_word_count": 1,
        "required_tokens": [], "table_memory": 256,
    }  # fmt: skip
    config = TrainingRequest.checked(**usual).as_config()
    assert not {"sources", "temperature"} & config.keys()
    asked = {**usual, "paths": [], "sources": ["x:weight=2=a", "y=b"], "temperature": 2}
    request = TrainingRequest.checked(**asked)
    again = TrainingRequest.checked(**json.loads(json.dumps(request.as_config())))
    assert again == request
    assert request.same_as(again.as_config())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"sources": ["en:language=en=a.txt"]}, "news-500 from en"),
        ({"sources": ["en=a.txt", "de=*.txt", "en=b.txt"]}, "news-500 from en and 1 more"),
        ({"paths": ["/data/de/*.txt", "corpus/"]}, "news-500 from de/*.txt and 1 more"),
        ({"paths": ["/data/corpus/"]}, "news-500 from corpus/"),
        ({"counts": ["words.parquet"]}, "news-500 from words.parquet"),
        ({"paths": ["a.txt"], "options": {"merges": 20}}, "news (20 merges) from a.txt"),
    ],
)
def test_a_run_is_named_by_what_was_asked_for(asked: dict[str, Any], expected: str) -> None:
    request = {"name": "news", "vocab_size": 500, "paths": [], **asked}
    assert run_names.training({"request": request}) == expected
    checked = TrainingRequest.checked(name="news", vocab_size=500, paths=["a.txt"])
    assert run_names.training({"request": checked}) == "news-500 from a.txt"
    watched = {"alias": "champion", "paths": ["x.txt"], "sources": ["en=s3://bucket/y.txt"]}
    said = run_names.watching({"name": "news", **watched})
    assert said.startswith("news@champion")
