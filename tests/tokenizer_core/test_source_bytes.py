"""Reading files: compression, damage, bombs, and files that change under the reader."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest
import zstandard
from corpus_files import GPT2, READING, SPECIALS, counted, file_of, words_of, write

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.corpus import source_bytes
from bpeline.tokenizer_core.corpus.chunking import ChunkGroup, read_chunks
from bpeline.tokenizer_core.corpus.source_bytes import open_source
from bpeline.tokenizer_core.errors import CorpusChanged, InvalidUtf8, UnreadableSource
from bpeline.tokenizer_core.text import Text


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


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl", "a.parquet"])
def test_a_directory_in_the_place_of_a_file_is_refused_and_not_kept_open(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(b"low")
    file = file_of(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    opened = _opened_in(tmp_path)
    with pytest.raises(UnreadableSource, match=f"{name} .*directory"):
        open_source(file, 0)
    assert _opened_in(tmp_path) == opened == []


def test_a_file_whose_reading_cannot_begin_is_not_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"low")
    file = file_of(tmp_path / "a.parquet")

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(source_bytes, "ColumnBlocks", no_memory)
    with pytest.raises(MemoryError) as kept:  # which holds the frames, and what these hold
        open_source(file, 0)
    assert _opened_in(tmp_path) == []
    assert kept.value.args == ()


def _opened_in(folder: Path) -> list[str]:
    """The files and directories in a folder that this process has open."""
    links = [os.path.join("/proc/self/fd", one) for one in os.listdir("/proc/self/fd")]
    return [
        to
        for one in links
        if os.path.islink(one) and (to := os.readlink(one)).startswith(str(folder))
    ]


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
        assert f"{size} bytes" in refusal.value.happened
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


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
def test_where_a_file_ends_too_early_is_said(tmp_path: Path, name: str) -> None:
    content = random.Random(1).randbytes(3000).hex()
    compress = lzma.compress if name.endswith("xz") else gzip.compress
    packed = compress(content.encode())
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    with pytest.raises(UnreadableSource) as refusal:
        counted(file_of(tmp_path / name), 1000)
    found = re.search(r"byte (\d+)", refusal.value.happened)
    assert found is not None
    assert len(content) // 4 < int(found[1]) < len(content)


def test_what_is_not_compressed_at_all_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt.gz", "a.txt.zst"):
        (tmp_path / name).write_bytes(b"plain text " * 100)
        with pytest.raises(UnreadableSource, match=name):
            counted(file_of(tmp_path / name), 100)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bpeline.tokenizer_core.corpus.source_bytes._RATIO_MATTERS_FROM", 1 << 20)
    file = write(tmp_path / name, bytes(20 << 20))
    with pytest.raises(UnreadableSource, match="decompression bomb"):
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


def rewrite_and_set_the_time_back(path: Path) -> None:
    status = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    while path.stat().st_ctime_ns == status.st_ctime_ns:  # clocks of file systems may stand still
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace_file(path: Path) -> None:
    status = path.stat()
    path.with_suffix(".new").write_bytes(path.read_bytes())
    os.utime(path.with_suffix(".new"), ns=(status.st_atime_ns, status.st_mtime_ns))
    path.with_suffix(".new").rename(path)


IN_PLACE = [grow, shrink, rewrite, rewrite_and_set_the_time_back]
CHANGES = [*IN_PLACE, replace_file, Path.unlink]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_a_file_that_changed_since_it_was_found_is_refused(
    tmp_path: Path, name: str, change: object
) -> None:
    file = write(tmp_path / name, "some words " * 100)
    assert callable(change)
    change(tmp_path / name)
    with pytest.raises(CorpusChanged, match=r"a\.txt"):
        counted(file, 100)


@pytest.mark.parametrize("change", IN_PLACE)
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
    with pytest.raises(UnreadableSource, match=r"a\.txt .*pipe"):
        counted(file, 100)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_view_that_a_profiler_still_holds_stops_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another thread that looks at frames keeps what their locals view alive."""
    held, copy = [], Text.of

    def kept(content: bytes | memoryview) -> Text:
        held.append(np.frombuffer(content, np.uint8))
        return copy(content)

    file = write(tmp_path / name, "some words " * 500)
    monkeypatch.setattr(Text, "of", kept)
    chunks = counted(file, 100)
    assert held
    assert words_of(chunks) == reference.count_words(["some words " * 500], GPT2.regex, SPECIALS)
