"""Texts prepared as an imported tokenizer prescribes, and encoded.

In HuggingFace's order: added tokens are found in the text as it is given; each piece between them
is normalized; the added tokens that are sought in normalized text are found in each such piece;
each piece that is left gets its prefix. Each span is a text of its own for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.decoding import lengths_by_id
from bpeline.tokenizer_core.encoding.encoder import (
    Encoder,
    PlacedIds,
)
from bpeline.tokenizer_core.encoding.encoding_memory import SHORT_TEXT
from bpeline.tokenizer_core.encoding.merge_encoding import BytePairEncoder, spans_of_lengths
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.splitting import AsciiSpaces, Cuts
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import (
    AddedToken,
    AddedTokenMatcher,
    PiecePrefix,
    TokenizerSpec,
    shown,
)

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
        prefix: what is put in front of pieces; None: nothing.

    Raises:
        InvalidTokenizer: two added tokens with the same content or id; or the normalizer leaves
            nothing of one, or makes two the same (``tokenizers`` then finds one at random).
    """

    __slots__ = ("_normalize", "contents", "late", "prefix", "raw", "tokens")

    def __init__(
        self,
        added_tokens: Sequence[AddedToken],
        normalize: Normalize | None = None,
        prefix: PiecePrefix | None = None,
    ) -> None:
        self._normalize = normalize
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
        self, text: Text, unsought: frozenset[int] = frozenset()
    ) -> tuple[Text, NDArray[np.int64], NDArray[np.int64]]:
        """A text as an `Encoder` takes it.

        Args:
            text: valid UTF-8.
            unsought: ids of added tokens that are ordinary text in this one (tokenizers can switch
                off those that are special, by ``encode_special_tokens``).

        Returns:
            a text, the same one where nothing in it changes; spans, int64 ``[n, 2]``: its pieces
            (some may be empty); and int64 ``[n]``: the id of the added token behind each piece,
            or −1.
        """
        whole = np.array([[0, text.size]], np.int64)
        return self.prepare_spans(text, whole, _NO_ID_BEHIND, unsought)[:3]

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
        unsought: frozenset[int] = frozenset(),
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
        spans, after = self.raw.cut(text, spans, numbered, unsought)
        if self._normalize is not None:
            text, spans = _replaced(text, spans, self._normalized(text, spans))
        spans, after = self.late.cut(text, spans, after, unsought)
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
        pieces: list[bytes | None] = []
        for begin, end in spans.tolist():
            given = text.bytes(begin, end)
            made = self._normalize(given) if given else given
            pieces.append(None if made == given else made)
        return pieces

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


_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
_HOLDS_SPACE = re.compile(rb"\S (?:\S|\Z)")  # which `AsciiSpaces` could cut


class PreparedEncoder(Encoder):
    """An encoder of texts that are prepared first.

    Args:
        spec: of the tokenizer.
        inner: encodes what is prepared.
        preparation: of texts.
        unsought: ids of special tokens that are ordinary text.
    """

    def __init__(
        self,
        spec: TokenizerSpec,
        inner: Encoder,
        preparation: TextPreparation,
        unsought: frozenset[int] = frozenset(),
    ) -> None:
        self.inner = inner
        self._spec = spec
        self._preparation = preparation
        self._unsought = unsought
        self._cutting = preparation.raw if preparation.only_cuts and not unsought else None
        # Without it in a text nothing is to be done; −1: it tells nothing.
        self._first_byte = -1 if self._cutting is None else self._cutting.first_byte

    def ignoring(self, special: frozenset[int]) -> PreparedEncoder:
        return PreparedEncoder(self._spec, self.inner, self._preparation, special)

    def without(self, contents: Collection[bytes]) -> Encoder:
        """The same encoder for spans in which none of these strings stands.

        Where nothing else would be sought in them, the inner one: their bytes are read once less.
        """
        if self._cutting is None or not self._cutting.seeks_only(contents):
            return self
        return self.inner

    def independent_cuts(self, cuts: Cuts) -> Cuts:
        pipeline, preparation = self._spec.pipeline, self._preparation
        flagged = any(one.single_word or one.lstrip or one.rstrip for one in preparation.tokens)
        normalizer = None if pipeline is None else pipeline.normalizer
        unbroken = *cuts.unbroken, *preparation.contents.values()
        if not (cuts.pairs is None or flagged or normalizer or preparation.prefix):
            return replace(cuts, unbroken=unbroken)
        # Tokens that look neither at what stands before them nor, where one ends there, behind it.
        looks_behind = any(one.single_word for one in preparation.tokens)
        plain = {
            one.content.encode()
            for one in preparation.raw.tokens
            if not (looks_behind or one.lstrip or one.content[0].isspace())
        }
        special_tokens = tuple(one for one in cuts.special_tokens if one in plain)
        spaces = AsciiSpaces() if self._parts_at_spaces else None
        return Cuts(pairs=spaces, special_tokens=special_tokens, unbroken=unbroken)

    @cached_property
    def _parts_at_spaces(self) -> bool:
        """Whether a space between two ASCII words always parts the ids of both."""
        cuts, pipeline = self._spec.pattern.cut_pairs, self._spec.pipeline
        if cuts is None or any(cuts.first(f"{one} a".encode(), 1, 2) < 0 for one in _VISIBLE):
            return False
        prefix = self._preparation.prefix
        if prefix is not None and (prefix.replaces_spaces or prefix.text != " "):
            return False
        contents = self._preparation.contents
        for token in self._preparation.tokens:
            content = contents[token.id]
            before_space = token.single_word and content.startswith(b" ")
            if token.rstrip or before_space or _HOLDS_SPACE.search(content):
                return False
        normalizer = None if pipeline is None else pipeline.normalizer
        if normalizer is None:
            return True
        words = [normalizer.text(f"{one} {one}").split(" ") for one in _VISIBLE]
        visible = all(len(pair) == 2 and {*pair} <= {*_VISIBLE} for pair in words)
        return visible and all(step.local for step in normalizer.steps)

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        prepared, all_spans, all_behind, last = self._preparation.prepare_spans(
            text, spans, behind, self._unsought
        )
        ids, ends = self.inner.encode(prepared, all_spans, all_behind)
        return ids, ends[last]

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Token ids of words, each prepared as a text of its own, and cut again where that cuts."""
        spans = spans_of_lengths(words)
        return self.encode(Text.of(b"".join(words)), spans, np.full(len(spans), -1, np.int64))

    @property
    def takes_white_space(self) -> bool:
        """Whether some added tokens cover more of a text than they are long."""
        return any(token.lstrip or token.rstrip for token in self._preparation.tokens)

    def prepared(self, content: bytes) -> list[tuple[bytes, int, bytes]]:
        """The texts that are encoded; the id of the added token behind each, or −1; its text."""
        whole = Text.of(content)
        spans = np.array([[0, whole.size]], np.int64), np.full(1, -1, np.int64)
        made, pieces, behind, _ = self._preparation.prepare_spans(whole, *spans, self._unsought)
        following = [*pieces[1:, 0].tolist(), made.size]
        parts = []
        for (begin, end), id_, after in zip(
            pieces.tolist(), behind.tolist(), following, strict=True
        ):
            # With the white space that it takes, where the text is as it was given.
            added = made.bytes(end, after) if made is whole else b""
            added = (added or self._preparation.contents[id_]) if id_ >= 0 else b""
            parts.append((made.bytes(begin, end), id_, added))
        return parts

    def encode_short(self, content: bytes) -> list[int]:
        if self._first_byte >= 0 and self._first_byte not in content:
            return self.inner.encode_short(content) if content else []
        cutting = self._cutting
        if cutting is not None and content:
            if not cutting.may_be_in(content):
                return self.inner.encode_short(content)
            if (parts := cutting.split(content)) is not None:
                return self._joined(parts)
        prepared = None if self._unsought else self._preparation.whole(content)
        if prepared is None or len(prepared) > SHORT_TEXT:
            return super().encode_short(content)
        return self.inner.encode_short(prepared)

    def _joined(self, parts: Iterable[tuple[bytes, int]]) -> list[int]:
        ids: list[int] = []
        for part, id_ in parts:
            if part:
                ids += self.inner.encode_short(part)
            if id_ >= 0:
                ids.append(id_)
        return ids

    def placed(self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]) -> PlacedIds:
        """The ids of `encode`, and where they stand.

        Raises:
            InvalidOption: the text changes when it is prepared, so that places in it are others'.
        """
        prepared, all_spans, all_behind, _ = self._preparation.prepare_spans(
            text, spans, behind, self._unsought
        )
        changed = prepared.size != text.size or not np.array_equal(prepared.data, text.data)
        if changed or not isinstance(self.inner, BytePairEncoder):
            refuse_places()
        ids, ends = self.inner.encode(prepared, all_spans, all_behind)
        lengths = lengths_by_id(self._spec.vocab)[ids]
        # An id behind a span stands for what lies between it and the next one.
        last = ends[all_behind >= 0] - 1
        following = np.append(all_spans[1:, 0], all_spans[-1:, 1])
        lengths[last] = (following - all_spans[:, 1])[all_behind >= 0]
        stops = np.cumsum(lengths) + (all_spans[0, 0] if len(all_spans) else 0)
        places = np.stack((stops - lengths, stops), axis=1)
        return PlacedIds(ids, places, np.ones(len(ids), np.bool_))


def encoder_finding(spec: TokenizerSpec, encoder: Encoder, special: Mapping[str, int]) -> Encoder:
    """An encoder that finds exactly these special tokens by itself.

    Args:
        encoder: that of the tokenizer.
        special: token → id.
    """
    if not spec.finds_special:
        if not special:
            return encoder
        tokens = [AddedToken(id_, token, special=True) for token, id_ in special.items()]
        return PreparedEncoder(spec, encoder, TextPreparation(tokens))
    ignored = frozenset(spec.special_tokens.values()).difference(special.values())
    if not ignored:
        return encoder
    assert isinstance(encoder, PreparedEncoder)
    return encoder.ignoring(ignored)


def refuse_places() -> NoReturn:
    """Refuse to say where ids stand in a text of which their tokens are no pieces.

    Raises:
        InvalidOption: always.
    """
    raise InvalidOption(
        "the text is changed before it is encoded, so its ids have no places in it",
        "tokenizers whose tokens are pieces of the text, and texts that their normalizer leaves",
        "give the normalized text, or do without places: tokenizer.encode(text), and no "
        "`--offsets` or `--morphology`",
    )
