"""Lists of merges that hold more than merging uses, and those in which ranks may fall."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from tests.tokenizer_core.test_encoding import IDENTITY, encoder_of, random_merges

Merges = list[reference.Pair]


def searches(merges: Merges) -> bool:
    """Whether words are searched for tokens; they are merged step by step otherwise."""
    return "trie" in encoder_of(merges)._tables


def every_way(tokens: list[bytes]) -> Merges:
    """Each way to put a token together, in order of the tokens, then of the parts: Llama 3's."""
    ranks = {bytes([byte]): -1 for byte in range(256)}
    ranks |= {token: rank for rank, token in enumerate(tokens)}
    merges: Merges = []
    for token in tokens:
        ways = [(token[:at], token[at:]) for at in range(1, len(token))]
        known = [way for way in ways if way[0] in ranks and way[1] in ranks]
        merges += sorted(known, key=lambda way: (ranks[way[0]], ranks[way[1]]))
    return merges


def merged_one_by_one(word: bytes, merges: Merges) -> list[int]:
    """The pair of lowest rank at its leftmost place, then again: not all places of it at once."""
    ranks = {merge: rank for rank, merge in enumerate(merges)}
    ids = {bytes([byte]): byte for byte in range(256)}
    ids |= {left + right: 256 + rank for (left, right), rank in ranks.items()}
    symbols = [bytes([byte]) for byte in word]
    while True:
        places = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not places:
            return [ids[symbol] for symbol in symbols]
        at = min(places)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


def assert_merged_one_by_one(merges: Merges, words: list[bytes]) -> None:
    ids, ends = encoder_of(merges).encode_words(words)
    begin = 0
    for word, end in zip(words, ends.tolist(), strict=True):
        expected = merged_one_by_one(word, merges)
        assert ids[begin:end].tolist() == expected, f"REPRO: {word!r} by {merges}"
        begin = end


@pytest.mark.parametrize("seed", range(6))
def test_of_every_way_to_make_a_token_one_is_kept(seed: int) -> None:
    random_ = random.Random(seed)
    syllables = ["".join(random_.choices("abc", k=random_.randint(1, 3))) for _ in range(9)]
    words = {"".join(random_.choices(syllables, k=3)).encode(): 1 for _ in range(300)}
    trained = reference.train(words, 90)
    merges = every_way([left + right for left, right in trained])
    assert len(merges) > len(trained)
    assert searches(merges)
    tried = list(words) + [bytes(random_.choices(b"abc", k=n)) for n in range(1, 80)]
    assert_merged_one_by_one(merges, tried)
    ids, _ = encoder_of(merges).encode_words(tried)
    by_trained = encoder_of(trained).encode_words(tried)[0]
    made = [left + right for left, right in trained]
    last = {
        token: 256 + rank for rank, (left, right) in enumerate(merges) for token in [left + right]
    }
    assert ids.tolist() == [last[made[id_ - 256]] if id_ > 255 else id_ for id_ in by_trained]


@pytest.mark.parametrize(
    "merges",
    [
        [(b"ab", b"c"), (b"a", b"b")],
        [(b"ab", b"c"), (b"a", b"b"), (b"bc", b"d"), (b"b", b"c")],
        [(b"ab", b"c"), (b"a", b"b"), (b"a", b"bc"), (b"b", b"c")],
    ],
    ids=["a part is made later", "two", "the token as well"],
)
def test_where_ranks_may_fall_words_are_merged(merges: Merges) -> None:
    assert not searches(merges)
    words = [b"abc", b"abcd", b"bcd", b"aabcc", b"abcabcd" * 9]
    assert_merged_one_by_one(merges, words)


def test_a_part_that_is_made_after_the_token_does_no_harm() -> None:
    merges = [(b"a", b"b"), (b"a", b"bc"), (b"ab", b"c"), (b"b", b"c")]
    assert searches(merges)
    assert_merged_one_by_one(merges, [b"abc", b"bc", b"bcabc", b"aabcbc" * 20])


def test_a_part_that_nothing_makes_is_never_there() -> None:
    columns = [(97, 98, 256), (999, 98, 257), (256, 256, 258)]
    left, right, results = np.array(columns, np.int64).T.copy()
    encoder = BytePairEncoder(IDENTITY, left, right, results, SplitPattern.named("gpt2"))
    assert "trie" in encoder._tables
    assert encoder.encode_words([b"ababab"])[0].tolist() == [258, 256]


@pytest.mark.night
def test_random_lists_are_encoded_as_they_say_whatever_is_left_out() -> None:
    random_ = random.Random(41)
    searched = merged = 0
    for _ in range(400):
        letters = random_.choice(["a", "ab", "abc"])
        merges = random_merges(random_, letters, proper=False)
        random_.shuffle(merges)
        if not known_ids(merges):
            continue
        searched += searches(merges)
        merged += not searches(merges)
        words = ["".join(random_.choices(letters, k=n)).encode() for n in range(1, 60, 2)]
        words += [left + right for left, right in merges]
        assert_merged_one_by_one(merges, words)
    assert searched > 20
    assert merged > 20


def known_ids(merges: Merges) -> bool:
    """Whether each part is a byte or made by some merge."""
    made = {left + right for left, right in merges} | {bytes([byte]) for byte in range(256)}
    return all(part in made for merge in merges for part in merge)
