"""Places that no command can work with end in three lines of ours, never in a traceback."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.cli.commands import ANSWERS, CHANGES_WITH, changes
from bpeline.flows.cli.diagnosis import _workspace
from bpeline.flows.cli.main import all_commands, cli
from bpeline.registry import open_registry
from bpeline.registry.environment import configure
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption

Bpeline = Callable[..., Result]
UNUSABLE = ["/dev/null", "/dev/null/x", "/proc/x", "n" * 5000, f"new/{'n' * 300}", "~nobody-here/x"]


@pytest.mark.parametrize("place", UNUSABLE)
@pytest.mark.parametrize(
    "command", [("versions",), ("gc", "--dry-run"), ("train", "a.txt", "--name", "a")]
)
def test_a_workspace_that_cannot_be_is_an_error_of_ours(
    bpeline: Bpeline, command: tuple[str, ...], place: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("some words", encoding="utf-8")
    said = bpeline(*command, "--workspace", place)
    assert said.exit_code in {1, 2}
    assert said.stderr.startswith("error: ")
    assert "unexpected error" not in said.stderr
    assert len(said.stderr) < 1500


@pytest.mark.parametrize("place", [*UNUSABLE, "a\0b"])
def test_the_same_through_the_library(place: str) -> None:
    with pytest.raises(BpelineError):
        open_registry(place)


@pytest.mark.parametrize("place", ["/dev/null", "n" * 5000, "~nobody-here/x"])
def test_the_doctor_finds_them(place: str) -> None:
    configure(workspace=place)
    assert next(_workspace()).state == "broken"


def test_a_directory_that_is_gone(bpeline: Bpeline, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    said = bpeline("versions")
    assert said.exit_code == 2
    assert "does not exist" in said.stderr


def test_a_library_that_cannot_be_loaded(
    bpeline: Bpeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("some words", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "duckdb", None)  # as when its code cannot be mapped
    said = bpeline("train", "a.txt", "--name", "a", "--vocab-size", 258)
    assert said.exit_code == 1
    assert "duckdb" in said.stderr
    assert "Traceback" not in said.stderr


def test_what_nobody_foresaw_is_told_with_its_place(
    bpeline: Bpeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("password=hunter2")

    monkeypatch.setattr("bpeline.registry.opening.locate", broken)
    said = bpeline("versions")
    assert said.exit_code == 1
    assert "KeyError" in said.stderr
    assert "registry/opening.py:" in said.stderr
    assert "hunter2" not in said.stderr


@pytest.mark.night
@pytest.mark.parametrize(
    ("redirected", "code"),
    [
        ("versions >&-", 2),
        ("versions >/dev/full", 1),
        ("versions <&-", 0),
        ("versions 2>&-", 0),
        ("versions 2>/dev/full", 0),
        ("--help >/dev/full", 1),
        ("--version >/dev/full", 1),
    ],
)
def test_streams_that_are_closed_or_full(redirected: str, code: int) -> None:
    program = shlex.quote(os.fspath(Path(sys.executable).with_name("bpeline")))
    command = f"{program} {redirected}"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False,
        env={**os.environ, "BPELINE_CATALOGUE_URL": f"sqlite:///{os.getcwd()}/c.sqlite"},
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not ended.stderr or ended.stderr.startswith(("error: ", "no version"))


@pytest.mark.night
@pytest.mark.parametrize("place", ["/dev/full", "a closed pipe"])
def test_what_was_done_is_said_where_standard_output_cannot_be_written(
    folder_after: Callable[..., Path],
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`train … > /dev/full` published, then advised to type the same command again."""
    monkeypatch.chdir(folder_after({"text.txt": "the then there " * 50}, []))
    reader, pipe = os.pipe()
    os.close(reader)
    train = "train text.txt --name news --held-out 0 --vocab-size"
    raw = os.fdopen(pipe if place == "a closed pipe" else os.open(place, os.O_WRONLY), "wb", 0)
    with io.TextIOWrapper(raw, write_through=True) as stream, redirect_stdout(stream):
        for typed, said in (
            (f"{train} 258", "news/1 (newly registered)"),
            (f"{train} 259 --json", '"reference": "news/2"'),
            ("promote news/1", "news@champion points to news/1 now"),
            ("encode news/1 text.txt -o tokens", "tokens: "),
            ("export news/1 --output out", "out"),
            ("delete news@candidate --yes", "news@candidate was removed"),
            ("delete news/2 --yes", "news/2  "),
            ("gc --days 0 --yes", " removed"),
        ):
            assert cli.main(shlex.split(typed), standalone_mode=False) == 1, typed
            told = capsys.readouterr().err
            assert said in told.partition("error: ")[2]


def test_a_command_changes_something_unless_it_only_answers() -> None:
    answers = "train a --name a --dry-run;resume --list;gc --dry-run;delete a/1 --dry-run;"
    answers += "encode a text;versions;doctor"
    others = "train a --name a;import a --name a;rollback a;evaluate a;resume;gc;delete a/1;"
    others += "encode a b -o c"
    for typed in (answers + ";" + others).split(";"):
        name, *words = typed.split()
        command = all_commands()[name]
        with command.make_context(name, words) as context:
            assert changes(context) == (typed in others.split(";")), typed
    assert {*ANSWERS, *CHANGES_WITH} <= all_commands().keys()


@pytest.mark.night
@pytest.mark.parametrize("redirected", ["2>/dev/full", "2>&-"])
def test_a_training_ends_where_standard_error_cannot_be_written(
    redirected: str, tmp_path: Path
) -> None:
    """A line of progress that was refused ended it."""
    (tmp_path / "a.txt").write_text("the then there " * 50, encoding="utf-8")
    program = shlex.quote(os.fspath(Path(sys.executable).with_name("bpeline")))
    command = f"{program} train a.txt --name a --vocab-size 258 --held-out 0 {redirected}"
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0
    assert "a/1" in ended.stdout


def test_the_root_of_a_workspace_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOption, match="no such user"):
        open_registry("~nobody-here/x")
