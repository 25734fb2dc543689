"""Small files are encoded and counted together: ids, words, places and errors are those of each."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core import SplitPattern, Tokenizer, count_words
from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    ReadOptions,
    SmallFiles,
    SourceFile,
    find_source_files,
    read_chunks,
    sources_of,
)
from bpeline.tokenizer_core.corpus.chunking import filled_up_to
from bpeline.tokenizer_core.counting import (
    ChunkCounts,
    SmallChunks,
    WordCounts,
    combine_word_counts,
    count_chunk,
)
from bpeline.tokenizer_core.errors import CorpusChanged, EmptyCorpus, InvalidUtf8
from bpeline.tokenizer_core.shards.file_encoding import (
    FileEncoding,
    Piece,
    file_encoding_of,
    whole_files,
)
from bpeline.tokenizer_core.shards.ids_in_memory import gather_files
from bpeline.tokenizer_core.shards.shard_job import OpenShard

END = "<|endoftext|>"
NIGHT = pytest.mark.night
PARTS = ["lower and lowest", " ", "", "é", "\0", "\ufeff", END, END + END, "\n\n", "日本", "x" * 70]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Of 0 to 4 parts each, among them two that are no small files of text."""
    folder, source = tmp_path_factory.mktemp("files"), random.Random(5)
    for number in range(400):
        content = "".join(source.choices(PARTS, k=number % 5))
        (folder / f"{number:03}.txt").write_bytes(content.encode())
    (folder / "100.jsonl").write_text('{"text": "lower"}\n{"text": ""}\n')
    (folder / "200-large.txt").write_text("lower " * 20_000)
    return find_source_files(sources_of(folder))


def told(pieces: Any, encoding: FileEncoding) -> tuple[list[int], list[int], list[Any]]:
    """Ids, where documents end, and where they stood."""
    ids: list[int] = []
    ends: list[int] = []
    places: list[Any] = []

    def write(more: Any, behind: Any) -> None:
        ids.extend(more.tolist())
        ends.extend(behind.tolist())

    def place(file: Any, spans: Any, *_: Any) -> None:
        places.extend((file.path, *span) for span in spans.tolist())

    shard = OpenShard(write, encoding, place)
    for piece in pieces:
        shard.add(piece, encoding.encode(piece))
    shard.close_document()
    assert (shard.tokens, shard.documents) == (len(ids), len(ends))
    return ids, ends, [shard.size, *places]


@pytest.mark.parametrize("end_of_text", [None, pytest.param(END, marks=NIGHT)])
@pytest.mark.parametrize(
    "separator", [END, "lower", *(pytest.param(one, marks=NIGHT) for one in ((), (END, " ")))]
)
def test_files_give_the_same_together_and_one_by_one(
    tokenizer: Tokenizer, files: list[Any], end_of_text: str | None, separator: Any
) -> None:
    encoding = file_encoding_of(tokenizer, separator, end_of_text)
    alone = list(whole_files(files, encoding.reading, 1 << 20, encoding.id_field))
    assert all(isinstance(one, Piece) for one in alone)
    expected = told(alone, encoding)
    assert len(expected[1]) > 300
    for piece_bytes in (1 << 20, 300, 1):
        together = list(encoding.pieces(files, piece_bytes))
        held = [one.files for one in together if isinstance(one, SmallFiles)]
        assert sum(map(len, held)) == 400
        assert len(held) == 3 or piece_bytes < 1 << 20
        assert told(together, encoding) == expected
        assert sum(one.spent for one in together) == sum(one.size for one in files)


@pytest.mark.parametrize(
    "reading",
    [
        {"special_tokens": ("a\0b",)},
        {"special_tokens": ("\ufeff",)},
        {"invalid_utf8": "replace"},
        {"text_form": "NFC"},
    ],
)
def test_some_files_are_read_one_by_one(
    tokenizer: Tokenizer, files: list[Any], reading: dict[str, Any]
) -> None:
    encoding = file_encoding_of(tokenizer, END)
    encoding = replace(encoding, reading=replace(encoding.reading, **reading))
    assert not any(isinstance(one, SmallFiles) for one in encoding.pieces(files, 1 << 20))
    dropping = file_encoding_of(tokenizer, END, dropout=0.1)
    assert not any(isinstance(one, SmallFiles) for one in dropping.pieces(files, 1 << 20))


@pytest.mark.parametrize("bad", [b"low\xff", b"low\xc3", b"\xa9low", b"l\xff\xfe\0"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_first_file_that_is_not_utf8_is_named(
    tokenizer: Tokenizer, tmp_path: Path, bad: bytes, threads: int
) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"lower")
    (tmp_path / "17.txt").write_bytes(bad)
    (tmp_path / "18.txt").write_bytes(b"\xa9 what a file before may have begun")
    with pytest.raises(InvalidUtf8) as alone:
        tokenizer.encode_files_to_numpy(tmp_path / "17.txt")
    with pytest.raises(InvalidUtf8) as together:
        tokenizer.encode_files_to_numpy(tmp_path, threads=threads)
    assert str(together.value) == str(alone.value)


def encoded(tokenizer: Tokenizer, found: list[SourceFile]) -> None:
    gather_files(file_encoding_of(tokenizer, END), found, 2)


def counted_at_once(_: Tokenizer, found: list[SourceFile]) -> None:
    counted(found, ReadOptions(SplitPattern.named("gpt2")), 1 << 20)


@pytest.mark.parametrize("read", [encoded, counted_at_once])
def test_a_file_that_changes_is_told(
    read: Callable[[Tokenizer, list[SourceFile]], None], tokenizer: Tokenizer, tmp_path: Path
) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"lower")
    found = find_source_files(sources_of(tmp_path))
    (tmp_path / "20.txt").write_bytes(b"lowes")
    os.utime(tmp_path / "20.txt", ns=(1, 1))  # clocks of file systems may stand still meanwhile
    with pytest.raises(CorpusChanged, match=r"20\.txt"):
        read(tokenizer, found)
    (tmp_path / "17.txt").write_bytes(b"low\xff")
    found[17:18] = find_source_files(sources_of(tmp_path / "17.txt"))
    with pytest.raises(InvalidUtf8, match=r"17\.txt.*byte 3\b"):
        read(tokenizer, found)


# Counted


PARTS_COUNTED = [
    "lower and lowest", " ", "  ", "", "\n", "\r", "\t\n ", "é", "\0", "\ufeff", "'", "'s", "12345",
    END, END[:6], END[6:], "日本", "\u3000", "x" * 70, "e\u0301", "\u0301", "a\u200d",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 0 to 4 parts each, and among them files that are not read together."""
    folder, source = tmp_path_factory.mktemp("files"), random.Random(7)
    for number in range(300):
        content = "".join(source.choices(PARTS_COUNTED, k=number % 5))
        (folder / f"{number:03}.txt").write_bytes(content.encode())
    (folder / "050.jsonl").write_text('{"text": " lower"}\n{"text": ""}\n{"text": "est "}')
    (folder / "100-large.txt").write_text("lower " * 20_000)
    (folder / "150-squeezed.txt.gz").write_bytes(gzip.compress(b" lowest and"))
    (folder / "151-last.py").write_text("low\n")
    return folder


@pytest.fixture
def read_together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files were read together, each time."""
    read, numbers = SmallFiles.read, list[int]()

    def noting(files: Sequence[Any], *more: Any) -> SmallFiles:
        numbers.append(len(files))
        return read(files, *more)

    monkeypatch.setattr(SmallFiles, "read", noting)
    return numbers


def one_by_one(folder: Path, **settings: Any) -> WordCounts:
    """The sum of the counts of each file, at its place."""
    parts, place = [], 0
    for file in find_source_files(sources_of(folder)):
        try:
            counts = count_words([file.path], **settings)
        except EmptyCorpus:
            counts = WordCounts.empty(settings["pattern"])
        parts.append(counts.shifted(place))
        squeezed = file.compression is not None
        place += len(gzip.decompress(Path(file.path).read_bytes())) if squeezed else file.size
    return combine_word_counts(parts)


def rows(counts: WordCounts) -> list[Any]:
    return [
        *zip(counts.words(), counts.counts.tolist(), counts.first_positions.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    "special_tokens",
    [(END,), *(pytest.param(one, marks=NIGHT) for one in ((), (END, " ", "\n"), ("low",)))],
)
@pytest.mark.parametrize(
    "pattern",
    [
        "gpt2",
        r"\s+$|\w+|^\W|\s+(?!\S)|\W",
        *(pytest.param(one, marks=NIGHT) for one in ("cl100k", "o200k")),
    ],
)
def test_files_give_the_same_words_together_and_one_by_one(
    folder: Path, pattern: str, special_tokens: tuple[str, ...], read_together: list[int]
) -> None:
    settings = {"pattern": SplitPattern.parse(pattern), "special_tokens": special_tokens}
    expected = rows(one_by_one(folder, **settings))
    assert not read_together
    for workers, chunk_bytes in ((1, 4 << 20), (2, 4 << 20), (2, 1 << 12), (3, 500), (1, 1)):
        found = count_words(folder, workers=workers, chunk_bytes=chunk_bytes, **settings)
        assert rows(found) == expected
        # 60 are empty; others stand alone between files that are read one by one.
        assert sum(read_together) > 220 or chunk_bytes < 1 << 12
        read_together.clear()


@pytest.mark.parametrize(
    "settings",
    [
        {"special_tokens": ("a\0b",)},
        {"special_tokens": ("\ufefflow",)},
        {"invalid_utf8": "replace"},
        {"text_form": "NFC"},
        {"deduplicate": True},
    ],
)
def test_some_files_are_counted_one_by_one(
    folder: Path, settings: dict[str, Any], read_together: list[int]
) -> None:
    assert len(count_words(folder, **settings)) > 10
    assert not read_together


def test_all_bytes_are_told(folder: Path, read_together: list[int]) -> None:
    told: list[Any] = []
    count_words(folder, on_progress=told.append)
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert (told[-1].bytes, told[-1].total_bytes) == (size, size)
    assert read_together


@pytest.mark.parametrize(
    "bad",
    [b"low\xff", b"low\xc3", b"\xe3\x81", b"\xa9low", "low".encode("utf-16"), b"\xed\xa0\x80"],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_file_that_is_not_utf8_is_named_by_counting(
    tmp_path: Path, bad: bytes, workers: int, read_together: list[int]
) -> None:
    for number in range(200):
        (tmp_path / f"{number:03}.txt").write_bytes(b"\xef\xbb\xbflower"[3 * (number % 2) :])
    (tmp_path / "117.txt").write_bytes(bad)
    (tmp_path / "118.txt").write_bytes(b"\xa9 what a file before may have begun")
    with pytest.raises(InvalidUtf8) as alone:
        count_words(tmp_path / "117.txt")
    assert not read_together
    with pytest.raises(InvalidUtf8) as together:
        count_words(tmp_path, workers=workers)
    assert str(together.value) == str(alone.value)
    assert read_together == [200]
    with pytest.raises(InvalidUtf8) as in_pieces:
        count_words(tmp_path, workers=workers, chunk_bytes=64)
    assert str(in_pieces.value) == str(alone.value)


def test_a_file_that_changes_before_it_is_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"lower")
    read = SmallFiles.read

    def after_a_change(*files: Any) -> SmallFiles:
        (tmp_path / "20.txt").write_bytes(b"lowes")
        os.utime(tmp_path / "20.txt", ns=(1, 1))  # clocks of file systems may stand still
        return read(*files)

    monkeypatch.setattr(SmallFiles, "read", after_a_change)
    with pytest.raises(CorpusChanged, match=r"20\.txt"):
        count_words(tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_of_files_that_cannot_be_read_the_first_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"lower")
    read = SmallFiles.read

    def after_changes(*files: Any) -> SmallFiles:
        (tmp_path / "20.txt").write_bytes(b"another size")
        (tmp_path / "25.txt").unlink()
        return read(*files)

    monkeypatch.setattr(SmallFiles, "read", after_changes)
    for bad, expected, told in (
        (17, InvalidUtf8, r"17\.txt.*byte 3\b"),
        (22, CorpusChanged, "20.txt"),
        (0, InvalidUtf8, r"00\.txt.*byte 3\b"),
    ):
        (tmp_path / "20.txt").write_bytes(b"lower")
        (tmp_path / "25.txt").write_bytes(b"lower")
        (tmp_path / f"{bad:02}.txt").write_bytes(b"low\xc3")
        with pytest.raises(expected, match=told):
            count_words(tmp_path, workers=workers)
        (tmp_path / f"{bad:02}.txt").write_bytes(b"lower")


# Counted as chunks


PARTS_IN_CHUNKS = [
    "lower and lowest ", "low", " ", "  ", "\n", "\r", "\t\n ", "é", "\0", "\ufeff", "'s", "12345",
    END, END[:6], END[6:], "日本", "\u3000", "x" * 15, "x" * 16, "the-same-sixteen-bytes-then-A ",
    "the-same-sixteen-bytes-then-B ", "\u0301",
]  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[SourceFile]:
    """Short ones, those of several sections, and those that nearly fill their table."""
    folder, source = tmp_path_factory.mktemp("files"), random.Random(11)
    for number in range(120):
        content = "".join(source.choices(PARTS_IN_CHUNKS, k=1 + number % 5))
        (folder / f"{number:03}.txt").write_text(content, newline="")
    for number in range(120, 130):
        content = "".join(source.choices(PARTS_IN_CHUNKS, k=3_000))[: 9_000 + number]
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


def told_of(one: ChunkCounts) -> list[Any]:
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
    sources: list[SourceFile], pattern: str, special_tokens: tuple[str, ...], held_out: float
) -> None:
    reading = ReadOptions(SplitPattern.parse(pattern), special_tokens, held_out=held_out)
    expected = [told_of(alone(file, reading)) for file in sources]
    for most in (1 << 20, 5_000, 1):
        assert [told_of(one) for one in counted(sources, reading, most)] == expected


def test_only_what_is_wanted_is_counted(sources: list[SourceFile]) -> None:
    reading = ReadOptions(SplitPattern.named("gpt2"), (END,), held_out=0.2)
    found = counted(sources, reading, 1 << 24, every=7)
    assert [told_of(one) for one in found] == [
        told_of(alone(file, reading)) for file in sources[::7]
    ]
    counting = SmallChunks(reading)
    small = counting.read(sources)
    assert counting.count(small, small.chunks(), []) == []


def test_a_table_is_empty_again_after_each_file(sources: list[SourceFile]) -> None:
    reading = ReadOptions(SplitPattern.named("gpt2"))
    counting = SmallChunks(reading)
    for _ in range(2):
        small = counting.read(sources)
        counting.count(small, small.chunks(), range(len(sources)))
        assert not counting._table[1::4].any()


@pytest.mark.parametrize("bad", [b"low\xff", b"low\xc3", b"\xa9low", "low".encode("utf-16")])
def test_a_file_that_is_not_utf8_is_named_by_counting_at_once(tmp_path: Path, bad: bytes) -> None:
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
