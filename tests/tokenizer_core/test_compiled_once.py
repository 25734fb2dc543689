"""What a tokenizer needs compiled it has compiled once, and keeps."""

from __future__ import annotations

import copy
import pickle
from itertools import islice

import pytest

from bpeline.tokenizer_core.splitting import split_automaton as automata
from bpeline.tokenizer_core.splitting import split_patterns
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import SpecialTokenMatcher, special_tokens

SPECIALS = [f"<|{name}|>" for name in "abcde"]
VOCAB = {byte: bytes([byte]) for byte in range(256)}
VOCAB |= {256 + place: token.encode() for place, token in enumerate(SPECIALS)}


@pytest.fixture
def matchers(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[bytes]]:
    made = list[frozenset[bytes]]()

    class Counted(SpecialTokenMatcher):
        def __init__(self, tokens: list[bytes]) -> None:
            made.append(frozenset(tokens))
            super().__init__(tokens)

    monkeypatch.setattr(special_tokens, "SpecialTokenMatcher", Counted)
    return made


def test_a_matcher_is_made_once_for_each_set_of_special_tokens(
    matchers: list[frozenset[bytes]],
) -> None:
    tokenizer = Tokenizer(VOCAB, [], SPECIALS)
    text = "x<|a|>y<|b|>"
    for _ in range(3):
        for allowed in ("all", {"<|a|>"}, ["<|a|>"], ("<|a|>", "<|a|>"), frozenset(SPECIALS[:2])):
            ids = tokenizer.encode(text, allowed)
            assert tokenizer.encode_to_numpy(text, allowed).tolist() == ids
            assert tokenizer.encode_batch([text], None, allowed) == [ids]
            assert list(tokenizer.encode_iterable([text], allowed)) == ids
            assert tokenizer.encode_with_offsets(text, allowed).ids == ids
            assert tokenizer.truncate(text, 100, allowed) == text
            assert (256 in ids, 257 in ids) == (True, "<|b|>" in allowed or allowed == "all")
    assert sorted(map(len, matchers)) == [1, 2, 5]


def test_sets_made_for_single_texts_are_not_kept_for_ever() -> None:
    tokenizer = Tokenizer(VOCAB, [], SPECIALS)
    for number in range(32):
        allowed = {token for place, token in enumerate(SPECIALS) if number >> place & 1}
        for on_special in ("text", "error"):
            tokenizer.encode("", allowed, on_special)  # type: ignore[arg-type]
    tokenizer.encode("", "all")
    assert len(tokenizer._policies._made) <= 32


def test_a_pattern_outlives_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = SplitPattern(regex=r"[a-c]+|.")
    tokenizer = Tokenizer(VOCAB, [], pattern=pattern)
    text = "abc cab " * 1_000  # a long text, which asks the pattern itself
    expected = tokenizer.encode(text)
    compiled, cut_pairs = pattern.compiled, pattern.cut_pairs
    for cache in (automata.split_automaton, split_patterns.compile_regex, split_patterns.cut_pairs):
        cache.cache_clear()  # as the 17th, the 65th and the 17th other pattern do
        monkeypatch.setattr(split_patterns, cache.__name__, None)
    assert tokenizer.encode(text) == expected
    assert (pattern.compiled, pattern.cut_pairs) == (compiled, cut_pairs)
    assert pattern.has_kernel


def test_what_is_compiled_does_not_travel() -> None:
    pattern = SplitPattern(regex=r"[a-c]+|.")
    fresh = pickle.dumps(pattern)
    assert pattern.automaton is not None
    assert pattern.cut_pairs is not None
    assert pickle.dumps(pattern) == fresh
    for copied in (pickle.loads(fresh), copy.copy(pattern), copy.deepcopy(pattern)):
        assert copied == pattern
        assert hash(copied) == hash(pattern)
        assert list(islice(vars(copied), 2)) == ["regex", "name"]
        assert copied.automaton is not None
