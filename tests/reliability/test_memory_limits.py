"""Too little memory, wherever it ends: a `MemoryError` or one of ours, and nothing is lost."""

from __future__ import annotations

import resource
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from bpeline.tokenizer_core import machine
from bpeline.tokenizer_core.bounded_files import read_bounded
from bpeline.tokenizer_core.errors import OutOfMemory
from bpeline.tokenizer_core.machine import addresses_in_use, require_addresses

from .conftest import Record, Work
from .test_disk_faults import require_the_end

LIMITS = 20  # there are for each kind of work
# Bytes more than a process has that begins; the most are enough for all that is done here.
FEWEST, MOST = 1 << 20, 600 << 20
# Where memory ends just when a thread has been started, Python waits for it for ever. That is a
# small window, and whoever kills the process loses nothing.
HUNG = "hung in Python's threads, and killed"

MB = machine.MB
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
COUNT = "import bpeline; print(bpeline.count_words('words.txt').total)"


@pytest.mark.night
def test_work_with_too_little_memory(work: Work, record: Record) -> None:
    """More and more memory, until it is enough; then the same command ends as it should."""
    attempts, expected = work.attempts, work.state
    for case in range(1, LIMITS + 1):
        if not record.wants(case, record.amounts.one_of_limits):
            continue
        memory = FEWEST + MOST * (case - 1) ** 2 // (LIMITS - 1) ** 2
        repeated = f"{record.suite} --point {case} ({memory >> 10} KiB)"
        with attempts.afresh() as attempt:
            ended = attempt(memory=memory)
            record.add("limits")
            record.add("typed errors", int(ended.typed))
            if ended.hung and record.counts.get(HUNG, 0) < LIMITS // 10:
                record.add(HUNG)
            elif ended.signal or (ended.error and not ended.typed):
                record.fail(repeated, ended.error or f"signal {ended.signal}")
            require_the_end(record, repeated, attempt(), expected)
    record.require_none()


@LINUX
@pytest.mark.parametrize(
    ("limit", "column", "fits"),
    [(resource.RLIMIT_AS, 0, 390 * MB), (resource.RLIMIT_DATA, 5, 640 * MB)],
)
def test_a_limit_is_compared_with_what_is_needed(limit: int, column: int, fits: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[column])
    former = resource.getrlimit(limit)
    resource.setrlimit(limit, (pages * resource.getpagesize() + 400 * MB, former[1]))
    try:
        require_addresses(fits, "this")
        with pytest.raises(MemoryError, match="this needs"):
            require_addresses(fits + 40 * MB, "this")
    finally:
        resource.setrlimit(limit, former)


def test_nothing_is_compared_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_STATM", tmp_path / "none")
    assert addresses_in_use() == 0
    require_addresses(1 << 62, "this")


def test_a_bound_is_not_what_a_read_allocates(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"[1]")
    tracemalloc.start()
    try:
        assert read_bounded(tmp_path / "manifest.json", 1 << 30) == b"[1]"
        assert tracemalloc.get_traced_memory()[1] < MB
    finally:
        tracemalloc.stop()


@LINUX
@pytest.mark.night
@pytest.mark.parametrize(
    ("letter", "megabytes", "words", "expected"),
    [
        ("v", 300, ["train", "words.txt", "--name", "w"], "`bpeline train` needs"),
        ("v", 900, ["train", "words.txt", "--name", "w"], "`bpeline train` needs"),
        ("d", 500, ["train", "words.txt", "--name", "w"], "RLIMIT_DATA"),
        ("v", 1_500, ["train", "words.txt", "--name", "w", "--threads", "99"], "needs"),
        ("v", 1_850, ["train", "words.txt", "--name", "w", "--merges", "5", "--threads", "2"], ""),
        ("v", 300, ["doctor"], "`bpeline doctor` needs"),
        ("v", 500, ["encode", "w/1", "text"], "`bpeline encode` needs"),
        ("v", 100, ["versions"], "there is no workspace"),
        ("v", 300, ["-c", COUNT], OutOfMemory.__name__),
        ("v", 750, ["-c", COUNT], ""),
    ],
)
def test_a_process_begins_where_its_need_fits(
    letter: str, megabytes: int, words: list[str], expected: str, tmp_path: Path
) -> None:
    (tmp_path / "words.txt").write_text("ab abc b abc\n" * 99)
    program = sys.executable if words[0] == "-c" else Path(sys.executable).with_name("bpeline")
    limit = ["sh", "-c", f'ulimit -{letter} $0 && exec "$@"', str(megabytes * MB // 1024)]
    done = subprocess.run(
        [*limit, str(program), *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == bool(expected), done.stderr
    assert expected in done.stderr
