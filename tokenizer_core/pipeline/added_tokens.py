"""Added tokens and their matcher, which runs before normalizer and pre-tokenizer.

Flags and overlaps are handled as in HuggingFace's ``tokenizers``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core import records
from bpeline.tokenizer_core.errors import InvalidTokenizer, WrongKind
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.vocabulary import MAX_ID, SpecialTokenMatcher, shown

_WORD = regex.compile(r"\w")
_LONGEST_CHARACTER = 4  # bytes
# The 25 characters of Unicode's White_Space, in UTF-8.
_SPACE = (
    rb"(?:[\t-\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f"
    rb"|\xe3\x80\x80)++"
)
_SPACE_BEHIND = regex.compile(_SPACE)
_SPACE_BEFORE = regex.compile(b"(?r)" + _SPACE)

_OPENING = 2  # bytes of each token in the first, fast search
_FEW, _LONG_OPENING = 16, 32  # up to so many tokens, search for more bytes
_MOST_IN_REGEX = 512
_NO_ID = -1
_KEPT_CHOICES = 32


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is matched in text before pre-tokenization.

    Attributes:
        content: what is matched; if ``normalized``, its normalized form.
        special: callers can choose to encode it as ordinary text.
        normalized: matched after normalization, in the text between the other added tokens.
        single_word: not matched next to a word character.
        lstrip: also takes the white space before it.
        rstrip: also takes the white space after it.
    """

    id: int
    content: str
    special: bool = False
    normalized: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False

    def described(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_description(cls, given: Any) -> AddedToken:
        content = given.get("content") if isinstance(given, dict) else None
        if isinstance(content, str) and utf8_of(content).decode() != content:
            _refuse(f"the added token {shown(content)} contains a lone surrogate")
        what = "an added token" if content is None else f"the added token {shown(content)}"
        try:
            token = records.read(cls, given, what, complete=True)
        except WrongKind as wrong:
            _refuse(wrong.happened)
        if not token.content:
            _refuse(f"{what} is empty")
        if not 0 <= token.id <= MAX_ID:
            _refuse(f"{what} has the id {str(token.id)[:40]}")
        return token


class AddedTokenMatcher:
    """Matches added tokens by their ``contents`` in bytes; thread-safe."""

    __slots__ = (
        "_any_flagged", "_flagged", "_id_of", "_ids", "_matcher", "_opening", "_sought",
        "_whole", "first_byte", "tokens",
    )  # fmt: skip

    def __init__(self, tokens: Sequence[AddedToken], contents: Sequence[bytes]) -> None:
        self.tokens = tuple(tokens)
        self._matcher = SpecialTokenMatcher(contents)
        size = _OPENING if len(contents) > _FEW else _LONG_OPENING
        openings = sorted({content[:size] for content in contents}, key=len, reverse=True)
        self._opening = re.compile(b"|".join(map(re.escape, openings))) if openings else None
        firsts = {content[0] for content in contents}
        #: First byte of all tokens, often the rare "<", or −1. Searching for an int is 3× faster.
        self.first_byte = firsts.pop() if len(firsts) == 1 else -1
        self._id_of = dict(zip(contents, (token.id for token in tokens), strict=True))
        self._whole: re.Pattern[bytes] | None = None  # compiled on first use
        self._ids = np.array([token.id for token in tokens], np.int64)
        self._sought = dict[frozenset[int], NDArray[np.bool_]]()
        flagged = [token.single_word or token.lstrip or token.rstrip for token in tokens]
        self._flagged = np.array(flagged, np.bool_)
        self._any_flagged = any(flagged)

    def seeks_only(self, contents: Collection[bytes]) -> bool:
        return self._id_of.keys() <= set(contents)

    def may_be_in(self, content: bytes) -> bool:
        """Test quickly for a match; may return True for a text without one."""
        if self._opening is None or (self.first_byte >= 0 and self.first_byte not in content):
            return False
        return self._opening.search(content) is not None

    def split(self, content: bytes) -> list[tuple[bytes, int]] | None:
        """Cut a short text, faster than `cut`; None for flags or too many tokens.

        Returns pairs of the text before a token and its id; last, the rest and −1.
        """
        if self._any_flagged or len(self.tokens) > _MOST_IN_REGEX:
            return None
        if self._whole is None:
            longest_first = sorted(self._id_of, key=len, reverse=True)
            self._whole = re.compile(b"|".join(map(re.escape, longest_first)))
        parts = []
        begin = 0
        for match in self._whole.finditer(content) if self.tokens else ():
            parts.append((content[begin : match.start()], self._id_of[match.group()]))
            begin = match.end()
        parts.append((content[begin:], _NO_ID))
        return parts

    def cut(
        self,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        ignored_special_ids: frozenset[int] = frozenset(),
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut spans at added tokens: leftmost match first, longest at one position.

        A match that is ignored, or rejected by ``single_word``, still covers its characters: no
        other token is matched there.

        Args:
            text: valid UTF-8.
            spans: int64 ``[n, 2]``: half-open byte ranges, matched independently.
            behind: int64 ``[n]``: the id after each span, or −1.
            ignored_special_ids: ids of tokens to ignore.

        Returns:
            the spans between tokens, some of them empty, and the id after each, as in the
            arguments.
        """
        is_matched = self._sought_but(ignored_special_ids)
        if is_matched is None:
            return spans, behind
        matches, counts = self._matcher.find_in_spans(text, spans)
        if not len(matches):
            return spans, behind
        of_span = np.repeat(np.arange(len(spans)), counts)
        indexes = matches[:, 2]
        accepted = is_matched[indexes]
        if self._flagged[indexes].any():
            self._heed_flags(text, spans, of_span, matches, accepted)
        if not accepted.all():
            matches, of_span = matches[accepted], of_span[accepted]
        starts, stops, indexes = matches.T
        # A token whose text the token before took as white space does not count.
        ids = np.where(starts < stops, self._ids[indexes], _NO_ID)
        pieces = np.empty((len(starts) + len(spans), 2), np.int64)
        after_each = np.empty(len(pieces), np.int64)
        if len(spans) == 1:  # fast path for short texts
            pieces[0, 0], pieces[-1, 1] = spans[0]
            pieces[:-1, 1], pieces[1:, 0] = starts, stops
            after_each[:-1], after_each[-1] = ids, behind[0]
        else:
            before = np.arange(len(starts)) + of_span
            last = np.cumsum(np.bincount(of_span, minlength=len(spans))) + np.arange(len(spans))
            first = np.concatenate(([0], last[:-1] + 1))
            pieces[first, 0], pieces[last, 1] = spans.T
            pieces[before, 1], pieces[before + 1, 0] = starts, stops
            after_each[before], after_each[last] = ids, behind
        np.maximum(pieces[:, 0], pieces[:, 1], out=pieces[:, 1])
        return pieces, after_each

    def _sought_but(self, ignored_special_ids: frozenset[int]) -> NDArray[np.bool_] | None:
        """Mask of the tokens to match, bool ``[n]``; None if all are ignored."""
        mask = self._sought.get(ignored_special_ids)
        if mask is None:
            mask = np.array(
                [token.id not in ignored_special_ids for token in self.tokens], np.bool_
            )
            if len(self._sought) >= _KEPT_CHOICES:
                self._sought.clear()  # callers pass a different set for each text
            self._sought[ignored_special_ids] = mask
        return mask if mask.any() else None

    def _heed_flags(
        self,
        text: Text,
        spans: NDArray[np.int64],
        of_span: NDArray[np.int64],
        found: NDArray[np.int64],
        accepted: NDArray[np.bool_],
    ) -> None:
        """Apply lstrip and rstrip to ``found``, and single_word to ``accepted``, in place."""
        content = text.data.data
        left = 0  # end of the token before, with its white space
        now = -1
        columns = of_span, *spans[of_span].T, *found.T, accepted
        for row, (span, begin, end, start, stop, index, is_sought) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            if span != now:
                now, left = span, begin
            if not is_sought:
                continue
            token = self.tokens[index]
            if token.single_word and (
                _ends_with_word(content[max(begin, start - _LONGEST_CHARACTER) : start])
                or _begins_with_word(content[stop : min(end, stop + _LONGEST_CHARACTER)])
            ):
                accepted[row] = False
                continue
            if token.lstrip:
                space = _SPACE_BEFORE.match(content, min(left, start), start)
                found[row, 0] = max(left, space.start() if space else start)
            if token.rstrip and (space := _SPACE_BEHIND.match(content, stop, end)):
                stop = found[row, 1] = space.end()
            left = stop


def _ends_with_word(content: memoryview) -> bool:
    before = bytes(content).decode(errors="ignore")
    return bool(before) and _WORD.match(before[-1]) is not None


def _begins_with_word(content: memoryview) -> bool:
    return _WORD.match(bytes(content).decode(errors="ignore")) is not None


def _refuse(happened: str) -> NoReturn:
    raise InvalidTokenizer(
        happened,
        "expected an id, a content, and five boolean flags: special, normalized, single_word, "
        "lstrip, rstrip",
        "export the tokenizer again",
    )
