"""Small models that `sentencepiece` trains, and texts that tempt them."""

from __future__ import annotations

import io
import random
from functools import cache
from typing import Any

import pytest

sentencepiece = pytest.importorskip("sentencepiece")

SENTENCES = [
    "the cat sat on the mat, and the dog sat there too; the end of the story.",
    "for (int i = 0; i < 10; ++i) { return  a[i] == b[i]; }",
    "naïve café, déjà vu – œuvre façade über Straße ½ ﬁne",
    "привет мир и привет всем людям мира",
    "今天天气很好 今天很热 天气 東京都に住んでいます",
    "a\u0301 e\u0308 한국어 각 カﾞ ①②",
    "नमस्ते दुनिया سلام دنیا שלום",
]
STRANGE = [
    *("", " ", "  ", "   a", " a  b ", "▁", "▁▁a▁", "\0", "a\0b", "\n\n", "\t x", "☃☃☃", "😀a😀"),
    *("a" * 300, " " * 33 + "x", "▁" * 40, "<s>", "</s>x", "<unk>", "<unk>☃", "☃<unk>x", "<0x0A>"),
    *("\r\n", "ﬁ ²", "\xa0", "e\u0301", "Å´ ´", "\u3000x\u3000", "\ufeffx", "\u200bx\u200b"),
    *("\u1112\u1161\u11ab", "<sep>ab<c>  <sep>▁▁▁  é e\u0301 xaab", "a▁b▁▁c", "``x''", "THE Cat"),
    *("\xad", "\x01", "\x01 ", " \x01", "ab\x01 \x01cd"),
]
MODELS: dict[str, dict[str, Any]] = {
    "as trained by default": {},
    "bytes": {"byte_fallback": True, "normalization_rule_name": "identity"},
    "case folded": {"normalization_rule_name": "nmt_nfkc_cf"},
    "spaces kept": {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
    "Llama's": {
        "byte_fallback": True, "remove_extra_whitespaces": False, "split_digits": True,
        "normalization_rule_name": "identity", "allow_whitespace_only_pieces": True,
    },
    "spaces as suffixes": {"treat_whitespace_as_suffix": True},
    "user-defined": {
        "user_defined_symbols": ["<sep>", "ab", "▁▁", "é", "e\u0301", "\n"],
        "control_symbols": ["<c>"], "byte_fallback": True,
    },
}  # fmt: skip


@cache
def trained_model(name: str, **asked: Any) -> bytes:
    """A model of one of `MODELS`, trained as is asked for."""
    made = io.BytesIO()
    sizes = {"vocab_size": 540 if MODELS[name].get("byte_fallback") else 280}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 3), model_writer=made, character_coverage=0.98,
        minloglevel=2, **sizes, **MODELS[name], **asked,
    )  # fmt: skip
    return made.getvalue()


def random_texts(count: int, seed: int, *more: str) -> list[str]:
    """Pieces of the sentences, runs of characters, and some more strings if given."""
    chance = random.Random(seed)
    pool = "".join(SENTENCES) + "☃\0\n▁ \u0301\u3000´😀"
    made = []
    for _ in range(count):
        parts = []
        for _ in range(chance.randrange(1, 15)):
            sentence = chance.choice(SENTENCES)
            begin = chance.randrange(len(sentence))
            part = sentence[begin : begin + chance.randrange(1, 12)]
            run = chance.choice(pool) * chance.randrange(1, 4)
            parts.append(chance.choice((part, run, *more[:1])))
            parts.append(chance.choice(more) if more and chance.random() < 0.2 else "")
        made.append("".join(parts))
    return made
