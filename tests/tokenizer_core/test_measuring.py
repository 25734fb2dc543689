"""Sizes of texts and sums over parts, against Python's own idea of characters, words and lines."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.errors import InvalidUtf8
from bpeline.tokenizer_core.evaluation.measuring import TextSize, added, measure

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
