"""``bpeline derive extend``: more ids from the recorded corpus or another one, with lineage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published import copied, corpus_parts

from bpeline.registry import load_tokenizer
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records.references import parse_registered
from bpeline.tokenizer_core.formats.bpeline import read_manifest

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
MakeFolder = Callable[[Mapping[str, str], Sequence[Sequence[object]]], Path]
BEGIN = ("train", "corpus", "--name", "news", "--special-token", "<|endoftext|>")


def summary_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def begun(folder_after: MakeFolder, english_and_code: str) -> Path:
    """A folder with ``news/1`` and its corpus, to be copied."""
    training = (*BEGIN, "--vocab-size", "400", "--required-token", " zebra")
    return folder_after(corpus_parts(english_and_code), [training])


@pytest.fixture
def base(begun: Path, tmp_path: Path) -> str:
    """The digest of ``news/1``, in the working directory."""
    copied(begun, tmp_path)
    return load_tokenizer("news/1").digest


def test_on_the_recorded_corpus_it_is_what_training_more_makes(base: str, bpeline: Command) -> None:
    larger = summary_of(bpeline("derive", "extend", "news/1", "--vocab-size", "500", "--json"))
    assert (larger["reference"], larger["vocab_size"]) == ("news/2", 500)
    assert larger["chunks_reused"] == larger["chunks"]
    required = ("--required-token", " zebra")
    direct = summary_of(bpeline(*BEGIN, "--vocab-size", "500", *required, "--json"))
    assert (direct["digest"], direct["newly_registered"]) == (larger["digest"], False)
    files = Path(larger["directory"])
    record = json.loads((files / "extension.json").read_text())
    assert record["base"] == base
    assert (record["ids_kept"], record["first_new_id"], record["new_ids"]) == (400, 400, 100)
    details = json.loads(bpeline("show", "news/2", "--json").stdout)
    assert details["parameters"]["extends"] == base
    assert details["extension"]["base"] == base
    assert read_manifest(files)["provenance"]["request"]["extends"] == base
    recipe = json.loads((files / "extension-recipe.json").read_text())
    assert (recipe["base"], [id_ for id_, _ in recipe["new_ids"]]) == (base, [*range(400, 500)])
    registry = open_registry()
    run = resolve(registry, parse_registered("news/2")).mlflow_run_id
    assert registry.tracker._client.get_run(run).data.params["extends"] == base
    again = bpeline("derive", "extend", "news/2", "--vocab-size", "510", "--name", "more")
    assert again.exit_code == 0, again.output
    assert "\nkept:    all 500 ids of " in again.stdout
    assert load_tokenizer("more/1").merges[:143] == load_tokenizer("news/1").merges


@pytest.mark.night
@pytest.mark.parametrize("options", [(), ("--reuse-counts",)])
def test_an_extension_can_be_made_again(
    base: str, bpeline: Command, options: tuple[str, ...]
) -> None:
    summary_of(bpeline("derive", "extend", "news/1", "--vocab-size", "500", "--json"))
    verified = bpeline("verify", "news/2", *options, "--json")
    assert verified.exit_code == 0, verified.output
    assert json.loads(verified.stdout)["verdict"] == "identical"


@pytest.mark.night
def test_on_another_corpus_old_ids_stay(base: str, tmp_path: Path, bpeline: Command) -> None:
    (tmp_path / "other.txt").write_text("zzyzx quux " * 500 + "grault garply waldo " * 300)
    options = ("--vocab-size", "420", "--threads", "1", "--json")
    larger = summary_of(bpeline("derive", "extend", "news@candidate", "other.txt", *options))
    before, after = load_tokenizer("news/1"), load_tokenizer(larger["reference"])
    assert {id_: after.vocab[id_] for id_ in before.vocab} == dict(before.vocab)
    assert len(after.encode(" zzyzx quux")) < len(before.encode(" zzyzx quux"))
    assert larger["vocab_size"] == after.vocab_size > 400


@pytest.mark.night
def test_a_plan_says_what_is_kept_learned_and_moved(
    base: str, tmp_path: Path, bpeline: Command
) -> None:
    def files() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if path.is_file()}

    asked = ("derive", "extend", "news/1", "--vocab-size", "500")
    merges = len(load_tokenizer("news/1").merges)
    before = files()
    plan = summary_of(bpeline(*asked, "--dry-run", "--json"))
    assert re.search(r"news/1\b.*\b400\b.*\b100\b", plan["extends"])
    assert plan["aliases"].startswith("candidate moves")
    said = {step["name"]: step for step in plan["steps"]}
    assert said["count words"]["reused"]
    assert re.search(r"\b100\b.*\bnews/1$", said["learn merges"]["said"])
    rule = '[[rule]]\nmetric = "ids/changed_meaning"\ndirection = "lower"\nlimit = 0\n'
    (tmp_path / "rules.toml").write_text(rule)
    before |= {tmp_path / "rules.toml"}
    shown = bpeline(*asked, "--rules", "rules.toml", "--dry-run")
    assert "rules.toml" in shown.output
    assert "extends" in shown.output
    assert files() == before, "a plan makes nothing"
    larger = summary_of(bpeline(*asked, "--json"))
    again = summary_of(bpeline(*asked, "--dry-run", "--json"))
    assert again["version"] == larger["reference"] == "news/2"
    assert "news/2" in again["aliases"]
    assert {step["name"]: step for step in again["steps"]}["learn merges"]["reused"]
    wider = summary_of(
        bpeline("derive", "extend", "news/1", "--vocab-size", "600", "--dry-run", "--json")
    )
    assert wider["merges_reused"] == merges + 100


@pytest.mark.night
def test_what_cannot_be_extended_says_why(base: str, bpeline: Command) -> None:
    for arguments, said in (
        (("news/1", "--vocab-size", "400"), "401 or more"),
        (("news/1", "--vocab-size", "300"), "load news/1:300"),
        (("news/7", "--vocab-size", "500"), "news/1"),
        (("./corpus", "--vocab-size", "500"), "not a registered version"),
    ):
        result = bpeline("derive", "extend", *arguments)
        assert result.exit_code in (1, 2)
        assert said in result.stderr
    words = ("train", "corpus", "--name", "words", "--algorithm", "wordpiece")
    assert bpeline(*words, "--vocab-size", "300").exit_code == 0
    refused = bpeline("derive", "extend", "words/1", "--vocab-size", "400")
    assert refused.exit_code == 2
    assert "cannot be extended" in refused.stderr
