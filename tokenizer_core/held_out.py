"""Which sections of a text are kept from counting; decided by their content alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.cut_pairs import CutPairs
from tokenizer_core.cuts import Cuts
from tokenizer_core.kernels.fingerprint import fingerprint_spans
from tokenizer_core.text import Text

# A section ends at the first legal cut behind so many bytes. Small, so that one per cent of a few
# megabytes is still a sample of many places.
SECTION_BYTES = 4 << 10
_FIRST_LOOK = 1 << 10


def sections_of(
    text: Text, documents: NDArray[np.int64], pairs: CutPairs | None
) -> NDArray[np.int64]:
    """Documents cut into sections of about 4 KiB, each from its own beginning on.

    So a document that grows keeps all its sections but the last.

    Args:
        documents: int64 ``[n, 2]`` spans without special tokens.
        pairs: between which characters the split pattern allows cuts; without, a document is one
            section.

    Returns:
        int64 ``[m, 2]`` spans that cover the same bytes.
    """
    long = (documents[:, 1] - documents[:, 0]) > SECTION_BYTES
    if pairs is None or not long.any():
        return documents
    cut = [_sections_of_one(text, begin, end, pairs) for begin, end in documents[long].tolist()]
    sections = np.concatenate((documents[~long], *cut))
    return np.ascontiguousarray(sections[np.argsort(sections[:, 0])])


def _sections_of_one(text: Text, begin: int, end: int, pairs: CutPairs) -> NDArray[np.int64]:
    edges = [begin]
    while end - edges[-1] > SECTION_BYTES:
        cut = _first_cut(text, edges[-1] + SECTION_BYTES, end, pairs)
        if cut < 0:
            break
        edges.append(cut)
    edges.append(end)
    return np.stack((np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)), axis=1)


def _first_cut(text: Text, position: int, end: int, pairs: CutPairs) -> int:
    cuts = Cuts(pairs=pairs)
    look = _FIRST_LOOK
    while position + cuts.ahead <= end:
        begin = position - cuts.behind
        stop = min(position + look + cuts.ahead, end)
        last = stop - cuts.ahead  # the last position that can be judged
        found = cuts.first(text.bytes(begin, stop), position - begin, last - begin + 1)
        if found >= 0:
            return begin + found
        position = last + 1
        look *= 2
    return -1


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
    sections = sections_of(text, documents, pairs)
    fingerprints = np.empty(len(sections), np.uint64)
    fingerprint_spans(text.data, sections, fingerprints)
    held_out = fingerprints < np.uint64(below)
    return np.ascontiguousarray(sections[~held_out]), np.ascontiguousarray(sections[held_out])
