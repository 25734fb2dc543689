"""Added tokens: what is said of one, and where they stand in a text; knows no normalizer.

An added token is found in every text before anything else looks at it. What its flags mean, and
which of several that overlap is found, is what HuggingFace's ``tokenizers`` does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import count
from typing import Any, NoReturn

import numpy as np
import regex
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary.special_tokens import SpecialTokenMatcher
from bpeline.tokenizer_core.vocabulary.vocab_rules import MAX_ID, shown

_WORD = regex.compile(r"\w")
_LONGEST_CHARACTER = 4  # bytes
# The 25 characters of Unicode's White_Space, in UTF-8.
_SPACE = (
    rb"(?:[\t-\r ]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f"
    rb"|\xe3\x80\x80)++"
)
_SPACE_BEHIND = regex.compile(_SPACE)
_SPACE_BEFORE = regex.compile(b"(?r)" + _SPACE)

_NO_ID = -1


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
        if not isinstance(given, dict):
            _refuse(f"an added token is {str(given)[:40]!r}")
        content, id_ = given.get("content"), given.get("id")
        if not isinstance(content, str) or not content:
            _refuse(f"an added token has the content {str(content)[:40]!r}")
        if any("\ud800" <= character <= "\udfff" for character in content):
            _refuse(f"the added token {shown(content)} contains a lone surrogate")
        if type(id_) is not int or not 0 <= id_ <= MAX_ID:
            _refuse(f"the added token {shown(content)} has the id {str(id_)[:40]}")
        names = {field.name for field in fields(cls)}
        if unknown := sorted(given.keys() - names):
            _refuse(f"the added token {shown(content)} has the flag {unknown[0][:40]!r}")
        for name in sorted(names - {"id", "content"}):
            if not isinstance(given.get(name), bool):
                _refuse(f"the added token {shown(content)} has no flag {name!r}")
        return cls(**given)


class AddedTokenMatcher:
    """Finds added tokens in any number of texts; any number of threads may use it.

    Args:
        tokens: what is found; no two with the same content.
        contents: as what each is sought; not empty.
    """

    __slots__ = ("_flagged", "_ids", "_index_of", "_matcher", "tokens")

    def __init__(self, tokens: Sequence[AddedToken], contents: Sequence[bytes]) -> None:
        #: What is found.
        self.tokens = tuple(tokens)
        self._matcher = SpecialTokenMatcher(contents)
        self._ids = np.array([token.id for token in tokens], np.int64)
        self._index_of = {token.id: index for index, token in enumerate(tokens)}
        flagged = [token.single_word or token.lstrip or token.rstrip for token in tokens]
        self._flagged = np.array(flagged, np.bool_)

    def cut(
        self, text: Text, begin: int, end: int, unsought: Collection[int] = ()
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Cut [begin, end) at added tokens: leftmost first, the longest at one place.

        What is not accepted (switched off, or no single word) still covers its characters: neither
        a shorter token nor one that begins inside of it is found there.

        Args:
            text: valid UTF-8; of what lies outside of [begin, end) nothing is seen.
            unsought: ids of tokens that are ordinary text.

        Returns:
            spans, int64 ``[n, 2]``: the text before each token and after the last one (some may be
            empty); and int64 ``[n]``: the id of the token behind each span, or −1.
        """
        off = [self._index_of[id_] for id_ in unsought if id_ in self._index_of]
        if begin >= end or len(off) == len(self.tokens):
            return _one_span(begin, end)
        found = self._matcher.find(text, begin, end)
        if not len(found):
            return _one_span(begin, end)
        starts, stops, indexes = found.T
        if off:
            sought = np.ones(len(self.tokens), np.bool_)
            sought[off] = False
            accepted = sought[indexes]
        else:
            accepted = np.ones(len(found), np.bool_)
        if self._flagged[indexes].any():
            self._heed_flags(text, (begin, end), found, accepted)
        starts, stops, indexes = starts[accepted], stops[accepted], indexes[accepted]
        spans = np.empty((len(starts) + 1, 2), np.int64)
        spans[0, 0] = begin
        spans[1:, 0] = stops
        spans[:-1, 1] = starts
        spans[-1, 1] = end
        behind = np.full(len(spans), _NO_ID, np.int64)
        # One whose characters all belong to the one before (as its white space) is no token.
        behind[:-1] = np.where(starts < stops, self._ids[indexes], _NO_ID)
        np.maximum(spans[:, 0], spans[:, 1], out=spans[:, 1])
        return spans, behind

    def _heed_flags(
        self,
        text: Text,
        within: tuple[int, int],
        found: NDArray[np.int64],
        accepted: NDArray[np.bool_],
    ) -> None:
        """Widen what takes its white space, and take back what is no single word.

        Args:
            within: where the text begins and ends.
            found: as of `SpecialTokenMatcher.find`; changed.
            accepted: changed.
        """
        begin, end = within
        content = text.data.data
        left = begin  # where the token before ends, with its white space
        for row, start, stop, index, is_sought in zip(
            count(), *found.T.tolist(), accepted.tolist(), strict=False
        ):
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


def _one_span(begin: int, end: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array([[begin, end]], np.int64), np.array([_NO_ID], np.int64)


def _refuse(happened: str) -> NoReturn:
    raise InvalidTokenizer(
        happened,
        "an added token has an id, a content, and five flags that are true or false: special, "
        "normalized, single_word, lstrip, rstrip",
        "export the tokenizer again from where it came",
    )
