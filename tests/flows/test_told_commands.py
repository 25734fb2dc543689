"""Commands that messages and helps tell to type: each exists, with these options, and is whole."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bpeline import flows
from bpeline.flows.cli.main import FILE_OF, cli

ROOT = Path(flows.__file__).parents[1]
_TOLD = re.compile(r"`(?:[^`|]*\| )?(bpeline [a-z][^`]*)`")
_FILLED_IN = "1"  # what stands where a message has a value: a name and a number as well


_SENTENCE = re.compile(r"^((?!pip ).*\s.*)$", re.DOTALL)
_OF_OTHERS = re.compile(r"`(?!bpeline|--)[^`]*`")
_OPTION = re.compile(r"(?<![\w-])--(?:invalid-utf8|[a-z][a-z-]*[a-z])")


def told_in(path: Path, told: re.Pattern[str] = _TOLD) -> Iterator[str]:
    """The commands between backticks in the strings of a file, docstrings aside."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    aside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            aside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            aside.update(map(id, node.values))
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts = (
                one.value if isinstance(one, ast.Constant) else _FILLED_IN for one in node.values
            )
            text = "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in aside
        ):
            text = node.value
        yield from (found[1] for found in told.finditer(text))


def wrong_with(command: str) -> str:
    """Why it could not be typed; empty where it could. Values are not judged: they are made up."""
    name, *words = shlex.split(command.replace("…", ""))[1:]
    known = cli.get_command(click.Context(cli), name)
    if known is None:
        return "no such command"
    try:
        if words:
            known.make_context(name, words)
    except (click.NoSuchOption, click.MissingParameter) as error:
        return error.format_message()
    except (click.UsageError, click.exceptions.Exit):
        return ""
    return ""


@pytest.mark.parametrize("room", ["flows", "registry", "tokenizer_core"])
def test_what_is_told_can_be_typed(room: str) -> None:
    told = {one for path in (ROOT / room).rglob("*.py") for one in told_in(path)}
    assert len(told) > 5
    assert {one: wrong for one in told if (wrong := wrong_with(one))} == {}


@pytest.mark.parametrize("room", ["flows", "registry", "tokenizer_core"])
def test_options_that_are_told_exist(room: str) -> None:
    commands = [cli.get_command(click.Context(cli), name) for name in FILE_OF]
    known = {one for command in commands if command for p in command.params for one in p.opts}
    texts = {one for path in (ROOT / room).rglob("*.py") for one in told_in(path, _SENTENCE)}
    told = {one for text in texts for one in _OPTION.findall(_OF_OTHERS.sub(" ", text))}
    assert len(told) > 5
    assert told - known - {"--help"} == set()
