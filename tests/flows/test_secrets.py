"""Passwords of addresses through real commands: no sink, neither screen nor store, shows one."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.requests import TrainingRequest
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.errors import InvalidOption

Bpeline = Callable[..., Result]
SECRET = "hunter2-hunter2"
NOBODY = [
    f"postgresql+psycopg://admin@srv:{SECRET}@127.0.0.1:9/m",
    f"postgresql+psycopg://u:2024/{SECRET}@127.0.0.1:9/m",
    f"postgresql+psycopg://u:{SECRET} and more@127.0.0.1:9/m",
    f"postgresql+psycopg://u@127.0.0.1:9/m?password={SECRET}",
    f"postgresql+psycopg://u:a#{SECRET}@127.0.0.1:9/m",
    f"mysql://u:{SECRET}@127.0.0.1:9/m",
    f"https://{SECRET}@127.0.0.1:9",
    f"http://u:{SECRET}@[::1]:9",
    f"nothing://u:{SECRET}@h",
]


def everything_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def run(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("bpeline")), *arguments],
        cwd=directory,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.night
@pytest.mark.parametrize("address", NOBODY)
def test_a_training_whose_mlflow_does_not_answer_shows_no_password(
    address: str, tmp_path: Path
) -> None:
    if "psycopg" in address:
        address = address.replace("postgresql+psycopg", "postgresql")  # no driver: at once
    (tmp_path / "a.txt").write_text("some words and some more words " * 20, encoding="utf-8")
    train = ("train", "a.txt", "--name", "a", "--vocab-size", "260")
    for arguments in (train, ("doctor", "--json"), ("resume", "--list", "--json")):
        ended = run(tmp_path, *arguments, MLFLOW_TRACKING_URI=address)
        assert SECRET not in ended.stdout + ended.stderr, arguments
        assert "Traceback" not in ended.stderr, arguments
    assert SECRET.encode() not in everything_in(tmp_path)


@pytest.mark.night
@pytest.mark.parametrize("address", NOBODY)
def test_a_catalogue_that_does_not_answer_shows_no_password(address: str, tmp_path: Path) -> None:
    for arguments in (("versions", "--json"), ("doctor",)):
        ended = run(tmp_path, *arguments, BPELINE_CATALOGUE_URL=address)
        assert SECRET not in ended.stdout + ended.stderr, arguments
        assert "Traceback" not in ended.stderr, arguments
    assert SECRET.encode() not in everything_in(tmp_path)


@pytest.mark.night
def test_no_store_keeps_what_a_library_says_with_a_password(
    bpeline: Bpeline, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step fails with an exception of somebody else, whose text is a DSN."""

    def broken(*_: object, **__: object) -> None:
        raise ConnectionError(f"host=h user=u password={SECRET} and postgres://u:{SECRET}@h/m")

    monkeypatch.setattr("bpeline.flows.train_tokenizer.evaluate", broken)
    said = bpeline("train", corpus, "--name", "a", "--vocab-size", 260)
    assert said.exit_code == 1
    assert SECRET not in said.output
    (run_,) = open_registry().catalogue.runs()
    assert "ConnectionError: host=h user=u password=***" in run_.error
    assert SECRET.encode() not in everything_in(Path(".bpeline"))
    with sqlite3.connect(".bpeline/mlflow.sqlite") as mlflow:
        told = [value for (value,) in mlflow.execute("SELECT value FROM tags WHERE key = 'error'")]
    assert told
    assert all("password=***" in value for value in told)


def test_paths_with_passwords_are_refused_before_anything_is_kept(
    bpeline: Bpeline, corpus: Path
) -> None:
    said = bpeline("train", f"ftp://u:{SECRET}@h/a.txt", "--name", "a", "--vocab-size", 260)
    assert said.exit_code == InvalidOption.exit_code
    assert "contains a password" in said.stderr
    assert SECRET not in said.output
    assert SECRET.encode() not in everything_in(Path(".bpeline"))
    assert bpeline("resume", "--list", "--json").stdout == json.dumps([]) + "\n"
    shutil.rmtree(corpus)


@pytest.mark.night
def test_prefect_is_sent_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    from bpeline.flows.serving import recorded

    def sent(*_: object) -> None:
        raise AssertionError("it was sent")

    source = f"english=s3://k:{SECRET}@b/a"
    for more, workspace in (({"baselines": [source]}, None), ({}, f"https://{SECRET}@h/ws")):
        request = TrainingRequest.model_construct(paths=("a",), name="n", **more)
        with pytest.raises(InvalidOption, match="password") as refused:
            recorded(sent, request, workspace, "http://127.0.0.1:9/api")
        assert SECRET not in str(refused.value)
