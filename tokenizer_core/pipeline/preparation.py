"""Texts made ready for a model, as the pipeline of an imported tokenizer says.

In HuggingFace's order: added tokens are found in the text as it is given; each piece between them
is normalized; the added tokens that are sought in normalized text are found in each such piece;
each piece that is left gets its prefix. Each span is a text of its own for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.pipeline.added_tokens import AddedToken, AddedTokenMatcher
from bpeline.tokenizer_core.pipeline.pre_tokenizer import Prefix
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import shown

Normalize = Callable[[bytes], bytes]

_NO_ID_BEHIND = np.full(1, -1, np.int64)
_LONGEST_CHARACTER = 4  # bytes
_PROBE = b"a"
_OF_SPANS = -2


class TextPreparation:
    """Added tokens, a normalizer and a prefix, made ready for any number of texts and threads.

    Args:
        added_tokens: what is found in texts.
        normalize: UTF-8 to UTF-8; None: texts stay as they are.
        normalize_all: the same of many texts; None: one after the other.
        prefix: what is put in front of pieces; None: nothing.

    Raises:
        InvalidTokenizer: two added tokens with the same content or id; or the normalizer leaves
            nothing of one, or makes two the same (``tokenizers`` then finds one at random).
    """

    __slots__ = ("_normalize", "_normalize_all", "contents", "late", "prefix", "raw", "tokens")

    def __init__(
        self,
        added_tokens: Sequence[AddedToken],
        normalize: Normalize | None = None,
        prefix: Prefix | None = None,
        normalize_all: Callable[[list[bytes]], list[bytes]] | None = None,
    ) -> None:
        self._normalize, self._normalize_all = normalize, normalize_all
        #: What is found in texts.
        self.tokens = tuple(added_tokens)
        #: What is put in front of pieces, or None.
        self.prefix = prefix
        #: id → the bytes as which each added token is found: what tokenizers shows of it, too.
        self.contents = {token.id: self._sought(token) for token in added_tokens}
        if len(self.contents) < len(added_tokens):
            _refuse("two added tokens have the same id", "give each an id of its own")
        #: Finds the added tokens of texts as they are given, and of normalized ones.
        self.raw = self._matcher([token for token in added_tokens if not token.normalized])
        self.late = self._matcher([token for token in added_tokens if token.normalized])

    def prepare(
        self, text: Text, ignored_special_ids: frozenset[int] = frozenset()
    ) -> tuple[Text, NDArray[np.int64], NDArray[np.int64]]:
        """A text as an `Encoder` takes it.

        Args:
            text: valid UTF-8.
            ignored_special_ids: ids of added tokens that are ordinary text here (tokenizers can switch
                off those that are special, by ``encode_special_tokens``).

        Returns:
            a text, the same one where nothing in it changes; spans, int64 ``[n, 2]``: its pieces
            (some may be empty); and int64 ``[n]``: the id of the added token behind each piece,
            or −1.
        """
        whole = np.array([[0, text.size]], np.int64)
        return self.prepare_spans(text, whole, _NO_ID_BEHIND, ignored_special_ids)[:3]

    @property
    def only_cuts(self) -> bool:
        """Whether texts are cut at what is sought in them as they are, and otherwise stay."""
        return self._normalize is None and self.prefix is None and not self.late.tokens

    def whole(self, content: bytes) -> bytes | None:
        """What `prepare` makes of a text that is one piece; None where that is not said at once.

        Args:
            content: valid UTF-8.
        """
        if not content or self.raw.may_be_in(content):
            return None
        made = content if self._normalize is None else self._normalize(content)
        if not made or self.late.may_be_in(made):
            return None
        if self.prefix is None:
            return made
        return self.with_prefix(made, lambda: self.begins_as_given(content))

    def prepare_spans(
        self,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        ignored_special_ids: frozenset[int] = frozenset(),
    ) -> tuple[Text, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Spans of a text, each of them a text of its own; see `prepare`.

        Args:
            spans: int64 ``[n, 2]``, in order. behind: int64 ``[n]``: the id behind each, or −1.

        Returns:
            as `prepare`; and int64 ``[n]``: which of the pieces is the last of each span.
        """
        given, starts = text, spans[:, 0]
        # Numbers below those of ids say of which span a piece is the last.
        numbered = _OF_SPANS - np.arange(len(spans))
        spans, after = self.raw.cut(text, spans, numbered, ignored_special_ids)
        if self._normalize is not None:
            text, spans = _replaced(text, spans, self._normalized(text, spans))
        spans, after = self.late.cut(text, spans, after, ignored_special_ids)
        last = np.flatnonzero(after <= _OF_SPANS)
        if self.prefix is not None:
            firsts = dict(zip([0, *(last[:-1] + 1).tolist()], starts.tolist(), strict=False))
            text, spans = _replaced(text, spans, self._prefixed(given, text, spans, firsts))
        after = after.copy()
        after[last] = behind
        return text, spans, after, last

    def _sought(self, token: AddedToken) -> bytes:
        content = token.content.encode()
        if not token.normalized or self._normalize is None:
            return content
        return self._normalize(content)

    def _matcher(self, tokens: list[AddedToken]) -> AddedTokenMatcher:
        found: dict[bytes, AddedToken] = {}
        for token in tokens:
            content = self.contents[token.id]
            if not content:
                _refuse(
                    f"the normalizer leaves nothing of the added token {shown(token.content)}",
                    "remove it from added_tokens, or set its normalized to false",
                )
            other = found.setdefault(content, token)
            if other is not token:
                _refuse(
                    f"the added tokens {shown(other.content)} and {shown(token.content)} are the "
                    "same once they are normalized, and tokenizers finds one at random",
                    "remove one from added_tokens, or set normalized of one to false",
                )
        return AddedTokenMatcher(tokens, list(found))

    def _normalized(self, text: Text, spans: NDArray[np.int64]) -> list[bytes | None]:
        """What becomes of each piece; None where it stays."""
        assert self._normalize is not None
        given = [text.bytes(begin, end) for begin, end in spans.tolist()]
        if self._normalize_all is not None:
            made = self._normalize_all(given)
        else:
            made = [self._normalize(piece) if piece else piece for piece in given]
        return [
            None if after == before else after for before, after in zip(given, made, strict=True)
        ]

    def _prefixed(
        self, given: Text, text: Text, spans: NDArray[np.int64], firsts: Mapping[int, int]
    ) -> list[bytes | None]:
        """What becomes of each piece; None where it stays.

        Args:
            firsts: which pieces begin a text, and where it stood in the one that was given.
        """
        pieces: list[bytes | None] = []
        for number, (begin, end) in enumerate(spans.tolist()):
            piece = text.bytes(begin, end)

            def begins(number: int = number) -> bool:
                at = firsts.get(number, -1)
                return at >= 0 and self.begins_as_given(given.bytes(at, at + _LONGEST_CHARACTER))

            made = self.with_prefix(piece, begins)
            pieces.append(None if made == piece else made)
        return pieces

    def with_prefix(self, piece: bytes, begins: Callable[[], bool]) -> bytes:
        """A normalized piece with its prefix.

        Args:
            begins: whether the text begins with it.
        """
        assert self.prefix is not None
        mark = self.prefix.text.encode()
        made = piece.replace(b" ", mark) if self.prefix.replaces_spaces else piece
        if not piece or made.startswith(mark):
            return made
        scheme = self.prefix.scheme
        return mark + made if scheme == "always" or (scheme == "first" and begins()) else made

    def begins_as_given(self, beginning: bytes) -> bool:
        """Whether the normalized text begins with what its first character became.

        Args:
            beginning: UTF-8 of its first character, and perhaps more.

        Where that is dropped, tokenizers does not take the text for the beginning. (Where an added
        token is exactly what a normalizer put before the text, it takes what follows for it, too.)
        """
        if self._normalize is None:
            return True
        first = beginning[:_LONGEST_CHARACTER].decode(errors="ignore")[0].encode()
        return self._normalize(first + _PROBE) != self._normalize(_PROBE)


def _replaced(
    text: Text, spans: NDArray[np.int64], pieces: list[bytes | None]
) -> tuple[Text, NDArray[np.int64]]:
    """A text of pieces alone, where one is not None; else the text that was given."""
    if all(piece is None for piece in pieces):
        return text, spans
    parts = [
        text.bytes(begin, end) if piece is None else piece
        for piece, (begin, end) in zip(pieces, spans.tolist(), strict=True)
    ]
    return joined(parts)


def joined(parts: Sequence[bytes]) -> tuple[Text, NDArray[np.int64]]:
    """The text of some parts, and the span of each: int64 ``[n, 2]``."""
    if len(parts) == 1:
        return Text.of(parts[0]), np.array([[0, len(parts[0])]], np.int64)
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    begins = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    return Text.of(b"".join(parts)), np.stack((begins, ends), axis=1)


def _refuse(happened: str, next_step: str) -> None:
    raise InvalidTokenizer(happened, "every added token has an id and a text of its own", next_step)
