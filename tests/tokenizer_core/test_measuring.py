"""Sizes of texts and sums over parts, against Python's own idea of characters, words and lines."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.errors import InvalidOption, InvalidUtf8
from bpeline.tokenizer_core.evaluation.measuring import TextSize, added, measure, resampled_change

BYTES = Tokenizer({k: bytes([k]) for k in range(256)}, [])
SPACES = [*filter(str.isspace, map(chr, range(sys.maxunicode + 1)))]


def size_of(texts: list[str]) -> TextSize:
    """The slow way."""
    return TextSize(
        documents=len(texts),
        bytes=sum(len(text.encode()) for text in texts),
        chars=sum(map(len, texts)),
        words=sum(len(text.split()) for text in texts),
        lines=sum(text.count("\n") + (not text.endswith("\n")) for text in texts if text),
    )


TEMPTING = st.text(st.sampled_from([*SPACES, *"aé€🙂\n\u200b\ufeff\u2060\u1681\u3001\u2010\x84"]))


@given(st.lists(TEMPTING | st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_characters_words_and_lines_are_those_of_python(texts: list[str]) -> None:
    (found,) = measure([BYTES], [text.encode() for text in texts])
    assert found.text == size_of(texts)


@pytest.mark.night
def test_every_character_is_a_space_or_a_word() -> None:
    points = [chr(p) for p in range(sys.maxunicode + 1) if not 0xD800 <= p < 0xE000]
    (found,) = measure([BYTES], ["x".join(points).encode(), *(one.encode() for one in SPACES)])
    assert found.text == size_of(["x".join(points), *SPACES])


def test_texts_measured_apart_add_up(english_and_code: str) -> None:
    documents = [english_and_code[at : at + 700].encode() for at in range(0, 40_000, 700)]
    (whole,) = measure([BYTES], documents)
    together = added([measure([BYTES], part)[0] for part in (documents[:20], documents[20:])])
    assert together.text == whole.text
    assert np.array_equal(together.occurrences, whole.occurrences)
    assert np.array_equal(together.document_tokens, whole.document_tokens)
    assert together.words.to_mapping() == whole.words.to_mapping()
    assert together.words.digest == whole.words.digest


def test_nothing_measures_as_nothing_and_bytes_that_are_no_text_are_refused() -> None:
    (nothing,) = measure([BYTES], iter([]))
    assert (nothing.text, nothing.tokens, len(nothing.words)) == (TextSize(), 0, 0)
    with pytest.raises(InvalidUtf8):
        measure([BYTES], [b"a", b"\xff"])


# Intervals of paired differences


def test_two_documents_give_the_interval_of_their_four_draws() -> None:
    first, second = np.array([10, 30]), np.array([11, 27])
    found = resampled_change(first, second).interval()
    assert found.value == pytest.approx(38 / 40 - 1)
    # Drawn with replacement: twice the one, twice the other, or both.
    assert (found.low, found.high) == pytest.approx((27 / 30 - 1, 11 / 10 - 1))
    assert not found.excludes_zero
    assert (found.documents, found.confidence) == (2, 0.95)


def test_documents_are_resampled_in_pairs() -> None:
    """Lengths vary wildly, their ratio does not: the interval must not see the lengths."""
    first = np.array([1, 10, 100, 1000, 10_000] * 20) * 10
    found = resampled_change(first, first * 9 // 10).interval()
    assert found.low == pytest.approx(found.high) == pytest.approx(-0.1)
    assert found.excludes_zero


@pytest.mark.parametrize("documents", [2_000, 25_000])
def test_the_interval_is_that_of_the_normal_theory(documents: int) -> None:
    random = np.random.default_rng(7)
    first = np.full(documents, 1000)
    second = first + random.normal(5, 100, documents).astype(np.int64)
    found = resampled_change(first, second).interval()
    half = 1.96 * second.std() / 1000 / np.sqrt(documents)
    assert found.low == pytest.approx(found.value - half, abs=half / 5)
    assert found.high == pytest.approx(found.value + half, abs=half / 5)


def test_the_same_documents_give_the_same_interval() -> None:
    random = np.random.default_rng(1)
    first, second = random.integers(1, 500, (2, 300))
    again = resampled_change(first, second)
    assert np.array_equal(resampled_change(first, second).draws, again.draws)
    narrow, wide = (resampled_change(first, second).interval(c) for c in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_unpaired_and_empty_documents_are_refused() -> None:
    with pytest.raises(InvalidOption, match="documents"):
        resampled_change(np.array([1, 2]), np.array([1]))
    with pytest.raises(InvalidOption, match="documents"):
        resampled_change(np.array([0]), np.array([0]))
