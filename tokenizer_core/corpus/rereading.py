"""Chunks that were read before are read again, if they are still there; counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bpeline.tokenizer_core.corpus.chunking import CHUNK_BYTES, Chunk, ChunkGroup, read_chunks
from bpeline.tokenizer_core.corpus.documents import ChunkText
from bpeline.tokenizer_core.corpus.reading import Reading
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.errors import CorpusError


def read_again(
    path: str, ordinals: Iterable[int], reading: Reading, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[Chunk, ChunkText]]:
    """The chunks that a file now has in some cells of its grid, whatever it held before.

    Of a plain file nothing else is read; a compressed one is read up to the last of them. What is
    gone or cannot be read any more ends the reading: whoever asks compares digests.

    Args:
        path: absolute, as `find_source_files` found it.
        ordinals: numbers of cells.
        reading, chunk_bytes: as the file was read.
    """
    wanted = sorted(set(ordinals))
    if not wanted:
        return
    try:
        (file,) = find_source_files([Source(path)])
        for group in _groups(file, wanted, chunk_bytes):
            for chunk, text in read_chunks(group, reading, chunk_bytes):
                if chunk.ordinal in wanted:
                    yield chunk, text
                if chunk.ordinal >= wanted[-1]:
                    break
    except (CorpusError, ValueError):  # ValueError: a directory now, of several files
        return


def _groups(file: SourceFile, ordinals: list[int], chunk_bytes: int) -> list[ChunkGroup]:
    if file.compression is not None:
        return [ChunkGroup(file)]
    cells = (ordinal * chunk_bytes for ordinal in ordinals)
    return [ChunkGroup(file, begin, begin + chunk_bytes) for begin in cells]
