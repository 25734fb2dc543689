"""The catalogue's memory of the corpus: unchanged files are recalled, changed ones never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bpeline.registry.catalogue import ChunkRecord, CountTable, FileReading
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.corpus.sources import SourceFile

FILE = SourceFile(
    path="/corpus/a.txt",
    source="corpus",
    format="text",
    compression=None,
    size=10,
    mtime_ns=2**60,
    ctime_ns=2**60 + 1,
    inode=2**64 - 1,
)


def digest(number: int) -> str:
    return f"{number:064x}"


@pytest.mark.night
def test_an_unchanged_file_is_recalled_with_its_chunks(catalogue: Catalogue) -> None:
    chunks = [ChunkRecord(digest(1), 0, 7, 0), ChunkRecord(digest(2), 7, 10, 3)]
    reading = FileReading.of(FILE, 64, digest(9), chunks)
    catalogue.remember_file_readings([reading])
    recalled = catalogue.recall_file_readings([FILE], 64, digest(9))
    assert recalled == {"/corpus/a.txt": reading}


@pytest.mark.parametrize("changed", ["size", "mtime_ns", "ctime_ns", "inode"])
def test_a_changed_file_is_not_recalled(catalogue: Catalogue, changed: str) -> None:
    catalogue.remember_file_readings([FileReading.of(FILE, 64, digest(9), [])])
    now = replace(FILE, **{changed: 5})
    assert catalogue.recall_file_readings([now], 64, digest(9)) == {}


def test_a_reading_belongs_to_its_grid_and_its_settings(catalogue: Catalogue) -> None:
    catalogue.remember_file_readings([FileReading.of(FILE, 64, digest(9), [])])
    assert catalogue.recall_file_readings([FILE], 65, digest(9)) == {}
    assert catalogue.recall_file_readings([FILE], 64, digest(8)) == {}


def test_a_later_reading_of_the_same_path_replaces_the_earlier(catalogue: Catalogue) -> None:
    for size in (10, 20):
        file = replace(FILE, size=size)
        chunk = ChunkRecord(digest(size), 0, size, 0)
        catalogue.remember_file_readings([FileReading.of(file, 64, digest(9), [chunk])])
    recalled = catalogue.recall_file_readings([file], 64, digest(9))
    assert [reading.chunks for reading in recalled.values()] == [
        (ChunkRecord(digest(20), 0, 20, 0),)
    ]
    assert catalogue.recall_file_readings([FILE], 64, digest(9)) == {}


@pytest.mark.night
def test_thousands_of_files_are_recalled_at_once(catalogue: Catalogue) -> None:
    files = [replace(FILE, path=f"/corpus/{k}.txt") for k in range(1201)]
    catalogue.remember_file_readings([FileReading.of(f, 64, digest(9), []) for f in files])
    assert len(catalogue.recall_file_readings(files, 64, digest(9))) == 1201


def test_a_count_table_is_remembered_once_even_beyond_64_bits(catalogue: Catalogue) -> None:
    table = CountTable(digest(1), digest(2), digest(3), words=5, total=2**63 + 1, run_id="r")
    assert catalogue.count_tables() == []
    catalogue.remember_count_table(table)
    catalogue.remember_count_table(replace(table, run_id="later"))
    (found,) = catalogue.count_tables()
    assert replace(found, created_at="") == table
