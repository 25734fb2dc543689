"""README runs: its code blocks and its commands; and it stays short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
PYTHON = [body for language, body in BLOCKS if language == "python"]
CONSOLE = [body for language, body in BLOCKS if language in {"console", "bash", "sh"}]


def commands() -> list[list[str]]:
    """Every `bpeline …` line of the README, as words, with continued lines joined."""
    lines = "\n".join(CONSOLE).replace("\\\n", " ").splitlines()
    stripped = (line.removeprefix("$ ").strip() for line in lines)
    return [
        shlex.split(line, comments=True)[1:] for line in stripped if line.startswith("bpeline ")
    ]


@pytest.fixture(scope="module")
def demo_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a small `demo` tokenizer is registered, as after `make demo`."""
    from click.testing import CliRunner

    from bpeline.flows.cli.main import cli

    folder = tmp_path_factory.mktemp("readme")
    (folder / "corpus").mkdir()
    for number, path in enumerate(sorted((ROOT / "tokenizer_core").glob("*.py"))):
        (folder / "corpus" / f"{number}.txt").write_text(path.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        arguments = ["train", "corpus", "--name", "demo", "--vocab-size", "800"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


def test_there_are_blocks_to_run() -> None:
    assert PYTHON
    assert CONSOLE


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_python_blocks_run(
    number: int, demo_workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(demo_workspace)
    exec(compile(PYTHON[number], f"README block {number}", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_exist_with_these_options(words: list[str]) -> None:
    from bpeline.flows.cli.main import cli

    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"README names a command that does not exist: {words[0]}"
        command, words = found, words[1:]
    command.make_context(command.name or "bpeline", list(words), resilient_parsing=False)


def test_every_command_is_documented() -> None:
    from bpeline.flows.cli.main import all_commands

    for name, command in all_commands().items():
        assert f"bpeline {name}" in README, f"README does not mention `bpeline {name}`"
        assert command.help
        assert "bpeline" in (command.epilog or ""), f"`bpeline {name} --help` shows no example"


def test_it_is_read_in_a_few_minutes() -> None:
    assert len(README.split()) <= 1_500


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
