"""Texts that tempt tokenizers, and small tokenizers trained by another library."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers

from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer

SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>", "<fim middle>")

# Pieces that join into texts; nothing newer than Unicode 15, on which the peers' tables agree.
PIECES = (
    *"aAbzZ019 \n\t\r.,'-_!\"#([{<|>}",
    *("  ", "   ", "\n\n", "\r\n", " \n", "\t\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x1c"),
    *("'s", "'T", "'ll", "'LL", "'re", "'d", "’s", "'ſ", "n't", " '", "''"),
    *("the", " the", "ing", " of", "tion", "low", "newest", "widest", " über", "naïve", "ſ", "İ"),
    *("12", "345", "6789", "٣٤", "²", "Ⅷ", "①", "१२"),
    *("e\u0301", "\u0301", "\u200d", "\ufe0f", "\ufeff", "\x00", "\x7f", "\u0378"),
    *(
        "привет",
        " мир",
        "Ёж",
        "中文",
        "漢字",
        "かな",
        "カナ",
        "한국",
        "नमस्ते",
        "สวัสดี",
        "سلام",
        "שלום",
    ),
    *("👍🏽", "👩\u200d👧", "🇺🇳", "𝒳", "🀄"),
    *("http://", "x_1", "->", "==", "//", "...", "<|", "|>", "<|a", "endoftext"),
    *SPECIALS,
)


def random_text(random_: random.Random, pieces: int) -> str:
    return "".join(random_.choices(PIECES, k=pieces))


@pytest.fixture(scope="session")
def fuzz_texts() -> list[str]:
    """20,000 short texts, the same in every run."""
    random_ = random.Random(20_000)
    return [random_text(random_, random_.randint(0, 12)) for _ in range(20_000)]


@pytest.fixture(scope="session")
def mixed_text() -> str:
    """One text of about half a megabyte in many scripts."""
    random_ = random.Random(1_000)
    return random_text(random_, 120_000)


MakeTokenizer = Callable[..., Tokenizer]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> MakeTokenizer:
    """``trained(pattern, special_ids="first")``: a tokenizer of about 1,500 tokens."""
    made: dict[tuple[str, str], Tokenizer] = {}

    def trained_by_huggingface(pattern: str, special_ids: str = "first") -> Tokenizer:
        if (pattern, special_ids) not in made:
            path = tmp_path_factory.mktemp("trained") / "tokenizer.json"
            made[pattern, special_ids] = _train(SplitPattern.parse(pattern), special_ids, path)
        return made[pattern, special_ids]

    return trained_by_huggingface


@pytest.fixture(scope="session")
def tokenizer(trained: MakeTokenizer) -> Tokenizer:
    """GPT-2's pattern, with `SPECIALS` as the first ids; for tests to which words do not matter."""
    return trained("gpt2")


@pytest.fixture(scope="session")
def words(english_and_code: str) -> WordCounts:
    """Of 100,000 characters of `english_and_code`, by GPT-2's pattern."""
    counts = Counter(word.encode() for word in pre_tokens(english_and_code[:100_000], "gpt2"))
    return WordCounts.from_mapping(counts)


def _train(pattern: SplitPattern, special_ids: str, path: Path) -> Tokenizer:
    pre_tokenizers = tokenizers.pre_tokenizers
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(pattern.regex_for_export), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1_500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    random_ = random.Random(7)
    texts = [random_text(random_, 40) for _ in range(3_000)]
    for special in SPECIALS:
        texts = [text.replace(special, " ") for text in texts]
    model.train_from_iterator(texts, trainer)
    model.save(str(path))
    saved = json.loads(path.read_text())["model"]
    plain = Tokenizer.load(path)
    assert plain.vocab_size == len(saved["vocab"]) > 700
    shift = len(SPECIALS) if special_ids == "first" else 0
    vocab = {id_ + shift: token for id_, token in plain.vocab.items()}
    base = 0 if special_ids == "first" else len(vocab)
    specials = {token: base + i for i, token in enumerate(SPECIALS)}
    vocab |= {id_: token.encode() for token, id_ in specials.items()}
    return Tokenizer(vocab, plain.merges, specials, pattern)


@pytest.fixture
def small() -> Tokenizer:
    """Two merges and a special token that is not ASCII, behind a gap in the ids."""
    vocab = {byte: bytes([byte]) for byte in range(256)}
    vocab |= {256: b"ab", 257: b"abc", 300: "<|fin é|>".encode()}
    return Tokenizer(vocab, [(b"a", b"b"), (b"ab", b"c")], ["<|fin é|>"])


@pytest.fixture
def directory(small: Tokenizer, tmp_path: Path) -> Path:
    """Where that one is saved in our own format."""
    small.save(tmp_path / "kept")
    return tmp_path / "kept"
