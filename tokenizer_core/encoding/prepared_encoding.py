"""Encoding of texts that an imported tokenizer normalizes or splits first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.pipeline import AddedToken, TextPreparation
from bpeline.tokenizer_core.splitting import AsciiSpaces, Cuts
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec

_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
_HOLDS_SPACE = re.compile(rb"\S (?:\S|\Z)")  # a space where `AsciiSpaces` could cut


class PreparedEncoder(Encoder):
    """An encoder that prepares texts; ``ignored_special_ids`` are ordinary text."""

    def __init__(
        self,
        spec: TokenizerSpec,
        inner: Encoder,
        preparation: TextPreparation,
        ignored_special_ids: frozenset[int] = frozenset(),
    ) -> None:
        self.inner = inner
        self._spec = spec
        self._preparation = preparation
        self._unsought = ignored_special_ids
        self._cutting = (
            preparation.raw if preparation.only_cuts and not ignored_special_ids else None
        )
        # The first byte of all tokens: without it, a text needs no preparation. −1: no such byte.
        self._first_byte = -1 if self._cutting is None else self._cutting.first_byte

    def ignoring(self, special: frozenset[int]) -> PreparedEncoder:
        return PreparedEncoder(self._spec, self.inner, self._preparation, special)

    def without(self, contents: Collection[bytes]) -> Encoder:
        """Return an encoder for spans that contain none of these strings."""
        if self._cutting is None or not self._cutting.seeks_only(contents):
            return self
        return self.inner

    def independent_cuts(self, cuts: Cuts) -> Cuts:
        pipeline, preparation = self._spec.pipeline, self._preparation
        flagged = any(
            token.single_word or token.lstrip or token.rstrip for token in preparation.tokens
        )
        normalizer = None if pipeline is None else pipeline.normalizer
        unbroken = *cuts.unbroken, *preparation.contents.values()
        if not (cuts.pairs is None or flagged or normalizer or preparation.prefix):
            return replace(cuts, unbroken=unbroken)
        # Tokens that do not depend on the text before them, nor, at its end, on the text after.
        looks_behind = any(token.single_word for token in preparation.tokens)
        plain = {
            token.content.encode()
            for token in preparation.raw.tokens
            if not (looks_behind or token.lstrip or token.content[0].isspace())
        }
        special_tokens = tuple(token for token in cuts.special_tokens if token in plain)
        spaces = AsciiSpaces() if self._parts_at_spaces else None
        return Cuts(pairs=spaces, special_tokens=special_tokens, unbroken=unbroken)

    @cached_property
    def _parts_at_spaces(self) -> bool:
        """Whether a space between two ASCII words always separates their ids."""
        cuts, pipeline = self._spec.pattern.cut_pairs, self._spec.pipeline
        if cuts is None or any(
            cuts.first(f"{character} a".encode(), 1, 2) < 0 for character in _VISIBLE
        ):
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
        words = [normalizer.text(f"{character} {character}").split(" ") for character in _VISIBLE]
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
        spans = spans_of_lengths(words)
        return self.encode(Text.of(b"".join(words)), spans, np.full(len(spans), -1, np.int64))

    @property
    def takes_white_space(self) -> bool:
        """Whether added tokens may include white space around them."""
        return any(token.lstrip or token.rstrip for token in self._preparation.tokens)

    def prepared(self, content: bytes) -> list[tuple[bytes, int, bytes]]:
        """Return prepared texts with the id (or −1) and text of the next added token."""
        whole = Text.of(content)
        spans = np.array([[0, whole.size]], np.int64), np.full(1, -1, np.int64)
        prepared, pieces, behind, _ = self._preparation.prepare_spans(whole, *spans, self._unsought)
        following = [*pieces[1:, 0].tolist(), prepared.size]
        parts = []
        for (begin, end), id_, after in zip(
            pieces.tolist(), behind.tolist(), following, strict=True
        ):
            # If the text is unchanged, include the white space that the token takes.
            added = prepared.bytes(end, after) if prepared is whole else b""
            added = (added or self._preparation.contents[id_]) if id_ >= 0 else b""
            parts.append((prepared.bytes(begin, end), id_, added))
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
        """Encode with places; raises `InvalidOption` if the preparation changes the text."""
        prepared, all_spans, all_behind, _ = self._preparation.prepare_spans(
            text, spans, behind, self._unsought
        )
        changed = prepared.size != text.size or not np.array_equal(prepared.data, text.data)
        if changed or not isinstance(self.inner, BytePairEncoder):
            refuse_places()
        ids, ends = self.inner.encode(prepared, all_spans, all_behind)
        lengths = lengths_by_id(self._spec.vocab)[ids]
        # An id after a span covers the text up to the next span.
        last = ends[all_behind >= 0] - 1
        following = np.append(all_spans[1:, 0], all_spans[-1:, 1])
        lengths[last] = (following - all_spans[:, 1])[all_behind >= 0]
        stops = np.cumsum(lengths) + (all_spans[0, 0] if len(all_spans) else 0)
        places = np.stack((stops - lengths, stops), axis=1)
        return PlacedIds(ids, places, np.ones(len(ids), np.bool_))


def encoder_finding(spec: TokenizerSpec, encoder: Encoder, special: Mapping[str, int]) -> Encoder:
    """Return an encoder that finds exactly these special tokens (token → id)."""
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
    """Raise InvalidOption for places in a text that is changed before it is encoded."""
    raise InvalidOption(
        "the text is changed before it is encoded, so its ids have no places in it",
        "expected a tokenizer whose tokens are parts of the text, and a text that its normalizer "
        "does not change",
        "pass the normalized text, or do without places: tokenizer.encode(text), and no "
        "`--offsets` or `--morphology`",
    )
