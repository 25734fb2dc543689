"""How bytes become counted text: the settings, and what of a text is kept from counting.

Content alone decides which sections are held out, and which passages are left out.
"""

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

# A section ends at the first legal cut behind so many bytes. Small, so that one per cent of a few
# megabytes is still a sample of many places.
SECTION_BYTES = 4 << 10
LONG = 64 << 10  # bytes; a longer document is cut: from a single one nothing can be resampled
_REST = 512  # bytes at the end of such a document that make no part of their own

SECTIONS_RULE = 1  # the sections of about 4 KiB that a passage touches, found in one chunk alone
LEFT_OUT_RULE = 2  # the passages themselves, up to the next places where text may be cut

_ROOM = 1 << 12
_COLUMNS = 5
_RUN = 64  # bytes in a row that documents of two texts do not share by chance
_STRIDE = _RUN - WINDOW + 1  # each run holds a window that begins at a multiple of it

CHUNK_BYTES = 64 << 20
TEXT_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_COUNTING = 3  # raised whenever the same bytes and settings give other counts than before


def in_parts(document: bytes) -> list[bytes]:
    """A document of an evaluation set in parts of about 4 KiB, if it is longer than 64 KiB.

    Parts end at a line end; without one within 64 KiB at a space, else between two characters.
    Split patterns do not matter, so that a set is the same for all of them.
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
    """Documents cut into sections of about 4 KiB, each from its own beginning on.

    So a document that grows keeps all its sections but the last. Sections end where chunks may,
    see `cuts`.

    Args:
        documents: int64 ``[n, 2]`` spans without special tokens.
        pairs: where the split pattern allows cuts; without, a document is one section.

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
    """`sections_of` at the ends of sentences."""
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
    """Share the sections of documents out between training and evaluation.

    Args:
        text, documents, pairs: see `sections_of`.
        below: a section is held out iff its 64-bit fingerprint is below this number, so equal
            sections are never on both sides.

    Returns:
        Two int64 ``[·, 2]`` arrays of spans, training and held out; together all bytes.
    """
    if not below:
        return documents, documents[:0]
    sections = np.ascontiguousarray(sections_of(text, documents, pairs))
    fingerprints = np.empty(len(sections), np.uint64)
    fingerprint_spans(text.data, sections, fingerprints)
    held_out = fingerprints < np.uint64(below)
    return np.ascontiguousarray(sections[~held_out]), np.ascontiguousarray(sections[held_out])


def touched(spans: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which spans share bytes with another one.

    Args:
        spans: int64 ``[n, 2]``.
        others: int64 ``[m, 2]``, ascending by their begins; they may overlap.
    """
    if not len(others):
        return np.zeros(len(spans), np.bool_)
    ends = np.maximum.accumulate(others[:, 1])
    # The last one that begins before a span ends touches it, or one before it that is longer.
    before = np.searchsorted(others[:, 0], spans[:, 1], "left")
    return (before > 0) & (ends[before - 1] > spans[:, 0])


def without(
    text: Text,
    spans: NDArray[np.int64],
    left_out: NDArray[np.int64],
    pairs: CutPairs | SentenceBreaks | None,
) -> NDArray[np.int64]:
    """What is left of spans when others, each widened to the next legal cuts, are removed.

    Args:
        spans: int64 ``[n, 2]``, ascending, apart from each other.
        left_out: int64 ``[m, 2]``, ascending by their begins; they may overlap.
        pairs: as for `sections_of`; without, a span that another one touches is removed whole, and
            where sentences end, its sections are.
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
    """What is left out, as small as it can be told.

    Attributes:
        passages: of every passage the hash of a window, where in it that begins, bytes, the last
            eight of them, fingerprint: each uint64, ascending.
        held_out_below, cut_by: where sections are cut by the split pattern and special tokens of
            this digest, and those with a fingerprint below this number held out, the first rule
            looks for nothing; of former sets.
        rule: how much text is left out with a passage.
        shards: keys of the counts of those chunks that the passages were held out of, shortened by
            `short`: what was counted so is not looked into again.
    """

    passages: bytes
    held_out_below: int = 0
    cut_by: str = ""
    rule: int = LEFT_OUT_RULE
    shards: frozenset[str] = frozenset()

    @classmethod
    def of(cls, documents: Sequence[bytes], shards: Iterable[str] = ()) -> DecontaminationSet:
        """Describe documents. Those shorter than `WINDOW` bytes are not looked for.

        Args:
            documents: UTF-8.
            shards: keys of the counts of all chunks that they were held out of.
        """
        long = [one for one in documents if len(one) >= WINDOW]
        text = Text.of(b"".join(long))
        ends = np.cumsum([0, *map(len, long)], dtype=np.int64)
        offsets = np.array([_telling_window(one) for one in long], np.int64)
        hashes, prints = np.empty(len(long), np.uint64), np.empty(len(long), np.uint64)
        if long:
            spans = np.ascontiguousarray(np.stack((ends[:-1], ends[1:]), axis=1))
            hash_windows(text.data, ends[:-1] + offsets, hashes, np.zeros(FILTER_WORDS, np.uint64))
            fingerprint_spans(text.data, spans, prints)
        lasts = np.array([int.from_bytes(one[-8:], "little") for one in long], np.uint64)
        columns = hashes, offsets, np.diff(ends), lasts, prints
        rows = np.stack([one.astype(np.uint64) for one in columns], axis=1)
        passages = np.unique(rows, axis=0).tobytes()
        return cls(passages, shards=frozenset(map(short, shards)))

    @property
    def digest(self) -> str:
        """Of the passages and the rule; by the first rule, of the passages alone."""
        passages = digest_of_bytes(self.passages)
        return passages if self.rule == SECTIONS_RULE else digest_of([self.rule, passages])

    def looks_into(self, shards: Iterable[str]) -> bool:
        """Whether chunks with counts of these keys are not all those it was held out of."""
        return not self.shards.issuperset(map(short, shards))

    @property
    def reach(self) -> int:
        """Bytes on either side of a place that tell whether a passage lies across it."""
        if self.rule == SECTIONS_RULE:
            return 0
        return max(0, int(_columns_of(self.passages)[2].max(initial=0)) - 1)

    def spans_in(self, text: Text) -> NDArray[np.int64]:
        """Where the passages occur in a text: int64 ``[n, 2]``, ascending by their begins."""
        windows, offsets, lengths, lasts, prints = _columns_of(self.passages)
        filled = np.zeros(FILTER_WORDS, np.uint64)
        np.bitwise_or.at(filled, windows >> 54, np.uint64(1) << (windows >> 48 & 63))
        room = _ROOM
        while True:
            found = np.empty((room, 2), np.int64)
            seen = find_passages(
                text.data, text.size, windows, filled, offsets.astype(np.int64),
                lengths.astype(np.int64), lasts, prints, np.zeros(len(windows), np.int64), found,
            )  # fmt: skip
            if seen <= room:
                return found[np.argsort(found[:seen, 0], kind="stable")]
            room = int(seen)

    def touches(self, text: Text, spans: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which spans of a text, int64 ``[n, 2]``, share bytes with a passage."""
        return touched(spans, self.spans_in(text))

    def across(self, before: bytes, behind: bytes) -> tuple[int, int]:
        """How far passages reach that lie across the place between two texts.

        Returns:
            Bytes before the place and behind it.
        """
        found, place = self.spans_in(Text.of(before + behind)), len(before)
        across = found[(found[:, 0] < place) & (found[:, 1] > place)]
        if not len(across):
            return 0, 0
        return place - int(across[:, 0].min()), int(across[:, 1].max()) - place


def short(key: str) -> str:
    """So much of a digest that no other one begins alike."""
    return key[:16]


@lru_cache(maxsize=2)
def _columns_of(passages: bytes) -> tuple[NDArray[np.uint64], ...]:
    rows = np.frombuffer(passages, np.uint64).reshape(-1, _COLUMNS)
    return tuple(column.copy() for column in rows.T)


def _telling_window(document: bytes) -> int:
    """Where the window begins, of a few, that has most different bytes: no run of spaces."""
    places = range(0, len(document) - WINDOW + 1, max(1, (len(document) - WINDOW) // 8))
    return max(places, key=lambda at: len(set(document[at : at + WINDOW])))


def new_documents(documents: Sequence[bytes], known: Sequence[bytes]) -> list[bytes]:
    """The documents that share no 64 bytes in a row with a known one.

    Shorter ones are not among them: where they come from cannot be told.
    """
    windows = {window for one in known for _, window in _windows_of(one)}
    text = b"\xff".join(documents)  # in no document, so that no window lies in two of them
    spans = DecontaminationSet.of([*windows]).spans_in(Text.of(text))
    around: dict[bytes, set[bytes]] = {text[begin:end]: set() for begin, end in spans.tolist()}
    for one in known:
        for place, window in _windows_of(one):
            if window in around:
                around[window].add(one[max(place - WINDOW, 0) : place + _RUN])
    ends = np.cumsum([len(one) + 1 for one in documents], dtype=np.int64)
    is_new = [len(one) >= _RUN for one in documents]
    numbers = np.searchsorted(ends, spans[:, 0], "right").tolist()
    for (begin, end), number in zip(spans.tolist(), numbers, strict=True):
        if is_new[number]:
            # Of equal windows within four bytes only the first one is found.
            places = range(max(begin - WINDOW, 0), begin + WINDOW // 8 + 1)
            runs = {text[place : place + _RUN] for place in places}
            stretches = around[text[begin:end]]
            is_new[number] = not any(
                len(run) == _RUN and run in stretch for run in runs for stretch in stretches
            )
    return [one for one, new in zip(documents, is_new, strict=True) if new]


def _windows_of(document: bytes) -> Iterator[tuple[int, bytes]]:
    for place in range(0, len(document) - WINDOW + 1, _STRIDE):
        yield place, document[place : place + WINDOW]


class Shares(NamedTuple):
    """What becomes of the documents of a text.

    Attributes:
        training: int64 ``[n, 2]``: the spans that are trained on.
        held_out: likewise, those kept for evaluation.
        left_out_bytes: of the documents, in neither.
        left_out_documents: documents of an evaluation set that begin in them.
    """

    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    left_out_bytes: int = 0
    left_out_documents: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything beside a chunk's bytes that its counts depend on.

    Attributes:
        pattern: how documents are cut into pre-tokens.
        special_tokens: boundaries between documents; never counted.
        invalid_utf8: what bytes that are not UTF-8 mean: ``strict`` refuses the file, ``replace``
            reads U+FFFD as Python's decoder does, ``ignore`` leaves them out as it does.
        text_field: the member of a JSON line, or the column, that holds documents.
        held_out: share of the text (0 ≤ share < 1) kept from counting, for evaluation. The choice
            is made by content, section by section, so it stays as it is when a corpus grows.
        text_fields: (source, text field) of sources with a field of their own, see `of_source`.
        left_out: passages that are not counted: those of the evaluation set.
        text_form: the Unicode form in which documents are read (``NFC`` …); empty: as they are.
        count_columns: the columns of words and of counts, of files that hold these.
        deduplicated: whether copies of documents are left out as well; which ones are copies, the
            whole corpus decides, so chunks with copies have other digests.
        chunk_bytes: how long chunks are, about. Words are the same whatever it is; held-out
            sections, which begin with each chunk, are others.

    Raises:
        InvalidOption: a share or a policy that is not among these.
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
                "strict (refuse the file), replace (read U+FFFD) or ignore (leave them out)",
                'invalid_utf8="replace"',
            )
        if self.text_form not in ("", *TEXT_FORMS):
            raise InvalidOption(
                f"there is no Unicode form {self.text_form!r}",
                f"{', '.join(TEXT_FORMS)}, or an empty text",
                'text_form="NFC"',
            )
        checks.text("text_field", self.text_field)
        if not 0 <= self.held_out < 1:
            raise InvalidOption(
                f"the held-out share is {self.held_out}",
                "a share from 0 up to, but not including, 1",
                "held_out=0.01 keeps one part in a hundred for evaluation",
            )

    def of_source(self, name: str) -> Reading:
        """How the files of one source are read: what their counts depend on, and nothing else."""
        if not self.text_fields:
            return self
        field = dict(self.text_fields).get(name, self.text_field)
        return replace(self, text_field=field, text_fields=())

    @property
    def special_bytes(self) -> tuple[bytes, ...]:
        """The special tokens in UTF-8."""
        return tuple(token.encode() for token in self.special_tokens)

    def cuts(self, format: str) -> Cuts:
        """Where files of this format (see `file_kinds.Format`) may be cut."""
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
        """The column, or the columns, that are read of files of this format."""
        return self.count_columns if format == "counts" else self.text_field

    def quick_cuts(self, format: str) -> Cuts:
        """Legal cuts as well, but not always the first ones; known without an automaton."""
        if not self._is_cut_at_spaces(format):
            return self.cuts(format)
        return self._cuts(SpacesFirst(self.pattern))

    def cuts_soon_found(self, format: str) -> tuple[Cuts, Cuts]:
        """Legal cuts that are found at memory speed, and others with these among them.

        The same ones twice where none are found sooner than others. Neither makes an automaton
        before the others are looked for.
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
        """Share documents out between training and evaluation.

        Args:
            documents: int64 ``[n, 2]`` spans of the text, without special tokens.
            across: see `ChunkText.across`.
        """
        pairs = self.pattern.cut_pairs
        training, held_out = hold_out(text, documents, self.held_out_below, pairs)
        if self.left_out is None or not self.leaves_out:
            return Shares(training, held_out)
        found = self.left_out.spans_in(text)
        if any(across):
            edges = [[-1, across[0]], [text.size - across[1], text.size + 1]]
            found = np.concatenate((found, np.array(edges, np.int64)[np.array(across) > 0]))
            found = found[np.argsort(found[:, 0], kind="stable")]
        if not len(found):
            return Shares(training, held_out)
        if self.left_out.rule == SECTIONS_RULE:
            if not self.held_out_below:
                training = sections_of(text, documents, pairs)
            rest = without(text, training, found, None)
            held_out = without(text, held_out, found, None)
        else:
            rest = without(text, training, found, pairs)
        left_out = int(np.diff(training).sum() - np.diff(rest).sum())
        begins = found[:, 0] >= 0
        return Shares(rest, held_out, left_out, int((touched(found, training) & begins).sum()))

    def reach(self, format: str) -> int:
        """Bytes of a file on either side of a place that tell what is left out across it.

        Documents of other formats than text end where chunks do.
        """
        if format != "text" or self.left_out is None or not self.leaves_out:
            return 0
        reach = self.left_out.reach
        # What is looked at may begin and end within a character; four bytes may become one.
        return reach and (reach + 4) * (4 if self.text_form else 1)

    @property
    def leaves_out(self) -> bool:
        """Whether any passage is looked for."""
        one = self.left_out
        if one is None or not one.passages:
            return False
        if one.rule != SECTIONS_RULE or not 0 < one.held_out_below <= self.held_out_below:
            return True
        return one.cut_by != digest_of([self.pattern.digest, list(self.special_tokens)])

    @property
    def digest(self) -> str:
        """Digest of the settings of `of_source`: with a chunk's digest, the key of its counts."""
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
