"""Training that evaluates on named sources, compares, judges and promotes; and sweeps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from bpeline.flows.evaluation import new_versions
from bpeline.flows.publishing import logged_change
from bpeline.registry import load_tokenizer
from bpeline.registry.evaluation.measured import read_evaluation
from bpeline.registry.opening import open_registry
from bpeline.registry.tracking.tracked import plain_metrics
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.evaluation.metric_names import (
    BYTES_PER_TOKEN,
    NAMES,
    TOO_FEW_DOCUMENTS,
)
from bpeline.tokenizer_core.plugins import kind_of

Command = Callable[..., Result]
RULES = f"""
[[rule]]
metric = "{BYTES_PER_TOKEN}"
direction = "higher"
slice = "language:en"
tolerance = 0.001
confidence = 0.95

[[rule]]
metric = "vocabulary/unreachable_tokens"
direction = "lower"
limit = 0
"""


@pytest.fixture
def texts(tmp_path: Path, english_and_code: str) -> dict[str, list[str]]:
    """Two evaluation sources, as files and as documents."""
    held = tmp_path / "held"
    held.mkdir()
    pieces = [english_and_code[at : at + 700] for at in range(200_000, 240_000, 700)]
    found = {"docs": pieces[:30], "code": pieces[30:]}
    for name, documents in found.items():
        (held / f"{name}.txt").write_text("<|end|>".join(documents), encoding="utf-8")
    return found


@pytest.fixture
def train(bpeline: Command, corpus: Path, texts: dict[str, list[str]]) -> Callable[..., Any]:
    """Train and return the JSON, with the exit code under ``exit``."""

    def run(vocab_size: int, *options: Any) -> dict[str, Any]:
        sources = ["docs:language=en:domain=prose=held/docs.txt", "code:language=en=held/code.txt"]
        ended = bpeline(
            "train", corpus, "--name", "news", "--vocab-size", vocab_size, "--json",
            "--special-token", "<|end|>", *(f"--eval={one}" for one in sources), *options,
        )  # fmt: skip
        assert ended.exit_code in {0, 3, 4}, ended.output
        return {**json.loads(ended.stdout), "exit": ended.exit_code}

    return run


def tokens_of(reference: str, documents: list[str]) -> int:
    return sum(len(load_tokenizer(reference).encode(one)) for one in documents)


@pytest.mark.night
def test_sources_champion_and_baselines_are_measured_on_the_same_documents(
    train: Callable[..., Any], texts: dict[str, list[str]], bpeline: Command, tmp_path: Path
) -> None:
    first = train(600)
    assert not any(key.startswith("vs_") for key in first["metrics"])
    bpeline("promote", "news/1")
    bpeline("export", "news/1", "--format", "hf", "--output", "small/tokenizer.json")
    second = train(900, "--baseline", "small/tokenizer.json", "--baseline", "same=news/1")
    metrics = second["metrics"]
    for label, documents in (*texts.items(), ("all", texts["docs"] + texts["code"])):
        before, after = (tokens_of(f"news/{number}", documents) for number in (1, 2))
        for other in ("champion", "small", "same"):
            change = metrics[f"vs_{other}_percent/{label}"]
            assert change == pytest.approx(100 * (after / before - 1))
            assert metrics[f"vs_{other}_percent/{label}_low"] < change
            assert change < metrics[f"vs_{other}_percent/{label}_high"] < 0
        size = sum(len(one.encode()) for one in documents)
        name = BYTES_PER_TOKEN if label == "all" else f"bytes_per_token/{label}"
        assert metrics[name] == pytest.approx(size / after)
    assert "bytes_per_token/domain:prose" not in metrics, "the same as docs"

    record = read_evaluation(Path(second["directory"]))
    assert record is not None
    assert record["slices"].keys() == {"all", "docs", "code", "language:en", "domain:prose"}
    assert record["slices"]["docs"]["metrics"].keys() == set(NAMES.values())
    assert record["compared"].keys() == {"champion", "small", "same"}
    assert record["compared"]["champion"]["reference"] == "news/1"
    assert {one["pattern"] for one in record["compared"].values()} == {record["pattern"]}
    assert all(
        (one["remarks"], one["normalizer"]) == ([], "none") for one in record["compared"].values()
    )
    assert record["digest"] == second["digest"]
    assert [one["documents"] for one in record["sources"]] == [30, len(texts["code"])]
    assert record["training"]["junk"] == metrics["training/junk_tokens"]

    registry = open_registry()
    tracked = registry.tracker.version("news", 2)
    assert tracked is not None
    run = registry.tracker._client.get_run(tracked.mlflow_run_id)
    assert run.info.run_name == "news/2"
    assert run.data.params["evaluation_set"] == record["set"]["digest"][:8]
    low, high = (metrics[f"vs_champion_percent/docs_{end}"] for end in ("low", "high"))
    said = metrics["vs_champion_beyond_chance/docs"]
    assert said == run.data.metrics["vs_champion_beyond_chance/docs"]
    assert (said, low < 0, high < 0) == (-1, True, True), "more ids, fewer tokens"
    note = run.data.tags["mlflow.note.content"]
    change = metrics["vs_champion_percent/docs"]
    assert f"| {change:+.2f} % ({low:+.2f} … {high:+.2f}) |" in note
    read = {one.dataset.name: one.tags[0].value for one in run.inputs.dataset_inputs}
    assert read["docs"] == read["code"] == "evaluation"
    place = registry.workspace.mlflow_artifacts / "news" / tracked.mlflow_run_id / "artifacts"
    page = (place / "comparison" / "comparison.html").read_text(encoding="utf-8")
    assert "language:en" not in page, "all of it is English"
    assert f"{metrics['vs_champion_percent/docs']:+.2f}%" in page
    data = json.loads((place / "comparison" / "comparison.json").read_bytes())
    assert (
        data["documents"]["second_tokens"] == record["slices"]["all"]["metrics"]["evaluated/tokens"]
    )
    assert data["slices"][1]["change"]["intervals"]["0.95"]
    drawn = {path.name for path in (place / "figures").iterdir()}
    assert drawn == {"compression.svg", "merge-gain.svg", "slices.svg", "token-lengths.svg"}
    history = registry.tracker._client.get_metric_history(run.info.run_id, "bytes_per_token/docs")
    assert [[one.step, one.value] for one in history] == record["slices"]["docs"]["curve"]


@pytest.mark.night
def test_rules_decide_who_becomes_champion(
    train: Callable[..., Any], bpeline: Command, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_text(RULES, encoding="utf-8")
    first = train(600, "--rules", "rules.toml")
    assert (first["exit"], first["promotion"]["refusal"]) == (0, "")
    assert any("nothing to compare" in said for said in first["promotion"]["verdicts"])
    better = train(900, "--rules", "rules.toml")
    assert better["exit"] == 0
    assert "+" in better["promotion"]["verdicts"][0]
    worse = train(500, "--rules", "rules.toml")
    assert worse["exit"] == 3
    assert "language:en" in worse["promotion"]["refusal"]
    assert "missed by" in worse["promotion"]["refusal"]
    assert worse["reference"] == "news/3", "it is registered all the same"
    aliases = open_registry().tracker.aliases("news")["news"]
    assert aliases == {"champion": 2, "candidate": 3}
    told = bpeline("show", "news", "--alias", "champion").stdout.splitlines()
    assert "news/2" in told[0]
    assert "news/3" in told[0]
    tags = open_registry().tracker.version("news", 3).tags  # type: ignore[union-attr]
    assert tags["promotion"].startswith("champion refused")
    # By hand, the same rules say the same of the same text, and of any other two versions.
    refused = bpeline("promote", "news/3", "--rules", "rules.toml")
    assert refused.exit_code == 3
    assert worse["promotion"]["refusal"] in refused.stderr
    bpeline("promote", "news/1")
    refused = bpeline("promote", "news/3", "--rules", "rules.toml")
    assert refused.exit_code == 3
    assert "language:en" in refused.stderr
    # What compare shows is what was judged.
    compared = json.loads(bpeline("compare", "news/1", "news/3", "--json").stdout)
    (english,) = [one for one in compared["slices"] if one["name"] in {"all", "language:en"}][:1]
    low, high = english["change"]["intervals"]["0.95"]
    assert f"{1 / (1 + high) - 1:+.2%} … {1 / (1 + low) - 1:+.2%}" in refused.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--eval", "held/docs.txt"], "names no evaluation source"),
        (["--eval", "all=held/docs.txt"], "names no evaluation source"),
        (["--eval", "x=held/missing.txt"], "held/missing.txt"),
        (["--eval", "docs:language=fr=held/code.txt"], "different labels"),
        (["--baseline", "missing.json"], "missing.json"),
        (["--baseline", "champion=held"], "the name champion"),
        (["--rules", "missing.toml"], "missing.toml"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_training(
    options: list[str], said: str, bpeline: Command, corpus: Path, texts: dict[str, list[str]]
) -> None:
    more = ["--eval", "docs=held/docs.txt"] if "different labels" in said else []
    ended = bpeline("train", corpus, "--name", "news", "--vocab-size", 500, *options, *more)
    assert ended.exit_code in {1, 2}
    assert said in ended.stderr
    assert "count words" not in ended.stderr


def test_a_rule_of_a_slice_that_is_not_evaluated_is_refused_before_training(
    bpeline: Command, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "rules.toml").write_text(RULES, encoding="utf-8")
    options = ["--name", "news", "--vocab-size", 500, "--rules", "rules.toml"]
    ended = bpeline("train", corpus, *options)
    assert (ended.exit_code, "language:en" in ended.stderr) == (2, True)


@pytest.mark.night
def test_sources_come_from_a_file_too(
    bpeline: Command, corpus: Path, texts: dict[str, list[str]], tmp_path: Path
) -> None:
    (tmp_path / "held" / "evaluation.toml").write_text(
        """
        parallel = true
        [[evaluation]]
        name = "docs"
        files = ["docs.txt"]
        language = "en"
        [[evaluation]]
        name = "code"
        files = "code.txt"
        language = "py"
        """,
        encoding="utf-8",
    )
    ended = bpeline(
        "train", corpus, "--name", "news", "--vocab-size", 500, "--json",
        "--eval", "held/evaluation.toml",
    )  # fmt: skip
    assert ended.exit_code == 0, ended.output
    metrics = json.loads(ended.stdout)["metrics"]
    # What looks like a special token is no part of what is measured.
    tokens = [tokens_of("news/1", texts[name]) for name in ("docs", "code")]
    assert metrics["premium/en"] == pytest.approx(tokens[0] / min(tokens))
    assert metrics["premium/py"] == pytest.approx(tokens[1] / min(tokens))
    assert metrics["parity/max_over_min"] == pytest.approx(max(tokens) / min(tokens))


@pytest.mark.parametrize(
    "content",
    [
        "", "evaluation = 3", "[[evaluation]]\nname='a'", "[[evaluation]]\nfiles=['a']\nname=3",
        "[[evaluation]]\nname='a'\nfiles=[]", "[[evaluation]]\nname='a/b'\nfiles='x'", "not toml",
        "[[evaluation]]\nname='a'\nfiles='x'\ncolour='x'", "[[evaluation]]\nname='all'\nfiles='x'",
        "other=1\n[[evaluation]]\nname='a'\nfiles='x'",
        "parallel=1\n[[evaluation]]\nname='a'\nfiles='x'",
    ],
)  # fmt: skip
def test_other_files_of_sources_are_refused_by_name(
    content: str, bpeline: Command, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "sources.toml").write_text(content, encoding="utf-8")
    options = ["--name", "news", "--vocab-size", 500, "--eval", "sources.toml"]
    ended = bpeline("train", corpus, *options)
    assert (ended.exit_code, "sources.toml" in ended.stderr) == (2, True)


@pytest.mark.night
def test_a_sweep_measures_every_combination_and_registers_none(
    bpeline: Command, corpus: Path, texts: dict[str, list[str]]
) -> None:
    options = ["--name", "news", "--special-token", "<|end|>", "--eval", "docs=held/docs.txt"]
    sweeping = ["sweep", corpus, "--sizes", "400,600", "--pattern", "gpt2", "--pattern", "cl100k"]
    ended = bpeline(*sweeping, *options, "--json")
    assert ended.exit_code == 0, ended.output
    swept = json.loads(ended.stdout)
    found = {(one["pattern"], one["vocab_size"]): one for one in swept["combinations"]}
    assert list(found) == [("gpt2", 400), ("gpt2", 600), ("cl100k", 400), ("cl100k", 600)]
    assert json.loads(bpeline("versions", "--json").stdout) == []
    assert '"published": []' in bpeline("resume", "--json").stdout

    tracker = open_registry().tracker
    experiment = tracker._client.get_experiment_by_name("news")
    runs = tracker._client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = {run.info.run_name: run for run in runs if run is not parent}
    assert children.keys() == {"gpt2-400", "gpt2-600", "cl100k-400", "cl100k-600"}
    assert all(
        run.data.tags["mlflow.parentRunId"] == parent.info.run_id for run in children.values()
    )
    assert swept["link"].endswith(f"/runs/{parent.info.run_id}?workflowType=machine_learning")

    # What a training would measure: one of them, trained after all, learns nothing again.
    trained = bpeline(
        "train", corpus, "--vocab-size", 400, "--pattern", "cl100k", *options, "--json"
    )
    summary = json.loads(trained.stdout)
    assert "143" in trained.stderr
    shown_as = children["cl100k-400"].data.metrics
    assert BYTES_PER_TOKEN not in shown_as, "the name had no set then: its columns are others"
    assert f"{BYTES_PER_TOKEN}.own_text" in shown_as
    assert "sweep_bytes_per_token/gpt2.own_text" in parent.data.metrics
    child = plain_metrics(shown_as)
    for key in (BYTES_PER_TOKEN, "bytes_per_token/docs", "training/junk_tokens"):
        assert (
            summary["metrics"].get(key)
            == child.get(key)
            == found["cl100k", 400]["metrics"].get(key)
        )

    shown = bpeline(*sweeping, *options)
    assert "against champion" in shown.stdout
    assert "evaluation set " in shown.stdout
    assert f"{found['gpt2', 600]['metrics'][BYTES_PER_TOKEN]:.6g}" in shown.stdout
    (named,) = open_registry().catalogue.evaluation_sets("news")
    found_again = tracker._client.search_runs([experiment.experiment_id], "tags.kind = 'sweep'")
    later = [run for run in found_again if run.info.run_id not in {one.info.run_id for one in runs}]
    for run in later:
        assert run.data.tags["evaluation_set"] == named.digest[:8]
        assert run.data.params["evaluation_set"] == named.digest[:8]
        assert not any(key.endswith(".own_text") for key in run.data.metrics), "the set of the name"
    assert len(later) == 5


@pytest.mark.parametrize("sizes", ["", "many", "8000;16000", "10"])
def test_sizes_that_are_none_are_refused(sizes: str, bpeline: Command, corpus: Path) -> None:
    ended = bpeline("sweep", corpus, "--name", "news", "--sizes", sizes)
    assert ended.exit_code == 2
    assert ended.stderr.startswith("error: ")


@pytest.mark.night
@pytest.mark.parametrize("algorithm", ["char-bpe", "wordpiece", "frequency-bpe"])
def test_other_algorithms_are_swept_too(bpeline: Command, corpus: Path, algorithm: str) -> None:
    options = ["--name", "words", "--algorithm", algorithm]
    ended = bpeline("sweep", corpus, "--sizes", "250,300", *options, "--json")
    assert ended.exit_code == 0, ended.output
    found = {one["vocab_size"]: one for one in json.loads(ended.stdout)["combinations"]}
    assert list(found) == [250, 300]
    assert {one["pattern"] for one in found.values()} == {kind_of(algorithm).default_pattern}
    trained = json.loads(bpeline("train", corpus, "--vocab-size", 300, *options, "--json").stdout)
    for name in ("compression/bytes_per_token", "words/fertility", "evaluated/tokens"):
        assert found[300]["metrics"][name] == trained["metrics"][name]
    refused = bpeline("sweep", corpus, "--sizes", "250", "--algorithm", "unigram", "--name", "x")
    assert refused.exit_code == 2


@pytest.mark.night
def test_trainings_and_sweeps_say_once_what_looks_like_a_special_token(
    bpeline: Command, corpus: Path
) -> None:
    text = corpus / "part-0.txt"
    with text.open("a") as file:
        file.write("one more document<|endoftext|>" * 40)
    sweeping = ("sweep", text, "--sizes", "300", "--pattern", "gpt2", "--pattern", "cl100k")
    for command in (sweeping, ("train", text, "--vocab-size", 300)):
        ended = bpeline(*command, "--name", "news", "--json")
        assert ended.exit_code == 0, ended.output
        said = [note for note in json.loads(ended.stdout)["notes"] if "special" in note]
        assert len(said) == 1
        assert "`--special-token '<|endoftext|>'`" in said[0]
        assert ended.stderr.count(f"note: {said[0]}") == 1


@pytest.mark.night
def test_what_a_sweep_says_to_type_trains_what_it_measured(bpeline: Command, corpus: Path) -> None:
    options = ["--name", "news", "--special-token", "<|x y|>", "--min-count", "3"]
    ended = bpeline("sweep", corpus, "--sizes", "300", *options)
    typed = shlex.split(ended.stdout.partition("register:  bpeline ")[2])
    typed[typed.index("N")], typed[typed.index("P")] = "300", "gpt2"
    assert [str(corpus), *options[2:]] == [typed[1], *typed[-4:]]
    trained = json.loads(bpeline(*typed, "--json").stdout)
    measured = bpeline("sweep", corpus, "--sizes", "300", *options, "--json")
    (combination,) = json.loads(measured.stdout)["combinations"]
    found = combination["metrics"]["compression/bytes_per_token"]
    assert found == trained["metrics"]["compression/bytes_per_token"]


def test_an_interrupted_sweep_is_no_training_to_resume(bpeline: Command, corpus: Path) -> None:
    catalogue = open_registry().catalogue
    run = catalogue.start_run("news", {"sweep": {}})
    catalogue.end_run(run.id, "interrupted")
    assert '"published": []' in bpeline("resume", "--json").stdout


@pytest.mark.night
def test_a_champion_that_cannot_be_had_costs_the_comparison_alone(
    train: Callable[..., Any], bpeline: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    train(600)
    bpeline("promote", "news/1")
    (tmp_path / "rules.toml").write_text(RULES, encoding="utf-8")

    def broken(*_: Any) -> None:
        raise CorruptFile("its files are damaged")

    monkeypatch.setattr(new_versions, "load_version", broken)
    second = train(700, "--rules", "rules.toml")
    assert not any(key.startswith("vs_champion") for key in second["metrics"])
    assert second["exit"] == 0, "the rules know what the champion made of the set"


@pytest.mark.night
def test_few_documents_give_no_interval(bpeline: Command, corpus: Path, tmp_path: Path) -> None:
    for size in (500, 600):
        bpeline("train", corpus, "--name", "news", "--vocab-size", size)
    (tmp_path / "short.txt").write_text("one short document", encoding="utf-8")
    shown = bpeline("compare", "news/1", "news/2", "--eval", "short.txt").stdout
    assert "too few documents" in shown
    assert "interval" not in shown


@pytest.mark.night
def test_a_summary_says_how_much_was_not_learned_from(
    corpus: Path, bpeline: Callable[..., Result]
) -> None:
    train = ("train", "corpus", "--name", "news", "--special-token", "\n\n", "--vocab-size")
    for size in (300, 310):  # measured on the same documents, which stay held out
        done = bpeline(*train, size, "--held-out", 0.3)
        assert done.exit_code == 0, done.output
        assert " kB held out" in done.stdout
    whole = bpeline("train", "corpus", "--name", "whole", "--vocab-size", 300, "--held-out", 0)
    assert "not learned from" not in whole.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"": -1.2, "_low": -1.5, "_high": -0.9}, "-1.20 % tokens (-1.50 … -0.90)"),
        ({"": 0.1, "_low": -0.5, "_high": 0.6}, "+0.10 % tokens (-0.50 … +0.60, may be chance)"),
        ({"": 0.1}, f"+0.10 % tokens ({TOO_FEW_DOCUMENTS})"),
        ({}, ""),
    ],
)
def test_a_change_is_said_with_its_interval(change: dict[str, float], said: str) -> None:
    metrics = {f"vs_champion_percent/all{end}": value for end, value in change.items()}
    assert logged_change(metrics, "champion", "all", "tokens") == said
