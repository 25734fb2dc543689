"""``bpeline import``: a tokenizer of somebody else's as a version like any other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from click.testing import Result
from flow_calls import import_tokenizer
from tokenizers import decoders, models, pre_tokenizers, trainers

from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.registry.versions.imported import copy_originals, imported_in
from bpeline.tokenizer_core import Tokenizer, count_texts, train_frequency_bpe
from bpeline.tokenizer_core.formats.bpeline import read_manifest

Command = Callable[..., Result]
pytestmark = pytest.mark.night
TEXT = "Hello world, déjà vu! 123 <|end|> x"


def unigram_of(text: str, path: Path) -> tokenizers.Tokenizer:
    """Unigram, which its own library runs."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(text.splitlines(), trainer)
    made.save(str(path))
    return made


@pytest.fixture(scope="module")
def trained(
    folder_after: Callable[..., Path], english_and_code: str, tmp_path_factory: Any
) -> Path:
    """A folder whose workspace holds ``ext/1`` (byte-level BPE) and ``ext/2`` (Unigram)."""
    path = tmp_path_factory.mktemp("unigram") / "unigram.json"
    unigram_of(english_and_code[:60_000], path)
    commands = [("import", "unigram.json", "--name", "ext")]
    return folder_after({"unigram.json": path.read_text()}, commands, begin="imported")


def read_json(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_ids_are_those_of_the_original_library(here: Path) -> None:
    for number, file in ((1, "tokenizer.json"), (2, "unigram.json")):
        theirs = tokenizers.Tokenizer.from_file(str(here / file))
        ours = load_tokenizer(f"ext/{number}")
        assert ours.encode(TEXT) == theirs.encode(TEXT, add_special_tokens=False).ids


def test_lineage_says_where_it_comes_from(here: Path, bpeline: Command) -> None:
    details = read_json(bpeline("show", "ext/1", "--json"))
    content = (here / "tokenizer.json").read_bytes()
    said = details["imported"]
    assert said["imported from"].endswith("/tokenizer.json")
    assert (said["format"], said["licence"]) == ("hf", "MIT")
    assert said["SHA-256 of tokenizer.json"] == hashlib.sha256(content).hexdigest()
    assert "tokenizers 0." in said["libraries"]
    assert details["certificates"]["original"].startswith("tokenizers 0.")
    assert "alike" in details["certificates"]["original"]
    assert details["parameters"]["licence"] == "MIT"
    assert "evaluation set" in details["measured_on"]
    other = read_json(bpeline("show", "ext@candidate", "--json"))
    assert other["reference"] == "ext/2"
    assert load_tokenizer("ext/2").algorithm.name == "unigram"


def test_the_original_files_are_kept_as_they_were(here: Path, tmp_path: Path) -> None:
    from bpeline.registry.opening import open_registry

    tokenizer = load_tokenizer("ext/1")
    directory = open_registry(make=False).workspace.version_directory(tokenizer.digest)
    known = imported_in(directory)
    assert known is not None
    again = copy_originals(known, directory, tmp_path / "again")
    assert again.read_bytes() == (here / "tokenizer.json").read_bytes()
    assert Tokenizer.load(again).digest == tokenizer.digest


def test_both_are_listed_compared_and_measured(here: Path, bpeline: Command) -> None:
    listed = read_json(bpeline("versions", "ext", "--json"))
    assert [one["comparable"] for one in listed] == [True, True]
    assert bpeline("compare", "ext/1", "ext/2").exit_code == 0
    measured = read_json(bpeline("evaluate", "ext/1", "--json"))
    assert measured[0]["slices"]["own"]["compression/bytes_per_token"] > 1


@pytest.mark.parametrize("number", [1, 2])
def test_commands_take_an_imported_version(here: Path, bpeline: Command, number: int) -> None:
    version = f"ext/{number}"
    for command in (
        ("encode", version, TEXT),
        ("decode", version, "5", "6"),
        ("count", version, "new.txt"),
        ("encode", version, "new.txt", "--output", f"tokens{number}"),
        ("export", version, "--format", "hf", "--output", f"out{number}.json"),
        ("report", version),
        ("doctor",),
        ("gc", "--dry-run"),
    ):
        result = bpeline(*command)
        assert result.exit_code == 0, (command, result.output)
    assert {one.read_text()[:9] for one in (here / ".bpeline").rglob("report.md")} >= {
        f"# {version}\n\n"
    }
    page = (here / f"ext-{number}.html").read_text()
    assert "imported from" in page
    assert "SHA-256" in page
    theirs = tokenizers.Tokenizer.from_file(str(here / f"out{number}.json"))
    ids = theirs.encode(TEXT, add_special_tokens=False).ids
    assert ids == load_tokenizer(version).encode(TEXT)


def test_the_same_file_is_nothing_new(here: Path, bpeline: Command) -> None:
    plan = read_json(bpeline("import", "tokenizer.json", "--name", "ext", "--dry-run", "--json"))
    assert "ext/1" in plan["registered"]
    again = read_json(bpeline("import", "tokenizer.json", "--name", "ext", "--json"))
    assert (again["reference"], again["newly_registered"]) == ("ext/1", False)
    assert len(read_json(bpeline("versions", "ext", "--json"))) == 2


def test_without_text_it_is_not_measured(here: Path, bpeline: Command) -> None:
    done = bpeline("import", "tokenizer.json", "--name", "alone")
    assert done.exit_code == 0, done.output
    assert "--eval" in done.output
    measured = bpeline("import", "tokenizer.json", "--name", "alone", "--eval", "own=new.txt")
    assert "bytes/token" in measured.output
    listed = read_json(bpeline("versions", "alone", "--json"))
    assert listed[0]["metrics"]["compression/bytes_per_token"] > 1


def test_trained_and_imported_versions_are_judged_on_one_set(here: Path, bpeline: Command) -> None:
    text = (here / "new.txt").read_text()
    pieces = (json.dumps({"text": text[at : at + 1_000]}) for at in range(0, len(text), 1_000))
    (here / "own.jsonl").write_text("\n".join(pieces))
    trained = bpeline(
        "train", "corpus.txt", "--name", "both", "--vocab-size", 300, "--eval", "own=own.jsonl"
    )
    assert trained.exit_code == 0, trained.output
    assert bpeline("promote", "both/1").exit_code == 0
    rule = '[[rule]]\nmetric = "compression/bytes_per_token"\ndirection = "higher"\n'
    (here / "rules.toml").write_text(rule)
    better = bpeline("import", "tokenizer.json", "--name", "both", "--rules", "rules.toml")
    assert better.exit_code == 0, better.output
    assert load_tokenizer("both@champion").digest == load_tokenizer("ext/1").digest
    worse = bpeline("import", "unigram.json", "--name", "both", "--rules", "rules.toml")
    assert worse.exit_code == 3, worse.output
    assert bpeline("rollback", "both").exit_code == 0
    assert bpeline("compare", "both/1", "both/2").exit_code == 0


def test_what_python_calls_is_what_the_command_calls(here: Path) -> None:
    summary = import_tokenizer(file="tokenizer.json", name="python")
    assert (summary.reference, summary.format) == ("python/1", "hf")
    assert summary.digest == load_tokenizer("ext/1").digest


def test_what_cannot_be_imported_says_why(here: Path, bpeline: Command) -> None:
    for arguments, said in (
        (("absent.json", "--name", "x"), "absent.json"),
        (("tokenizer.json", "--name", "Bad Name"), "cannot name a tokenizer"),
        (("tokenizer.json",), "--name"),
        (("corpus.txt", "--name", "x"), "format"),
    ):
        result = bpeline("import", *arguments)
        assert result.exit_code in (1, 2), result.output
        assert said in result.output
    assert read_json(bpeline("versions", "x", "--json")) == []


def test_it_is_read_again_from_what_was_kept(here: Path, bpeline: Command) -> None:
    done = bpeline("import", "unigram.json", "--name", "again")
    assert done.exit_code == 0, done.output
    verified = read_json(bpeline("verify", "again/1", "--json"))
    assert verified["identical"]
    assert verified["checks"][0]["found"] == load_tokenizer("again/1").digest
    workspace = open_registry(make=False).workspace
    kept = workspace.version_directory(load_tokenizer("again/1").digest)
    original = kept / "original.unigram.json"
    content = original.read_bytes()
    try:
        original.write_bytes(content.replace(b"Unigram", b"Unigrum"))
        spoilt = bpeline("verify", "again/1", "--json")
        assert json.loads(spoilt.stdout)["verdict"] == "inputs changed"
    finally:
        original.write_bytes(content)


def test_a_list_of_tokens_is_imported(here: Path, bpeline: Command) -> None:
    tokens = ["errrr</w>", "tain</w>", "moun", "est</w>", "high", "the</w>", "a</w>"]
    (here / "tokens.txt").write_text("\n".join(tokens))
    assert bpeline("import", "tokens.txt", "--name", "list").exit_code == 2  # is it one of BERT's?
    done = bpeline(
        "import", "tokens.txt", "--name", "list", "--algorithm", "greedy", "--end-of-word", "</w>"
    )
    assert done.exit_code == 0, done.output
    ids = list(map(str, load_tokenizer("list/1").encode("the highest mountain")))
    assert bpeline("decode", "list/1", *ids).output == "the highest mountain"
    kept = bpeline("decode", "list/1", "--keep-markers", *ids)
    assert kept.output == "the</w>highest</w>mountain</w>"
    assert bpeline("verify", "list/1").exit_code == 0


def test_files_of_frequency_bpe_say_how_text_is_cut_or_are_told(
    here: Path, bpeline: Command
) -> None:
    made = train_frequency_bpe(count_texts(["low lower"], "whitespace"), 3, sentences="lines")
    made.save(here / "frequencies", "frequency-bpe")
    done = bpeline("import", "frequencies", "--name", "frequency")
    assert done.exit_code == 0, done.output
    assert load_tokenizer("frequency/1").digest == made.digest
    assert bpeline("verify", "frequency/1").exit_code == 0
    (here / "frequencies/bpeline.json").unlink()
    refused = bpeline("import", "frequencies", "--name", "frequency")
    assert refused.exit_code == 2
    assert ",sentences=punkt,pattern=wordpunct" in refused.output
    told = "frequencies,sentences=lines,pattern=whitespace"
    done = bpeline("import", told, "--name", "frequency")
    assert "nothing new" in done.output or done.exit_code == 0, done.output
    assert load_tokenizer("frequency@candidate").digest == made.digest


@pytest.mark.parametrize("number", [1, 2])
def test_drift_judges_what_it_can(here: Path, bpeline: Command, number: int) -> None:
    alias = f"watched{number}"
    assert bpeline("promote", f"ext/{number}", "--to", alias).exit_code == 0
    # Other text than the evaluation set, which is left out.
    watched = bpeline("drift", f"ext@{alias}", "corpus.txt", "--json")
    report = read_json(watched)
    said = " ".join(report["notes"])
    assert "it was imported" in said
    figures = report["slices"]["all"]["figures"]
    assert figures["compression/bytes_per_token"]["then"] > 1
    assert "words/excess_divergence" not in figures


def test_explaining_works_or_says_why_not(here: Path, bpeline: Command) -> None:
    assert "rank" in bpeline("explain", "ext/1", "Hello").stdout
    assert "\n" in bpeline("explain", "ext/1", "--id", "400").stdout
    for arguments in (("Hello",), ("--id", "100")):
        foreign = bpeline("explain", "ext/2", *arguments)
        assert foreign.exit_code in (0, 2)
        assert "unexpected error" not in foreign.output


@pytest.mark.parametrize("number", [1, 2])
def test_mlflow_loads_it_as_a_model(
    here: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    from bpeline.registry.opening import open_registry

    uri = open_registry(make=False).tracker.settings.uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)  # MLflow's own function would keep it
    model = mlflow.pyfunc.load_model(f"models:/ext/{number}")
    assert model.predict([TEXT]) == [load_tokenizer(f"ext/{number}").encode(TEXT)]
    needed = mlflow.pyfunc.get_model_dependencies(f"models:/ext/{number}")
    assert "tokenizers==" in Path(needed).read_text(), "which reads both without bpeline"


def test_an_interrupted_import_is_continued(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bpeline.flows.import_tokenizer.evaluate", interrupted)
        assert bpeline("import", "tokenizer.json", "--name", "later").exit_code == 130
    resumed = read_json(bpeline("resume", "--json"))
    assert (resumed["reference"], resumed["newly_registered"]) == ("later/1", True)


def test_it_can_be_deleted(here: Path, bpeline: Command) -> None:
    assert bpeline("import", "tokenizer.json", "--name", "gone").exit_code == 0
    assert bpeline("import", "unigram.json", "--name", "gone").exit_code == 0
    assert bpeline("delete", "gone/1", "--yes").exit_code == 0
    assert bpeline("show", "gone/1").exit_code != 0
    assert load_tokenizer("gone/2").vocab_size
    assert load_tokenizer("ext/1").vocab_size, "another version of the same files stays"


def test_it_is_extended_from_a_corpus_and_says_what_new_ids_stand_for(
    here: Path, bpeline: Command
) -> None:
    refused = bpeline("derive", "extend", "ext/1", "--vocab-size", "520")
    assert refused.exit_code == 2
    assert "bpeline derive extend ext/1 FILES --vocab-size 520" in refused.stderr
    base = load_tokenizer("ext/1")
    size = str(base.vocab_size + 40)
    arguments = ("derive", "extend", "ext/1", "new.txt", "--vocab-size", size, "--name", "larger")
    plan = bpeline(*arguments, "--dry-run")
    assert f"{base.vocab_size:,}" in plan.stdout
    made = bpeline(*arguments, "--json")
    assert made.exit_code == 0, made.output
    larger = load_tokenizer("larger/1")
    assert larger.vocab_size == base.vocab_size + 40
    assert larger.spec.normalizer_name == "NFC"
    assert {id_: larger.vocab[id_] for id_ in base.vocab} == dict(base.vocab)
    files = Path(json.loads(made.stdout)["directory"])
    assert read_manifest(files)["provenance"]["request"]["extends"] == base.digest
    assert json.loads((files / "extension-recipe.json").read_text())["base"] == base.digest
    recipe = json.loads(bpeline("show", "larger/1", "--recipe", "--json").stdout)
    assert len(recipe) == 40
    for one in recipe:
        assert base.decode_bytes(one["old_ids"]) == larger.decode_bytes([one["id"]])
    assert "old ids" in bpeline("show", "larger/1", "--recipe").stdout
    assert bpeline("show", "ext/1", "--recipe").exit_code == 2
    exported = tokenizers.Tokenizer.from_file(
        str(Path(json.loads(made.stdout)["directory"]) / "tokenizer.json")
    )
    for text in (TEXT, "cafe\u0301 new words"):
        assert exported.encode(text, add_special_tokens=False).ids == larger.encode(text)
    again = bpeline(*arguments, "--json")
    assert not json.loads(again.stdout)["newly_registered"]
    unigram = bpeline("derive", "extend", "ext/2", "new.txt", "--vocab-size", "900")
    assert unigram.exit_code == 2
    assert "no merges" in unigram.stderr
    checked = bpeline("verify", "larger/1")
    assert checked.exit_code == 0, checked.output


def test_lengths_that_a_file_sets_do_not_matter(here: Path, bpeline: Command) -> None:
    library = tokenizers.Tokenizer.from_file("tokenizer.json")
    library.enable_truncation(3)
    library.enable_padding(length=7)
    library.save("lengths.json")
    made = bpeline("import", "lengths.json", "--name", "lengths", "--json")
    assert made.exit_code == 0, made.output
