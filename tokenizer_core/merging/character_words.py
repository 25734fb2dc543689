"""Word counts as rows of characters, the ends or the insides of words marked; learns nothing.

The mark of the end of a word may occur in words, see `words_with_ends`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.merging.merge_engine import SymbolWords

_INSIDE = 1 << 21  # above every character: this one goes on inside a word
_MARK = b"\xff"  # how a mark that is no character of the text is told apart: no UTF-8 holds it


@dataclass(frozen=True, slots=True, eq=False)
class CharacterWords:
    """Words of characters and what their base tokens are.

    Attributes:
        words: what a `MergeEngine` takes.
        tokens: the base tokens as text, by id.
        ends: (character, mark) ids of the characters that end words, where the end is marked.
        allows: whether merges may make a token, given as the bytes of its base tokens; None where
            they may make any.
    """

    words: SymbolWords
    tokens: tuple[str, ...]
    ends: NDArray[np.int64]
    allows: Callable[[bytes], bool] | None = None


def words_with_ends(counts: WordCounts, end_of_word: str, joined: bool = False) -> CharacterWords:
    """Each word as its characters and one symbol for its end.

    Base tokens are numbered by code point, the mark where its first character stands: so they are
    in the order of their text.

    Words may hold the text of the mark. Inside of a word that is ordinary characters. Where the
    mark is a character, and a symbol of its own, it is that character, as in the papers' programs:
    only its place at the end of a word tells it. Otherwise no merge makes a token of
    characters alone that ends in the mark's text, so a token that ends in it ends a word.

    Args:
        joined: whether the mark is to become part of the last characters.

    Raises:
        InvalidOption: an empty mark.
        EmptyCorpus: no words.
    """
    if not end_of_word:
        raise InvalidOption("the mark of the end of a word is empty", "any other text", "'</w>'")
    points, offsets = _characters(counts)
    last = points[offsets[1:] - 1]
    is_character = len(end_of_word) == 1 and not joined
    place = ord(end_of_word[0]) << 1 if is_character else (ord(end_of_word[0]) << 1) | 1
    offsets = offsets + np.arange(len(offsets))
    content = np.empty(offsets[-1], np.int32)
    is_end = np.zeros(len(content), np.bool_)
    is_end[offsets[1:] - 1] = True
    content[is_end] = place
    content[~is_end] = points << 1
    distinct, rows = _numbered(content)
    tokens = tuple(
        end_of_word if number == place else chr(number >> 1) for number in distinct.tolist()
    )
    lasts = np.searchsorted(distinct, _numbered(last << 1)[0])
    mark = np.full(len(lasts), int(np.searchsorted(distinct, place)))
    ends = np.stack((lasts, mark), axis=1).astype(np.int64)
    made = _character_words(counts, rows, offsets, tokens, ends)
    if is_character or counts.words_with([end_of_word])[0] is None:
        return made
    spelled = list(made.words.base_tokens)
    spelled[mark[0]] = _MARK
    told_apart = replace(made.words, base_tokens=tuple(spelled))
    written = end_of_word.encode()
    return replace(made, words=told_apart, allows=lambda token: not token.endswith(written))


def words_that_go_on(counts: WordCounts, continuation: str) -> CharacterWords:
    """Each word as its first character and its others, which carry the mark in front.

    Base tokens are numbered by code point, those without the mark first.

    Raises:
        InvalidOption: an empty mark.
        EmptyCorpus: no words.
    """
    if not continuation:
        raise InvalidOption(
            "the mark of tokens that go on inside a word is empty",
            "any text, which words need not avoid",
            "'##' is BERT's",
        )
    points, offsets = _characters(counts)
    content = points | _INSIDE
    content[offsets[:-1]] = points[offsets[:-1]]
    distinct, rows = _numbered(content)
    tokens = tuple(
        continuation + chr(number ^ _INSIDE) if number & _INSIDE else chr(number)
        for number in distinct.tolist()
    )
    return _character_words(counts, rows, offsets, tokens, np.empty((0, 2), np.int64))


def _numbered(content: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The different values (below 2²²), ascending, and for each place the number of its value."""
    present = np.zeros(2 * _INSIDE, np.bool_)
    present[content] = True
    distinct = np.flatnonzero(present)
    numbers = np.zeros(2 * _INSIDE, np.int32)
    numbers[distinct] = np.arange(len(distinct))
    return distinct, numbers[content]


def _characters(counts: WordCounts) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Code points of all words, and where each word begins in them."""
    if not len(counts):
        raise EmptyCorpus(
            "there are no words to learn from",
            "word counts with a word at least",
            "is the corpus empty, or does min_word_count leave nothing?",
        )
    content = counts.word_bytes.tobytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidOption(
            f"the words are not UTF-8 at byte {error.start} of all of them",
            "words of characters, as the split patterns 'whitespace' and 'wordpunct' cut them",
            "count the corpus again with invalid_utf8='replace'",
        ) from None
    points = np.frombuffer(text.encode("utf-32-le"), np.int32)
    leads = (counts.word_bytes & 0xC0) != 0x80
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(leads, dtype=np.int64)))
    return points, before[counts.offsets]


def _character_words(
    counts: WordCounts,
    rows: NDArray[np.int32],
    offsets: NDArray[np.int64],
    tokens: tuple[str, ...],
    ends: NDArray[np.int64],
) -> CharacterWords:
    ids = np.arange(len(tokens), dtype=np.int32)
    spelled = tuple(token.encode() for token in tokens)
    counted = counts.counts, counts.first_positions
    return CharacterWords(SymbolWords(rows, offsets, *counted, ids, spelled), tokens, ends)
