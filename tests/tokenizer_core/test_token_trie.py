"""The double-array trie: the longest token at every place, by search in a plain set."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding.merge_encoding import merge_tables, trie_of_tokens
from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel
from bpeline.tokenizer_core.kernels.encoding import token_trie
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    INFO,
    JOINED,
    JOINS,
    LENGTH_SHIFT,
    NOTHING,
    TOKEN,
    is_valid_pair,
    stay_together,
)
from bpeline.tokenizer_core.kernels.encoding.token_trie import CELLS, NO_SYMBOL, longest_token
from bpeline.tokenizer_core.kernels.encoding.word_cache import key_of, workspace_at
from bpeline.tokenizer_core.kernels.memory.types import I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable
from bpeline.tokenizer_core.reference import Pair, merge_word
from tests.tokenizer_core.test_encoding import encoder_of, ids_by_reference

BYTES = [bytes([byte]) for byte in range(256)]


@entry_kernel
def longest_tokens(text: U8s, trie: U64s, tokens: U64s, found: I64s, ends: I64s) -> None:
    """The longest token at each place of a text, as far as ``found`` goes, and where it ends."""
    begin = np.int64(text.ctypes.data)
    end = begin + len(found)
    for at in range(len(found)):
        found[at], ends[at] = longest_token(
            begin + at, end, np.int64(trie.ctypes.data), np.int64(tokens.ctypes.data)
        )
        ends[at] -= begin


def searched(
    text: bytes, size: int, tokens: list[bytes], trie: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`longest_tokens` of the first bytes of a text; the others may be read."""
    rows = np.zeros((len(tokens), TOKEN // 8), np.uint64)
    rows[:, INFO // 8] = np.array([len(token) for token in tokens], np.uint64) << LENGTH_SHIFT
    found = np.zeros(size, np.int64)
    ends = found.copy()
    content = np.frombuffer(bytearray(text + bytes(4)), np.uint8)
    longest_tokens(content, trie, rows.reshape(-1), found, ends)
    return found, ends


def trie_of(
    tokens: Iterable[bytes], again: bool = True
) -> tuple[list[bytes], np.ndarray, np.ndarray]:
    """All tokens, those of one byte first; the trie; the longest one that begins each of them."""
    every = BYTES + list(tokens)
    ends = np.cumsum([len(token) for token in every])
    text = np.frombuffer(bytearray(b"".join(every) + bytes(8)), np.uint8)
    heads = np.array([token[0] for token in every[256:]])
    built = trie_of_tokens(text, ends, heads)
    assert built is not None
    if not again:
        return every, *built
    # From longer heads on the trie is the same; a token begins with some earlier ones.
    for index in range(256, len(every), 7):
        for length in range(2, len(every[index])):
            if every[index][:length] in every[:index]:
                heads[index - 256] = every.index(every[index][:length])
    more = trie_of_tokens(text, ends, heads)
    assert more is not None
    assert all((one == other).all() for one, other in zip(built, more, strict=True))
    return every, *built


def longest_by_search(text: bytes, at: int, tokens: set[bytes]) -> bytes:
    found = (text[at:end] for end in range(len(text), at, -1) if text[at:end] in tokens)
    return next(found, text[at : at + 1])


CHARACTERS = [character.encode() for character in "aé߿ࠀ中丮亭한￿𐀀😀"]
NO_UTF8 = [b"\xe4", b"\xe4\xb8", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xbf", b"\xff", b"\xf0\x9f"]


@pytest.mark.parametrize(
    "letters",
    [
        [b"a"],
        [b"a", b"b"],
        [b"a", b"b", b"c"],
        [b"\0", b"\xff"],
        BYTES,
        CHARACTERS,
        CHARACTERS + NO_UTF8,
    ],
    ids=["one", "two", "three", "the outermost bytes", "all bytes", "characters", "parts of them"],
)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut anywhere"])
def test_the_longest_token_is_found_at_every_place(letters: list[bytes], cut: bool) -> None:
    random_ = random.Random(len(letters))
    made = set()
    for _ in range(400):
        token = b"".join(random_.choices(letters, k=random_.randint(2, 9)))
        if cut:
            begin = random_.randint(0, 4)
            token = token[begin : max(begin + 2, len(token) - random_.randint(0, 4))]
        made |= {token} if len(token) > 1 else set()
    tokens, trie, shorter = trie_of(sorted(made))
    text = b"".join(random_.choices(letters, k=400) + random_.sample(sorted(made), 8))
    for size in range(len(text) - 4, len(text) + 1):
        found, ends = searched(text, size, tokens, trie)
        for at in range(size):
            expected = longest_by_search(text[:size], at, made)
            assert (tokens[found[at]], ends[at] - at) == (expected, len(expected))
    for index in range(256, len(tokens)):
        begin = next(
            n for n in range(len(tokens[index]) - 1, 0, -1) if tokens[index][:n] in made or n == 1
        )
        assert tokens[shorter[index]] == tokens[index][:begin]
    assert (shorter[:256] == NOTHING).all()


def test_characters_beyond_the_last_symbol_are_bytes() -> None:
    """Every character there can be, and bytes that look like one: more than there are symbols."""
    every = [bytes([0xC0 + n // 64, 0x80 + n % 64]) for n in range(2_048)]
    every += [bytes([0xE0 + n // 4096, 0x80 + n // 64 % 64, 0x80 + n % 64]) for n in range(1 << 16)]
    made = [*every, every[-1] + every[5], every[3] + every[-2], every[-1] + every[-2][:2]]
    made += sorted({token[:2] for token in every if len(token) == 3})
    tokens, trie, _ = trie_of(made, again=False)
    text = b"".join([*random.Random(3).sample(every, 500), *made[-1_100:], every[3] + every[-2]])
    found, _ends = searched(text, len(text), tokens, trie)
    kept = set(made)
    expected = [longest_by_search(text[: at + 8], at, kept) for at in range(len(text))]
    assert [tokens[index] for index in found] == expected


def test_nodes_of_all_children_have_room_and_no_two_share_cells() -> None:
    """Each of 300 nodes has 256 children: nothing fits between."""
    first = [bytes([byte, 1]) for byte in range(256)] + [bytes([7, byte]) for byte in range(2, 46)]
    made = first + [node + bytes([byte]) for node in first for byte in range(256)]
    tokens, trie, _ = trie_of(made)
    text = bytes(random.Random(3).choices(range(256), k=4_000))
    found, _ends = searched(text, len(text), tokens, trie)
    kept = set(made)
    expected = [longest_by_search(text[: at + 3], at, kept) for at in range(len(text))]
    assert [tokens[index] for index in found] == expected


def test_cells_are_mostly_in_use() -> None:
    random_ = random.Random(5)
    syllables = [bytes(random_.choices(b"etaoinshr", k=2)) for _ in range(40)]
    made = {b"".join(random_.choices(syllables, k=random_.randint(1, 4))) for _ in range(20_000)}
    _, trie, _ = trie_of(sorted(made))
    cells = trie[CELLS // 8 :]
    assert np.count_nonzero(cells != NO_SYMBOL) > 0.7 * len(cells)


def test_a_vocab_of_too_many_nodes_is_merged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_trie, "MAX_NODES", 1_000)
    merges = [(b"a", b"b"), (b"ab", b"c")]
    encoder = encoder_of(merges)
    assert "trie" not in encoder._tables
    ids, _ = encoder.encode_words([b"abcab", b"ab" * 100])
    assert ids.tolist() == ids_by_reference(b"abcab", merges) + ids_by_reference(
        b"ab" * 100, merges
    )


# Which tokens stand together


@entry_kernel
def ask_both(left: I64s, right: I64s, fields: I64s, quick: U8s, undone: U8s) -> None:
    """Whether pairs of tokens stand together, asked with the sets and without."""
    workspace = workspace_at(fields.ctypes.data)
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    for i in range(len(left)):
        quick[i] = is_valid_pair(pairs, workspace.tokens, left[i], right[i])
        undone[i] = stay_together(pairs, workspace.tokens, left[i], right[i])


def random_merges(random_: random.Random, letters: bytes, number: int) -> dict[Pair, int]:
    """Merges in order, each of two tokens that stand together, to a token that is not there yet."""
    tokens = [letters[i : i + 1] for i in range(len(letters))]
    ranks: dict[Pair, int] = {}
    while len(ranks) < number:
        left = random_.choice(tokens)
        right = left if random_.random() < 0.2 else random_.choice(tokens)
        word = left + right
        if word not in tokens and len(word) < 13 and merge_word(word, ranks) == (left, right):
            ranks[left, right] = len(ranks)
            tokens.append(word)
    return ranks


@pytest.mark.parametrize("letters", [b"a", b"ab", b"abc", b"abcdefgh"])
def test_sets_and_undone_merges_say_what_merging_does(letters: bytes) -> None:
    ranks = random_merges(random.Random(letters), letters, 11 if letters == b"a" else 60)
    index = {bytes([byte]): byte for byte in range(256)}
    index |= {left + right: 256 + rank for (left, right), rank in ranks.items()}
    merges = np.array([(index[left], index[right]) for left, right in ranks])
    results = 256 + np.arange(len(ranks))
    record, tables = merge_tables(np.arange(256), (*merges.T.copy(), results))
    rows = tables["tokens"].reshape(-1, TOKEN // 8)

    tokens = [token for token in index if token[0] in letters]
    neighbours = list(product(tokens, repeat=2))
    left, right = np.array([(index[one], index[other]) for one, other in neighbours]).T.copy()
    quick, undone = np.zeros((2, len(neighbours)), np.uint8)
    ask_both(left, right, record.view(np.int64), quick, undone)
    expected = [merge_word(one + other, ranks) == (one, other) for one, other in neighbours]
    assert quick.tolist() == undone.tolist() == expected
    told = rows[left, JOINS // 8] & rows[right, JOINED // 8] == 0
    assert len(letters) < 3 or told.mean() > 0.25  # by the sets alone
