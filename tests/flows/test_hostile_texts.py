"""Texts that others wrote into a workspace: no command sends what they hold to a terminal."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from bpeline.flows.cli import main as command_line

# The title of the window, red, C1's erasing of the screen, and what turns text around.
ATTACK = "\x1b]0;x\a\x1b[31m\x9b2J\u202e\u2066\b"
SHOWN = r"\u001b]0;x\u0007\u001b[31m\u009b2J\u202e\u2066\u0008"
MARKS = "\u200e\u200f\u061c"  # which people need to write Arabic and Hebrew
SENT = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
FORGED = "\r\n2026-01-01 00:00  champion"  # a line of a history that nobody wrote
FILE, TOKEN = f"file {ATTACK}.txt", f"<|token {ATTACK}|>"
# Each command, and the beginnings of the texts it shows.
COMMANDS = [
    ("show", "news"), "why by gone", ("show", "news", "--json"), "why by gone",
    ("versions", "news"), "by gone", ("evaluate", "--sets"), "set",
    ("show", "news/1"), "token file bytes", ("show", "news/1", "--json"), "token file bytes",
    ("show", "news/3"), "by gone", ("encode", "news/3", "text", "--json"), "by gone",
    ("compare", "news/1", "news/2"), "bytes", ("evaluate", "news/1", "--json"), "",
    ("resume", "--list"), "error", ("resume", "--list", "--json"), "error",
    ("explain", "news/1", "--token", TOKEN), "", ("explain", "news/1", "--id", "260"), "file",
    ("count", "news/1", FILE, "eval.txt"), "file", ("count", "news/1", f"no {ATTACK}"), "no",
    ("train", FILE, "--name", "news", "--dry-run"), "",
    ("train", f"no {ATTACK}", "--name", "n"), "no",
    ("encode", "news/1", FILE, "-o", f"to {ATTACK}"), "to", ("drift", "news@champion", FILE), "",
    ("report", "news/1", "--output", f"to {ATTACK}.html"), "to", ("verify", "news/1"), "",
    ("promote", f"./no {ATTACK}"), "no", ("doctor", "--dismiss", f"no {ATTACK}"), "",
    ("doctor",), "",
    ("sql", "FROM versions"), "", ("sql", "FROM versions", "--json"), "", ("gc", "--dry-run"), "",
    ("show", f"--no {ATTACK}"), "", (f"no {ATTACK}",), "", ("doctor",), "",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """With versions of files, tokens, reasons, names and records that attack who looks at them."""

    def train(merges: int, *more: str) -> tuple[str, ...]:
        special = ("--special-token", TOKEN, "--quiet")
        return ("train", FILE, "--name", "news", "--merges", str(merges), *special, *more)

    by = ("--by", f"by {ATTACK}{MARKS}")
    made = folder_after(
        {FILE: english_and_code[:9_000], "eval.txt": english_and_code[9_000:12_000]},
        [
            train(9, "--eval", "english=eval.txt"), train(12), train(15),
            ("promote", "news/1", "--reason", f"why {ATTACK}{FORGED}", *by),
            ("promote", "news/2", "--to", "candidate"),
            ("delete", "news/3", "--reason", f"gone {ATTACK}{FORGED}", *by, "--yes"),
        ],
    )  # fmt: skip
    error, figure = f"error {ATTACK}", json.dumps(f"/bytes {ATTACK}")[1:]
    with sqlite3.connect(made / ".bpeline" / "catalogue.sqlite") as catalogue:
        for statement, text in (
            ("UPDATE evaluation_sets SET reason = ?", f"set {ATTACK}"),
            ("UPDATE trainings SET state = 'failed', error = ? WHERE number = 2", error),
            ("UPDATE lineage SET figures = replace(figures, '/bytes\"', ?)", figure),
        ):
            assert catalogue.execute(statement, (text,)).rowcount
    catalogue.close()
    return made


@pytest.mark.night
@pytest.mark.parametrize(
    ("command", "fields"),
    list(zip(COMMANDS[::2], COMMANDS[1::2], strict=True)),
    ids=[" ".join(command).replace(ATTACK, "…") for command in COMMANDS[::2]],
)
def test_what_others_wrote_is_shown_and_not_sent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], fields: str
) -> None:
    output, errors = BytesIO(), BytesIO()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(logging, "_logRecordFactory", logging.getLogRecordFactory())
    monkeypatch.setattr(sys, "argv", ["bpeline", *command])
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(output, "utf-8"))
    monkeypatch.setattr(sys, "stderr", TextIOWrapper(errors, "utf-8"))
    with pytest.raises(SystemExit):
        command_line.main()
    sys.stdout.flush()
    said = (output.getvalue() + errors.getvalue()).decode()
    assert not SENT.findall(said), said
    assert "\n2026-01-01" not in said
    shown = json.dumps(ATTACK)[1:-1] if "--json" in command and output.getvalue() else SHOWN
    for field in fields.split():
        assert f"{field} {shown}" in said, said
    assert MARKS in said or "by" not in fields.split()
