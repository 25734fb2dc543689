"""A long text encoded in parts that fit the processor's caches, by several threads; knows no ids.

Parts meet where no pre-token can cross, so their ids joined are those of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.encoder import Encoder
from tokenizer_core.processors import thread_count
from tokenizer_core.text import Text
from tokenizer_core.text_input import refuse_invalid_utf8

PART = 1 << 20  # bytes; measured: LOG.md
# A single U+0020 between two characters that are surely no white space: in UTF-8 that begins
# with C2, E1, E2 or E3, or is a control character.
_CUT = re.compile(
    rb"(?:(?<=[!-~])|(?<=[\xc3-\xdf][\x80-\xbf])|(?<=[\xe0\xe4-\xef][\x80-\xbf]{2})) "
    rb"(?=[!-~\xc3-\xe0\xe4-\xf4])"
)


def encode_long(
    encoder: Encoder,
    content: bytes,
    cuts_at_spaces: bool,
    threads: int | None = 1,
    check_utf8: bool = False,
) -> NDArray[np.uint32]:
    """Token ids of a text: uint32.

    Args:
        content: UTF-8.
        cuts_at_spaces: see `SplitPattern.cuts_at_spaces`; otherwise the text is one part.
        threads: how many; None: one per available processor.
        check_utf8: whether that it is UTF-8 must be checked first.

    Raises:
        InvalidOption: less than one thread.
        InvalidUtf8: as asked for with ``check_utf8``.
    """
    threads = thread_count(threads)
    encode_part = partial(_encode_part, encoder, memoryview(content), check_utf8)
    edges = list(pairwise(_edges(content, cuts_at_spaces)))
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


def _encode_part(
    encoder: Encoder, content: memoryview, check_utf8: bool, edges: tuple[int, int]
) -> NDArray[np.uint32]:
    begin, end = edges
    text = Text.of(content[begin:end])
    if check_utf8:
        refuse_invalid_utf8(text, begin)
    return encoder.encode_whole(text)


def _edges(content: bytes, cuts_at_spaces: bool) -> Iterator[int]:
    yield 0
    size = len(content)
    begin = 0
    while cuts_at_spaces and size - begin >= 2 * PART:
        found = _CUT.search(content, begin + PART)
        if found is None:
            break
        begin = found.start()
        yield begin
    yield size
