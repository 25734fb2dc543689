"""Documents of some files as training would see them, all or an even sample; counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from bpeline.tokenizer_core.corpus import (
    LONG,
    ChunkGroup,
    ChunkText,
    Reading,
    SourceFile,
    documents_between,
    in_parts,
    read_chunks,
    sections_of,
)
from bpeline.tokenizer_core.splitting import SplitPattern

CELL_BYTES = 16 << 10  # of a sample


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
            yield from _documents_of(text, reading, LONG)


def evaluation_documents(files: Iterable[SourceFile], reading: Reading) -> Iterator[bytes]:
    """Documents of an evaluation set: the same whatever the split pattern, see `in_parts`.

    Raises:
        CorpusError: a file that cannot be read as declared.
    """
    reading = replace(reading, pattern=SplitPattern.named("gpt2"))  # where chunks of files end
    for file in files:
        for _, text in read_chunks(ChunkGroup(file), reading, with_digests=False):
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                yield from in_parts(text.text.bytes(begin, end))


def sample_documents(
    files: Sequence[tuple[SourceFile, int]], reading: Reading, limit: int
) -> Iterator[bytes]:
    """Documents of evenly spaced places, in order; all of them where they fit.

    Places are cells of 16 KiB of a file's grid, so every file has its share, and what is read of a
    plain file is little more than what is taken. Long documents come in sections of about 4 KiB,
    as held-out ones do.

    Args:
        files: each with the bytes of its text, decompressed.
        reading: how bytes become documents.
        limit: bytes, about.

    Raises:
        CorpusError: a file that cannot be read as declared.
    """
    cells = [
        -(-size // CELL_BYTES) if reading.cuts(file.format).possible else min(size, 1)
        for file, size in files
    ]
    total, wanted = sum(cells), max(1, limit // CELL_BYTES)
    bounds = pairwise(accumulate(cells, initial=0))
    for (file, _), (first, end) in zip(files, bounds, strict=True):
        chosen = [
            cell - first
            for cell in range(first, end)
            if total <= wanted or cell * wanted // total != (cell + 1) * wanted // total
        ]
        if chosen:
            yield from _documents_in(file, chosen, reading)


def _documents_in(file: SourceFile, cells: Sequence[int], reading: Reading) -> Iterator[bytes]:
    if file.is_streamed:
        groups, wanted = [ChunkGroup(file)], set(cells)  # a stream: read through, kept in part
    else:
        begins = [cell * CELL_BYTES for cell in cells]
        groups, wanted = [ChunkGroup(file, at, at + CELL_BYTES) for at in begins], set()
    for group in groups:
        for chunk, text in read_chunks(group, reading, CELL_BYTES, with_digests=False):
            if not wanted or chunk.begin // CELL_BYTES in wanted:
                yield from _documents_of(text, reading, 0)


def _documents_of(text: ChunkText, reading: Reading, longest: int) -> Iterator[bytes]:
    """The documents of a chunk; those that are longer in sections."""
    documents = documents_between(text, reading.special_bytes)[0]
    for place, document in enumerate(documents.tolist()):
        spans = [document]
        if document[1] - document[0] > longest:
            alone = documents[place : place + 1]
            spans = sections_of(text.text, alone, reading.pattern.cut_pairs).tolist()
        for begin, end in spans:
            yield text.text.bytes(begin, end)
