"""Small files are counted together, and nobody can tell: words, places, order, errors."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core import SplitPattern, count_words
from bpeline.tokenizer_core.corpus import SmallFiles, find_source_files, sources_of
from bpeline.tokenizer_core.counting import WordCounts, combine_word_counts
from bpeline.tokenizer_core.errors import CorpusChanged, EmptyCorpus, InvalidUtf8

END = "<|endoftext|>"
NIGHT = pytest.mark.night
PARTS = [
    "lower and lowest", " ", "  ", "", "\n", "\r", "\t\n ", "é", "\0", "\ufeff", "'", "'s", "12345",
    END, END[:6], END[6:], "日本", "\u3000", "x" * 70, "e\u0301", "\u0301", "a\u200d",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 0 to 4 parts each, and among them files that are not read together."""
    folder, source = tmp_path_factory.mktemp("files"), random.Random(7)
    for number in range(300):
        content = "".join(source.choices(PARTS, k=number % 5))
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
def test_some_files_are_read_one_by_one(
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
def test_the_first_file_that_is_not_utf8_is_named(
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


def test_a_file_that_changes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
