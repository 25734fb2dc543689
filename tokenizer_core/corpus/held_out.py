"""Which sections of a text are kept from counting; decided by their content alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning.find_cuts import cut_out, cut_sections
from bpeline.tokenizer_core.kernels.scanning.fingerprint import fingerprint_spans
from bpeline.tokenizer_core.splitting import CutPairs, Cuts, SentenceBreaks
from bpeline.tokenizer_core.text import Text

# A section ends at the first legal cut behind so many bytes. Small, so that one per cent of a few
# megabytes is still a sample of many places.
SECTION_BYTES = 4 << 10
LONG = 64 << 10  # bytes; a longer document is cut: from a single one nothing can be resampled
_REST = 512  # bytes at the end of such a document that make no part of their own


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
