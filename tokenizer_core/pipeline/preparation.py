"""Text preparation before pre-tokenization, in HuggingFace's order.

Added tokens are matched in the text, each piece between them is normalized, normalized added tokens
are matched in each piece, and the remaining pieces get their prefix.
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
_OF_SPANS = -2  # numbers from here down stand for the end of a span, not for ids


class TextPreparation:
    """Added tokens, normalizer and prefix, ready for any number of texts; thread-safe.

    Raises `InvalidTokenizer` if two added tokens share a content or an id, or if the normalizer
    makes one empty or two equal (``tokenizers`` then finds one at random).
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
        self.tokens = tuple(added_tokens)
        self.prefix = prefix
        #: id → bytes that match each added token; ``tokenizers`` decodes to them, too.
        self.contents = {token.id: self._sought(token) for token in added_tokens}
        if len(self.contents) < len(added_tokens):
            _refuse("two added tokens have the same id", "give each its own id")
        #: Matchers for raw and for normalized text.
        self.raw = self._matcher([token for token in added_tokens if not token.normalized])
        self.late = self._matcher([token for token in added_tokens if token.normalized])

    def prepare(
        self, text: Text, ignored_special_ids: frozenset[int] = frozenset()
    ) -> tuple[Text, NDArray[np.int64], NDArray[np.int64]]:
        """Prepare a text for an `Encoder`.

        Args:
            text: valid UTF-8.
            ignored_special_ids: ids of added tokens to treat as ordinary text
                (``encode_special_tokens`` of ``tokenizers``).

        Returns:
            the text, the same object if unchanged; its pieces, int64 ``[n, 2]``, some of them
            empty; and int64 ``[n]``: the id of the added token after each piece, or −1.
        """
        whole = np.array([[0, text.size]], np.int64)
        return self.prepare_spans(text, whole, _NO_ID_BEHIND, ignored_special_ids)[:3]

    @property
    def only_cuts(self) -> bool:
        """Whether texts are only cut at added tokens, never changed."""
        return self._normalize is None and self.prefix is None and not self.late.tokens

    def whole(self, content: bytes) -> bytes | None:
        """Prepare a text without added tokens; None if that needs `prepare`."""
        if not content or self.raw.may_be_in(content):
            return None
        normalized = content if self._normalize is None else self._normalize(content)
        if not normalized or self.late.may_be_in(normalized):
            return None
        if self.prefix is None:
            return normalized
        return self.with_prefix(normalized, lambda: self.begins_as_given(content))

    def prepare_spans(
        self,
        text: Text,
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        ignored_special_ids: frozenset[int] = frozenset(),
    ) -> tuple[Text, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """`prepare` for spans of a text, int64 ``[n, 2]``, each independent of the others.

        ``behind`` holds the id after each span, int64 ``[n]``. Also returns the index of the last
        piece of each span, int64 ``[n]``.
        """
        original, starts = text, spans[:, 0]
        numbered = _OF_SPANS - np.arange(len(spans))
        spans, after = self.raw.cut(text, spans, numbered, ignored_special_ids)
        if self._normalize is not None:
            text, spans = _replaced(text, spans, self._normalized(text, spans))
        spans, after = self.late.cut(text, spans, after, ignored_special_ids)
        last = np.flatnonzero(after <= _OF_SPANS)
        if self.prefix is not None:
            firsts = dict(zip([0, *(last[:-1] + 1).tolist()], starts.tolist(), strict=False))
            text, spans = _replaced(text, spans, self._prefixed(original, text, spans, firsts))
        after = after.copy()
        after[last] = behind
        return text, spans, after, last

    def _sought(self, token: AddedToken) -> bytes:
        content = token.content.encode()
        if not token.normalized or self._normalize is None:
            return content
        return self._normalize(content)

    def _matcher(self, tokens: list[AddedToken]) -> AddedTokenMatcher:
        token_of_content: dict[bytes, AddedToken] = {}
        for token in tokens:
            content = self.contents[token.id]
            if not content:
                _refuse(
                    f"the normalizer removes the added token {shown(token.content)}",
                    "remove it from added_tokens, or set its normalized to false",
                )
            other = token_of_content.setdefault(content, token)
            if other is not token:
                _refuse(
                    f"the added tokens {shown(other.content)} and {shown(token.content)} are equal "
                    "after normalization, and tokenizers finds one at random",
                    "remove one from added_tokens, or set normalized of one to false",
                )
        return AddedTokenMatcher(tokens, list(token_of_content))

    def _normalized(self, text: Text, spans: NDArray[np.int64]) -> list[bytes | None]:
        """The normalized pieces; None for unchanged ones."""
        assert self._normalize is not None
        pieces = [text.bytes(begin, end) for begin, end in spans.tolist()]
        if self._normalize_all is not None:
            normalized = self._normalize_all(pieces)
        else:
            normalized = [self._normalize(piece) if piece else piece for piece in pieces]
        return [
            None if after == before else after
            for before, after in zip(pieces, normalized, strict=True)
        ]

    def _prefixed(
        self, given: Text, text: Text, spans: NDArray[np.int64], firsts: Mapping[int, int]
    ) -> list[bytes | None]:
        """Pieces with their prefix, None for unchanged ones; ``firsts``: index → start."""
        pieces: list[bytes | None] = []
        for number, (begin, end) in enumerate(spans.tolist()):
            piece = text.bytes(begin, end)

            def begins(number: int = number) -> bool:
                at = firsts.get(number, -1)
                return at >= 0 and self.begins_as_given(given.bytes(at, at + _LONGEST_CHARACTER))

            prefixed = self.with_prefix(piece, begins)
            pieces.append(None if prefixed == piece else prefixed)
        return pieces

    def with_prefix(self, piece: bytes, begins: Callable[[], bool]) -> bytes:
        """Add the prefix to a normalized piece, which may begin the text."""
        assert self.prefix is not None
        mark = self.prefix.text.encode()
        marked = piece.replace(b" ", mark) if self.prefix.replaces_spaces else piece
        if not piece or marked.startswith(mark):
            return marked
        scheme = self.prefix.scheme
        return mark + marked if scheme == "always" or (scheme == "first" and begins()) else marked

    def begins_as_given(self, beginning: bytes) -> bool:
        """Whether the normalizer keeps the first character of ``beginning`` (UTF-8).

        Otherwise ``tokenizers`` does not treat the piece as the beginning. (An added token equal to
        what a normalizer prepends makes it treat the next piece as the beginning, too.)
        """
        if self._normalize is None:
            return True
        first = beginning[:_LONGEST_CHARACTER].decode(errors="ignore")[0].encode()
        return self._normalize(first + _PROBE) != self._normalize(_PROBE)


def _replaced(
    text: Text, spans: NDArray[np.int64], pieces: list[bytes | None]
) -> tuple[Text, NDArray[np.int64]]:
    """The text of ``pieces`` and their spans; the given text if all pieces are None."""
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
    raise InvalidTokenizer(happened, "expected different ids and texts of added tokens", next_step)
