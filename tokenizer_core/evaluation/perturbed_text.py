"""Documents as characters, edits of them, and where their places went; knows no kind of edit.

A character is a code point here. Random choices are made by hash, so that they are the same on
every machine and whatever else is in the batch: SHA-256 of seed, kind and document gives a key,
SplitMix64 of the key and the position in the document gives 64 bits for that position.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Places = NDArray[np.int64]

_COUNTER_STEP = 0x9E3779B97F4A7C15  # SplitMix64 (Steele, Lea & Flood 2014), and its two factors
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BETWEEN = b"\0"  # stands after every document, so that nothing reaches over its end


def ranges(begins: Places, lengths: Places) -> Places:
    """``begin, begin + 1, …`` of each range, one after another."""
    ends = np.cumsum(lengths)
    return np.repeat(begins - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


class CharacterText:
    """Documents joined, a NUL after each, by bytes and by characters.

    Args:
        documents: UTF-8, at least one.

    Attributes:
        data: uint8: the bytes.
        ends: int64 ``[documents]``: the byte where each document ends and its NUL stands.
        points: uint32 ``[n]``: code points.
        begins: int64 ``[n + 1]``: the byte where each character begins; the last is the end.
        characters: the distinct ones, by code point.
        numbers: int64 ``[n]``: which of them each character is.
    """

    def __init__(self, documents: Sequence[bytes]) -> None:
        joined = b"".join(document + _BETWEEN for document in documents)
        self.data: NDArray[np.uint8] = np.frombuffer(joined, np.uint8)
        sizes = np.fromiter(map(len, documents), np.int64, len(documents)) + 1
        self.ends: Places = np.cumsum(sizes) - 1
        self.points = np.frombuffer(joined.decode().encode("utf-32-le"), "<u4")
        leads = np.flatnonzero((self.data & 0xC0) != 0x80)
        self.begins: Places = np.append(leads, self.data.size)
        self._digests = [hashlib.sha256(document).digest() for document in documents]
        lasts = np.searchsorted(self.begins, self.ends)
        self._lengths = np.diff(lasts, prepend=-1)
        firsts = np.repeat(lasts - self._lengths + 1, self._lengths)
        positions = np.arange(1, len(self.points) + 1, dtype=np.uint64) - firsts.astype(np.uint64)
        self._counters = positions * np.uint64(_COUNTER_STEP)
        self.opens: Mask = np.zeros(len(self.points), np.bool_)
        self.opens[lasts - self._lengths + 1] = True
        highest = int(self.points.max())
        seen = np.zeros(highest + 1, np.bool_)
        seen[self.points] = True
        distinct = np.flatnonzero(seen)
        number_of = np.zeros(highest + 1, np.int64)
        number_of[distinct] = np.arange(len(distinct))
        self.characters = list(map(chr, distinct.tolist()))
        self.numbers: Places = number_of[self.points]

    @property
    def documents(self) -> int:
        """How many."""
        return len(self.ends)

    def where(self, test: Callable[[str], bool]) -> Mask:
        """bool ``[n]``: which characters pass a test."""
        passed: Mask = np.array([test(one) for one in self.characters], np.bool_)
        return passed[self.numbers]

    @cached_property
    def letters(self) -> Mask:
        """Letters of all scripts (``str.isalpha``: categories L*)."""
        return self.where(str.isalpha)

    @cached_property
    def words(self) -> tuple[Places, Places]:
        """First and last characters of words, inclusive: a letter, then letters and marks."""
        is_mark = self.where(_is_mark)
        here = np.arange(len(self.points))
        stopped = np.maximum.accumulate(np.where(self.letters | is_mark, -1, here))
        begun = np.maximum.accumulate(np.where(self.letters, here, -1))
        inside = (self.letters | is_mark) & (begun > stopped)
        return (
            np.flatnonzero(inside & ~previous(inside)),
            np.flatnonzero(inside & ~following(inside)),
        )

    def draws(self, seed: int, kind: str) -> NDArray[np.uint64]:
        """uint64 ``[n]``: 64 random bits for each character, by seed, kind and document."""
        salt = f"{seed}\0{kind}\0".encode()
        hashed = (hashlib.sha256(salt + digest).digest()[:8] for digest in self._digests)
        keys = np.array([int.from_bytes(one, "big") for one in hashed], np.uint64)
        mixed: NDArray[np.uint64] = np.repeat(keys, self._lengths) + self._counters
        for shift, factor in zip((30, 27), _FACTORS, strict=True):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= factor
        mixed ^= mixed >> np.uint64(31)
        return mixed


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def previous(mask: Mask) -> Mask:
    """Whether a mask holds of the character before."""
    return np.concatenate((np.zeros(1, np.bool_), mask[:-1]))


def following(mask: Mask) -> Mask:
    """Whether a mask holds of the character after."""
    return np.concatenate((mask[1:], np.zeros(1, np.bool_)))


@dataclass(frozen=True, slots=True, eq=False)
class Edits:
    """What stands instead of ranges of bytes; an empty range is a place where something is put in.

    Attributes:
        begins, ends: int64 ``[k]``: half-open ranges of whole characters, ascending and disjoint;
            no two begin at one place.
        chosen: int64 ``[k]``: which piece stands there.
        pieces: UTF-8.
    """

    begins: Places
    ends: Places
    chosen: Places
    pieces: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.begins)


class EditedText:
    """A text after edits, and where each place of it went.

    Args:
        text: before.
        edits: of it; none touches a NUL between documents.

    Attributes:
        data: uint8: the bytes, a NUL after each document.
        ends: int64 ``[documents]``: where each document ends.
        found: bool, by byte of the text before: whether that place is still to be found, and not
            inside of what was replaced.
        images: int64, by byte of the text before: where it went; where something was put in, the
            place before that.
    """

    def __init__(self, text: CharacterText, edits: Edits) -> None:
        size = text.data.size
        pieces = np.fromiter(map(len, edits.pieces), np.int64, len(edits.pieces))
        offsets = np.cumsum(pieces) - pieces
        lengths, widths = pieces[edits.chosen], edits.ends - edits.begins
        grown = lengths - widths
        placed = edits.begins + np.cumsum(grown) - grown
        kept = np.ones(size, np.bool_)
        kept[ranges(edits.begins, widths)] = False
        self.data: NDArray[np.uint8] = np.empty(size + int(grown.sum()), np.uint8)
        old = np.ones(self.data.size, np.bool_)
        new = ranges(placed, lengths)
        old[new] = False
        self.data[old] = text.data[kept]
        written = np.frombuffer(b"".join(edits.pieces), np.uint8)
        self.data[new] = written[ranges(offsets[edits.chosen], lengths)]
        self.found: Mask = np.ones(size, np.bool_)
        self.found[ranges(edits.begins + 1, np.maximum(widths - 1, 0))] = False
        steps = np.ones(size + 1, np.int64)
        steps[0] = 0
        steps[edits.begins + 1] += grown
        self.images: Places = np.cumsum(steps[:size])
        puts = widths == 0
        self._puts, self._added = edits.begins[puts], lengths[puts]
        self.ends: Places = self.images[text.ends]
        put_at_ends = np.isin(text.ends, self._puts)
        self.ends[put_at_ends] += self._added[np.searchsorted(self._puts, text.ends[put_at_ends])]

    def at_images(self, marked: Mask) -> Mask:
        """bool ``[bytes of the text before]``: whether a place went to one that is marked.

        Where something was put in, a mark at any place of that will do.

        Args:
            marked: by byte of the text after the edits.
        """
        there = marked[self.images]
        if len(self._puts):
            before = np.zeros(len(marked) + 1, np.int32)
            np.cumsum(marked, out=before[1:])
            first = self.images[self._puts]
            there[self._puts] = before[first + self._added + 1] > before[first]
        return there
