"""How often tokens come about and are left, and in which words, counted one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import train_wordpiece
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation.metrics import knee
from bpeline.tokenizer_core.evaluation.tokens_in_use import (
    MakingWord,
    TokenUse,
    _byte_counts,
    making_words,
    rows_holding,
    token_usage,
    token_use,
)

SPECIALS = ["<|end|>", "<|pad|>"]


@pytest.fixture(scope="module")
def tokenizer(words: WordCounts) -> Tokenizer:
    return train_bpe(words, 1500, special_tokens=SPECIALS)


def counted(tokenizer: Tokenizer, words: WordCounts) -> Counter[int]:
    left: Counter[int] = Counter()
    for word, times in words.items():
        for id_ in tokenizer.encoder.encode_words([word])[0].tolist():
            left[id_] += times
    return left


def test_what_is_left_is_what_encoding_gives(tokenizer: Tokenizer, words: WordCounts) -> None:
    use = token_use(tokenizer, words)
    left = counted(tokenizer, words)
    assert {id_: n for id_, n in enumerate(use.left.tolist()) if n} == dict(left)
    assert use.bytes == sum(len(word) * times for word, times in words.items())
    assert use.left[tokenizer.special_tokens["<|end|>"]] == 0


def test_what_is_made_is_what_fires(tokenizer: Tokenizer, words: WordCounts) -> None:
    use = token_use(tokenizer, words)
    fired: Counter[bytes] = Counter()
    into: dict[bytes, Counter[bytes]] = {}
    for word, times in words.items():
        for merge in tokenizer.explainer.token(word).merges:
            made = merge.left + merge.right
            fired[made] += times
            for part in (merge.left, merge.right):
                into.setdefault(part, Counter())[made] += times
    assert {token: made_of(use, tokenizer, token) for token in fired} == fired
    shares: dict[bytes, float] = {}
    for token, by_result in into.items():
        rest, shares[token] = made_of(use, tokenizer, token), 0.0
        for merge in tokenizer.merges:
            if token in merge:
                times = by_result[merge[0] + merge[1]]
                once = times // merge.count(token)
                shares[token] = max(shares[token], once / rest if rest else 0.0)
                rest -= times
        if len(token) == 1:
            shares[token] = 0.0
        assert use.absorbed[tokenizer.token_to_id(token)] == pytest.approx(shares[token])
    junk = {tokenizer.id_to_token(id_) for id_ in use.junk.tolist()}
    assert junk == {token for token, share in shares.items() if share >= 0.9} != set()


def made_of(use: TokenUse, tokenizer: Tokenizer, token: bytes) -> int:
    return int(use.made[tokenizer.token_to_id(token)])


def test_runs_of_one_byte_are_counted_as_they_are_merged() -> None:
    words = WordCounts.from_mapping({b"aaaaa": 3, b"aa": 10})
    tokenizer = Tokenizer(
        {i: bytes([i]) for i in range(256)} | {256: b"aa", 257: b"aaaa"},
        [(b"a", b"a"), (b"aa", b"aa")],
    )
    use = token_use(tokenizer, words)
    assert [use.made[i] for i in (97, 256, 257)] == [35, 16, 3]
    assert [use.left[i] for i in (97, 256, 257)] == [3, 10, 3]
    assert use.absorbed[256] == pytest.approx(3 / 16)


def test_tokens_that_only_words_taken_whole_reach_are_counted(words: WordCounts) -> None:
    plain = train_bpe(words, 400)
    vocab = {**plain.vocab, 1000: b" whole", 1001: b" never"}
    whole = Tokenizer(vocab, plain.merges, ignore_merges=True)
    use = token_use(whole, words)
    left = {id_: n for id_, n in enumerate(use.left.tolist()) if n}
    assert left == dict(counted(whole, words))


def test_no_words_use_nothing(tokenizer: Tokenizer) -> None:
    use = token_use(tokenizer, WordCounts.empty())
    assert use.made.sum() == use.left.sum() == use.bytes == 0


def test_bytes_are_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    from bpeline.tokenizer_core.evaluation import tokens_in_use as module

    monkeypatch.setattr(module, "_WORDS_AT_A_TIME", 2)
    many = 2**60 + 1
    words = WordCounts.from_mapping({b"ab": many, b"bb": 3, b"\xff": 1, b"a": 1})
    counts = _byte_counts(words)
    assert {byte: n for byte, n in enumerate(counts.tolist()) if n} == {
        ord("a"): many + 1, ord("b"): many + 6, 0xFF: 1,
    }  # fmt: skip


# Figures of use


def shortened(tokenizer: Tokenizer, merges: int) -> Tokenizer:
    vocab = {id_: token for id_, token in tokenizer.vocab.items() if id_ < 258 + merges}
    return Tokenizer(vocab, tokenizer.merges[:merges], SPECIALS)


def test_tokens_that_nothing_needs_are_counted(tokenizer: Tokenizer, words: WordCounts) -> None:
    found = token_usage(tokenizer, token_use(tokenizer, words))
    counts = counted(tokenizer, words)
    ordinary = set(tokenizer.vocab) - set(tokenizer.special_tokens.values())
    assert found.dead == len(ordinary - counts.keys()) > 0
    assert found.rare == sum(counts[id_] < 100 for id_ in counts) > 0
    assert found.junk == len(token_use(tokenizer, words).junk) > 0


def test_the_count_of_most_tokens_is_given_at_every_size(
    tokenizer: Tokenizer, words: WordCounts
) -> None:
    found = token_usage(tokenizer, token_use(tokenizer, words))
    assert [size for size, _ in found.f95_by_size] == [512, 1024, 1500]
    for size, count in found.f95_by_size:
        counts = counted(shortened(tokenizer, size - 258), words)
        everything = sorted((counts[id_] for id_ in range(size)), reverse=True)
        assert count == everything[int(np.ceil(0.95 * size)) - 1]
    assert found.largest_well_used in {None, 512, 1024, 1500}


def test_the_knee_is_the_point_highest_above_the_chord() -> None:
    # Over log₂ of the size: a straight line with one bend at 2048.
    bent = [(512, 1.0), (1024, 2.0), (2048, 3.0), (4096, 3.25), (8192, 3.5)]
    assert knee(bent) == 2048
    assert knee(bent[:3]) is None
    assert knee([(512 << i, float(i)) for i in range(6)]) is None
    assert knee([(512 << i, -float(i)) for i in range(6)]) is None


def test_other_algorithms_are_refused(words: WordCounts) -> None:
    other = train_wordpiece(words, 400)
    with pytest.raises(InvalidOption):
        token_usage(other, token_use(other, words))
    with pytest.raises(InvalidOption, match="wordpiece"):
        making_words(other, 3, words)


# The words that make a token


def test_every_token_s_words_are_those_whose_merges_make_it(
    tokenizer: Tokenizer, words: WordCounts
) -> None:
    expected: dict[bytes, dict[bytes, MakingWord]] = {}
    for word, count in words.items():
        made = Counter(m.left + m.right for m in tokenizer.explainer.token(word).merges)
        for token, times in made.items():
            expected.setdefault(token, {})[word] = MakingWord(word, count, times)
    use = token_use(tokenizer, words)
    for rank, (left, right) in enumerate(tokenizer.merges):
        id_ = tokenizer.token_to_id(left + right)
        found = making_words(tokenizer, id_, words)
        assert {one.word: one for one in found} == expected[left + right], rank
        assert [one.made for one in found] == sorted((one.made for one in found), reverse=True)
        assert sum(one.made for one in found) == use.made[id_]


def test_bytes_and_special_tokens(tokenizer: Tokenizer, words: WordCounts) -> None:
    id_ = tokenizer.token_to_id(b"e")
    assert sum(one.made for one in making_words(tokenizer, id_, words)) == sum(
        word.count(b"e") * count for word, count in words.items()
    )
    assert making_words(tokenizer, tokenizer.special_tokens["<|end|>"], words) == []


def test_a_token_across_two_words_is_in_neither() -> None:
    words = WordCounts.from_mapping({b"xab": 1, b"cab": 2, b"ca": 3, b"b": 4, b"abab": 5})
    assert rows_holding(b"ab", words).tolist() == [0, 1, 4]
    assert rows_holding(b"bc", words).tolist() == []
    assert rows_holding(b"b", words).tolist() == [0, 1, 3, 4]
    assert rows_holding(b"abababababababababab", words).tolist() == []
    assert rows_holding(b"a", WordCounts.empty()).tolist() == []
