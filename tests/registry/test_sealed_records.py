"""A record whose content was changed is refused, however sound it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpeline.registry.evaluation_sets.kept_sets import FileSeal
from bpeline.registry.workspace.sealed_records import read_record, write_record
from bpeline.tokenizer_core.errors import CorruptFile


def test_a_record_with_another_number_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(path, {"format": 3, "rows": 12})
    assert read_record(path, 3) == {"format": 3, "rows": 12}
    path.write_bytes(path.read_bytes().replace(b"12", b"13"))
    with pytest.raises(CorruptFile):
        read_record(path, 3)


def test_a_record_of_another_format_is_refused(tmp_path: Path) -> None:
    write_record(tmp_path / "record.json", {"format": 2})
    with pytest.raises(CorruptFile):
        read_record(tmp_path / "record.json", 3)


def test_a_file_of_the_same_size_with_other_content_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.write_bytes(b"held out")
    seal = FileSeal.of_content(b"held out")
    assert seal.read(path) == b"held out"
    path.write_bytes(b"held up.")
    assert path.stat().st_size == seal.size
    with pytest.raises(CorruptFile):
        seal.read(path)
