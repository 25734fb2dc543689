"""A text that comes in pieces, prepared as it would be whole, and parted to be encoded; no ids.

The steps of `TextPreparation` one behind the other, each holding what is not decided yet: added
tokens that may still grow or look at what is beside them, characters that a normalizer may join to
the next one, the beginning of a piece before its prefix is put there. What is ready is parted where
the encoder's ids of both parts are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from bpeline.tokenizer_core.encoding.encoder import LegalCuts
from bpeline.tokenizer_core.encoding.preparation import TextPreparation
from bpeline.tokenizer_core.normalization import InPieces
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import AddedTokenMatcher

GOES_ON = -2  # stands where the id behind a piece would, while the piece has not ended
_ENOUGH = 1 << 16  # characters held before a cut is looked for

Part = tuple[str, int]


def prepared_pieces(
    preparation: TextPreparation,
    new_normalizer: Callable[[], InPieces] | None,
    contents: Iterable[str],
    unsought: frozenset[int],
    cuts: LegalCuts | None,
    longest: int = 0,
) -> Iterator[tuple[str, int, bool]]:
    """What `TextPreparation.prepare` makes of the whole, in parts that can be encoded apart.

    Args:
        new_normalizer: makes the normalizer of one piece; None where there is none.
        contents: parts of one text, of whole characters.
        unsought: ids of added tokens that are ordinary text.
        cuts: where the encoder's ids are independent; None: pieces stay whole.
        longest: characters of the longest piece that may be one token: such a one is not parted.

    Yields:
        a text, perhaps empty, the id of the added token behind it, or −1, and whether it is a
        whole piece.
    """
    parts = _Preparation(preparation, new_normalizer, unsought).parts(contents)
    held: list[str] = []
    least = max(_ENOUGH, longest + 1)
    size, enough, whole = 0, least, True
    for part, end in parts:
        held.append(part)
        size += len(part)
        if end != GOES_ON:
            yield "".join(held), end, whole
            held, size, enough, whole = [], 0, least, True
        elif size >= enough and cuts is not None:
            text = "".join(held)
            place = max(cuts.last_in(text, 1, size), 0)
            if place:
                yield text[:place], -1, False
                whole = False
            held, size = [text[place:]], size - place
            enough = max(least, 2 * size)


class _Preparation:
    """The preparation of one text.

    Everything in it yields parts of text, each with the id behind it, or `GOES_ON`.
    """

    def __init__(
        self,
        preparation: TextPreparation,
        new_normalizer: Callable[[], InPieces] | None,
        unsought: frozenset[int],
    ) -> None:
        self._preparation, self._new_normalizer = preparation, new_normalizer
        self._unsought = unsought
        self._beginning = ""  # of the text as it was given
        self._is_first = True  # the piece at hand begins the text

    def parts(self, contents: Iterable[str]) -> Iterator[Part]:
        raw = _Finding(self._preparation.raw, self._unsought)
        self._new_piece()
        for content in contents:
            self._beginning = self._beginning or content[:1]
            yield from self._normalized(raw.feed(content))
        yield from self._normalized(raw.finish(-1))

    def _new_piece(self) -> None:
        self._normalizer = None if self._new_normalizer is None else self._new_normalizer()
        self._late = _Finding(self._preparation.late, self._unsought)
        self._start = ""  # of the piece of normalized text, while its prefix is not decided
        self._started = False

    def _normalized(self, found: Iterable[Part]) -> Iterator[Part]:
        for part, end in found:
            made = part if self._normalizer is None else self._normalizer.feed(part)
            if end == GOES_ON:
                yield from self._prefixed(self._late.feed(made))
                continue
            if self._normalizer is not None:
                made += self._normalizer.finish()
            yield from self._prefixed(self._late.feed(made))
            yield from self._prefixed(self._late.finish(end))
            self._new_piece()

    def _prefixed(self, found: Iterable[Part]) -> Iterator[Part]:
        prefix = self._preparation.prefix
        for part, end in found:
            made = part
            if prefix is not None:
                mark = prefix.text
                made = self._start + (part.replace(" ", mark) if prefix.replaces_spaces else part)
                self._start = ""
                if not self._started and len(made) < len(mark) and end == GOES_ON:
                    self._start, made = made, ""
                elif not self._started and made:
                    self._started = True
                    made = self._preparation.with_prefix(made.encode(), self._begins).decode()
            yield made, end
            if end != GOES_ON:
                self._started = self._is_first = False

    def _begins(self) -> bool:
        return self._is_first and self._preparation.begins_as_given(self._beginning.encode())


class _Finding:
    """Added tokens in a text that comes in parts."""

    def __init__(self, matcher: AddedTokenMatcher, unsought: frozenset[int]) -> None:
        self._matcher, self._unsought = matcher, unsought
        self._held, self._enough = b"", 0

    def feed(self, part: str) -> Iterator[Part]:
        self._held += part.encode()
        if len(self._held) <= self._enough:
            return
        place = self._matcher.last_cut(Text.of(self._held))
        self._enough = 0 if place else 2 * len(self._held)
        decided, self._held = self._held[:place], self._held[place:]
        if decided:
            yield from self._cut(decided, GOES_ON)

    def finish(self, end: int) -> Iterator[Part]:
        yield from self._cut(self._held, end)

    def _cut(self, content: bytes, end: int) -> Iterator[Part]:
        span = np.array([[0, len(content)]], np.int64)
        behind = np.full(1, end, np.int64)
        spans, ids = self._matcher.cut(Text.of(content), span, behind, self._unsought)
        for (begin, stop), id_ in zip(spans.tolist(), ids.tolist(), strict=True):
            yield content[begin:stop].decode(), id_
