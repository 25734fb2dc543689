"""Which sections of a text are kept from counting; decided by their content alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning.find_cuts import cut_sections
from bpeline.tokenizer_core.kernels.scanning.fingerprint import fingerprint_spans
from bpeline.tokenizer_core.splitting import CutPairs, Cuts
from bpeline.tokenizer_core.text import Text

# A section ends at the first legal cut behind so many bytes. Small, so that one per cent of a few
# megabytes is still a sample of many places.
SECTION_BYTES = 4 << 10


def sections_of(
    text: Text, documents: NDArray[np.int64], pairs: CutPairs | None
) -> NDArray[np.int64]:
    """Documents cut into sections of about 4 KiB, each from its own beginning on.

    So a document that grows keeps all its sections but the last. Sections end where chunks may,
    see `cuts`.

    Args:
        documents: int64 ``[n, 2]`` spans without special tokens.
        pairs: between which characters the split pattern allows cuts; without, a document is one
            section.

    Returns:
        int64 ``[m, 2]`` spans that cover the same bytes.
    """
    if pairs is None:
        return documents
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


def hold_out(
    text: Text, documents: NDArray[np.int64], below: int, pairs: CutPairs | None
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


def without(spans: NDArray[np.int64], left_out: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some spans that no other one touches.

    Args:
        spans: int64 ``[n, 2]``, ascending, apart from each other.
        left_out: int64 ``[m, 2]``, ascending by their begins; they may overlap.
    """
    if not len(left_out):
        return spans
    ends = np.maximum.accumulate(left_out[:, 1])
    # The last passage that begins before a span ends touches it, or one before it that is longer.
    before = np.searchsorted(left_out[:, 0], spans[:, 1], "left")
    touched = (before > 0) & (ends[before - 1] > spans[:, 0])
    return np.ascontiguousarray(spans[~touched])
