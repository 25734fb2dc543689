"""Which sections of a text are kept from counting; decided by their content alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.cuts import Cuts
from tokenizer_core.kernels.fingerprint import fingerprint_spans
from tokenizer_core.text import Text

# A section ends at the first legal cut behind so many bytes. Small, so that one per cent of a few
# megabytes is still a sample of many places.
SECTION_BYTES = 4 << 10
_FIRST_LOOK = 1 << 10


def sections_of(text: Text, documents: NDArray[np.int64], at_spaces: bool) -> NDArray[np.int64]:
    """Documents cut into sections of about 4 KiB, each from its own beginning on.

    So a document that grows keeps all its sections but the last.

    Args:
        documents: int64 ``[n, 2]`` spans without special tokens.
        at_spaces: whether the split pattern allows cuts before single spaces; else a document is
            one section.

    Returns:
        int64 ``[m, 2]`` spans that cover the same bytes.
    """
    long = (documents[:, 1] - documents[:, 0]) > SECTION_BYTES
    if not at_spaces or not long.any():
        return documents
    cut = [_sections_of_one(text, begin, end) for begin, end in documents[long].tolist()]
    sections = np.concatenate((documents[~long], *cut))
    return np.ascontiguousarray(sections[np.argsort(sections[:, 0])])


def _sections_of_one(text: Text, begin: int, end: int) -> NDArray[np.int64]:
    edges = [begin]
    while end - edges[-1] > SECTION_BYTES:
        cut = _first_space_cut(text, edges[-1] + SECTION_BYTES, end)
        if cut < 0:
            break
        edges.append(cut)
    edges.append(end)
    return np.stack((np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)), axis=1)


def _first_space_cut(text: Text, position: int, end: int) -> int:
    cuts = Cuts(at_spaces=True)
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
    text: Text, documents: NDArray[np.int64], below: int, at_spaces: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Share the sections of documents out between training and evaluation.

    Args:
        text, documents, at_spaces: see `sections_of`.
        below: a section is held out iff its 64-bit fingerprint is below this number, so equal
            sections are never on both sides.

    Returns:
        Two int64 ``[·, 2]`` arrays of spans, training and held out; together all bytes.
    """
    if not below:
        return documents, documents[:0]
    sections = sections_of(text, documents, at_spaces)
    fingerprints = np.empty(len(sections), np.uint64)
    fingerprint_spans(text.data, sections, fingerprints)
    held_out = fingerprints < np.uint64(below)
    return np.ascontiguousarray(sections[~held_out]), np.ascontiguousarray(sections[held_out])
