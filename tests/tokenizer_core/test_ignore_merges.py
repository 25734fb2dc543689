"""Words that are one token whatever their merges say: as HuggingFace takes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]
BYTES = {byte: bytes([byte]) for byte in range(256)}
LONG = (b" abcdefghijklmnop", b" " + b"q" * 200)


@pytest.fixture(scope="module", params=["gpt2", "cl100k"])
def with_words_unmade(request: pytest.FixtureRequest, trained: MakeTokenizer) -> Tokenizer:
    """A tokenizer some of whose tokens no merge makes."""
    full = trained(request.param, "last")
    random_ = random.Random(4)
    needed = {part for merge in full.merges for part in merge}
    merges = [
        merge for merge in full.merges if merge[0] + merge[1] in needed or random_.random() < 0.5
    ]
    assert len(full.merges) - len(merges) > 100
    vocab = {**full.vocab, 5_000: LONG[0], 5_001: LONG[1]}
    return Tokenizer(vocab, merges, full.special_tokens, full.pattern, ignore_merges=True)


@pytest.mark.night
def test_ids_are_those_of_huggingface(
    with_words_unmade: Tokenizer, tmp_path: Path, fuzz_texts: list[str]
) -> None:
    path = tmp_path / "tokenizer.json"
    with_words_unmade.save(path, "hf")
    loaded = Tokenizer.load(path)
    assert loaded.digest == with_words_unmade.digest
    assert loaded.ignore_merges
    peer = tokenizers.Tokenizer.from_file(str(path))
    words = [token.decode() for token in LONG]
    texts = [*fuzz_texts, *words, "a".join(words), "".join(words) * 3, words[0] + "q"]
    expected = [encoding.ids for encoding in peer.encode_batch(texts)]
    for _ in range(2):  # the second time from the cache
        for ids, theirs, text in zip(
            loaded.encode_batch(texts, None, "all"), expected, texts, strict=True
        ):
            assert ids == theirs, f"REPRO: {text!r}"
    plain = Tokenizer(
        loaded.vocab, loaded.merges, loaded.special_tokens, loaded.pattern, cache_words=0
    )
    assert plain.digest != loaded.digest
    assert sum(plain.encode(text) != loaded.encode(text) for text in texts) > 500


@pytest.mark.parametrize("cache_words", [0, 2, 1 << 12])
def test_every_token_is_itself_with_and_without_a_cache(
    with_words_unmade: Tokenizer, cache_words: int
) -> None:
    parts = (with_words_unmade.vocab, with_words_unmade.merges, with_words_unmade.special_tokens)
    ours = Tokenizer(*parts, with_words_unmade.pattern, ignore_merges=True, cache_words=cache_words)
    specials = set(ours.special_tokens.values())
    ordinary = {id_: token for id_, token in ours.vocab.items() if id_ not in specials}
    for _ in range(2):
        ids, _ends = ours.encoder.encode_words(list(ordinary.values()))
        assert ids.tolist() == list(ordinary)


def test_special_tokens_are_never_taken_whole() -> None:
    vocab = BYTES | {256: b"<s>", 257: b"abc"}
    tokenizer = Tokenizer(vocab, [], ["<s>"], r"\S+|\s+", ignore_merges=True)
    assert tokenizer.encode("abc <s>") == [257, 32, *b"<s>"]
    assert tokenizer.encode("abc <s>", "all") == [257, 32, 256]


def test_it_is_kept_and_explained(with_words_unmade: Tokenizer, tmp_path: Path) -> None:
    with_words_unmade.save(tmp_path / "kept")
    assert Tokenizer.load(tmp_path / "kept").digest == with_words_unmade.digest
    (word,) = with_words_unmade.explain(LONG[0].decode())
    assert (word.whole, word.ids, word.merges) == (True, (5_000,), ())
    with pytest.raises(InvalidTokenizer, match="ignore_merges"):
        with_words_unmade.save(tmp_path / "x.tiktoken", "tiktoken")


def test_a_table_of_many_words_finds_each_and_no_other() -> None:
    random_ = random.Random(2)
    words = {random_.randbytes(random_.randint(2, 40)) for _ in range(3_000)}
    vocab = BYTES | {256 + i: word for i, word in enumerate(sorted(words))}
    tokenizer = Tokenizer(vocab, [], ignore_merges=True)
    ids, _ = tokenizer.encoder.encode_words(list(vocab.values()))
    assert np.array_equal(ids, list(vocab))
    others = [word + b"x" for word in sorted(words) if word + b"x" not in words]
    ids, ends = tokenizer.encoder.encode_words(others)
    assert ids.tolist() == [byte for word in others for byte in word]
    assert len(ends) == len(others)
