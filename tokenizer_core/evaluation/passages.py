"""Passages of documents that two tokenizers cut differently, to be read side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer

LONGEST = 400  # bytes of a passage
_MOST_KEPT = 1024  # passages that are looked at


@dataclass(frozen=True, slots=True)
class PassageToken:
    """A token in its place.

    Attributes:
        token: its bytes.
        changed: whether the other tokenizer has no token of just this place.
    """

    token: bytes
    changed: bool


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, cut by both.

    Attributes:
        text: the piece.
        first, second: its tokens.
    """

    text: str
    first: tuple[PassageToken, ...]
    second: tuple[PassageToken, ...]

    @property
    def cost(self) -> int:
        """Tokens that the second takes more than the first."""
        return len(self.second) - len(self.first)


@dataclass(slots=True)
class PassageSample:
    """Keeps a passage of documents that go by: of all while they are few, then of every n-th.

    Which ones are kept depends on the order of the documents alone.
    """

    _kept: list[bytes] = field(default_factory=list)
    _every: int = 1
    _seen: int = 0

    def watching(self, documents: Iterable[bytes]) -> Iterator[bytes]:
        """The same documents; call it for each text, one after the other."""
        for document in documents:
            if self._seen % self._every == 0:
                self._keep(document)
            self._seen += 1
            yield document

    def _keep(self, document: bytes) -> None:
        self._kept.append(middle_of(document))
        if len(self._kept) == _MOST_KEPT:
            self._kept = self._kept[::2]
            self._every *= 2

    def compared(self, first: Tokenizer, second: Tokenizer, shown: int = 3) -> list[Passage]:
        """The passages of which the second takes most tokens more, then those with most fewer.

        Passages that one of the two changes before it cuts them are left out: what it cuts does
        not stand in them.

        Args:
            first, second: special tokens in passages are ordinary text to those trained here, and
                are found by those that were imported, as their own libraries do.
            shown: how many of either kind at most; those that cost as much are left out.
        """
        texts = [kept.decode(errors="replace") for kept in dict.fromkeys(self._kept) if kept]
        costs = [
            len(theirs) - len(mine)
            for mine, theirs in zip(
                first.encode_batch(texts), second.encode_batch(texts), strict=True
            )
        ]
        order = sorted(range(len(texts)), key=lambda place: (-costs[place], texts[place]))
        dearer = (texts[place] for place in order if costs[place] > 0)
        cheaper = (texts[place] for place in reversed(order) if costs[place] < 0)
        return [
            passage
            for kind in (dearer, cheaper)
            for passage in islice(_passages(first, second, kind), shown)
        ]


def middle_of(document: bytes) -> bytes:
    """About `LONGEST` bytes from the middle of a document, in whole words where there are spaces.

    The middle, because documents of one source often begin alike.
    """
    if len(document) <= LONGEST:
        return document
    begin = (len(document) - LONGEST) // 2
    piece = document[begin : begin + LONGEST]
    space, last = piece.find(b" "), piece.rfind(b" ")
    if 0 <= space < last and last - space > LONGEST // 2:
        return piece[space:last]
    return piece.decode(errors="ignore").encode()  # without the halves of characters at its ends


def _passages(first: Tokenizer, second: Tokenizer, texts: Iterable[str]) -> Iterator[Passage]:
    for text in texts:
        try:
            placed = [one.encode_with_offsets(text) for one in (first, second)]
        except InvalidOption:  # one of them changes this text, so its tokens have no places in it
            continue
        places = [list(map(tuple, one.byte_offsets.tolist())) for one in placed]
        sides = [
            tuple(
                PassageToken(tokenizer.vocab[id_], place not in other)
                for id_, place in zip(found.ids, mine, strict=True)
            )
            for tokenizer, found, mine, other in (
                (first, placed[0], places[0], set(places[1])),
                (second, placed[1], places[1], set(places[0])),
            )
        ]
        yield Passage(text, *sides)
