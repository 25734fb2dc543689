"""What notebooks and terminals show of a tokenizer."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = {b"low": 9, b" lower": 5, b" lowest": 4, "é".encode(): 1}
    return train_bpe(WordCounts.from_mapping(words), 275, special_tokens=["<|end|>"])


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_tokens_are_shown_with_bars_between_them(tokenizer: Tokenizer) -> None:
    shown = tokenizer.show("low lower<|end|>", allowed_special="all")
    assert str(shown) == repr(shown) == "low| lower|<|end|>"
    assert [token.id for token in shown.tokens] == tokenizer.encode(
        "low lower<|end|>", allowed_special="all"
    )
    assert [token.special for token in shown.tokens] == [False, False, True]
    assert len(shown) == 3
    assert str(tokenizer.show("é")) == "‹C3›|‹A9›", "parts of a character are bytes"
    assert str(tokenizer.show("")) == ""


def test_a_notebook_shows_text_and_runs_nothing_of_it(tokenizer: Tokenizer) -> None:
    page = tokenizer.show("<script>alert(1)</script>\n low")._repr_html_()
    assert "<script" not in page
    assert text_of(page).startswith("<script>alert(1)</script>⏎\n low")
    assert page.count("<span") == len(tokenizer.encode("<script>alert(1)</script>\n low"))
    long = tokenizer.show("x " * 3_000)._repr_html_()
    assert long.count("<span") == 2_000
    assert "more" in long


def test_a_notebook_shows_what_a_tokenizer_is(tokenizer: Tokenizer) -> None:
    page = text_of(tokenizer._repr_html_())
    for said in ("264", "byte-bpe", "gpt2", "<|end|>", tokenizer.digest[:16], "brown fox"):
        assert said in page


def test_it_is_called_and_has_a_length(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == tokenizer.vocab_size == 264
    assert tokenizer("low lower") == tokenizer.encode("low lower")
    assert tokenizer(["low", " lower"]) == tokenizer.encode_batch(["low", " lower"])
    ids = tokenizer.encode_to_numpy("low lower", dtype=np.int64)
    assert (ids.dtype, ids.tolist()) == (np.int64, tokenizer("low lower"))
    assert tokenizer.encode_to_numpy("low").dtype == np.uint32
    padded, mask = tokenizer.encode_padded(["low", ""], pad_id=0, dtype=np.int64)
    assert padded.dtype == np.int64
    assert mask.tolist() == [[True], [False]]
