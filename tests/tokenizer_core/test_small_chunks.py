"""Small files counted at once: of each the same as `count_chunk` says of it alone."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    ReadOptions,
    SourceFile,
    find_source_files,
    read_chunks,
    sources_of,
)
from bpeline.tokenizer_core.corpus.chunking import filled_up_to
from bpeline.tokenizer_core.counting import ChunkCounts, SmallChunks, count_chunk
from bpeline.tokenizer_core.errors import CorpusChanged, InvalidUtf8
from bpeline.tokenizer_core.splitting import SplitPattern

END = "<|endoftext|>"
PARTS = [
    "lower and lowest ", "low", " ", "  ", "\n", "\r", "\t\n ", "é", "\0", "\ufeff", "'s", "12345",
    END, END[:6], END[6:], "日本", "\u3000", "x" * 15, "x" * 16, "the-same-sixteen-bytes-then-A ",
    "the-same-sixteen-bytes-then-B ", "\u0301",
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[SourceFile]:
    """Short ones, those of several sections, and those that nearly fill their table."""
    folder, source = tmp_path_factory.mktemp("files"), random.Random(11)
    for number in range(120):
        content = "".join(source.choices(PARTS, k=1 + number % 5))
        (folder / f"{number:03}.txt").write_text(content, newline="")
    for number in range(120, 130):
        content = "".join(source.choices(PARTS, k=3_000))[: 9_000 + number]
        (folder / f"{number:03}.txt").write_text(content, newline="")
    letters = "".join(map(chr, range(33, 127)))
    pairs = [f" {first}" for first in letters] + [f"{one}\n" for one in letters]
    (folder / "130.txt").write_bytes(bytes(range(128)))
    (folder / "131.txt").write_text("".join(chr(0x4E00 + at) + " " for at in range(16_384)))
    (folder / "132.txt").write_text("".join(pairs), newline="")
    return find_source_files(sources_of(folder))


def alone(file: SourceFile, reading: ReadOptions) -> ChunkCounts:
    ((chunk, text),) = read_chunks(ChunkGroup(file), reading)
    return count_chunk(chunk, text, reading)


def told(one: ChunkCounts) -> list[Any]:
    """All that is known of a chunk; where its words stand must be known word by word."""
    counts = one.counts
    rows = zip(counts.words(), counts.counts.tolist(), counts.first_positions.tolist(), strict=True)
    chunk = one.chunk
    place = chunk.file.path, chunk.ordinal, chunk.begin, chunk.end, chunk.digest, chunk.spent
    sums = one.documents, one.bytes_counted, one.special_tokens_seen, one.replaced_utf8, one.parts
    return [*rows, counts.pattern, one.held_out, place, sums]


def counted(
    files: Sequence[SourceFile], reading: ReadOptions, most: int, every: int = 1
) -> list[ChunkCounts]:
    counting, found = SmallChunks(reading), []
    for some in filled_up_to(most, files):
        small = counting.read(some)
        found += counting.count(small, small.chunks(), range(0, len(some), every))
    return found


@pytest.mark.parametrize("held_out", [0.0, 0.3, 0.97])
@pytest.mark.parametrize("special_tokens", [(), (END, " "), ("low", "\n")])
@pytest.mark.parametrize(
    "pattern", ["gpt2", "o200k", "str-split", r"\w+|^\W|\s+$|\s", r"(?<=x)\w+|\W"]
)
def test_each_file_has_the_counts_that_it_has_alone(
    files: list[SourceFile], pattern: str, special_tokens: tuple[str, ...], held_out: float
) -> None:
    reading = ReadOptions(SplitPattern.parse(pattern), special_tokens, held_out=held_out)
    expected = [told(alone(file, reading)) for file in files]
    for most in (1 << 20, 5_000, 1):
        assert [told(one) for one in counted(files, reading, most)] == expected


def test_only_what_is_wanted_is_counted(files: list[SourceFile]) -> None:
    reading = ReadOptions(SplitPattern.named("gpt2"), (END,), held_out=0.2)
    found = counted(files, reading, 1 << 24, every=7)
    assert [told(one) for one in found] == [told(alone(file, reading)) for file in files[::7]]
    counting = SmallChunks(reading)
    small = counting.read(files)
    assert counting.count(small, small.chunks(), []) == []


def test_a_table_is_empty_again_after_each_file(files: list[SourceFile]) -> None:
    reading = ReadOptions(SplitPattern.named("gpt2"))
    counting = SmallChunks(reading)
    for _ in range(2):
        small = counting.read(files)
        counting.count(small, small.chunks(), range(len(files)))
        assert not counting._table[1::4].any()


@pytest.mark.parametrize("bad", [b"low\xff", b"low\xc3", b"\xa9low", "low".encode("utf-16")])
def test_a_file_that_is_not_utf8_is_named(tmp_path: Path, bad: bytes) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(bad if number in (17, 19) else b"low\xc3\xa9")
    found, reading = (
        find_source_files(sources_of(tmp_path)),
        ReadOptions(SplitPattern.named("gpt2")),
    )
    with pytest.raises(InvalidUtf8) as one:
        alone(found[17], reading)
    with pytest.raises(InvalidUtf8) as together:
        counted(found, reading, 1 << 20)
    assert str(together.value) == str(one.value)


def test_a_file_that_changes_is_told(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"lower")
    found = find_source_files(sources_of(tmp_path))
    (tmp_path / "20.txt").write_bytes(b"lowes")
    os.utime(tmp_path / "20.txt", ns=(1, 1))  # clocks of file systems may stand still meanwhile
    with pytest.raises(CorpusChanged, match=r"20\.txt"):
        counted(found, ReadOptions(SplitPattern.named("gpt2")), 1 << 20)
    (tmp_path / "17.txt").write_bytes(b"low\xff")
    found[17:18] = find_source_files(sources_of(tmp_path / "17.txt"))
    with pytest.raises(InvalidUtf8, match=r"17\.txt.*byte 3\b"):
        counted(found, ReadOptions(SplitPattern.named("gpt2")), 1 << 20)
