"""Commands that messages and helps tell to type: each exists, with these options, and is whole."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from every_command import command_in

from bpeline import flows
from bpeline.flows.cli.main import FILE_OF, all_commands

ROOT = Path(flows.__file__).parents[1]
_TOLD = re.compile(r"`(?:[^`|]*\| )?(bpeline [a-z][^`]*)`")
_FILLED_IN = "1"  # what stands where a message has a value: a name and a number as well


_SENTENCE = re.compile(r"^((?!pip |uvx ).*\s.*)$", re.DOTALL)
_OF_OTHERS = re.compile(r"`(?!bpeline|--)[^`]*`")
_COMMAND = re.compile(r"`(?!--)[^`]*`|bpeline [a-z].*")
_OPTION = re.compile(r"(?<![\w-])--(?:invalid-utf8|[a-z][a-z-]*[a-z])")


def told_in(path: Path, told: re.Pattern[str] = _TOLD) -> Iterator[str]:
    """The commands between backticks in the strings of a file, docstrings aside."""
    for text in texts_in(ast.parse(path.read_text(encoding="utf-8"))):
        yield from (found[1] for found in told.finditer(text))


def texts_in(tree: ast.AST) -> Iterator[str]:
    """The strings, docstrings aside."""
    aside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            aside.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            aside.update(map(id, node.values))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (
                one.value if isinstance(one, ast.Constant) else _FILLED_IN for one in node.values
            )
            yield "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in aside
        ):
            yield node.value


def wrong_with(command: str) -> str:
    """Why it could not be typed; empty where it could. Values are not judged: they are made up."""
    words = shlex.split(command.replace("…", ""))[1:]
    try:
        name, known, words = command_in(words)
    except AssertionError:
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
    known = {one for command in all_commands().values() for p in command.params for one in p.opts}
    texts = {one for path in (ROOT / room).rglob("*.py") for one in told_in(path, _SENTENCE)}
    told = {one for text in texts for one in _OPTION.findall(_OF_OTHERS.sub(" ", text))}
    assert len(told) > 5
    assert told - known - {"--help", "--from"} == set()  # the last is uvx's


def own_options(name: str) -> set[str]:
    """The options of a command."""
    known = all_commands()[name]
    return {one for p in known.params for one in (*p.opts, *p.secondary_opts)} | {"--help"}


def options_told(text: str) -> set[str]:
    """Those that a text tells of the command it belongs to: with no other before them."""
    return set(_OPTION.findall(_COMMAND.sub(" ", text)))


@pytest.mark.parametrize("name", sorted(all_commands()))
def test_a_command_s_help_tells_its_own_options(name: str) -> None:
    known = all_commands()[name]
    examples = re.findall(r"bpeline [a-z].*?(?= [|] |; |  +#|$)", known.epilog or "", re.MULTILINE)
    assert examples
    assert {one: wrong for one in examples if (wrong := wrong_with(one))} == {}
    helps = [known.help, *(one.help for one in known.params if isinstance(one, click.Option))]
    assert {text for text in helps if text and options_told(text) - own_options(name)} == set()


@pytest.mark.parametrize("file", sorted(set(FILE_OF.values())))
def test_errors_of_a_command_tell_its_own_options(file: str) -> None:
    """Of one of its file's commands: which of them raises is not seen."""
    known = set().union(*(own_options(n) for n in all_commands() if FILE_OF[n.split()[0]] == file))
    tree = ast.parse((ROOT / f"flows/cli/{file}.py").read_text(encoding="utf-8"))
    raised = (node for node in ast.walk(tree) if isinstance(node, ast.Raise))
    texts = {text for node in raised for text in texts_in(node)}
    assert {text for text in texts if options_told(text) - known} == set()
