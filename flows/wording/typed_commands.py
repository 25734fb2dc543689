"""Commands in messages, with the workspace or project that the user named.

A command uses the project and workspace of its directory. If the user named others
(``--project``, ``--workspace``), the commands that we print must name them too.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote

from bpeline.registry.environment import named_elsewhere
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.urls import is_url

# `bpeline encode …` in a sentence, or after a title and two spaces at the end of a line.
_COMMAND = re.compile(
    r"(?P<begin>(?:`|:  |: then )(?:uvx --from \S+ )?\S*bpeline (?P<name>derive [a-z]+|[a-z]+))"
    r"(?P<rest>[^`\n]*)"
)
_READS_A_PROJECT = {"train", "sweep", "drift", "evaluate", "deploy", "serve"}
_KNOWS_NO_WORKSPACE = {"compress"}
_OPTION = re.compile(r"(?:^| )--(?:project|workspace)\b")


def from_here(path: str) -> str:
    """Return ``path`` as to be typed: relative if it is below the working directory."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def program() -> str:
    """Return ``bpeline``, or the path of this program if the shell cannot find it."""
    typed = sys.argv[0]
    if "UV" in os.environ and any(part.startswith("archive-v") for part in Path(sys.prefix).parts):
        return f"uvx --from {shlex.quote(_installed_from())} bpeline"  # a temporary environment
    if Path(typed).name != "bpeline" or shutil.which("bpeline"):
        return "bpeline"
    return shlex.quote(from_here(os.path.abspath(typed)))


def _installed_from() -> str:
    """The directory or URL that the package was installed from, else its name."""
    source = parse_json(distribution("bpeline").read_text("direct_url.json") or "{}").get("url", "")
    path = source.removeprefix("file://")
    return from_here(unquote(path)) if path != source else source or "bpeline"


def as_typed(text: str) -> str:
    """Add the current workspace or project to the commands in a text."""
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
