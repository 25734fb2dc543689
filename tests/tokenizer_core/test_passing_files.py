"""Files that end with a block are not synced, and all others are."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpeline.tokenizer_core.durable_files import Disk, DurableFiles


class SyncedPaths(Disk):
    """A disk that says what it was asked to sync."""

    def __init__(self) -> None:
        self.synced: list[Path] = []

    def sync(self, path: Path) -> None:
        super().sync(path)
        self.synced.append(path)


def test_nothing_is_synced_below_a_directory_that_passes(tmp_path: Path) -> None:
    disk, passing, other = SyncedPaths(), tmp_path / "passing", tmp_path / "passing-not"
    files = DurableFiles(disk)
    passing.mkdir()
    other.mkdir()
    with files.passing(passing):
        files.write(passing / "deep" / "down" / "file", b"content")
        files.remove(passing / "deep" / "down" / "file")
        files.write(passing / "file", b"content")
        files.remove_tree(passing / "deep")
        files.sync(passing)
        assert disk.synced == []
        files.write(other / "file", b"content")
        assert disk.synced[1:] == [other]
        assert disk.synced[0].parent == other
    assert (passing / "file").read_bytes() == b"content"
    disk.synced.clear()
    files.write(passing / "file", b"other")
    assert disk.synced[1:] == [passing]


def test_an_error_ends_it_too(tmp_path: Path) -> None:
    disk = SyncedPaths()
    files = DurableFiles(disk)
    with pytest.raises(KeyError), files.passing(tmp_path):
        raise KeyError
    files.write(tmp_path / "file", b"content")
    assert len(disk.synced) == 2
