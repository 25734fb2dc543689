"""Corpora on disk for tests: written, planned, read and counted as a run does it."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import zstandard

from bpeline.tokenizer_core import count_words, reference
from bpeline.tokenizer_core.corpus.chunking import plan_chunk_groups, read_chunks
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.counting.chunk_counts import ChunkCounts, count_chunk
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

GPT2 = SplitPattern.named("gpt2")
SPECIALS = ("<|endoftext|>", "<|end", "of text|>")
READING = ReadOptions(GPT2, SPECIALS)


def file_of(path: Path) -> SourceFile:
    (file,) = find_source_files([Source(str(path))])
    return file


def write(path: Path, content: str | bytes) -> SourceFile:
    raw = content.encode() if isinstance(content, str) else content
    if path.suffix == ".gz":
        raw = gzip.compress(raw)
    elif path.suffix == ".zst":
        raw = zstandard.compress(raw)
    path.write_bytes(raw)
    return file_of(path)


def counted(
    file: SourceFile, chunk_bytes: int, reading: ReadOptions = READING, max_groups: int = 3
) -> list[ChunkCounts]:
    return [
        count_chunk(chunk, text, reading)
        for group in plan_chunk_groups([file], chunk_bytes, max_groups)
        for chunk, text in read_chunks(group, reading, chunk_bytes)
    ]


def words_of(chunks: list[ChunkCounts]) -> Counter[bytes]:
    return sum((Counter(chunk.counts.to_mapping()) for chunk in chunks), Counter())


def first_positions(chunks: list[ChunkCounts]) -> dict[bytes, int]:
    """Where each word stands first in its file."""
    first: dict[bytes, int] = {}
    for result in chunks:
        positions = (result.counts.first_positions + result.chunk.begin).tolist()
        for word, position in zip(result.counts.words(), positions, strict=True):
            first[word] = min(first.get(word, position), position)
    return first


def words_in(path: Any, **options: Any) -> Counter[bytes]:
    """The words of a corpus by `count_words`, by GPT-2's pattern."""
    counts = count_words([path], pattern="gpt2", **options)
    return Counter(dict(zip(counts.words(), counts.counts.tolist(), strict=True)))


def words_by_reference(*texts: str) -> Counter[bytes]:
    return Counter(reference.count_words(list(texts), GPT2.regex))
