"""Where text may be cut without changing a single word.

A cut is *legal* when counting both sides apart gives the same words as counting them together:

- at the start of a special token, which is a boundary anyway;
- between two characters of which the split pattern is known to part every occurrence (see
  `split_automaton`): for GPT-2's a letter and a comma, for cl100k's a line feed and a letter …;
- at the end of a sentence, where a pattern cuts sentences one by one (`SentenceBreaks`);
- behind a line feed, in files of JSON lines;
- behind the mark that ends a document, in files of records such as Parquet.

No special token may straddle a cut, not even one that the search would not choose. So a cut is
legal or not by a few bytes around it, wherever reading began.
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
_FEW = 8  # special tokens that are looked for one after the other


# A single U+0020 between two characters that are surely no white space: in UTF-8 that begins
# with C2, E1, E2 or E3, or is a control character. The space stands first because `re` runs to a
# literal at memory speed, and to anything else 40 times as slowly.
LONE_SPACE = re.compile(
    rb" (?:(?<=[!-~] )|(?<=[\xc3-\xdf][\x80-\xbf] )|(?<=[\xe0\xe4-\xef][\x80-\xbf]{2} ))"
    rb"(?=[!-~\xc3-\xe0\xe4-\xf4])"
)
_ASCII_SPACE = re.compile(rb" (?<=[!-~] )(?=[!-~])")


@dataclass(frozen=True, slots=True)
class LoneSpaces:
    """Where text may be cut, and found at memory speed: before a lone space, nowhere else.

    Of a pattern that cuts at spaces: see `SplitPattern.cuts_at_spaces`.
    """

    def first(self, content: bytes, begin: int, end: int) -> int:
        """A legal cut at a position in [begin, end), or -1; ``content`` as for `CutPairs`."""
        found = LONE_SPACE.search(content, begin, end + CutPairs.LOOK)
        return found.start() if found is not None and found.start() < end else -1


@dataclass(frozen=True, slots=True)
class SpacesAndPairs:
    """Where text may be cut: before a lone space and as `CutPairs` says, whichever comes first.

    Pairs alone do not hold every lone space: nothing may be known of a pattern but that it cuts at
    spaces, and a space may stand behind bytes that are no character.

    Attributes:
        pattern: one that cuts at spaces: see `SplitPattern.cuts_at_spaces`.
    """

    pattern: SplitPattern

    def first(self, content: bytes, begin: int, end: int) -> int:
        """The first legal cut at a position in [begin, end), or -1; ``content`` as for `CutPairs`.

        Pairs are looked for first, and spaces only up to there: the search passes those that are
        not lone slowly.
        """
        pairs = self.pattern.cut_pairs
        parted = -1 if pairs is None else pairs.first(content, begin, end)
        space = LoneSpaces().first(content, begin, end if parted < 0 else parted)
        return parted if space < 0 else space


@dataclass(frozen=True, slots=True)
class SpacesFirst:
    """Where text may be cut: before a lone space; where none is near, as `CutPairs` says.

    For one reader that goes through a file from its beginning. Where a cut is found depends on how
    far was looked at a time, so that of a later position can be an earlier one.

    Attributes:
        pattern: one that cuts at spaces: see `SplitPattern.cuts_at_spaces`.
        far: bytes without a lone space that are worth an automaton. In a shorter stretch, such as
            that before a special token, nothing else is looked for: a cut is near anyway.
    """

    pattern: SplitPattern
    far: int = 1 << 17

    def first(self, content: bytes, begin: int, end: int) -> int:
        """A legal cut at a position in [begin, end), or -1; ``content`` as for `CutPairs`."""
        found = LoneSpaces().first(content, begin, end)
        if found >= 0 or end - begin < self.far:
            return found
        pairs = self.pattern.cut_pairs
        return -1 if pairs is None else pairs.first(content, begin, end)


@dataclass(frozen=True, slots=True)
class FormedPairs:
    """Where text may be cut that is brought to a Unicode form before it is split.

    Behind a character that the form leaves as it is, and before one of ASCII, which no form joins
    to what stands before it: so both sides can be brought to the form apart, and the pair of
    characters is the one that the pattern sees.

    Attributes:
        pairs: of the split pattern.
        form: ``NFC``, ``NFD``, ``NFKC`` or ``NFKD``.
    """

    pairs: CutPairs
    form: Literal["NFC", "NFD", "NFKC", "NFKD"]

    def first(self, content: bytes, begin: int, end: int) -> int:
        """A legal cut at a position in [begin, end), or -1; ``content`` as for `CutPairs`."""
        while begin < end:
            found = self.pairs.first(content, begin, end)
            if found < 0 or self._parts_at(content, found):
                return found
            begin = found + 1
        return -1

    def _parts_at(self, content: bytes, position: int) -> bool:
        if position >= len(content) or content[position] >= 0x80:
            return False
        before = content[max(position - CutPairs.LOOK, 0) : position].decode(errors="ignore")
        formed = unicodedata.normalize(self.form, before)
        return before != "" and formed != "" and formed[-1] == before[-1]


@dataclass(frozen=True, slots=True)
class AsciiSpaces:
    """Where text may be cut that is normalized before it is split: between two ASCII words."""

    def first(self, content: bytes, begin: int, end: int) -> int:
        """A legal cut at a position in [begin, end), or -1; ``content`` as for `CutPairs`."""
        found = _ASCII_SPACE.search(content, begin, end + CutPairs.LOOK)
        return found.start() if found is not None and found.start() < end else -1


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
    """The rules in force for one file.

    Attributes:
        behind_each: behind each of this byte, such as a line feed, and nowhere else.
        pairs: between these pairs of characters, or at spaces.
        special_tokens: at the start of each of these byte strings.
        unbroken: never inside of these byte strings.
        drops_invalid: whether bytes that are not UTF-8 are left out: no cut is near them, for what
            they part may be joined.
    """

    behind_each: bytes = b""
    pairs: AnyPairs = None
    special_tokens: tuple[bytes, ...] = ()
    unbroken: tuple[bytes, ...] = ()
    drops_invalid: bool = False

    @property
    def possible(self) -> bool:
        """Whether any cut can exist at all."""
        return bool(self.behind_each) or self.pairs is not None or bool(self.special_tokens)

    @property
    def behind(self) -> int:
        """Bytes that must be known before a position to judge it."""
        own = self.pairs.LOOK if isinstance(self.pairs, SentenceBreaks) else CutPairs.LOOK
        character = CutPairs.LOOK * self.drops_invalid  # which a window may cut
        return max(own, *map(len, (*self.special_tokens, *self.unbroken)), 1) + character

    @property
    def ahead(self) -> int:
        """Bytes that must be known from a position on to judge it.

        Positions nearer to the end of a file are never cuts: what is appended later could join
        them to a special token, and chunks that are finished must stay as they are.
        """
        return 0 if self.behind_each else self.behind

    def first(self, content: bytes, begin: int, end: int) -> int:
        """The first legal cut at a position in [begin, end), or -1.

        Args:
            content: holds `behind` bytes before ``begin`` (fewer only where the file begins) and
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
            found = content.find(token, begin, end + len(token) - 1)
            if found >= 0:
                nearest, end = found, found
        return nearest

    def _beside_invalid(self, content: bytes, position: int) -> bool:
        window = content[max(position - self.behind, 0) : position + self.behind]
        try:
            codecs.getincrementaldecoder("utf-8")().decode(window.lstrip(_CONTINUATIONS))
        except UnicodeDecodeError:
            return True
        return False

    def _straddled(self, content: bytes, position: int) -> bool:
        """Whether an occurrence of a token begins before ``position`` and ends behind."""
        return any(
            content.find(token, max(position - len(token) + 1, 0), position + len(token) - 1) >= 0
            for token in (*self.special_tokens, *self.unbroken)
        )


@functools.lru_cache(maxsize=8)
def _any_of(tokens: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """One pass finds hundreds, such as the reserved special tokens of published tokenizers."""
    return re.compile(b"|".join(map(re.escape, tokens)))
