"""A cache of compiled kernels that somebody damaged or could write to: nobody loads its pickles."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bpeline.tokenizer_core.cache_directory import (
    Untrusted,
    kept_below,
    opened,
    read_file,
    write_file,
)
from bpeline.tokenizer_core.kernels.compiling.compilation import IS_PLAIN
from bpeline.tokenizer_core.kernels.compiling.machine_code import remove_unused_caches

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from bpeline.tokenizer_core.kernels.compiling.machine_code import cache_directory
from bpeline.tokenizer_core.kernels.merging.merge_queue import prefix_tie
print(prefix_tie(np.arange(9, dtype=np.uint8), 5, 2), not prefix_tie.stats.cache_misses,
      cache_directory() is not None)
"""
VALUE = 0x0506000000000000 ^ 0x7FFFFFFFFFFFFFFF  # what it prints first: bytes 5 and 6, reversed


class Evil:
    """What runs when it is read as a pickle."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.sign),)


def tied(home: Path) -> tuple[int, bool, bool]:
    """A kernel's result in a fresh process, whether it was cached, and whether there is a cache."""
    value, cached, there = run(home).stdout.split()
    return int(value), cached == "True", there == "True"


def run(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "BPELINE_KERNEL_CACHE": str(home)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the kernel in it, to be copied: compiling takes a second."""
    if IS_PLAIN:
        pytest.skip("with public functions of Numba nothing is kept")
    home = tmp_path_factory.mktemp("compiled") / "kernels"
    assert tied(home)[1:] == (False, True)
    return home


@pytest.fixture
def home(compiled: Path, tmp_path: Path) -> Path:
    """A cache of which the kernel is loaded."""
    shutil.copytree(compiled, tmp_path / "kernels")
    assert tied(tmp_path / "kernels") == (VALUE, True, True)
    return tmp_path / "kernels"


def files_of(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.night
@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "another pickle"])
def test_a_damaged_file_is_compiled_anew(home: Path, damage: str) -> None:
    for path in files_of(home):
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2],
                          "noise": os.urandom(len(content)),
                          "another pickle": pickle.dumps({"other": 1})}[damage])  # fmt: skip
    assert tied(home) == (VALUE, False, True)
    assert tied(home) == (VALUE, True, True), "and kept again"


@pytest.mark.night
@pytest.mark.parametrize("open_one", ["directory", "parent"])
def test_what_others_can_write_to_is_neither_read_nor_changed(
    home: Path, tmp_path: Path, open_one: str
) -> None:
    (directory,) = [path for path in home.iterdir() if path.is_dir()]
    for path in files_of(home):
        path.write_bytes(pickle.dumps(Evil(tmp_path / "executed")))
    held = files_of(home)
    opened_up = directory if open_one == "directory" else home
    opened_up.chmod(0o770)
    assert tied(home) == (VALUE, False, False)
    assert not (tmp_path / "executed").exists()
    assert (files_of(home), opened_up.stat().st_mode & 0o777) == (held, 0o770)
    opened_up.chmod(0o755)  # others could read, and nothing else
    assert tied(home)[2]


@pytest.mark.night
def test_what_cannot_be_a_private_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert tied(tmp_path / "file")[1:] == (False, False)
    assert tied(Path("/proc/kernels"))[1:] == (False, False)


@pytest.mark.night
def test_why_nothing_is_kept_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    done = run(tmp_path / "link")
    assert done.stderr.count(str(tmp_path / "link")) == 1
    assert "BPELINE_KERNEL_CACHE" in done.stderr
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.night
def test_a_link_that_was_planted_harms_nothing(home: Path, tmp_path: Path) -> None:
    """The directory of machine code is a link to one that its user keeps other things in."""
    (directory,) = home.iterdir()
    precious = tmp_path / "precious"
    directory.rename(precious)
    (precious / "thesis.txt").write_text("years")
    precious.chmod(0o777)
    directory.symlink_to(precious)
    held = files_of(precious)
    assert tied(home) == (VALUE, False, False)
    assert (files_of(precious), precious.stat().st_mode & 0o777) == (held, 0o777)


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"BPELINE_KERNEL_CACHE": "/named"}, "/named"),
        ({"BPELINE_KERNEL_CACHE": "named"}, f"{os.getcwd()}/named"),
        ({"BPELINE_KERNEL_CACHE": "", "HOME": "/me"}, "/me/.cache/bpeline/kernels"),
        ({"XDG_CACHE_HOME": "/cache", "HOME": "/me"}, "/cache/bpeline/kernels"),
        ({"XDG_CACHE_HOME": "", "HOME": "/me"}, "/me/.cache/bpeline/kernels"),
        ({"XDG_CACHE_HOME": "cache", "HOME": "/me"}, "/me/.cache/bpeline/kernels"),
        ({"HOME": ""}, "bpeline/kernels"),
    ],
)
def test_where_machine_code_is_kept(
    environment: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BPELINE_KERNEL_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert kept_below().endswith(place)
    assert place == "bpeline/kernels" or kept_below() == place


def test_files_that_others_may_have_made_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(b"code")
    (tmp_path / "good").chmod(0o644)
    (tmp_path / "open to others").write_bytes(b"code")
    (tmp_path / "open to others").chmod(0o664)
    (tmp_path / "elsewhere").write_bytes(b"code")
    os.link(tmp_path / "elsewhere", tmp_path / "of two names")
    (tmp_path / "link").symlink_to(tmp_path / "good")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")  # whose reader would wait for ever
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with opened(tmp_path) as directory:
        assert read_file(directory, "good") == b"code"
        for name in ("open to others", "of two names", "link", "directory", "fifo", "huge"):
            with pytest.raises(Untrusted, match=name):
                read_file(directory, name)
            if name != "directory":
                write_file(directory, name, b"new")
                assert read_file(directory, name) == b"new"
    assert (tmp_path / "elsewhere").read_bytes() == (tmp_path / "good").read_bytes() == b"code"


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two other users")
VICTIM, ATTACKER = 65_533, 65_534


def as_user(user: int, act: Callable[[], object]) -> str:
    """What somebody else's process gives back, or the name of its exception."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            answer = str(act())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode()[:4_000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


def kept_by_victim(path: Path) -> str:
    """Whether the victim keeps machine code there, or why not."""

    def keep() -> str:
        with opened(path, make=True) as directory:
            write_file(directory, "kernel.nbi", b"code")
            return read_file(directory, "kernel.nbi").decode()

    return as_user(VICTIM, keep)


@pytest.fixture
def common() -> Iterator[Path]:
    """A directory as /tmp is: anybody may make what he likes in it, and touch his own alone."""
    path = Path(tempfile.mkdtemp(dir="/tmp"))
    path.chmod(0o1777)
    yield path
    shutil.rmtree(path)


def of(user: int, path: Path, mode: int = 0o755) -> Path:
    path.mkdir()
    path.chmod(mode)
    os.chown(path, user, user)
    return path


@needs_root
def test_among_others_a_directory_of_ones_own_is_kept(common: Path) -> None:
    assert kept_by_victim(common / "cache") == "code"
    assert kept_by_victim(of(VICTIM, common / "mine") / "kernels" / "0123") == "code"
    made = common / "mine" / "kernels"
    assert [made.stat().st_mode & 0o777, (made / "0123").stat().st_mode & 0o777] == [0o700] * 2


@needs_root
def test_what_another_user_planted_is_refused_and_left_as_it_is(common: Path) -> None:
    of(ATTACKER, common / "planted", 0o777)
    assert "another user (65534)" in kept_by_victim(common / "planted")
    assert "another user (65534)" in kept_by_victim(common / "planted" / "deeper")
    assert list((common / "planted").iterdir()) == []

    precious = of(VICTIM, common / "precious", 0o700)
    (precious / "thesis.nbi").write_text("years")
    assert as_user(ATTACKER, lambda: (common / "link").symlink_to(precious)) == "None"
    for path in (common / "link", common / "link" / "deeper"):
        assert f"{common / 'link'} is a link" in kept_by_victim(path)
    assert [path.name for path in precious.iterdir()] == ["thesis.nbi"]

    home = of(ATTACKER, common / "home")  # HOME is somebody else's, what is in it is not
    of(VICTIM, home / "cache", 0o700)
    assert "another user (65534)" in kept_by_victim(home / "cache")

    shared = of(VICTIM, common / "shared", 0o770)  # with a group
    of(VICTIM, shared / "cache", 0o700)
    answer = kept_by_victim(shared / "cache")
    assert f"{shared} (mode 770)" in answer

    with opened(of(0, common / "of-root")) as directory:
        (common / "of-root" / "kernel.nbi").write_bytes(b"code")
        os.chown(common / "of-root" / "kernel.nbi", ATTACKER, ATTACKER)
        with pytest.raises(Untrusted, match=r"kernel\.nbi"):
            read_file(directory, "kernel.nbi")


@needs_root
@pytest.mark.parametrize("parent", ["sticky", "writable"])
def test_nobody_gets_between_looking_and_opening(common: Path, parent: str) -> None:
    """All the while another user renames the directory away, and puts his own and links there."""
    place = of(0, common / "place", 0o1777 if parent == "sticky" else 0o777)
    cache = of(VICTIM, place / "cache", 0o700)
    evil = of(ATTACKER, common / "evil", 0o777)
    (evil / "kernel.nbi").write_bytes(b"evil")
    attacker = os.fork()
    if attacker == 0:
        os.setgroups([])
        os.setgid(ATTACKER)
        os.setuid(ATTACKER)
        while True:
            for act in (
                lambda: cache.rename(place / "away"),
                lambda: cache.symlink_to(evil),
                lambda: cache.unlink(),
                lambda: evil.rename(cache),
                lambda: cache.rename(evil),
                lambda: (place / "away").rename(cache),
            ):
                with contextlib.suppress(OSError):
                    act()
    try:

        def keep_often() -> set[str]:
            answers = set()
            for _ in range(1_000):
                try:
                    with opened(cache) as directory:
                        assert os.fstat(directory).st_uid == VICTIM
                        write_file(directory, "kernel.nbi", b"code")
                        answers.add(read_file(directory, "kernel.nbi").decode())
                except OSError as error:
                    answers.add(type(error).__name__)
            return answers

        answers = as_user(VICTIM, keep_often)
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
    assert answers == str({"code"} if parent == "sticky" else {"Untrusted"})
    (theirs,) = common.rglob("kernel.nbi") if parent != "sticky" else [evil / "kernel.nbi"]
    assert theirs.read_bytes() == b"evil"


@needs_root
def test_removing_old_caches_stays_in_their_directory(common: Path) -> None:
    home = of(0, common / "home", 0o700)
    (home / ("0" * 16)).mkdir()
    precious = of(0, common / "precious")
    (precious / "kernel.nbc").write_bytes(b"years")
    (home / ("1" * 16)).symlink_to(precious)
    theirs = of(ATTACKER, home / ("2" * 16))
    ours = of(0, home / ("3" * 16))
    (ours / "kernel.nbi").symlink_to(precious / "kernel.nbc")
    for path in (precious, theirs, ours):
        os.utime(path, (0, 0))
    assert remove_unused_caches(home / ("0" * 16)) == []
    assert (precious / "kernel.nbc").read_bytes() == b"years"
    assert sorted(path.name[0] for path in home.iterdir()) == ["0", "1", "2", "3"]
