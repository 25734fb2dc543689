"""Merges as ids: the same pairs as a list of tuples, and the same refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary.token_table import MergeList, find_merges

LONG = b"abcdefghijklmnopqrstuvwxyz"
VOCAB = {i: bytes([i]) for i in range(256)} | {
    **{300 + n: LONG[: n + 2] for n in range(25)},
    400: b"\0\0",
    401: b"<|end|>",
}
MERGES = [(LONG[: n + 1], LONG[n + 1 : n + 2]) for n in range(25)] + [(b"\0", b"\0")]


def merge_list(merges: list[tuple[bytes, bytes]] = MERGES) -> MergeList:
    flat = [part for merge in merges for part in merge]
    lengths = np.array([len(part) for part in flat], np.int64)
    return MergeList(VOCAB, *find_merges(VOCAB, b"".join(flat), lengths))


def test_reads_as_the_list_of_pairs() -> None:
    merges = merge_list()
    assert list(merges) == MERGES
    assert len(merges) == len(MERGES)
    assert [merges[rank] for rank in range(len(merges))] == MERGES
    assert merges[3:7] == MERGES[3:7]
    assert merges[-1] == MERGES[-1]
    assert merges.index(MERGES[4]) == 4


def test_makes_the_tokenizer_that_pairs_make() -> None:
    by_ids = Tokenizer(VOCAB, merge_list(), ["<|end|>"])
    by_pairs = Tokenizer(VOCAB, MERGES, ["<|end|>"])
    assert by_ids.digest == by_pairs.digest
    assert by_ids.merges == by_pairs.merges == MERGES
    assert pickle.loads(pickle.dumps(by_ids)).digest == by_pairs.digest


def test_finds_what_the_vocab_lacks() -> None:
    flat = [b"a", b"zz", LONG, b"a", b"<|end|>", b"a"]
    lengths = np.array([len(part) for part in flat], np.int64)
    left, right, results = find_merges(VOCAB, b"".join(flat), lengths)
    assert left.tolist() == [97, 324, 401]
    assert right.tolist() == [-1, 97, 97]
    assert results.tolist() == [-1, -1, -1]


def test_special_tokens_are_no_parts() -> None:
    vocab = VOCAB | {402: b"<|end|>a"}
    columns = (np.array([number], np.int64) for number in (401, 97, 402))
    with pytest.raises(InvalidTokenizer, match=r"b'<\|end\|>'"):
        Tokenizer(vocab, MergeList(vocab, *columns), ["<|end|>"])


def test_a_part_with_the_highest_id_that_no_merge_makes_is_refused() -> None:
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"zza", 300: b"zz"}
    with pytest.raises(InvalidTokenizer, match="b'zz'"):
        Tokenizer(vocab, [(b"zz", b"a")])


@pytest.mark.parametrize("length", range(13, 20))
@pytest.mark.parametrize("count", [1, 2, 64, 65, 1000])
def test_tokens_around_the_length_of_a_slot_are_decoded(length: int, count: int) -> None:
    tokenizer = Tokenizer(VOCAB, MERGES, ["<|end|>"])
    ids = [300 + length - 2, 97, 400, 324] * count
    expected = (LONG[:length] + b"a\0\0" + LONG) * count
    assert tokenizer.decode_bytes(ids) == expected
    assert tokenizer.decode_bytes(np.array(ids, np.uint32)) == expected
    assert tokenizer.decode(ids) == tokenizer.decode(np.array(ids)) == expected.decode()
