"""A vocab as flat arrays is the dict that it stands for."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.encoding import Decoder
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary import MAX_ID, MAX_TOKEN_BYTES, TokenIds, TokenTable
from bpeline.tokenizer_core.vocabulary.token_table import MergeList, find_merges


def table_of(vocab: Mapping[int, bytes]) -> TokenTable | None:
    lengths = np.fromiter(map(len, vocab.values()), np.int64, len(vocab))
    return TokenTable.sound(b"".join(vocab.values()), lengths, np.array(list(vocab), np.int64))


def test_a_table_is_the_dict_that_it_stands_for() -> None:
    rng = random.Random(3)
    lengths = [1, 1, 2, 7, 14, 15, 16, 17, 40, 300]
    tokens = {rng.randbytes(rng.choice(lengths)) for _ in range(900)} | {b"\0", b"\0\0", b"a\0"}
    ids = rng.sample(range(3000), len(tokens))
    vocab = dict(zip(ids, tokens, strict=True))
    table = table_of(vocab)
    assert table is not None
    assert list(table) == list(vocab)
    assert len(table) == len(vocab)
    assert max(table) == max(vocab)
    by_id, sizes, joined = table.in_order_of_id()
    assert by_id.tolist() == sorted(vocab)
    assert sizes.tolist() == [len(token) for _, token in sorted(vocab.items())]
    assert joined == b"".join(token for _, token in sorted(vocab.items()))
    assert [table.id_of(token) for token in vocab.values()] == ids
    assert [table.id_of(token) for token in (b"", rng.randbytes(16), b"\0\0\0")] == [-1, -1, -1]
    assert table.tokens_of(np.array(ids[5:9])) == [vocab[id_] for id_ in ids[5:9]]
    ids_of = {token: id_ for id_, token in vocab.items()}
    expected = [ids_of.get(bytes([byte]), -1) for byte in range(256)]
    assert table.byte_ids().tolist() == expected
    flat, usual = Decoder(table), Decoder(vocab)
    asked = [*ids, *rng.choices(ids, k=5000)]
    assert flat.decode(asked) == usual.decode(asked)
    assert flat.decode(np.array(asked, np.uint32)) == usual.decode(asked)
    assert flat.lengths(np.array(ids, np.uint32)).tolist() == list(map(len, vocab.values()))
    assert table == vocab
    assert dict(table) == vocab


WRONG: dict[str, Callable[[dict[int, bytes]], Any]] = {
    "nothing": dict.clear,
    "an empty token": lambda vocab: vocab.update({5: b""}),
    "a token twice": lambda vocab: vocab.update({5: b"bb"}),
    "a long token twice": lambda vocab: vocab.update({5: b"c" * 99, 6: b"c" * 99}),
    "a negative id": lambda vocab: vocab.update({-1: b"x"}),
    "an id too large": lambda vocab: vocab.update({MAX_ID + 1: b"x"}),
    "a token too long": lambda vocab: vocab.update({5: bytes(MAX_TOKEN_BYTES + 1)}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_no_table(kind: str) -> None:
    vocab = {0: b"a", 1: b"bb", 2: b"c" * 98}
    assert table_of(vocab) is not None
    WRONG[kind](vocab)
    assert table_of(vocab) is None


def test_an_id_twice_is_no_table() -> None:
    two = np.array([1, 1], np.int64)
    assert TokenTable.sound(b"ab", two, np.array([4, 5])) is not None
    assert TokenTable.sound(b"ab", two, np.array([4, 4])) is None


def test_tokens_are_added_to_a_table_once() -> None:
    table = table_of({0: b"a", 1: b"bb"})
    assert table is not None
    assert table.with_tokens({1: b"bb"}) is table
    more = table.with_tokens({1: b"bb", 7: b"new"})
    assert more == {0: b"a", 1: b"bb", 7: b"new"}
    assert table.with_tokens({7: b"bb"}) is None  # a token under two ids
    assert table.with_tokens({1: b"new"}) is None  # two tokens under an id


def test_pairs_of_tokens_are_found_by_what_they_join_to() -> None:
    table = table_of({9: b"a", 4: b"bb", 7: b"abb", 2: b"bba"})
    assert table is not None
    left, right = np.array([9, 4, 4, 7]), np.array([4, 9, 4, 9])
    assert table.joins(left, right, 20).tolist() == [7, 2, -1, -1]
    assert table.joins(left, right, 13).tolist() == [-1] * 4  # 14 bytes
    assert table.joins(left[:0], right[:0], 0).tolist() == []


def test_results_in_any_order_are_found_where_the_next_one_was_expected() -> None:
    tokens = [b"a", b"b", b"ab", b"ba", b"aba", b"abab", b"bab", b"abba", b"baab"]
    table = table_of({3 * number: token for number, token in enumerate(tokens)})
    pairs = [(one, other) for one in tokens for other in tokens if one + other in tokens]
    for order in (pairs, pairs[::-1], sorted(pairs, key=lambda pair: sum(b"".join(pair)))):
        left, right = 3 * np.array([[*map(tokens.index, pair)] for pair in order]).T
        assert table is not None
        expected = [3 * tokens.index(one + other) for one, other in order]
        assert table.joins(left, right, 100).tolist() == expected


def test_hidden_tokens_are_not_among_the_ids() -> None:
    table = table_of({9: b"a", 4: b"bb", 7: b"abb"})
    assert table is not None
    ids = TokenIds(table, frozenset({4}))
    assert ids == {b"a": 9, b"abb": 7}
    assert [ids.find(token) for token in (b"a", b"bb", b"abb", b"x", b"")] == [9, -1, 7, -1, -1]


# Merges as ids


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
