"""How often tokens come about and are left, against counting them one by one."""

from __future__ import annotations

from collections import Counter

import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.evaluation.tokens_in_use import TokenUse, _byte_counts, token_use


@pytest.fixture(scope="module")
def tokenizer(words: WordCounts) -> Tokenizer:
    return train_bpe(words, 900, special_tokens=["<|end|>"])


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
