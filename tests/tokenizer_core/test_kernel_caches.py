"""Machine code of other kernel sources is removed when nobody uses it, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fresh_python import output_of

from bpeline.tokenizer_core.cache_directory import opened, turn
from bpeline.tokenizer_core.kernels.compiling import machine_code
from bpeline.tokenizer_core.kernels.compiling.compilation import IS_PLAIN
from bpeline.tokenizer_core.kernels.compiling.machine_code import (
    cache_directory,
    cache_state,
    remove_unused_caches,
    source_digest,
)

DAY = 86_400.0
kept = pytest.mark.skipif(IS_PLAIN, reason="with public functions of Numba nothing is kept")


def make(home: Path, name: str, days: float, *files: str) -> Path:
    directory = home / name
    directory.mkdir(parents=True)
    for file in files or ("kernel.nbi", "kernel.1.nbc"):
        (directory / file).write_bytes(b"code")
    os.utime(directory, (time.time() - days * DAY,) * 2)
    return directory


def test_only_caches_that_were_not_used_for_a_month_are_removed(tmp_path: Path) -> None:
    used = make(tmp_path, "0" * 16, 400)
    recent = make(tmp_path, "1" * 16, 29)
    unused = make(tmp_path, "2" * 16, 31)
    assert remove_unused_caches(used) == [unused]
    assert sorted(tmp_path.iterdir()) == [used, recent]
    assert len(list(used.iterdir())) == 2


def test_what_is_not_a_cache_is_left_alone(tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    used = make(home, "0" * 16, 0)
    kept = [
        make(home, "my-documents", 400),
        make(home, "3" * 15, 400),
        make(home, "4" * 16, 400, "kernel.nbc", "thesis.txt"),
    ]
    target = make(elsewhere, "5" * 16, 400)
    (home / ("6" * 16)).symlink_to(target)
    (home / ("7" * 16)).write_bytes(b"a file")
    inside = make(home, "8" * 16, 400)
    (inside / "directory.nbc").mkdir()
    os.utime(inside, (time.time() - 400 * DAY,) * 2)
    assert remove_unused_caches(used) == []
    assert all(directory.is_dir() for directory in [*kept, inside])
    assert len(list(target.iterdir())) == 2
    assert (home / ("7" * 16)).exists()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BPELINE_KERNEL_CACHE", str(tmp_path))
    machine_code._found.cache_clear()
    yield tmp_path
    machine_code._found.cache_clear()


def test_a_new_version_clears_up_once_and_marks_what_it_uses(home: Path) -> None:
    unused = make(home, "9" * 16, 90)
    directory = cache_directory()
    assert directory == home / source_digest()
    assert not unused.exists()
    (directory / "kernel.nbi").write_bytes(b"code")
    os.utime(directory, (time.time() - 20 * DAY,) * 2)
    unused = make(home, "9" * 16, 90)
    machine_code._found.cache_clear()
    assert cache_directory() == directory
    assert directory.stat().st_mtime > time.time() - DAY
    assert unused.exists()  # every start would be too often to look


def test_the_state_of_the_cache_is_counted(home: Path) -> None:
    make(home, "9" * 16, 1)
    directory = cache_directory()
    assert directory is not None
    assert (cache_state().specializations, cache_state().size) == (0, 0)
    (directory / "kernel.nbc").write_bytes(b"x" * 100)
    state = cache_state()
    assert (state.directory, state.specializations, state.size) == (directory, 1, 100)
    assert (state.others, state.others_size) == (1, 8)


def test_without_a_place_there_is_nothing_to_tell_but_why(home: Path) -> None:
    home.chmod(0o777)
    state = cache_state()
    assert state == machine_code.CacheState(None, refusal=state.refusal)
    assert str(home) in str(state.refusal)


@kept
def test_kept_code_is_loaded_without_what_only_compiling_needs() -> None:
    program = (
        "import sys; from bpeline import Tokenizer; "
        "tokenizer = Tokenizer({byte: bytes([byte]) for byte in range(256)}, []); "
        "print(tokenizer.encode('ab'), 'numba.np.arraymath' in sys.modules)"
    )
    for _ in range(2):  # the first may compile
        said = output_of(program)
    assert said.split() == ["[97,", "98]", "False"]


COMPILE_ONE = """
import sys
from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept, compile_declared
from bpeline.tokenizer_core.kernels.merging.merge_layout import collect_dense_pairs as one
assert not are_kept(one)
print("ready", flush=True)
sys.stdin.readline()
compile_declared(one)
assert are_kept(one)
print(one.stats.cache_hits.total(), one.stats.cache_misses.total())
"""


@kept
def test_what_one_process_compiles_the_other_waits_for_and_loads(tmp_path: Path) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", COMPILE_ONE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "BPELINE_KERNEL_CACHE": str(tmp_path)},
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    said = sorted(one.communicate()[0].split() for one in both)
    assert said == [["0", "1"], ["1", "0"]]


def test_a_turn_ends_with_the_process_that_has_it(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from bpeline.tokenizer_core.cache_directory import opened, turn\n"
        "with opened(sys.argv[1]) as directory, turn(directory, 'kernel.lock'):\n"
        "    print('mine', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "mine\n"
    holder.stdout.close()
    threading.Timer(0.1, holder.kill).start()
    with opened(tmp_path) as directory, turn(directory, "kernel.lock"):
        assert holder.wait() == -signal.SIGKILL
