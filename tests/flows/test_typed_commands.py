"""Commands that are printed run as they are printed, where a project or workspace was named."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.wording import as_typed, typed_commands
from bpeline.registry import environment

Command = Callable[..., Result]
MAIN = "import sys; sys.argv[0] = 'bpeline'; from bpeline.flows.cli.main import main; main()"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in another directory than the current one."""
    for name in ("here", "a project"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("BPELINE_HOME", raising=False)
    monkeypatch.setattr(environment, "_configured", None)
    monkeypatch.setattr(environment, "_project", None)
    return tmp_path / "a project/small.toml"


def test_nothing_is_added_where_nothing_was_named(elsewhere: Path) -> None:
    assert as_typed("type `bpeline resume`") == "type `bpeline resume`"
    environment.name_project(Path("bpeline.toml"))
    Path("bpeline.toml").touch()
    assert as_typed("type `bpeline train`") == "type `bpeline train`", "it is found here"


def test_a_project_is_named_by_bare_commands_and_its_workspace_by_others(elsewhere: Path) -> None:
    environment.name_project(elsewhere)
    file, workspace = shlex.quote(str(elsewhere)), shlex.quote(str(elsewhere.parent / ".bpeline"))
    for said, expected in {
        "`bpeline train`": f"`bpeline train --project {file}`",
        "`bpeline train --dry-run` does": f"`bpeline train --project {file} --dry-run` does",
        "`bpeline train x/ --name n`": f"`bpeline train --workspace {workspace} x/ --name n`",
        'try it:  .venv/bin/bpeline encode n/1 "a b"\nthen `bpeline resume`':
            f'try it:  .venv/bin/bpeline encode --workspace {workspace} n/1 "a b"\n'
            f"then `bpeline resume --workspace {workspace}`",
        "`bpeline train --project b.toml`": "`bpeline train --project b.toml`",
        "`bpeline compress a.txt`": "`bpeline compress a.txt`",
        "`bpeline derive prune n/1`": f"`bpeline derive prune --workspace {workspace} n/1`",
        "bpeline makes `bpeline-demo`": "bpeline makes `bpeline-demo`",
    }.items():  # fmt: skip
        assert as_typed(said) == expected


def test_a_workspace_below_is_named_from_here(elsewhere: Path) -> None:
    environment.configure(workspace="own")
    assert as_typed("`bpeline train`") == "`bpeline train --workspace own`"
    environment.configure(workspace="s3://bucket/own")
    assert as_typed("`bpeline gc`") == "`bpeline gc --workspace s3://bucket/own`"


def test_which_commands_take_a_project_and_which_no_workspace_is_what_they_say() -> None:
    from bpeline.flows.cli.main import all_commands

    for name, command in all_commands().items():
        options = {option for one in command.params for option in one.opts}
        assert ("--workspace" not in options) == (name in typed_commands._KNOWS_NO_WORKSPACE), name
        if name in typed_commands._READS_A_PROJECT:
            assert "--project" in options


@pytest.mark.night
def test_what_training_prints_runs_as_printed_from_another_directory(
    elsewhere: Path, bpeline: Command
) -> None:
    (elsewhere.parent / "corpus").mkdir()
    text = "the newest news of the widest west, lower and lower. " * 400
    (elsewhere.parent / "corpus/a.txt").write_text(text)
    elsewhere.write_text(
        '[train]\nname = "news"\npaths = ["corpus/"]\nvocab_size = 300\n[sweep]\nsizes = [280]\n'
    )
    printed = ""
    for words in (["train", "--dry-run"], ["train"], ["sweep"], ["deploy"]):
        done = bpeline(*words, "--project", elsewhere)
        printed += done.output + done.stderr
    assert not Path(".bpeline").exists()
    found = re.findall(r"(?:`|:  )bpeline (.*?)(?:`|$)", printed, re.MULTILINE)
    assert len(found) >= 5
    runnable = [said for said in found if said.split()[0] in {"encode", "show", "resume"}]
    assert {said.split()[0] for said in runnable} >= {"encode", "show"}
    for said in found:
        words = shlex.split(said)
        assert "--workspace" in words or "--project" in words, said
    for said in runnable:
        ran = subprocess.run(
            [sys.executable, "-c", MAIN, *shlex.split(said)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr


@pytest.mark.night
def test_an_error_advises_what_works_with_the_project_that_was_named(
    elsewhere: Path, bpeline: Command
) -> None:
    elsewhere.write_text('[train]\nname = "news"\npaths = ["corpus/"]\nvocab_size = 300\n')
    said = bpeline("evaluate", "--project", elsewhere).stderr
    workspace = shlex.quote(str(elsewhere.parent / ".bpeline"))
    advised = re.findall(r"`bpeline ([^`]*)`", said)
    assert advised
    assert all(workspace in one or "--project" in one for one in advised), said
    assert environment._project is None, "the next command finds its own"
