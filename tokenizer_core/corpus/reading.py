"""Read options: how bytes become counted text, and what is kept out of counting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.corpus.file_kinds import RECORD_END
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.scanning.find_passages import (
    FILTER_WORDS,
    WINDOW,
    cut_out,
    cut_sections,
    find_passages,
    fingerprint_spans,
    hash_windows,
)
from bpeline.tokenizer_core.splitting import (
    AnyPairs,
    CutPairs,
    Cuts,
    FormedPairs,
    LoneSpaces,
    SentenceBreaks,
    SpacesAndPairs,
    SpacesFirst,
    SplitPattern,
)
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import validate_special_tokens

# A section ends at the first legal cut after so many bytes. Small, so that 1 % of a few megabytes
# still samples many places.
SECTION_BYTES = 4 << 10
LONG = 64 << 10  # bytes; longer documents are cut, because resampling needs several
_REST = 512  # bytes; a shorter end of such a document is not a part of its own

SECTIONS_RULE = 1  # leaves out the whole sections that a passage touches
LEFT_OUT_RULE = 2  # leaves out the passages, up to the next legal cuts

_ROOM = 1 << 12
_COLUMNS = 5
_RUN = 64  # bytes in a row; too long to be shared by chance
_STRIDE = _RUN - WINDOW + 1  # each run holds a window that begins at a multiple of this

CHUNK_BYTES = 64 << 20
TEXT_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_COUNTING = 3  # increased when the same bytes and settings give different counts


def in_parts(document: bytes) -> list[bytes]:
    """Cut an evaluation document longer than 64 KiB into parts of about 4 KiB.

    A part ends at the first line end within 64 KiB, else at a space, else between two characters.
    The split pattern does not matter, so an evaluation set is the same for all patterns.
    """
    if len(document) <= LONG:
        return [document]
    parts, begin = [], 0
    while len(document) - begin > SECTION_BYTES:
        least, most = begin + SECTION_BYTES, begin + LONG - _REST
        cut = document.find(b"\n", least, most) + 1 or document.find(b" ", least, most)
        if cut < 0:
            cut = least
            while cut < len(document) and document[cut] & 0xC0 == 0x80:
                cut += 1
        if len(document) - cut < _REST:
            break
        parts.append(document[begin:cut])
        begin = cut
    return [*parts, document[begin:]]


def sections_of(
    text: Text, documents: NDArray[np.int64], pairs: CutPairs | SentenceBreaks | None
) -> NDArray[np.int64]:
    """Cut documents into sections of about 4 KiB, each from its own beginning.

    A document that grows keeps all its sections but the last. Sections end at legal cuts, see
    `ReadOptions.cuts`; without ``pairs``, each document stays whole.

    Returns:
        int64 ``[m, 2]`` spans that cover the same bytes.
    """
    if pairs is None:
        return documents
    if isinstance(pairs, SentenceBreaks):
        return _sections_at(pairs, text, documents)
    lengths = documents[:, 1] - documents[:, 0]
    sections = np.empty((int((lengths // SECTION_BYTES + 1).sum()), 2), np.int64)
    number = cut_sections(
        text.data,
        np.ascontiguousarray(documents),
        SECTION_BYTES,
        Cuts(pairs=pairs).ahead,
        pairs.class_of_point,
        pairs.legal,
        sections,
    )
    return sections[:number]


def _sections_at(
    breaks: SentenceBreaks, text: Text, documents: NDArray[np.int64]
) -> NDArray[np.int64]:
    sections: list[tuple[int, int]] = []
    for begin, end in documents.tolist():
        document, done = text.data[begin:end].data, 0
        last = end - begin - breaks.LOOK + 1
        while (cut := breaks.first(document, done + SECTION_BYTES, last)) >= 0:
            sections.append((begin + done, begin + cut))
            done = cut
        sections.append((begin + done, end))
    return np.array(sections, np.int64).reshape(-1, 2)


def hold_out(
    text: Text,
    documents: NDArray[np.int64],
    below: int,
    pairs: CutPairs | SentenceBreaks | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Divide the sections of documents into spans for training and for evaluation.

    A section is held out iff its 64-bit fingerprint is less than ``below``, so equal sections are
    always on the same side.
    """
    if not below:
        return documents, documents[:0]
    sections = np.ascontiguousarray(sections_of(text, documents, pairs))
    fingerprints = np.empty(len(sections), np.uint64)
    fingerprint_spans(text.data, sections, fingerprints)
    held_out = fingerprints < np.uint64(below)
    return np.ascontiguousarray(sections[~held_out]), np.ascontiguousarray(sections[held_out])


def touched(spans: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the spans share bytes with any of the others.

    Both are int64 ``[·, 2]``; ``others`` ascend by their begins and may overlap.
    """
    if not len(others):
        return np.zeros(len(spans), np.bool_)
    ends = np.maximum.accumulate(others[:, 1])
    # Of those that begin before the span ends, the one with the largest end decides.
    before = np.searchsorted(others[:, 0], spans[:, 1], "left")
    return (before > 0) & (ends[before - 1] > spans[:, 0])


def without(
    text: Text,
    spans: NDArray[np.int64],
    left_out: NDArray[np.int64],
    pairs: CutPairs | SentenceBreaks | None,
) -> NDArray[np.int64]:
    """Remove spans, each widened to the next legal cuts, from other spans.

    Args:
        spans: int64 ``[n, 2]``, ascending and disjoint.
        left_out: int64 ``[m, 2]``, ascending by their begins; they may overlap.
        pairs: where to cut. None removes touched spans whole; sentence breaks remove sections.
    """
    if isinstance(pairs, SentenceBreaks):
        spans, pairs = sections_of(text, spans, pairs), None
    if pairs is None or not len(left_out):
        return np.ascontiguousarray(spans[~touched(spans, left_out)])
    ends = np.maximum.accumulate(left_out[:, 1])
    apart = np.flatnonzero(left_out[1:, 0] > ends[:-1])
    firsts, lasts = np.append(0, apart + 1), np.append(apart, len(ends) - 1)
    removed = np.column_stack((left_out[firsts, 0], ends[lasts]))
    rest = np.empty((len(spans) + len(removed), 2), np.int64)
    spans = np.ascontiguousarray(spans)
    number = cut_out(text.data, spans, removed, pairs.class_of_point, pairs.legal, rest)
    return rest[:number]


@dataclass(frozen=True, slots=True)
class DecontaminationSet:
    """Passages of an evaluation set to leave out of training, stored as hashes.

    Attributes:
        passages: five uint64 for each passage, ascending: the hash of a window in it, the window's
            offset, the length in bytes, the last eight bytes, a fingerprint.
        held_out_below, cut_by: only in older sets, with `SECTIONS_RULE`. Nothing is searched if
            sections are cut by the split pattern and special tokens with this digest, and those
            with a fingerprint below this number are held out.
        rule: how much text is left out with a passage.
        shards: keys of the counts of the chunks that the passages were held out of, shortened by
            `short`: these need no search.
    """

    passages: bytes
    held_out_below: int = 0
    cut_by: str = ""
    rule: int = LEFT_OUT_RULE
    shards: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Sequence[bytes], shards: Iterable[str] = ()) -> DecontaminationSet:
        """Build the set from UTF-8 documents; ignores those shorter than `WINDOW` bytes.

        ``shards`` are the keys of the counts of all chunks that they were held out of.
        """
        searched = [document for document in documents if len(document) >= WINDOW]
        text = Text.of(b"".join(searched))
        ends = np.cumsum([0, *map(len, searched)], dtype=np.int64)
        offsets = np.array([_telling_window(document) for document in searched], np.int64)
        hashes, prints = np.empty(len(searched), np.uint64), np.empty(len(searched), np.uint64)
        if searched:
            spans = np.ascontiguousarray(np.stack((ends[:-1], ends[1:]), axis=1))
            hash_windows(text.data, ends[:-1] + offsets, hashes, np.zeros(FILTER_WORDS, np.uint64))
            fingerprint_spans(text.data, spans, prints)
        lasts = np.array(
            [int.from_bytes(document[-8:], "little") for document in searched], np.uint64
        )
        columns = hashes, offsets, np.diff(ends), lasts, prints
        rows = np.stack([document.astype(np.uint64) for document in columns], axis=1)
        passages = np.unique(rows, axis=0).tobytes()
        return cls(passages, shards=frozenset(map(short, shards)))

    @property
    def digest(self) -> str:
        """Digest of the passages and the rule; for `SECTIONS_RULE`, of the passages."""
        passages = digest_of_bytes(self.passages)
        return passages if self.rule == SECTIONS_RULE else digest_of([self.rule, passages])

    def looks_into(self, shards: Iterable[str]) -> bool:
        """Whether a chunk with one of these count keys must be searched."""
        return not self.shards.issuperset(map(short, shards))

    @property
    def reach(self) -> int:
        """Bytes before and after a position that decide whether a passage crosses it."""
        if self.rule == SECTIONS_RULE:
            return 0
        return max(0, int(_columns_of(self.passages)[2].max(initial=0)) - 1)

    def spans_in(self, text: Text) -> NDArray[np.int64]:
        """Find the passages in a text: int64 ``[n, 2]``, ascending by their begins."""
        windows, offsets, lengths, lasts, prints = _columns_of(self.passages)
        filled = np.zeros(FILTER_WORDS, np.uint64)
        np.bitwise_or.at(filled, windows >> 54, np.uint64(1) << (windows >> 48 & 63))
        room = _ROOM
        while True:
            spans = np.empty((room, 2), np.int64)
            number = find_passages(
                text.data, text.size, windows, filled, offsets.astype(np.int64),
                lengths.astype(np.int64), lasts, prints, np.zeros(len(windows), np.int64), spans,
            )  # fmt: skip
            if number <= room:
                return spans[np.argsort(spans[:number, 0], kind="stable")]
            room = int(number)

    def touches(self, text: Text, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which spans of a text, int64 ``[n, 2]``, share bytes with a passage."""
        return touched(spans, self.spans_in(text))

    def across(self, before: bytes, behind: bytes) -> tuple[int, int]:
        """Bytes before and after the border of two texts in passages that cross it."""
        spans, place = self.spans_in(Text.of(before + behind)), len(before)
        across = spans[(spans[:, 0] < place) & (spans[:, 1] > place)]
        if not len(across):
            return 0, 0
        return place - int(across[:, 0].min()), int(across[:, 1].max()) - place


def short(key: str) -> str:
    """Shorten a digest; the prefix is still unique."""
    return key[:16]


@lru_cache(maxsize=2)
def _columns_of(passages: bytes) -> tuple[NDArray[np.uint64], ...]:
    rows = np.frombuffer(passages, np.uint64).reshape(-1, _COLUMNS)
    return tuple(column.copy() for column in rows.T)


def _telling_window(document: bytes) -> int:
    """Choose a window with many different bytes, not a run of spaces."""
    places = range(0, len(document) - WINDOW + 1, max(1, (len(document) - WINDOW) // 8))
    return max(places, key=lambda at: len(set(document[at : at + WINDOW])))


def new_documents(documents: Sequence[bytes], known: Sequence[bytes]) -> list[bytes]:
    """Return the documents that share no 64 bytes in a row with a known one.

    Shorter documents are dropped: their origin cannot be determined.
    """
    windows = {window for document in known for _, window in _windows_of(document)}
    text = b"\xff".join(documents)  # not in UTF-8, so no window spans two documents
    spans = DecontaminationSet.of([*windows]).spans_in(Text.of(text))
    around: dict[bytes, set[bytes]] = {text[begin:end]: set() for begin, end in spans.tolist()}
    for document in known:
        for place, window in _windows_of(document):
            if window in around:
                around[window].add(document[max(place - WINDOW, 0) : place + _RUN])
    ends = np.cumsum([len(document) + 1 for document in documents], dtype=np.int64)
    is_new = [len(document) >= _RUN for document in documents]
    numbers = np.searchsorted(ends, spans[:, 0], "right").tolist()
    for (begin, end), number in zip(spans.tolist(), numbers, strict=True):
        if is_new[number]:
            # Of equal windows within four bytes, only the first is found.
            places = range(max(begin - WINDOW, 0), begin + WINDOW // 8 + 1)
            runs = {text[place : place + _RUN] for place in places}
            stretches = around[text[begin:end]]
            is_new[number] = not any(
                len(run) == _RUN and run in stretch for run in runs for stretch in stretches
            )
    return [document for document, new in zip(documents, is_new, strict=True) if new]


def _windows_of(document: bytes) -> Iterator[tuple[int, bytes]]:
    for place in range(0, len(document) - WINDOW + 1, _STRIDE):
        yield place, document[place : place + WINDOW]


class Shares(NamedTuple):
    """How the documents of a text are divided.

    Attributes:
        training, held_out: int64 ``[n, 2]``: spans to train on, and those kept for evaluation.
        left_out_bytes: bytes of the documents that are in neither.
        left_out_documents: number of passages that are left out and begin in this text.
    """

    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    left_out_bytes: int = 0
    left_out_documents: int = 0


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Read options: everything besides a chunk's bytes that its counts depend on.

    Attributes:
        pattern: splits documents into pre-tokens.
        special_tokens: boundaries between documents; never counted.
        invalid_utf8: ``strict`` refuses a file with invalid bytes, ``replace`` reads them as
            U+FFFD, ``ignore`` drops them, as Python's decoder does.
        text_field: the member of a JSON line, or the column, with the documents.
        held_out: share of the text (0 ≤ share < 1) kept for evaluation. Chosen by content, section
            by section, so the choice is stable when a corpus grows.
        text_fields: (source, text field) of sources with their own field, see `of_source`.
        left_out: passages of the evaluation set, which are not counted.
        text_form: the Unicode form to convert documents to (``NFC`` …); empty for none.
        count_columns: the columns of words and of counts in files of word counts.
        deduplicated: whether copies of documents are left out. The whole corpus decides which
            documents are copies, so chunks with copies get other digests.
        chunk_bytes: approximate length of chunks. Words do not depend on it; held-out sections do,
            because they begin with each chunk.

    Raises:
        InvalidOption: an invalid share, policy or form.
        InvalidSpecialToken: see `validate_special_tokens`.
    """

    pattern: SplitPattern
    special_tokens: tuple[str, ...] = ()
    invalid_utf8: Literal["strict", "replace", "ignore"] = "strict"
    text_field: str = "text"
    held_out: float = 0.0
    text_fields: tuple[tuple[str, str], ...] = ()
    left_out: DecontaminationSet | None = None
    deduplicated: bool = False
    text_form: Literal["", "NFC", "NFD", "NFKC", "NFKD"] = ""
    count_columns: tuple[str, str] = ("word", "count")
    chunk_bytes: int = CHUNK_BYTES

    def __post_init__(self) -> None:
        if self.special_tokens:
            specials = validate_special_tokens(self.special_tokens)
            object.__setattr__(self, "special_tokens", specials)
        if self.invalid_utf8 not in ("strict", "replace", "ignore"):
            raise InvalidOption(
                f"there is no policy {self.invalid_utf8!r} for bytes that are not UTF-8",
                "expected strict (refuse the file), replace (read U+FFFD) or ignore (drop them)",
                'invalid_utf8="replace"',
            )
        if self.text_form not in ("", *TEXT_FORMS):
            raise InvalidOption(
                f"there is no Unicode form {self.text_form!r}",
                f"expected {', '.join(TEXT_FORMS)} or an empty string",
                'text_form="NFC"',
            )
        checks.text("text_field", self.text_field)
        if not 0 <= self.held_out < 1:
            raise InvalidOption(
                f"the held-out share is {self.held_out}",
                "expected a share from 0 to below 1",
                "held_out=0.01 keeps 1 % for evaluation",
            )

    def of_source(self, name: str) -> ReadOptions:
        """Return the options for the files of one source."""
        if not self.text_fields:
            return self
        field = dict(self.text_fields).get(name, self.text_field)
        return replace(self, text_field=field, text_fields=())

    @property
    def special_bytes(self) -> tuple[bytes, ...]:
        """The special tokens in UTF-8."""
        return tuple(token.encode() for token in self.special_tokens)

    def cuts(self, format: str) -> Cuts:
        """Return where files of a format (see `file_kinds.Format`) may be cut."""
        if format != "text":
            return Cuts(behind_each=b"\n" if format == "jsonl" else RECORD_END)
        pairs = self.pattern.cut_pairs
        if isinstance(pairs, SentenceBreaks):
            return self._cuts(replace(pairs, form=self.text_form))
        if pairs is None or not self.text_form:
            return self._cuts(pairs)
        return self._cuts(FormedPairs(pairs, self.text_form))

    def _cuts(self, pairs: AnyPairs) -> Cuts:
        return Cuts(
            pairs=pairs,
            special_tokens=self.special_bytes,
            drops_invalid=self.invalid_utf8 == "ignore",
        )

    def fields(self, format: str) -> str | tuple[str, str]:
        """Return the column, or the two columns, to read from files of a format."""
        return self.count_columns if format == "counts" else self.text_field

    def quick_cuts(self, format: str) -> Cuts:
        """Return legal cuts that need no automaton; the first ones may be missing."""
        if not self._is_cut_at_spaces(format):
            return self.cuts(format)
        return self._cuts(SpacesFirst(self.pattern))

    def cuts_soon_found(self, format: str) -> tuple[Cuts, Cuts]:
        """Return legal cuts that are found at memory speed, and a superset of them.

        Both are the same if there is no fast way. The automaton is built when the superset is first
        searched.
        """
        if not self._is_cut_at_spaces(format):
            cuts = self.cuts(format)
            return cuts, cuts
        return self._cuts(LoneSpaces()), self._cuts(SpacesAndPairs(self.pattern))

    def _is_cut_at_spaces(self, format: str) -> bool:
        return format == "text" and not self.text_form and self.pattern.cuts_at_spaces

    @property
    def held_out_below(self) -> int:
        """Sections whose 64-bit fingerprint is below this number are held out."""
        return int(self.held_out * 2.0**64)

    def share_out(
        self, text: Text, documents: NDArray[np.int64], across: tuple[int, int] = (0, 0)
    ) -> Shares:
        """Divide documents into spans for training, for evaluation and left out."""
        pairs = self.pattern.cut_pairs
        training, held_out = hold_out(text, documents, self.held_out_below, pairs)
        if self.left_out is None or not self.leaves_out:
            return Shares(training, held_out)
        passages = self.left_out.spans_in(text)
        if any(across):
            edges = [[-1, across[0]], [text.size - across[1], text.size + 1]]
            passages = np.concatenate((passages, np.array(edges, np.int64)[np.array(across) > 0]))
            passages = passages[np.argsort(passages[:, 0], kind="stable")]
        if not len(passages):
            return Shares(training, held_out)
        if self.left_out.rule == SECTIONS_RULE:
            if not self.held_out_below:
                training = sections_of(text, documents, pairs)
            rest = without(text, training, passages, None)
            held_out = without(text, held_out, passages, None)
        else:
            rest = without(text, training, passages, pairs)
        left_out = int(np.diff(training).sum() - np.diff(rest).sum())
        begins = passages[:, 0] >= 0
        return Shares(rest, held_out, left_out, int((touched(passages, training) & begins).sum()))

    def reach(self, format: str) -> int:
        """Bytes of a file around a position that decide what is left out across it.

        0 for formats other than text, whose documents end where chunks do.
        """
        if format != "text" or self.left_out is None or not self.leaves_out:
            return 0
        reach = self.left_out.reach
        # The text may begin and end within a character, and a form may shrink 4 bytes to 1.
        return reach and (reach + 4) * (4 if self.text_form else 1)

    @property
    def leaves_out(self) -> bool:
        """Whether passages must be searched."""
        passages = self.left_out
        if passages is None or not passages.passages:
            return False
        if passages.rule != SECTIONS_RULE or not 0 < passages.held_out_below <= self.held_out_below:
            return True
        return passages.cut_by != digest_of([self.pattern.digest, list(self.special_tokens)])

    @property
    def digest(self) -> str:
        """Digest of these options after `of_source`; part of the key of a chunk's counts."""
        settings: dict[str, Any] = {
            "counting": _COUNTING,
            "pattern": self.pattern.digest,
            "special_tokens": list(self.special_tokens),
            "invalid_utf8": self.invalid_utf8,
            "text_field": self.text_field,
            "held_out": f"{self.held_out_below:016x}",
        }
        if self.left_out is not None and self.leaves_out:
            settings["left_out"] = self.left_out.digest
        if self.text_form:
            settings["text_form"] = self.text_form
        if self.deduplicated:
            settings["deduplicated"] = True
        if self.count_columns != ("word", "count"):
            settings["count_columns"] = list(self.count_columns)
        return digest_of(settings)
