"""The documents of some files, one after the other, as training would see them; counts nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tokenizer_core.chunk_counts import documents_between
from tokenizer_core.chunking import ChunkGroup, read_chunks
from tokenizer_core.corpus import SourceFile
from tokenizer_core.reading import Reading


def documents_of(files: Iterable[SourceFile], reading: Reading) -> Iterator[bytes]:
    """Documents in UTF-8, without the special tokens between them; one chunk is in memory.

    A document that crosses the end of a chunk comes in two parts, cut where no pre-token crosses.

    Raises:
        CorpusError: a file that cannot be read as declared.
    """
    for file in files:
        for _, text in read_chunks(ChunkGroup(file), reading, with_digests=False):
            for begin, end in documents_between(text, reading.special_bytes)[0].tolist():
                yield text.text.bytes(begin, end)
