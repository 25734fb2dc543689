"""Reading files: compression, damage, bombs, and files that change under the reader."""

from __future__ import annotations

import gzip
import os
import random
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from tokenizer_core import reference
from tokenizer_core.chunk_counts import ChunkCounts, count_chunk
from tokenizer_core.chunking import ChunkGroup, plan_chunk_groups, read_chunks
from tokenizer_core.corpus import Source, SourceFile, find_source_files
from tokenizer_core.errors import CorpusChanged, InvalidUtf8, UnreadableSource
from tokenizer_core.reading import Reading
from tokenizer_core.split_patterns import SplitPattern

GPT2 = SplitPattern.named("gpt2")
SPECIALS = ("<|endoftext|>", "<|end", "of text|>")
READING = Reading(GPT2, SPECIALS)


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


def counted(file: SourceFile, chunk_bytes: int, reading: Reading = READING) -> list[ChunkCounts]:
    return [
        count_chunk(chunk, text, reading)
        for group in plan_chunk_groups([file], chunk_bytes, 3)
        for chunk, text in read_chunks(group, reading, chunk_bytes)
    ]


def words_of(chunks: list[ChunkCounts]) -> Counter[bytes]:
    return sum((Counter(chunk.counts.to_mapping()) for chunk in chunks), Counter())


def test_several_members_are_one_text(tmp_path: Path) -> None:
    parts = [f"part {number} of <|endof" + "text|> more " for number in range(30)]
    for name, packed in (
        ("a.txt.gz", b"".join(gzip.compress(part.encode()) for part in parts)),
        ("a.txt.zst", b"".join(zstandard.compress(part.encode()) for part in parts)),
    ):
        (tmp_path / name).write_bytes(packed)
        chunks = counted(file_of(tmp_path / name), 100)
        assert len(chunks) > 3
        assert words_of(chunks) == reference.count_words(["".join(parts)], GPT2.regex, SPECIALS)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_truncated_and_damaged_compression_is_never_a_shorter_corpus(
    tmp_path: Path, name: str
) -> None:
    content = random.Random(1).randbytes(3000).hex()
    packed = Path(write(tmp_path / name, content).path).read_bytes()
    for size in [0, 1, 5, 20, len(packed) // 2, len(packed) - 1]:
        (tmp_path / name).write_bytes(packed[:size])
        with pytest.raises(UnreadableSource) as refusal:
            counted(file_of(tmp_path / name), 1000)
        assert name in refusal.value.happened
        assert "at byte" in refusal.value.happened
        assert refusal.value.next_step
    for damage in (len(packed) // 2, len(packed) - 3):
        broken = bytearray(packed)
        broken[damage] ^= 0x55
        (tmp_path / name).write_bytes(broken + bytes(0))
        try:
            chunks = counted(file_of(tmp_path / name), 1000)
        except (UnreadableSource, InvalidUtf8):
            continue
        # A zstd frame without a checksum cannot notice every damage; gzip always does.
        assert name == "a.txt.zst"
        assert sum(chunk.bytes_counted for chunk in chunks) == len(content)


def test_what_is_not_compressed_at_all_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt.gz", "a.txt.zst"):
        (tmp_path / name).write_bytes(b"plain text " * 100)
        with pytest.raises(UnreadableSource, match="byte 0"):
            counted(file_of(tmp_path / name), 100)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenizer_core.source_bytes._RATIO_MATTERS_FROM", 1 << 20)
    file = write(tmp_path / name, bytes(20 << 20))
    with pytest.raises(UnreadableSource, match="bomb"):
        counted(file, 1 << 20)


# ---- changes while reading ------------------------------------------------------------------


def grow(path: Path) -> None:
    status = path.stat()
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def shrink(path: Path) -> None:
    status = path.stat()
    os.truncate(path, 10)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def rewrite(path: Path) -> None:
    status = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def replace_file(path: Path) -> None:
    status = path.stat()
    path.with_suffix(".new").write_bytes(path.read_bytes())
    os.utime(path.with_suffix(".new"), ns=(status.st_atime_ns, status.st_mtime_ns))
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize("change", [grow, shrink, rewrite, replace_file, Path.unlink])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_a_file_that_changed_since_it_was_found_is_refused(
    tmp_path: Path, name: str, change: object
) -> None:
    file = write(tmp_path / name, "some words " * 100)
    assert callable(change)
    change(tmp_path / name)
    with pytest.raises(CorpusChanged, match=r"a\.txt"):
        counted(file, 100)


@pytest.mark.parametrize("change", [grow, shrink, rewrite])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_a_file_that_changes_between_two_chunks_is_refused(
    tmp_path: Path, name: str, change: object
) -> None:
    content = random.Random(1).randbytes(200_000).hex() + " some words" * 100_000
    file = write(tmp_path / name, content)
    chunks = read_chunks(ChunkGroup(file), READING, 1000)
    next(chunks)
    assert callable(change)
    change(tmp_path / name)
    with pytest.raises((CorpusChanged, UnreadableSource)) as refusal:
        list(chunks)
    assert isinstance(refusal.value, CorpusChanged)


def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "words")
    (tmp_path / "a.txt").unlink()
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(UnreadableSource, match="pipe"):
        counted(file, 100)
