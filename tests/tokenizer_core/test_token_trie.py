"""The double-array trie: the longest token at every place, by search in a plain set."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding import merge_encoding
from bpeline.tokenizer_core.encoding.merge_encoding import _trie
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.encoding.token_tables import NOTHING
from bpeline.tokenizer_core.kernels.encoding.token_trie import longest_token
from bpeline.tokenizer_core.kernels.memory.types import I64s, U8s, U64s
from tests.tokenizer_core.test_encoding import encoder_of, ids_by_reference

BYTES = [bytes([byte]) for byte in range(256)]


@entry_kernel
def longest_tokens(text: U8s, trie: U64s, found: I64s, ends: I64s) -> None:
    """The longest token at each place of a text, and where it ends."""
    begin = np.int64(text.ctypes.data)
    end = begin + len(text)
    for at in range(len(text)):
        found[at], ends[at] = longest_token(begin + at, end, np.int64(trie.ctypes.data))
        ends[at] -= begin


def trie_of(tokens: Iterable[bytes]) -> tuple[list[bytes], np.ndarray, np.ndarray]:
    """All tokens, those of one byte first; the trie; the longest one that begins each of them."""
    every = BYTES + list(tokens)
    ends = np.cumsum([len(token) for token in every])
    text = np.frombuffer(bytearray(b"".join(every) + bytes(8)), np.uint8)
    heads = np.array([every.index(token[:1]) for token in every[256:]])
    built = _trie(text, ends, heads)
    assert built is not None
    # From longer heads on the trie is the same; a token begins with some earlier ones.
    for index in range(256, len(every), 7):
        for length in range(2, len(every[index])):
            if every[index][:length] in every[:index]:
                heads[index - 256] = every.index(every[index][:length])
    again = _trie(text, ends, heads)
    assert again is not None
    assert all((one == other).all() for one, other in zip(built, again, strict=True))
    return every, *built


def longest_by_search(text: bytes, at: int, tokens: set[bytes]) -> bytes:
    found = (text[at:end] for end in range(len(text), at, -1) if text[at:end] in tokens)
    return next(found, text[at : at + 1])


@pytest.mark.parametrize(
    "letters",
    [b"a", b"ab", b"abc", bytes([0, 255]), bytes(range(256))],
    ids=["one letter", "two", "three", "the outermost bytes", "all bytes"],
)
def test_the_longest_token_is_found_at_every_place(letters: bytes) -> None:
    random_ = random.Random(letters)
    made = {bytes(random_.choices(letters, k=random_.randint(2, 9))) for _ in range(400)}
    tokens, trie, shorter = trie_of(sorted(made))
    text = bytes(random_.choices(letters, k=600)) + b"".join(random_.sample(sorted(made), 8))
    found = np.zeros(len(text), np.int64)
    ends = found.copy()
    longest_tokens(np.frombuffer(bytearray(text), np.uint8), trie, found, ends)
    for at in range(len(text)):
        expected = longest_by_search(text, at, made)
        assert (tokens[found[at]], ends[at] - at) == (expected, len(expected))
    for index in range(256, len(tokens)):
        begin = next(
            n for n in range(len(tokens[index]) - 1, 0, -1) if tokens[index][:n] in made or n == 1
        )
        assert tokens[shorter[index]] == tokens[index][:begin]
    assert (shorter[:256] == NOTHING).all()


def test_nodes_of_all_children_have_room_and_no_two_share_cells() -> None:
    """Each of 300 nodes has 256 children: nothing fits between."""
    first = [bytes([byte, 1]) for byte in range(256)] + [bytes([7, byte]) for byte in range(2, 46)]
    made = first + [node + bytes([byte]) for node in first for byte in range(256)]
    tokens, trie, _ = trie_of(made)
    text = np.frombuffer(bytearray(bytes(random.Random(3).choices(range(256), k=4_000))), np.uint8)
    found = np.zeros(len(text), np.int64)
    longest_tokens(text, trie, found, np.zeros(len(text), np.int64))
    kept = set(made)
    expected = [longest_by_search(text.tobytes()[: at + 3], at, kept) for at in range(len(text))]
    assert [tokens[index] for index in found] == expected


def test_cells_are_mostly_in_use() -> None:
    random_ = random.Random(5)
    syllables = [bytes(random_.choices(b"etaoinshr", k=2)) for _ in range(40)]
    made = {b"".join(random_.choices(syllables, k=random_.randint(1, 4))) for _ in range(20_000)}
    _, trie, _ = trie_of(sorted(made))
    assert np.count_nonzero(trie) > 0.7 * len(trie)


def test_a_vocab_of_too_many_nodes_is_merged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_encoding, "MAX_NODES", 1_000)
    merges = [(b"a", b"b"), (b"ab", b"c")]
    encoder = encoder_of(merges)
    assert "trie" not in encoder._tables
    ids, _ = encoder.encode_words([b"abcab", b"ab" * 100])
    assert ids.tolist() == ids_by_reference(b"abcab", merges) + ids_by_reference(
        b"ab" * 100, merges
    )
