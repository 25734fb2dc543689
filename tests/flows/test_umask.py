"""A new workspace is its owner's alone, and its locks are; all else follows the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

UMASKS = [0o027, 0o002, 0o077]
LOCKS = ("lock", "catalogue.sqlite.moves", "mlflow.sqlite.lock")
PRIVATE = {".bpeline": 0o700} | {f".bpeline/{name}": 0o600 for name in LOCKS}


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    usual = os.umask(request.param)
    yield request.param
    os.umask(usual)


@pytest.mark.night
@pytest.mark.parametrize("umask", UMASKS, ids=oct, indirect=True)
def test_everything_that_a_training_makes_follows_the_umask(
    umask: int, tmp_path: Path, bpeline: Callable[..., Result], english_and_code: str
) -> None:
    Path("part.txt").write_text(english_and_code[:60_000], encoding="utf-8")
    trained = bpeline("train", "part.txt", "--name", "news", "--vocab-size", 300)
    assert trained.exit_code == 0, trained.output
    for command in (
        ("export", "news/1", "--format", "hf", "--output", "tokenizer.json"),
        ("encode", "news/1", "part.txt", "-o", "tokens"),
        ("promote", "news/1"),
        ("sql", "FROM splits('news/1')", "-o", "splits.parquet"),
        ("report", "news/1", "-o", "report.html"),
        ("gc", "--dry-run"),
    ):
        done = bpeline(*command)
        assert done.exit_code == 0, done.output
    # Its directory follows the umask, and where the group may write, the lock is the group's.
    private = PRIVATE | {
        ".bpeline/querying/lock": 0o660 if umask == 0o002 else 0o600,
    }
    unlike = {}
    for path in tmp_path.rglob("*"):
        if path.name == "prefect":  # Prefect's home, which it makes for its owner alone
            continue
        mode, most = stat.S_IMODE(path.stat().st_mode), 0o777 if path.is_dir() else 0o666
        name = str(path.relative_to(tmp_path))
        expected = private.get(name, most & ~umask)
        if mode & 0o777 != expected:
            unlike[name] = oct(mode)
    assert unlike == {}
    assert all(Path(name).exists() for name in private)
    assert len(list(Path(".bpeline").rglob("*"))) > 50
