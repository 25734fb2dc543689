"""Word counts as if chunks had been counted, and what tests do with their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from bpeline.registry.word_counts import TableHandle
from bpeline.tokenizer_core.corpus.chunking import Chunk
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.counting.chunk_counts import ChunkCounts
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.digests import digest_of

READING = digest_of("a reading")
_FILE = SourceFile("/corpus/a.txt", "corpus", "text", None, 1, 2, 3, 4)
# Words that text columns refuse, and whose order differs from that of their letters.
TEMPTING = {
    b"the": 3, b" the": 5, b"\x00": 1, b"a\x00": 2, b"a": 4, b"\xff\xfe": 7, b"\xed\xa0\x80": 1,
    "naïve".encode(): 2, b"'": 1, b"''; DROP": 1, b"\x80": 6, b"x" * 5000: 1, b"B": 2, b"b": 3,
}  # fmt: skip


def counted(
    words: Mapping[bytes, int] | WordCounts, name: str = "", held_out: list[bytes] | None = None
) -> ChunkCounts:
    """Word counts as if a chunk had been counted."""
    counts = words if isinstance(words, WordCounts) else WordCounts.from_mapping(words)
    digest = digest_of([name, counts.digest])
    return ChunkCounts(
        chunk=Chunk(_FILE, 0, 0, 1, digest),
        counts=counts,
        held_out=held_out or [],
        documents=3,
        bytes_counted=counts.total_bytes,
        special_tokens_seen=2,
        replaced_utf8=1,
    )


def rows_of(handle: TableHandle) -> list[tuple[bytes, int, int]]:
    """The table as any DuckDB client sees it."""
    with duckdb.connect(handle.path, read_only=True) as connection:
        return connection.execute("FROM word_counts").fetchall()


def flip(path: Path, place: float) -> None:
    """Change one bit of a file, at a share of its length."""
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 0x10
    path.write_bytes(content)
