"""The states a power loss may leave: unsynced content lost or torn, unsynced renames undone.

Operations are recorded with what they wrote. From any prefix of them follow states of the disk
that POSIX allows: content of a file that was not synced is there, missing, or torn at 512 bytes;
entries of a directory that was not synced are there or not, each by itself. Whoever reads such a
state finds the old value or the new one, and never a mixture.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_disk import Done, RecordingDisk

from bpeline.registry.workspace.sealed_records import read_record, write_record
from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, CorruptFile, InvalidOption, MissingSource
from bpeline.tokenizer_core.merging.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from bpeline.tokenizer_core.shards.token_shards import TokenShards

from .conftest import Record

TORN_AT = 512


@dataclass(slots=True)
class Medium:
    """What is on the medium, and what is only on its way there.

    Attributes:
        files: inode → content that is safe, or None while nothing of it is.
        pending: inode → content that was written and not synced.
        entries: path → inode, or None for a directory; those that are safe.
        moves: entries that were changed and not synced, in order: path, inode or None, kind.
    """

    files: dict[int, bytes] = field(default_factory=dict)
    pending: dict[int, bytes] = field(default_factory=dict)
    entries: dict[Path, int | None] = field(default_factory=dict)
    moves: list[tuple[Path, Path | None, int | None]] = field(default_factory=list)

    def do(self, done: Done) -> None:
        """Follow one operation."""
        now = self.seen()
        if done.kind == "make directory":
            self.moves.append((done.path, None, None))
        elif done.kind == "create":
            inode = len(self.files) + len(self.pending) + 1
            self.pending[inode] = done.content
            self.moves.append((done.path, None, inode))
        elif done.kind == "replace":
            assert done.source is not None
            self.moves.append((done.path, done.source, now[done.source]))
        elif done.kind == "remove":
            self.moves.append((done.path, done.path, None))
        elif done.path in now and (inode := now[done.path]) is not None:
            self.files[inode] = self.pending.pop(inode, self.files.get(inode, b""))
        else:
            self._sync_directory(done.path)

    def _sync_directory(self, directory: Path) -> None:
        for move in self.moves:
            if move[0].parent == directory:
                _apply(self.entries, move)
        self.moves = [move for move in self.moves if move[0].parent != directory]

    def seen(self) -> dict[Path, int | None]:
        """What a process sees that runs on."""
        entries = dict(self.entries)
        for move in self.moves:
            _apply(entries, move)
        return entries

    def after_loss(self, chance: random.Random) -> dict[Path, bytes | None]:
        """One state that may be found when the power is back: path → content."""
        entries = dict(self.entries)
        for move in self.moves:
            if chance.random() < 0.5:
                _apply(entries, move)
        found: dict[Path, bytes | None] = {}
        for path, inode in entries.items():
            if any(one not in entries for one in path.parents if one in self.seen()):
                continue  # its directory was lost along with all it held
            found[path] = None if inode is None else self._content(inode, chance)
        return found

    def _content(self, inode: int, chance: random.Random) -> bytes:
        if inode in self.files:
            return self.files[inode]
        content = self.pending[inode]
        blocks = len(content) // TORN_AT + 1
        return content[: chance.randrange(blocks + 1) * TORN_AT]


def _apply(entries: dict[Path, int | None], move: tuple[Path, Path | None, int | None]) -> None:
    target, source, inode = move
    if source is not None:
        entries.pop(source, None)
    if source != target:
        entries[target] = inode


def states_of(
    done: list[Done], number: int, chance: random.Random
) -> Iterator[tuple[int, dict[Path, bytes | None]]]:
    """Random states after random prefixes of what was done."""
    for _ in range(number):
        stopped = chance.randrange(len(done) + 1)
        medium = Medium()
        for one in done[:stopped]:
            medium.do(one)
        yield stopped, medium.after_loss(chance)


def require_old_or_new(
    record: Record,
    place: Path,
    write: Callable[[Path], None],
    read: Callable[[Path], Any],
    allowed: list[Any],
    one_of: int = 1,
) -> None:
    """Record what ``write`` does, lose power in many ways, and ``read`` what is left.

    Args:
        write: writes below a directory, several times over.
        read: a JSON value, None for "nothing there"; may raise CorruptFile only if nothing was
            ever acknowledged.
        allowed: what may be read.
        one_of: a protocol that takes long gets one of so many states.
    """
    disk = RecordingDisk()
    origin = place / "origin"
    origin.mkdir()
    with DURABLE.on(disk):
        write(origin)
    record.add("operations", len(disk.done))
    chance = random.Random(f"{record.seed}/{record.suite}")
    number = record.amounts.power_losses // one_of
    for case, (stopped, state) in enumerate(states_of(disk.done, number, chance), 1):
        if not record.wants(case):
            continue
        target = place / "after"
        target.mkdir()
        for path, content in state.items():
            here = target / path.relative_to(origin)
            if content is None:
                here.mkdir(parents=True, exist_ok=True)
            else:
                here.parent.mkdir(parents=True, exist_ok=True)
                here.write_bytes(content)
        record.add("states")
        repeated = f"{record.suite} --point {case} --seed {record.seed} (after {stopped})"
        try:
            found = read(target)
        except BpelineError as error:
            record.fail(repeated, error)
        else:
            if found not in allowed:
                record.fail(repeated, f"found {found!r}"[:300])
        remove(target)
    record.require_none()


def remove(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    directory.rmdir()


def test_a_file_that_is_replaced(place: Path, record: Record) -> None:
    contents = [bytes([number]) * 1300 for number in range(4)]

    def write(root: Path) -> None:
        for content in contents:
            DURABLE.write(root / "deep" / "down" / "file", content)

    def read(root: Path) -> Any:
        path = root / "deep" / "down" / "file"
        return path.read_bytes() if path.exists() else None

    require_old_or_new(record, place, write, read, [None, *contents])


def test_what_was_acknowledged_is_there(place: Path, record: Record) -> None:
    """After a write has returned, no state is without it."""
    disk = RecordingDisk()
    path = place / "new" / "directory" / "file"
    with DURABLE.on(disk):
        DURABLE.write(path, b"acknowledged" * 100)
    medium = Medium()
    for one in disk.done:
        medium.do(one)
    chance = random.Random(record.seed)
    for _ in range(record.amounts.power_losses):
        record.add("states")
        assert medium.after_loss(chance)[path] == b"acknowledged" * 100
    record.require_none()


def test_a_sealed_record(place: Path, record: Record) -> None:
    def write(root: Path) -> None:
        for number in range(4):
            write_record(root / "record.json", {"format": 1, "is": [number] * 400})

    def read(root: Path) -> Any:
        if not (root / "record.json").exists():
            return None
        return read_record(root / "record.json", 1)["is"][0]

    require_old_or_new(record, place, write, read, [None, 0, 1, 2, 3])


def test_checkpoints(place: Path, record: Record) -> None:
    """The last or the one before: at most the work since then is lost."""

    def checkpoint(merges: int) -> Checkpoint:
        ids = np.arange(merges, dtype=np.int32)
        return Checkpoint("a" * 64, "b" * 64, ids, ids, np.ones(merges, np.int64))

    def write(root: Path) -> None:
        for merges in (40, 80, 120, 160):
            save_checkpoint(root / "run" / "checkpoint", checkpoint(merges))

    def read(root: Path) -> Any:
        try:
            return len(load_checkpoint(root / "run" / "checkpoint"))
        except InvalidOption:
            return None

    require_old_or_new(record, place, write, read, [None, 40, 80, 120, 160])


def test_a_tokenizer_in_our_format(place: Path, record: Record) -> None:
    """Where the manifest is, the other files are."""
    tokenizer = _tokenizer()

    def write(root: Path) -> None:
        tokenizer.save(root / "version")
        tokenizer.save(root / "version")

    def read(root: Path) -> Any:
        try:
            return Tokenizer.load(root / "version", format="bpeline").digest
        except MissingSource:
            return None

    require_old_or_new(record, place, write, read, [None, tokenizer.digest], one_of=5)


def test_token_shards(place: Path, record: Record) -> None:
    """Where the manifest is, every shard is; a second encoding leaves the first or the second."""
    tokenizer = _tokenizer()
    texts = [["one two", "three"], ["one two", "three", "four five"]]
    corpus = place / "corpus.txt"

    def write(root: Path) -> None:
        for some in texts:
            corpus.write_text("|".join(some))
            tokenizer.encode_files(corpus, root / "tokens", separator="|", threads=1)

    def read(root: Path) -> Any:
        try:
            shards = TokenShards(root / "tokens")
        except MissingSource:
            return None
        shards.verify()
        return [tokenizer.decode(ids) for ids in shards]

    require_old_or_new(record, place, write, read, [None, *texts], one_of=2)


@pytest.mark.parametrize("lost", ["content", "directory"])
def test_a_writer_that_forgets_a_sync_is_found(lost: str, place: Path, record: Record) -> None:
    """The model itself: without either fsync some state is neither old nor new."""

    class Forgetful(RecordingDisk):
        def sync(self, path: Path) -> None:
            if path.is_dir() != (lost == "directory"):
                RecordingDisk.sync(self, path)

    disk, path = Forgetful(), place / "file"
    with DURABLE.on(disk):
        DURABLE.write(path, b"old" * 500)
        DURABLE.write(path, b"new" * 500)
    chance = random.Random(1)
    medium = Medium()
    for one in disk.done:
        medium.do(one)
    found = [medium.after_loss(chance).get(path) for _ in range(200)]
    assert any(content != b"new" * 500 for content in found), "an acknowledged write was lost"
    if lost == "content":
        assert any(content not in (None, b"old" * 500, b"new" * 500) for content in found)


def _tokenizer() -> Tokenizer:
    vocab = {number: bytes([number]) for number in range(256)}
    return Tokenizer({**vocab, 256: b"on", 257: b"one"}, [(b"o", b"n"), (b"on", b"e")])


def test_corrupt_states_are_told_from_missing_ones(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"format": 1}))
    with pytest.raises(CorruptFile):
        read_record(path, 1)
