"""``bpeline derive superwords``: from the words of a version, planned, registered, made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published import copied

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core import (
    count_texts,
    superword_lines,
    train_superbpe,
)
from bpeline.tokenizer_core.formats.bpeline import read_manifest

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
MakeFolder = Callable[[Mapping[str, str], Sequence[Sequence[object]]], Path]
END = "<|endoftext|>"
COMMAND = ("derive", "superwords", "news/1", "--vocab-size", "420", "--transition-size", "360")


def summary_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture(scope="module")
def begun(folder_after: MakeFolder) -> Path:
    """A folder with ``news/1`` and its corpus, to be copied."""
    return folder_after(begin="corpus")


@pytest.fixture
def base(begun: Path, tmp_path: Path) -> Path:
    """The corpus of ``news/1``, in the working directory."""
    copied(begun, tmp_path)
    return tmp_path / "corpus"


@pytest.mark.night
def test_it_is_what_the_api_makes_of_the_same_text(base: Path, bpeline: Command) -> None:
    plan = json.loads(bpeline(*COMMAND, "--dry-run", "--json").stdout)
    assert plan["extends"].startswith("news/1")
    assert any("across spaces" in step["said"] for step in plan["steps"])
    made = summary_of(bpeline(*COMMAND, "--json"))
    assert (made["reference"], made["vocab_size"]) == ("news/2", 420)
    tokenizer, words = load_tokenizer("news/2"), load_tokenizer("news/1")
    texts = [path.read_text() for path in sorted(base.glob("**/*.txt"))]
    lines = count_texts(texts, superword_lines(), special_tokens=[END])
    assert train_superbpe(words, lines, 420, transition_size=360).digest == tokenizer.digest
    files = Path(made["directory"])
    assert read_manifest(files)["provenance"]["request"]["extends"] == words.digest
    assert not (files / "extension-recipe.json").exists(), "ids of words become others"
    assert len(tokenizer.encode(texts[0])) < len(words.encode(texts[0]))
    again = summary_of(bpeline(*COMMAND, "--json"))
    assert (again["digest"], again["newly_registered"]) == (made["digest"], False)
    known = json.loads(bpeline(*COMMAND, "--dry-run", "--json").stdout)
    assert known["merges_reused"] == 60
    verified = bpeline("verify", "news/2", "--json")
    assert json.loads(verified.stdout)["verdict"] == "identical", verified.output
    compared = bpeline("compare", "news/1", "news/2")
    assert compared.exit_code == 0, compared.output


@pytest.mark.night
def test_what_cannot_be_is_refused_with_what_can(base: Path, bpeline: Command) -> None:
    for options in (("--vocab-size", "400"), ("--vocab-size", "500", "--transition-size", "401")):
        refused = bpeline("derive", "superwords", "news/1", *options)
        assert refused.exit_code == 2
        assert "--transition-size 360" in refused.stderr
    summary_of(bpeline(*COMMAND, "--json"))
    for command in ("superwords", "extend"):
        twice = bpeline("derive", command, "news/2", "--vocab-size", "500")
        assert twice.exit_code == 2
        assert "has superwords already" in twice.stderr
        assert "type `bpeline derive superwords news/1 --vocab-size SIZE`" in twice.stderr
    drift = bpeline("drift", "news@candidate", "corpus")
    assert drift.exit_code == 2
    assert "lines, not words" in drift.stderr


@pytest.mark.night
def test_superwords_cut_at_digits_go_to_llama_cpp(base: Path, bpeline: Command) -> None:
    assert summary_of(bpeline(*COMMAND, "--json"))["reference"] == "news/2"
    refused = bpeline("export", "news/2", "--format", "gguf", "--output", "x.gguf")
    assert refused.exit_code != 0
    assert "--cuts digits" in refused.stderr
    made = summary_of(bpeline(*COMMAND, "--cuts", "digits", "--json"))
    assert made["reference"] == "news/3"
    texts = [path.read_text() for path in sorted(base.glob("**/*.txt"))]
    lines = count_texts(texts, superword_lines("digits"), special_tokens=[END])
    expected = train_superbpe(load_tokenizer("news/1"), lines, 420, transition_size=360)
    assert made["digest"] == expected.digest
    exported = bpeline("export", "news/3", "--format", "gguf", "--output", "x.gguf")
    assert exported.exit_code == 0, exported.output
    assert "cyllama" in exported.output
    assert json.loads(bpeline("verify", "news/3", "--json").stdout)["verdict"] == "identical"


@pytest.mark.night
def test_superwords_cut_at_digits_leave_the_evaluation_set_out_and_no_more(
    corpus: Path, bpeline: Command
) -> None:
    """Files of one document: sections of these are held out, so text must be cut into sections."""
    options = ("--vocab-size", "400", "--held-out", "0.2")
    summary_of(bpeline("train", "corpus", "--name", "news", *options, "--json"))
    made = summary_of(bpeline(*COMMAND, "--cuts", "digits", "--json"))
    assert made["held_out"]
    assert made["words"] > 1_000, "else whole files were left out"


@pytest.mark.night
def test_where_documents_are_left_out_whole_and_nothing_is_left_it_is_said(
    corpus: Path, bpeline: Command
) -> None:
    options = ("--vocab-size", "400", "--held-out", "0.5")
    summary_of(bpeline("train", "corpus", "--name", "news", *options, "--json"))
    ahead = r"\p{L}+(?=aaa|)|\P{L}+"  # beyond an automaton
    refused = bpeline("train", "corpus", "--name", "news", *options, "--pattern", ahead)
    assert refused.exit_code == 2, refused.output
    assert "evaluation set of news" in refused.stderr
    assert bpeline("train", "corpus", "--name", "n2", "--pattern", ahead).exit_code == 0


@pytest.mark.night
def test_a_sweep_says_what_superwords_are_worth(corpus: Path, bpeline: Command) -> None:
    variants = ("plain", "superbpe")
    asked = ("sweep", "corpus", "--name", "news", "--sizes", "330,400", "--special-token", "\n\n")
    found = summary_of(bpeline(*asked, *(f"--variant={one}" for one in variants), "--json"))
    combinations = found["combinations"]
    assert [(one["variant"], one["vocab_size"]) for one in combinations] == [
        (variant, size) for variant in variants for size in (330, 400)
    ]
    assert {one["pattern"] for one in combinations} == {"gpt2"}
    assert len({one["record"]["set"]["digest"] for one in combinations}) == 1
    for plain, one in zip(combinations[:2], combinations[2:], strict=True):
        fewer = one["metrics"]["vs_words-alone_percent/all"]
        ratio = plain["metrics"]["compression/bytes_per_token"]
        ratio /= one["metrics"]["compression/bytes_per_token"]
        assert 100 * (ratio - 1) == pytest.approx(fewer, abs=0.01)
    assert "news" not in bpeline("versions", "--json").stdout

    # The plain training need not be named; what it says to type makes that tokenizer.
    alone = bpeline(*asked, "--variant", "superbpe")
    assert alone.exit_code == 0, alone.output
    assert "superbpe: then bpeline derive superwords news@candidate" in alone.stdout
    train = ("train", "corpus", "--name", "news", "--pattern", "gpt2", "--special-token", "\n\n")
    base = summary_of(bpeline(*train, "--vocab-size", 400, "--json"))
    options = ("--vocab-size", 400, "--transition-size", 360)
    made = summary_of(bpeline("derive", "superwords", "news@candidate", *options, "--json"))
    assert made["digest"] == combinations[3]["record"]["digest"] != base["digest"]
    assert made["metrics"]["vs_words-alone_percent/all"] == pytest.approx(
        combinations[3]["metrics"]["vs_words-alone_percent/all"]
    )
    refused = bpeline(*asked, "--variant", "superbpe", "--algorithm", "wordpiece")
    assert refused.exit_code == 2
    assert "leave out --algorithm" in refused.stderr
