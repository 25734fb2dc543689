"""Arguments of the wrong kind: refused by name before anything is done, at every public door."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bpeline
from bpeline import count_texts, count_words
from bpeline.tokenizer_core.algorithms.superword_bpe.trainer import _beside, superwords_beside
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.merging.learning import Course
from bpeline.tokenizer_core.tokenizer import Tokenizer

TEXT = "low lower lowest " * 20
TRAINERS: dict[str, dict[str, Any]] = {
    "train_bpe": {"vocab_size": 262},
    "train_char_bpe": {"merges": 5},
    "train_frequency_bpe": {"merges": 5},
    "train_wordpiece": {"vocab_size": 20},
}
NO_NUMBER = (None, "text", b"text", [1], {"a": 1}, 2.5)
NO_LIST = (3, 2.5, True, "text")
NO_COUNTS = (None, 3, "corpus.txt", b"text", ["corpus.txt"], {"low": 3}, Path("corpus.txt"))
NO_PATH = (3, 2.5, True, ["a"], {"a": 1})
NO_PATTERN = (3, 2.5, b"text", [1], {"a": 1}, True)
WRONG: dict[tuple[str, str], tuple[object, ...]] = {
    **{(name, "counts"): NO_COUNTS for name in TRAINERS},
    **{(name, size): NO_NUMBER for name, given in TRAINERS.items() for size in given},
    **{(name, "min_word_count"): NO_NUMBER for name in TRAINERS},
    **{(name, "special_tokens"): NO_LIST for name in TRAINERS if name != "train_frequency_bpe"},
    **{(name, "checkpoint"): NO_PATH for name in TRAINERS},
    **{(name, "resume_from"): NO_PATH for name in TRAINERS},
    ("count_words", "paths"): (None, 3, 2.5, True, [1]),
    ("count_words", "pattern"): NO_PATTERN,
    ("count_words", "special_tokens"): NO_LIST,
    ("count_words", "workers"): ("text", b"text", [1], 2.5),
    ("count_texts", "texts"): (None, 3, 2.5, True, "text"),
    ("count_texts", "pattern"): NO_PATTERN,
    ("count_texts", "special_tokens"): NO_LIST,
    ("count_texts", "workers"): ("text", b"text", [1], 2.5),
    ("evaluate", "tokenizer"): (None, 3, "news@champion"),
    ("evaluate", "documents"): (None, 3, "text", b"text"),
    ("truncate", "max_tokens"): NO_NUMBER,
}


@pytest.fixture(scope="module")
def counts() -> WordCounts:
    return bpeline.count_texts([TEXT])


@pytest.fixture(scope="module")
def tokenizer(counts: WordCounts) -> Tokenizer:
    return bpeline.train_bpe(counts, 262)


@pytest.fixture
def doors(
    counts: WordCounts, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, tuple[Callable[..., object], dict[str, Any]]]:
    """Name → what is called, and arguments that it accepts."""
    monkeypatch.chdir(tmp_path)
    Path("corpus.txt").write_text(TEXT)
    trainers = {
        name: (getattr(bpeline, name), {"counts": counts, **given})
        for name, given in TRAINERS.items()
    }
    return {
        **trainers,
        "count_words": (bpeline.count_words, {"paths": ["corpus.txt"]}),
        "count_texts": (bpeline.count_texts, {"texts": [TEXT]}),
        "evaluate": (bpeline.evaluate, {"tokenizer": tokenizer, "documents": [TEXT]}),
        "truncate": (tokenizer.truncate, {"text": TEXT, "max_tokens": 3}),
    }


@pytest.mark.parametrize(("door", "argument"), WRONG)
def test_what_is_of_the_wrong_kind_is_refused(
    doors: dict[str, tuple[Callable[..., object], dict[str, Any]]], door: str, argument: str
) -> None:
    call, given = doors[door]
    call(**given)
    for wrong in WRONG[door, argument]:
        with pytest.raises(BpelineError) as refused:
            call(**{**given, argument: wrong})
        assert refused.value.accepted
        assert refused.value.next_step
    assert os.listdir() == ["corpus.txt"]


@pytest.mark.parametrize("name", TRAINERS)
def test_a_checkpoint_may_be_named_by_a_string(
    counts: WordCounts, tmp_path: Path, name: str
) -> None:
    train, given = getattr(bpeline, name), TRAINERS[name]
    kept = tmp_path / "kept"
    trained = train(counts, **given, checkpoint=str(kept))
    assert kept.exists()
    assert train(counts, **given, resume_from=str(kept)).digest == trained.digest


def test_a_limit_may_be_an_integer_of_numpy(tokenizer: Tokenizer) -> None:
    assert tokenizer.truncate(TEXT, np.int64(2)) == tokenizer.truncate(TEXT, 2)


def test_numbers_of_threads_may_be_those_of_numpy(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower lowest")
    of_files = count_words(tmp_path / "a.txt", "gpt2", workers=np.int64(2))  # type: ignore[arg-type]
    of_texts = count_texts(["low lower lowest"], "gpt2", workers=np.int64(2))  # type: ignore[arg-type]
    assert (
        of_files.to_mapping() == of_texts.to_mapping() == {b"low": 1, b" lower": 1, b" lowest": 1}
    )


def test_superwords_go_on_from_checkpoints_named_by_strings(tmp_path: Path) -> None:
    first, beside = tmp_path / "first", tmp_path / superwords_beside(Path("first"), "34")
    beside.write_bytes(b"of whole words")
    course = _beside(Course(str(first), str(first)), 34)
    assert course == _beside(Course(first, first), 34)
    assert course.resume_from == course.checkpoint == beside
