"""A vocab as flat arrays is the dict that it stands for."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding import Decoder
from bpeline.tokenizer_core.vocabulary import MAX_ID, MAX_TOKEN_BYTES, TokenIds, TokenTable


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
