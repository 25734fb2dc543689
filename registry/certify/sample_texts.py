"""Texts for comparing exports: corpus words, difficult texts, every token.

They depend on the tokenizer only. Unassigned characters are left out: each engine has its own
Unicode tables.
"""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice

from bpeline.tokenizer_core.formats import GOLDEN_TEXTS
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_TOKENS = 2_000  # each as a text of its own
MIXED = 1_000  # texts of a few tokens and difficult pieces
MOST_CHARACTERS = 10_000  # per text

# Engines were seen to differ on white space, contractions, case, marks, digits and joiners.
_PIECES = (
    *("  ", "   ", "\n", "\r\n", "\n\n", " \n", "\t", "\u00a0", "\u3000", "\u2028", "\x85", "\x0b"),
    *("\x1c", "\u200b", "\u1680", "\u180e", "'s", "'S", "'ll", "'LL", "'Re", "’s", "''", " '"),
    *("a", "A", "aB", "Ab", "é", "e\u0301", "\u0301", "ß", "ſ", "İ", "K", "ǅ", "ʰ", "ª", "中文"),
    *("漢", "かな", "カ", "ー", "한국", "ا", "ש", "ไทย", "नि", "𝒳", "👍🏽", "👩\u200d👧", "🇺🇳"),
    *("1", "12", "345", "6789", "²", "½", "٣", "Ⅷ", "१", ".", ",", "!", "?", "...", "->", "=="),
    *("(", ")", "/", "//", "_", "-", "#", "<", "<|", "|>", "\u200d", "\ufe0f", "\x00", "\x7f"),
)


def certificate_texts(tokenizer: Tokenizer, texts: Iterable[str] = ()) -> list[str]:
    """Return the texts to compare on; ``texts`` are added to them."""
    candidates = [*GOLDEN_TEXTS, *(text[:MOST_CHARACTERS] for text in texts), *_tempting(tokenizer)]
    return [text for text in dict.fromkeys(candidates) if _is_known_everywhere(text)]


def _tempting(tokenizer: Tokenizer) -> Iterator[str]:
    specials = list(tokenizer.special_tokens)
    for special in specials[:20]:
        yield from (special, f"a{special}b", f" {special} {special}\n", special[:-1], special * 2)
    random_ = random.Random(tokenizer.digest)
    ids = sorted(tokenizer.vocab)
    if len(ids) > MOST_TOKENS:
        ids = sorted(random_.sample(ids, MOST_TOKENS))
    tokens = list(_texts_of(tokenizer, ids))
    yield from tokens
    pool = [*_PIECES, *specials[:5]]
    for _ in range(MIXED):
        pieces = random_.choices(pool, k=4) + random_.choices(tokens or ["a"], k=3)
        random_.shuffle(pieces)
        yield "".join(islice(pieces, random_.randint(2, 7)))


def _texts_of(tokenizer: Tokenizer, ids: Iterable[int]) -> Iterator[str]:
    end = getattr(tokenizer.algorithm, "end_of_word", "")
    for id_ in ids:
        try:
            yield tokenizer.vocab[id_].decode().removesuffix(end)
        except UnicodeDecodeError:  # part of a character
            continue


def _is_known_everywhere(text: str) -> bool:
    return all(unicodedata.category(character) not in ("Cn", "Cs") for character in text)
