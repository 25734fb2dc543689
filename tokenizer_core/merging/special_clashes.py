"""Whether special tokens can live beside the tokens that training makes; learns nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import InvalidSpecialToken


def refuse_special_tokens_in_words(special_tokens: Sequence[str], counts: WordCounts) -> None:
    """Refuse special tokens that occur inside words: training could learn them as merges.

    Words counted with the same special tokens never hold one.

    Raises:
        InvalidSpecialToken: one occurs.
    """
    for token, word in zip(special_tokens, words_with(special_tokens, counts), strict=True):
        if word is not None:
            shown = word[:40].decode("utf-8", "replace")
            raise InvalidSpecialToken(
                f"the special token {token!r} occurs in the words, for instance in {shown!r}, so "
                "it could become an ordinary token",
                "words that were counted with the same special tokens, which never hold one",
                f"count the words with special_tokens=[{token!r}], or choose another",
            )


def words_with(texts: Sequence[str], counts: WordCounts) -> Iterator[bytes | None]:
    """For each text the first word that holds it; None if none does."""
    content = counts.word_bytes.tobytes() if texts else b""
    for sought in map(str.encode, texts):
        found, at = None, content.find(sought)
        while at >= 0 and found is None:
            row = int(np.searchsorted(counts.offsets, at, side="right")) - 1
            begin, end = counts.offsets[row : row + 2].tolist()
            found = content[begin:end] if at + len(sought) <= end else None
            at = content.find(sought, at + 1)
        yield found


def refuse_clashes(special_tokens: Sequence[str], tokens: Iterable[bytes]) -> None:
    """Refuse special tokens that are ordinary tokens: bytes, required tokens, results of merges.

    Raises:
        InvalidSpecialToken: one is.
    """
    special = {token.encode() for token in special_tokens}
    clashing = special.intersection(tokens) if special else special
    for token in special_tokens:
        if token.encode() in clashing:
            raise InvalidSpecialToken(
                f"the special token {token!r} is also an ordinary token",
                "a special token is longer than a byte, no required token or part of one, and "
                "does not occur inside words",
                f"count the words with special_tokens=[{token!r}], or choose another",
            )
