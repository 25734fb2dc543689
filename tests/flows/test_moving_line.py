"""On a terminal no command is silent: a line moves until something is said, and is gone then."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bpeline.flows.running.moving_line import MovingLine

PROGRAM = "import sys; sys.argv[0] = 'bpeline'; from bpeline.flows.cli.main import main; main()"
ERASED = b"\r\x1b[K"


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of one: what is read at the first is what was written to the second."""
    screen, end = pty.openpty()
    os.set_blocking(screen, False)
    yield screen, end
    os.close(screen)
    os.close(end)


def shown(screen: int) -> bytes:
    try:
        return os.read(screen, 1 << 16)
    except BlockingIOError:
        return b""


def until(screen: int, wanted: Callable[[bytes], bool]) -> bytes:
    """What the terminal shows, once it is as wanted."""
    seen = b""
    deadline = time.monotonic() + 30
    while not wanted(seen) and time.monotonic() < deadline:
        time.sleep(0.01)
        seen += shown(screen)
    return seen


def test_the_line_moves_and_is_gone_before_anybody_writes(terminal: tuple[int, int]) -> None:
    screen, end = terminal
    line = MovingLine(end)
    line.start()
    moving = until(screen, lambda seen: seen.count(b"starting") >= 3)
    assert len({*moving.split(b"\r")}) > 2, "each time it looks different"
    with line:
        line.before_write("said\n")
        os.write(end, b"said")
        # A terminal shows what is written a moment later.
        assert until(screen, lambda seen: seen.endswith(b"said")).endswith(ERASED + b"said")
    until(screen, lambda seen: b"working" in seen)
    line.stop()
    os.write(end, b"the end")
    assert until(screen, lambda seen: seen.endswith(b"the end")).endswith(ERASED + b"the end")
    time.sleep(0.3)
    assert shown(screen) == b""


@pytest.mark.parametrize(
    ("said", "drawn"),
    [("half a line", False), ("a line\n", True), ("\x1b[2K", True), ("half\x1b[2K", False)],
)  # fmt: skip
def test_the_line_is_never_drawn_into_one_of_somebody_else(
    terminal: tuple[int, int], said: str, drawn: bool
) -> None:
    screen, end = terminal
    line = MovingLine(end)
    line.before_write(said)
    line.start()
    if drawn:
        assert b"working" in until(screen, lambda seen: b"working" in seen)
    else:
        time.sleep(1.0)
        assert shown(screen) == b""
    line.stop()


def run_on_terminal(
    tmp_path: Path, *arguments: str, stdout: int | None = None, **environment: str
) -> bytes:
    """What a terminal shows of a command, in a process of its own."""
    screen, end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", **environment},
        stdin=end,
        stdout=end if stdout is None else stdout,
        stderr=end,
    ) as command:
        os.close(end)
        seen = b""
        while True:
            try:
                read = os.read(screen, 1 << 16)
            except OSError:  # nobody has the other end any more
                break
            if not read:
                break
            seen += read
    os.close(screen)
    assert command.returncode == 0, seen
    return seen


@pytest.mark.night
def test_a_training_says_something_at_once_and_leaves_no_line_behind(
    corpus: Path, tmp_path: Path
) -> None:
    seen = run_on_terminal(tmp_path, "train", str(corpus), "--name", "news", "--vocab-size", "300")
    assert seen.index(b"starting") < seen.index(b"plan chunks")
    before, _, after = seen.partition(b"plan chunks")
    assert ERASED in before
    assert b"starting" not in after
    said = after.replace(b"\r", b"").decode()
    assert "publish" in said
    assert said.rstrip().endswith("news/1"), "the last line is what it says to type next"


@pytest.mark.night
def test_a_line_moves_where_a_terminal_is_watched_alone(corpus: Path, tmp_path: Path) -> None:
    command = ("train", str(corpus), "--name", "news", "--dry-run")
    assert b"working" not in run_on_terminal(tmp_path, *command, "--quiet")
    assert b"starting" not in run_on_terminal(tmp_path, *command, "-q")
    assert b"starting" not in run_on_terminal(tmp_path, *command, TERM="dumb")
    into = os.open(tmp_path / "plan.txt", os.O_WRONLY | os.O_CREAT)
    seen = run_on_terminal(tmp_path, *command, stdout=into)
    os.close(into)
    assert b"starting" in seen
    assert seen.rstrip(b"\n").endswith(ERASED) or b"starting" not in seen.split(ERASED)[-1]
    assert "chunk" in (tmp_path / "plan.txt").read_text()
    complete = {
        "_BPELINE_COMPLETE": "bash_complete",
        "COMP_WORDS": "bpeline tra",
        "COMP_CWORD": "1",
    }
    assert b"starting" not in run_on_terminal(tmp_path, **complete)


@pytest.mark.night
def test_a_command_ends_with_its_code_and_all_that_it_said(tmp_path: Path) -> None:
    into = tmp_path / "said.txt"
    for arguments, code in ((["--version"], 0), (["show", "nothing/1"], 1), (["nonsense"], 2)):
        with into.open("wb") as said:
            ended = subprocess.run(
                [sys.executable, "-c", PROGRAM, *arguments],
                cwd=tmp_path, stdout=said, stderr=said, check=False,
            )  # fmt: skip
        assert ended.returncode == code
        assert into.read_text().startswith("bpeline " if not code else "error: ")
