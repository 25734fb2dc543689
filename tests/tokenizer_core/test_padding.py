"""Rows of one length and their mask."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding.batch_encoding import pad
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer

BATCH = [[1, 2, 3], [], [4]]


def test_sequences_are_padded_to_the_longest() -> None:
    ids, mask = pad(BATCH, pad_id=9)
    assert ids.dtype == np.uint32
    assert ids.tolist() == [[1, 2, 3], [9, 9, 9], [4, 9, 9]]
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, False, False]]
    ids, mask = pad(BATCH, pad_id=9, pad_to=4, pad_side="left")
    assert ids.tolist() == [[9, 1, 2, 3], [9] * 4, [9, 9, 9, 4]]
    assert mask.sum(axis=1).tolist() == [3, 0, 1]
    assert not mask[0, 0]


def test_long_sequences_lose_one_of_their_ends() -> None:
    assert pad(BATCH, 2)[0].tolist() == [[1, 2], [0, 0], [4, 0]]
    assert pad(BATCH, 2, cut_side="left")[0].tolist() == [[2, 3], [0, 0], [4, 0]]
    assert pad(BATCH, 0)[0].shape == (3, 0)
    assert pad([], 5)[0].shape == (0, 0)
    assert pad([np.array([5, 6], np.uint32)], 1)[0].tolist() == [[5]]


@pytest.mark.parametrize(
    "wrong",
    [{"max_length": -1}, {"pad_to": -1}, {"max_length": 2, "pad_to": 3}, {"pad_id": -1},
     {"pad_id": 1 << 32}, {"pad_side": "top"}, {"cut_side": ""}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidOption):
        pad(BATCH, **wrong)  # type: ignore[arg-type]


def test_a_tokenizer_encodes_to_rows(trained: Callable[..., Tokenizer]) -> None:
    tokenizer = trained("gpt2")
    texts = ["one text", "", "a longer one with <|a|>"]
    ids, mask = tokenizer.encode_padded(texts, pad_id=0, allowed_special="all")
    for row, kept, text in zip(ids, mask, texts, strict=True):
        assert row[kept].tolist() == tokenizer.encode(text, "all")
        assert (row[~kept] == 0).all()
    assert tokenizer.encode_padded(texts, 2, pad_id=0)[0].shape == (3, 2)
