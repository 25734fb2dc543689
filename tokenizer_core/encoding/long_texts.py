"""A long text encoded in parts that fit the processor's caches, by several threads; knows no ids.

Parts meet where no pre-token can cross, so their ids joined are those of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.processors import thread_count
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text, refuse_invalid_utf8

PART = 1 << 20  # bytes; measured: LOG.md


def encode_long(
    encoder: Encoder,
    content: bytes,
    pattern: SplitPattern | None,
    threads: int | None = 1,
    check_utf8: bool = False,
) -> NDArray[np.uint32]:
    """Token ids of a text: uint32.

    Args:
        pattern: the encoder's; where its cuts are unknown (`cut_pairs`), or None is given, the
            text is one part.
        check_utf8: whether that it is UTF-8 must be checked first.

    Raises:
        InvalidOption: less than one thread.
        InvalidUtf8: as asked for with ``check_utf8``.
    """

    def encode_part(edges: tuple[int, int]) -> NDArray[np.uint32]:
        begin, end = edges
        text = Text.of(whole[begin:end])
        if check_utf8:
            refuse_invalid_utf8(text, begin)
        return encoder.encode_whole(text)

    threads = thread_count(threads)
    whole = memoryview(content)
    edges = list(pairwise(_edges(content, pattern)))
    if len(edges) == 1:
        return encode_part(edges[0]).copy()  # the array it is cut from is much larger
    workers = min(threads, len(edges))
    if workers == 1:
        return _joined(map(encode_part, edges), len(content))
    with ThreadPoolExecutor(workers) as pool:
        return _joined(pool.map(encode_part, edges), len(content))


def _joined(parts: Iterable[NDArray[np.uint32]], most: int) -> NDArray[np.uint32]:
    """The parts, at most ``most`` ids, in one array; memory that no id reaches is never touched."""
    ids = np.empty(most, np.uint32)
    written = 0
    for part in parts:
        ids[written : written + len(part)] = part
        written += len(part)
    ids.resize(written, refcheck=False)  # gives the rest back where it stands
    return ids


def _edges(content: bytes, pattern: SplitPattern | None) -> Iterator[int]:
    begin, size = 0, len(content)
    yield begin
    # Asked only of long texts: it may have to be made.
    pairs = pattern.cut_pairs if pattern is not None and size >= 2 * PART else None
    while pairs is not None and size - begin >= 2 * PART:
        begin = pairs.first(content, begin + PART, size)
        if begin < 0:
            break
        yield begin
    yield size
