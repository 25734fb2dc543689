"""A cache of compiled kernels that somebody damaged or could write to: nobody loads its pickles."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np
from bpeline.tokenizer_core.kernels.compilation import cache_directory
from bpeline.tokenizer_core.kernels.fingerprint import scramble
print(scramble(np.uint64(5)), not scramble.stats.cache_misses, cache_directory() is not None)
"""


class Evil:
    """What runs when it is read as a pickle."""

    def __init__(self, sign: Path) -> None:
        self.sign = sign

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.sign),)


def scrambled(home: Path) -> tuple[int, bool, bool]:
    """A kernel's result in a fresh process, whether it was cached, and whether there is a cache."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "BPELINE_KERNEL_CACHE": str(home)},
    )  # fmt: skip
    value, cached, there = done.stdout.split()
    return int(value), cached == "True", there == "True"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    value, cached, there = scrambled(tmp_path / "kernels")
    assert (cached, there) == (False, True)
    assert scrambled(tmp_path / "kernels") == (value, True, True)
    return tmp_path / "kernels"


def files_of(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.rotating(4)
@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "another pickle"])
def test_a_damaged_file_is_compiled_anew(home: Path, damage: str) -> None:
    (value, *_) = scrambled(home)
    for path in files_of(home):
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2],
                          "noise": os.urandom(len(content)),
                          "another pickle": pickle.dumps({"other": 1})}[damage])  # fmt: skip
    assert scrambled(home) == (value, False, True)
    assert scrambled(home) == (value, True, True), "and kept again"


@pytest.mark.slow
def test_what_others_could_write_to_is_emptied_before_anything_is_read(
    home: Path, tmp_path: Path
) -> None:
    (value, *_) = scrambled(home)
    (directory,) = [path for path in home.iterdir() if path.is_dir()]
    for path in files_of(home):
        path.write_bytes(pickle.dumps(Evil(tmp_path / "executed")))
    directory.chmod(0o777)
    assert scrambled(home) == (value, False, True)
    assert not (tmp_path / "executed").exists()
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.chmod(0o755)  # others could read, and nothing else
    assert scrambled(home) == (value, True, True)
    assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_what_cannot_be_a_private_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert scrambled(tmp_path / "file")[1:] == (False, False)
    assert scrambled(Path("/proc/kernels"))[1:] == (False, False)


def test_the_directory_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.tokenizer_core.kernels import compilation

    monkeypatch.setenv("BPELINE_KERNEL_CACHE", str(tmp_path))
    find = compilation.cache_directory.__wrapped__
    assert find() is not None
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert find() is None
