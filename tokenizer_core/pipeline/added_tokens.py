"""Added tokens: what is said of one, and where they stand in a text.

An added token is found in every text before anything else looks at it. What its flags mean, and
which of several that overlap is found, is what HuggingFace's ``tokenizers`` does.
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

_OPENING = 2  # bytes of a token that are looked for first
_FEW, _LONG_OPENING = 16, 32  # tokens of which more bytes are looked for, and how many
_MOST_IN_REGEX = 512
_NO_ID = -1
_KEPT_CHOICES = 32


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in texts as it is written, before they are cut into pre-tokens.

    Attributes:
        id: the one it becomes.
        content: what is found; with ``normalized`` what the normalizer makes of it.
        special: whether it may be switched off, to be ordinary text.
        normalized: found in the normalized text, between those that are found in the text as given.
        single_word: not found where a character of a word stands beside it, and what it covers is
            then ordinary text.
        lstrip: the white space before it belongs to it.
        rstrip: the white space after it belongs to it.
    """

    id: int
    content: str
    special: bool = False
    normalized: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False

    def described(self) -> dict[str, Any]:
        """The value as JSON, with the names that tokenizer.json gives its parts."""
        return asdict(self)

    @classmethod
    def of_description(cls, given: Any) -> AddedToken:
        """The value of an element of ``added_tokens`` in tokenizer.json.

        Raises:
            InvalidTokenizer: a part is missing or of another type, or the content is empty.
        """
        content = given.get("content") if isinstance(given, dict) else None
        if isinstance(content, str) and utf8_of(content).decode() != content:
            _refuse(f"the added token {shown(content)} contains a lone surrogate")
        what = "an added token" if content is None else f"the added token {shown(content)}"
        try:
            token = records.read(cls, given, what, complete=True)
        except WrongKind as wrong:
            _refuse(wrong.happened)
        if not token.content:
            _refuse(f"{what} has no text")
        if not 0 <= token.id <= MAX_ID:
            _refuse(f"{what} has the id {str(token.id)[:40]}")
        return token


class AddedTokenMatcher:
    """Finds added tokens in any number of texts; any number of threads may use it.

    Args:
        tokens: what is found; no two with the same content.
        contents: as what each is sought; not empty.
    """

    __slots__ = (
        "_any_flagged", "_flagged", "_id_of", "_ids", "_matcher", "_opening", "_sought",
        "_whole", "first_byte", "tokens",
    )  # fmt: skip

    def __init__(self, tokens: Sequence[AddedToken], contents: Sequence[bytes]) -> None:
        #: What is found.
        self.tokens = tuple(tokens)
        self._matcher = SpecialTokenMatcher(contents)
        size = _OPENING if len(contents) > _FEW else _LONG_OPENING
        openings = sorted({content[:size] for content in contents}, key=len, reverse=True)
        self._opening = re.compile(b"|".join(map(re.escape, openings))) if openings else None
        firsts = {content[0] for content in contents}
        #: The byte with which all of them begin, often "<", which few texts hold; −1: none is.
        #: (A number: bytes are sought three times as long.)
        self.first_byte = firsts.pop() if len(firsts) == 1 else -1
        self._id_of = dict(zip(contents, (token.id for token in tokens), strict=True))
        self._whole: re.Pattern[bytes] | None = None  # made when it is first needed
        self._ids = np.array([token.id for token in tokens], np.int64)
        self._sought = dict[frozenset[int], NDArray[np.bool_]]()
        flagged = [token.single_word or token.lstrip or token.rstrip for token in tokens]
        self._flagged = np.array(flagged, np.bool_)
        self._any_flagged = any(flagged)

    def seeks_only(self, contents: Collection[bytes]) -> bool:
        """Whether it finds nothing in texts in which none of these strings stands."""
        return self._id_of.keys() <= set(contents)

    def may_be_in(self, content: bytes) -> bool:
        """Whether one may stand in a text; at once, so it is sometimes true where none does."""
        if self._opening is None or (self.first_byte >= 0 and self.first_byte not in content):
            return False
        return self._opening.search(content) is not None

    def split(self, content: bytes) -> list[tuple[bytes, int]] | None:
        """A short text cut at its added tokens: `cut`, sooner.

        Returns:
            The text before each token, and its id; and the text behind the last one, and −1. None
            where they look at what stands beside them, or are too many for a regex.
        """
        if self._any_flagged or len(self.tokens) > _MOST_IN_REGEX:
            return None
        if self._whole is None:
            longest_first = sorted(self._id_of, key=len, reverse=True)
            self._whole = re.compile(b"|".join(map(re.escape, longest_first)))
        parts = []
        begin = 0
        for found in self._whole.finditer(content) if self.tokens else ():
            parts.append((content[begin : found.start()], self._id_of[found.group()]))
            begin = found.end()
        parts.append((content[begin:], _NO_ID))
        return parts

    def cut(
        self,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        ignored_special_ids: frozenset[int] = frozenset(),
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut spans at added tokens: leftmost first, the longest at one place.

        What is not accepted (switched off, or no single word) still covers its characters: neither
        a shorter token nor one that begins inside of it is found there.

        Args:
            text: valid UTF-8.
            spans: int64 ``[n, 2]``: half-open byte ranges, each by itself: of what lies outside of
                it nothing is seen.
            behind: int64 ``[n]``: the id behind each span, or −1.
            ignored_special_ids: ids of tokens that are ordinary text.

        Returns:
            spans, int64 ``[m, 2]``: of each span that was given, the text before each token and
            after the last one (some may be empty); and int64 ``[m]``: the id behind each, or −1.
        """
        sought = self._sought_but(ignored_special_ids)
        if sought is None:
            return spans, behind
        found, counts = self._matcher.find_in_spans(text, spans)
        if not len(found):
            return spans, behind
        of_span = np.repeat(np.arange(len(spans)), counts)
        indexes = found[:, 2]
        accepted = sought[indexes]
        if self._flagged[indexes].any():
            self._heed_flags(text, spans, of_span, found, accepted)
        if not accepted.all():
            found, of_span = found[accepted], of_span[accepted]
        starts, stops, indexes = found.T
        # One whose characters all belong to the one before (as its white space) is no token.
        ids = np.where(starts < stops, self._ids[indexes], _NO_ID)
        pieces = np.empty((len(starts) + len(spans), 2), np.int64)
        after_each = np.empty(len(pieces), np.int64)
        if len(spans) == 1:  # as of most short texts
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
        """Which tokens are sought, bool ``[n]``; None where none is."""
        kept = self._sought.get(ignored_special_ids)
        if kept is None:
            kept = np.array(
                [token.id not in ignored_special_ids for token in self.tokens], np.bool_
            )
            if len(self._sought) >= _KEPT_CHOICES:
                self._sought.clear()  # so many sets are made for single texts
            self._sought[ignored_special_ids] = kept
        return kept if kept.any() else None

    def _heed_flags(
        self,
        text: Text,
        spans: NDArray[np.int64],
        of_span: NDArray[np.int64],
        found: NDArray[np.int64],
        accepted: NDArray[np.bool_],
    ) -> None:
        """Widen what takes its white space, and take back what is no single word.

        Args:
            spans: as of `cut`.
            of_span: int64 ``[n]``: in which of them each stands.
            found: as of `SpecialTokenMatcher.find`; changed.
            accepted: changed.
        """
        content = text.data.data
        left = 0  # where the token before ends, with its white space
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
        "an added token has an id, a content, and five flags that are true or false: special, "
        "normalized, single_word, lstrip, rstrip",
        "export the tokenizer again from where it came",
    )
