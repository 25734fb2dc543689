"""The split pattern asked for is that of the version, and of all that is counted for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core import count_words, train_bpe

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
PATTERN = "cl100k"
TRAIN = ("train", "corpus.txt", "--vocab-size", 400, "--held-out", 0)


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with ``news/1``, which was trained with a pattern that is not the usual one."""
    files = {"corpus.txt": english_and_code[:60_000], "other.txt": english_and_code[60_000:90_000]}
    return folder_after(files, [(*TRAIN, "--name", "news", "--pattern", PATTERN)])


def test_a_version_is_what_the_library_trains_with_its_pattern(here: Path) -> None:
    version = load_tokenizer("news/1")
    assert version.pattern.name == PATTERN
    counts = count_words("corpus.txt", pattern=PATTERN)
    assert version.digest == train_bpe(counts, 400).digest
    assert version.digest != train_bpe(count_words("corpus.txt"), 400).digest


def test_words_of_one_regex_are_not_taken_for_those_of_another(
    here: Path, bpeline: Command
) -> None:
    """They are counted in the same workspace, where what was counted is not counted again."""
    for number, regex in enumerate((r"\S+|\s+", r"\p{L}+|\P{L}+"), 1):
        ended = bpeline(*TRAIN, "--name", "own", "--pattern", regex)
        assert ended.exit_code == 0, ended.output
        counts = count_words("corpus.txt", pattern=regex)
        assert load_tokenizer(f"own/{number}").digest == train_bpe(counts, 400).digest


def test_pruning_counts_tokens_in_words_of_the_versions_pattern(
    here: Path, bpeline: Command
) -> None:
    ended = bpeline(
        "derive", "prune", "news/1", "other.txt", "--min-count", 3, "-o", "plan.json", "--json"
    )
    assert ended.exit_code == 0, ended.output
    words = count_words("other.txt", pattern=PATTERN)
    counted = json.loads(ended.stdout)["counted_in"]
    assert (counted["digest"], counted["words"]) == (words.digest, len(words))
