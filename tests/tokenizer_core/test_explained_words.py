"""Words explained step by step: what is left in the end is what the encoder gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest

from bpeline.tokenizer_core import (
    Tokenizer,
    WordCounts,
    reference,
    train_bpe,
    train_char_bpe,
    train_frequency_bpe,
    train_wordpiece,
)
from bpeline.tokenizer_core.algorithms import WHOLE_TEXT, SentencePieceBpe, greedy_longest
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.plugins import PLUGINS
from bpeline.tokenizer_core.word_encoding import explain_words

WORDS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, "мама".encode(): 4}
COUNTS = WordCounts.from_mapping(WORDS, "whitespace")
MAKING: dict[str, Callable[[], Tokenizer]] = {
    "char-bpe": lambda: train_char_bpe(COUNTS, 9),
    "joined": lambda: train_char_bpe(COUNTS, 9, joined=True),
    "frequency-bpe": lambda: train_frequency_bpe(COUNTS, 9, word_sentences="text"),
    "wordpiece": lambda: train_wordpiece(COUNTS, 40),
    "greedy": lambda: greedy_longest(train_char_bpe(COUNTS, 9), COUNTS, "</u>"),
}


@cache
def tokenizer_of(name: str) -> Tokenizer:
    """Made when it is asked for: it takes NLTK, which takes a second to import."""
    return MAKING[name]()


@pytest.mark.parametrize("name", MAKING)
def test_the_last_step_is_what_the_encoder_gives(name: str, seed: int) -> None:
    tokenizer, random = tokenizer_of(name), Random(seed)
    words = ["".join(random.choices("lowernstdiма", k=random.randint(1, 9))) for _ in range(900)]
    explained = explain_words(tokenizer, " ".join(words))
    assert [one.word for one in explained] == words
    known = {token.decode() for token in tokenizer.vocab.values()}
    compared = 0
    for one in explained:
        (ids,) = [tokenizer.encoder.encode_words([one.word.encode()])[0].tolist()]
        assert list(one.ids) == ids
        if one.steps and known.issuperset(one.steps[-1].symbols):
            assert one.steps[-1].symbols == one.tokens
            compared += 1
    assert compared >= 3


def test_each_decision_says_why() -> None:
    (word,) = explain_words(tokenizer_of("char-bpe"), "lowest")
    assert [step.takes for step in word.steps[:2]] == [("e", "s"), ("es", "t")]
    assert word.steps[0].why == "rank 0"
    assert word.steps[0].symbols == ("l", "o", "w", "es", "t", "</w>")
    (piece,) = explain_words(tokenizer_of("wordpiece"), "lowest")
    assert "character 0" in piece.steps[0].why
    assert "frequency" in explain_words(tokenizer_of("frequency-bpe"), "lowest")[0].steps[0].why
    (unknown,) = explain_words(tokenizer_of("wordpiece"), "lowx")
    assert "unknown" in unknown.steps[-1].why
    assert explain_words(tokenizer_of("char-bpe"), "x")[0].steps == ()


def test_bytes_are_explained_elsewhere() -> None:
    with pytest.raises(InvalidOption, match="byte-bpe"):
        explain_words(train_bpe(WordCounts.from_mapping(WORDS, "gpt2"), 260), "low")


def characters_bpe(
    random: Random, *, by_bytes: bool, **properties: object
) -> tuple[Tokenizer, list[str]]:
    """BPE over characters of random merges, and its alphabet."""
    letters = [*"abcd▁é"]
    tokens, merges = list(letters), []
    for _ in range(25):
        left, right = random.choices(tokens, k=2)
        if len(left + right) < 6 and (left, right) not in merges:
            merges.append((left, right))
            tokens.append(left + right)
    tokens = list(dict.fromkeys(["<unk>", *tokens, "d▁d"]))
    tokens += [f"<0x{byte:02X}>" for byte in range(256)] if by_bytes else []
    algorithm = SentencePieceBpe(by_bytes, **properties)  # type: ignore[arg-type]
    tokenizer = Tokenizer(
        {id_: token.encode() for id_, token in enumerate(tokens)},
        [(left.encode(), right.encode()) for left, right in merges],
        algorithm=algorithm,
        pattern=WHOLE_TEXT,
    )
    return tokenizer, letters


@pytest.mark.parametrize("by_bytes", [True, False])
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"fuse_unknown": False},
        {"unknown": None},
        {"by_piece": True},
        {"by_piece": True, "ties": (2, 5, 6)},
        {"user_defined": ("d▁d", "<unk>")},
    ],
)
def test_merges_over_characters_end_with_what_the_encoder_gives(
    properties: dict[str, object], by_bytes: bool, seed: int
) -> None:
    random = Random(seed)
    strange = 0
    for _ in range(12):
        tokenizer, letters = characters_bpe(random, by_bytes=by_bytes, **properties)
        for _ in range(20):
            text = "".join(random.choices([*letters, "☃", "d▁d"], k=random.randint(1, 14)))
            (word,) = explain_words(tokenizer, text)
            assert list(word.ids) == tokenizer.encode(text)
            last = word.steps[-1].symbols if word.steps else tuple(text)
            assert last == word.tokens
            strange += "☃" in text
    assert strange


def test_an_imported_text_is_explained_as_it_is_prepared(tmp_path: Path) -> None:
    described = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": 0, "content": "<s>", "special": True, "normalized": False, "lstrip": False,
             "rstrip": False, "single_word": False}
        ],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {"<s>": 0, "<unk>": 1, "▁": 2, "a": 3, "b": 4, "▁a": 5, "▁ab": 6},
                  "merges": [["▁", "a"], ["▁a", "b"]]},
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    text = "ab a<s>b?"
    words = explain_words(tokenizer, text)
    assert [id_ for word in words for id_ in word.ids] == tokenizer.encode(text)
    assert [word.word for word in words] == ["▁ab▁a", "<s>", "▁b?"]
    assert words[0].steps[0].takes == ("▁", "a")
    assert "added" in words[1].steps[0].why


def test_a_library_of_somebody_else_says_what_comes_out_not_how(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.Unigram([("a", -1.0), ("ab", -1.5), ("b", -2.0)]))
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json")
    (text,) = explain_words(tokenizer, "abba")
    assert text.steps[-1].symbols == text.tokens == ("ab", "b", "a")
    assert text.steps[0].why
    assert explain_words(tokenizer, "") == []


def test_every_companion_explains_itself() -> None:
    for name, plugin in PLUGINS.items():
        assert callable(plugin.home.explained), name


# Merges in the order in which they fired


BYTES = {byte: bytes([byte]) for byte in range(256)}


def test_the_order_of_merges_is_told() -> None:
    merges = [(b"a", b"b"), (b"c", b"ab"), (b"ab", b"ab")]
    vocab = BYTES | {256 + i: left + right for i, (left, right) in enumerate(merges)}
    (word, space) = Tokenizer(vocab, merges).explain("cababab ")
    fired = [(merge.rank, merge.left, merge.right, merge.begin) for merge in word.merges]
    ab = (0, b"a", b"b")
    assert fired == [(*ab, 1), (*ab, 3), (*ab, 5), (1, b"c", b"ab", 0), (2, b"ab", b"ab", 3)]
    assert word.tokens == (b"cab", b"abab")
    assert word.ids == (257, 258)
    assert (space.word, space.begin, space.merges) == (b" ", 7, ())


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k"])
def test_explained_ids_are_those_of_encode(
    trained: Callable[..., Tokenizer], pattern: str, fuzz_texts: list[str]
) -> None:
    tokenizer = trained(pattern)
    ranks = {merge: rank for rank, merge in enumerate(tokenizer.merges)}
    for text in fuzz_texts[:2_000]:
        told = tokenizer.explain(text)
        assert [id_ for word in told for id_ in word.ids] == tokenizer.encode(text)
        assert b"".join(word.word for word in told) == text.encode()
        for word in told:
            symbols = list(reference.merge_word(word.word, ranks))
            assert list(word.tokens) == symbols, f"REPRO: {word.word!r}"
            assert len(word.merges) == len(word.word) - len(symbols)
            assert text.encode()[word.begin :].startswith(word.word)


@pytest.mark.night
def test_a_long_word_is_explained_in_good_time(trained: Callable[..., Tokenizer]) -> None:
    (word,) = trained("gpt2").explain("the" * 20_000)
    assert len(word.merges) + len(word.ids) == 60_000
