"""Small files are encoded together, and nobody can tell: ids, places, errors, what is left out."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.corpus.chunking import SmallFiles
from bpeline.tokenizer_core.corpus.sources import find_source_files, sources_of
from bpeline.tokenizer_core.errors import CorpusChanged, InvalidUtf8
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


def test_a_file_that_changes_is_told(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"lower")
    found = find_source_files(sources_of(tmp_path))
    (tmp_path / "20.txt").write_bytes(b"lowes")
    os.utime(tmp_path / "20.txt", ns=(1, 1))  # clocks of file systems may stand still meanwhile
    with pytest.raises(CorpusChanged, match=r"20\.txt"):
        gather_files(file_encoding_of(tokenizer, END), found, 2)
    (tmp_path / "17.txt").write_bytes(b"low\xff")
    found[17:18] = find_source_files(sources_of(tmp_path / "17.txt"))
    with pytest.raises(InvalidUtf8, match=r"17\.txt.*byte 3\b"):
        gather_files(file_encoding_of(tokenizer, END), found, 2)
