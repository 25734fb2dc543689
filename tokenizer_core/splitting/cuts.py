"""Legal cuts: positions where a text can be divided without changing a word.

Counting both sides of a legal cut gives the same words as counting the whole. Cuts are at special
tokens, at pairs of characters that the split pattern always separates (`split_automaton`), at
sentence ends (`SentenceBreaks`), or after line feeds or end marks of documents. No special token
may straddle a cut. A few bytes around a position decide.
"""

from __future__ import annotations

import codecs
import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bpeline.tokenizer_core.splitting.segmenters import SentenceBreaks
from bpeline.tokenizer_core.splitting.split_automaton import CutPairs
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

_CONTINUATIONS = bytes(range(0x80, 0xC0))
_FEW = 8  # up to so many special tokens are searched for one by one


# A single U+0020 between two characters that cannot be white space, which in UTF-8 begins with
# C2, E1, E2 or E3. The regex begins with the space: `re` finds literals 40 times as fast.
LONE_SPACE = re.compile(
    rb" (?:(?<=[!-~] )|(?<=[\xc3-\xdf][\x80-\xbf] )|(?<=[\xe0\xe4-\xef][\x80-\xbf]{2} ))"
    rb"(?=[!-~\xc3-\xe0\xe4-\xf4])"
)
_ASCII_SPACE = re.compile(rb" (?<=[!-~] )(?=[!-~])")


@dataclass(frozen=True, slots=True)
class LoneSpaces:
    """Cuts before a lone space, for patterns with `SplitPattern.cuts_at_spaces`. Fast."""

    def first(self, content: bytes, begin: int, end: int) -> int:
        match = LONE_SPACE.search(content, begin, end + CutPairs.LOOK)
        return match.start() if match is not None and match.start() < end else -1


@dataclass(frozen=True, slots=True)
class SpacesAndPairs:
    """Cuts before a lone space or as by `CutPairs`, whichever comes first.

    Pairs do not include every lone space: a pattern may have none, and a space may follow invalid
    UTF-8. For patterns with `SplitPattern.cuts_at_spaces`.
    """

    pattern: SplitPattern

    def first(self, content: bytes, begin: int, end: int) -> int:
        pairs = self.pattern.cut_pairs
        # Pairs first: the search for lone spaces is slow at other spaces.
        parted = -1 if pairs is None else pairs.first(content, begin, end)
        space = LoneSpaces().first(content, begin, end if parted < 0 else parted)
        return parted if space < 0 else space


@dataclass(frozen=True, slots=True)
class SpacesFirst:
    """Cuts before a lone space; where none is near, as by `CutPairs`.

    For a single sequential reader: the result depends on the window, so a later search may return
    an earlier cut. For patterns with `SplitPattern.cuts_at_spaces`.

    Attributes:
        far: shorter windows, such as those before a special token, are not searched for pairs.
    """

    pattern: SplitPattern
    far: int = 1 << 17

    def first(self, content: bytes, begin: int, end: int) -> int:
        """A legal cut in [begin, end), or -1; ``content`` as for `CutPairs.first`."""
        space = LoneSpaces().first(content, begin, end)
        if space >= 0 or end - begin < self.far:
            return space
        pairs = self.pattern.cut_pairs
        return -1 if pairs is None else pairs.first(content, begin, end)


@dataclass(frozen=True, slots=True)
class FormedPairs:
    """Cuts for text that is normalized to a Unicode form before it is split.

    A cut is after a character that the form keeps and before an ASCII character, which no form
    composes with the one before. So both sides can be normalized separately.
    """

    pairs: CutPairs
    form: Literal["NFC", "NFD", "NFKC", "NFKD"]

    def first(self, content: bytes, begin: int, end: int) -> int:
        while begin < end:
            cut = self.pairs.first(content, begin, end)
            if cut < 0 or self._parts_at(content, cut):
                return cut
            begin = cut + 1
        return -1

    def _parts_at(self, content: bytes, position: int) -> bool:
        if position >= len(content) or content[position] >= 0x80:
            return False
        before = content[max(position - CutPairs.LOOK, 0) : position].decode(errors="ignore")
        formed = unicodedata.normalize(self.form, before)
        return before != "" and formed != "" and formed[-1] == before[-1]


@dataclass(frozen=True, slots=True)
class AsciiSpaces:
    """Cuts at a space between two ASCII words, for text that is normalized first."""

    def first(self, content: bytes, begin: int, end: int) -> int:
        match = _ASCII_SPACE.search(content, begin, end + CutPairs.LOOK)
        return match.start() if match is not None and match.start() < end else -1


AnyPairs: TypeAlias = (
    CutPairs
    | LoneSpaces
    | SpacesAndPairs
    | SpacesFirst
    | FormedPairs
    | SentenceBreaks
    | AsciiSpaces
    | None
)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The rules for one file.

    Attributes:
        behind_each: cut only after this byte, such as a line feed.
        special_tokens: cut at the start of these.
        unbroken: never cut inside these.
        drops_invalid: invalid UTF-8 is dropped, so do not cut near it.
    """

    behind_each: bytes = b""
    pairs: AnyPairs = None
    special_tokens: tuple[bytes, ...] = ()
    unbroken: tuple[bytes, ...] = ()
    drops_invalid: bool = False

    @property
    def possible(self) -> bool:
        return bool(self.behind_each) or self.pairs is not None or bool(self.special_tokens)

    @property
    def behind(self) -> int:
        """Bytes needed before a position to judge it."""
        own = self.pairs.LOOK if isinstance(self.pairs, SentenceBreaks) else CutPairs.LOOK
        character = CutPairs.LOOK * self.drops_invalid  # a window may begin within a character
        return max(own, *map(len, (*self.special_tokens, *self.unbroken)), 1) + character

    @property
    def ahead(self) -> int:
        """Bytes needed from a position on to judge it.

        There is no cut nearer to the end of a file: appended bytes could complete a special token.
        """
        return 0 if self.behind_each else self.behind

    def first(self, content: bytes, begin: int, end: int) -> int:
        """The first legal cut in [begin, end), or -1.

        ``content`` must hold `behind` bytes before ``begin`` (fewer at the start of the file) and
        `ahead` bytes from ``end - 1`` on.
        """
        if self.behind_each:
            found = content.find(self.behind_each, max(begin - 1, 0), end - 1)
            return found + 1 if found >= 0 else -1
        while begin < end:
            candidate = self._first_special(content, begin, end)
            if self.pairs is not None:
                parted = self.pairs.first(content, begin, end if candidate < 0 else candidate)
                candidate = candidate if parted < 0 else parted
            if candidate < 0 or not (
                self._straddled(content, candidate)
                or (self.drops_invalid and self._beside_invalid(content, candidate))
            ):
                return candidate
            begin = candidate + 1
        return -1

    def _first_special(self, content: bytes, begin: int, end: int) -> int:
        if len(self.special_tokens) > _FEW:
            longest = max(map(len, self.special_tokens))
            match = _any_of(self.special_tokens).search(content, begin, end + longest - 1)
            return match.start() if match is not None and match.start() < end else -1
        nearest = -1
        for token in self.special_tokens:
            position = content.find(token, begin, end + len(token) - 1)
            if position >= 0:
                nearest, end = position, position
        return nearest

    def _beside_invalid(self, content: bytes, position: int) -> bool:
        window = content[max(position - self.behind, 0) : position + self.behind]
        try:
            codecs.getincrementaldecoder("utf-8")().decode(window.lstrip(_CONTINUATIONS))
        except UnicodeDecodeError:
            return True
        return False

    def _straddled(self, content: bytes, position: int) -> bool:
        """Whether a token begins before ``position`` and ends after it."""
        return any(
            content.find(token, max(position - len(token) + 1, 0), position + len(token) - 1) >= 0
            for token in (*self.special_tokens, *self.unbroken)
        )


@functools.lru_cache(maxsize=8)
def _any_of(tokens: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """One regex for many tokens, such as the reserved ones of published tokenizers."""
    return re.compile(b"|".join(map(re.escape, tokens)))
