"""Commands that are printed to be typed: with the workspace or project that was named. Runs none.

A command reads the project and the workspace of the directory in which it is typed. Where others
were named (``--project``, ``--workspace``), what we tell people to type next has to name them too.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from bpeline.registry.environment import named_elsewhere
from bpeline.tokenizer_core.urls import is_url

# `bpeline encode …` in a sentence, or behind a title and two spaces at the end of a line.
_COMMAND = re.compile(
    r"(?P<begin>(?:`|:  |: then )\S*bpeline (?P<name>derive [a-z]+|[a-z]+))(?P<rest>[^`\n]*)"
)
_READS_A_PROJECT = {"train", "sweep", "drift", "evaluate", "deploy", "serve"}
_KNOWS_NO_WORKSPACE = {"compress"}
_OPTION = re.compile(r"(?:^| )--(?:project|workspace)\b")


def from_here(path: str) -> str:
    """``path`` as one would type it: relative where it lies below the working directory."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def program() -> str:
    """What to type for this program: its path where the shell would not find ``bpeline``."""
    typed = sys.argv[0]
    if Path(typed).name != "bpeline" or shutil.which("bpeline"):
        return "bpeline"
    return shlex.quote(from_here(os.path.abspath(typed)))


def as_typed(text: str) -> str:
    """A text whose commands, typed here, work with the workspace and the project in force."""
    workspace, project = named_elsewhere()
    if not workspace:
        return text

    def named(found: re.Match[str]) -> str:
        name, rest = found["name"], found["rest"]
        if name in _KNOWS_NO_WORKSPACE or _OPTION.search(rest):
            return found[0]
        words = [word for word in rest.split() if not word.startswith("-")]
        if project and name in _READS_A_PROJECT and not words:
            return f"{found['begin']} --project {_shown(project)}{rest}"
        return f"{found['begin']} --workspace {_shown(workspace)}{rest}"

    return _COMMAND.sub(named, text)


def _shown(place: str) -> str:
    return shlex.quote(place if is_url(place) else from_here(place))
