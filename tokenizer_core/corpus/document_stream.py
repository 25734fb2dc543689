"""The documents of some files, one after the other, as training would see them; counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.chunking import ChunkGroup, read_chunks
from bpeline.tokenizer_core.corpus.held_out import sections_of
from bpeline.tokenizer_core.corpus.reading import Reading
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.counting import documents_between
from bpeline.tokenizer_core.text import Text

LONG = 64 << 10  # bytes; longer documents come in sections


def documents_of(
    files: Iterable[SourceFile], reading: Reading, digests: list[str] | None = None
) -> Iterator[bytes]:
    """Documents in UTF-8, without the special tokens between them; one chunk is in memory.

    A document longer than 64 KiB comes in sections of about 4 KiB, cut where no pre-token crosses:
    a file without separators would be one document, and from one nothing can be resampled.

    Args:
        digests: takes the digest of every chunk that was read.

    Raises:
        CorpusError: a file that cannot be read as declared.
    """
    for file in files:
        chunks = read_chunks(ChunkGroup(file), reading, with_digests=digests is not None)
        for chunk, text in chunks:
            if digests is not None:
                digests.append(chunk.digest)
            spans = documents_between(text, reading.special_bytes)[0]
            for begin, end in _sections(text.text, spans, reading):
                yield text.text.bytes(begin, end)


def _sections(
    text: Text, documents: NDArray[np.int64], reading: Reading
) -> Iterator[tuple[int, int]]:
    for place, (begin, end) in enumerate(documents.tolist()):
        if end - begin <= LONG:
            yield begin, end
            continue
        document = documents[place : place + 1]
        for section in sections_of(text, document, reading.pattern.cut_pairs).tolist():
            yield section[0], section[1]
