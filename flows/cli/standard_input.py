"""Standard input where files are taken: ``-`` becomes a file that the workspace keeps."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from bpeline.tokenizer_core.errors import InvalidOption


def with_standard_input(paths: Sequence[str], text_field: str | None) -> list[str]:
    """The paths, ``-`` replaced by a file of the workspace that says what came there.

    Raises:
        InvalidOption: standard input is a terminal.
        BpelineError: see `keep_standard_input`.
    """
    if "-" not in paths or os.path.exists("-"):
        return list(paths)
    from bpeline.registry.environment import addresses
    from bpeline.registry.workspace import Workspace, keep_standard_input

    if sys.stdin.isatty():
        raise InvalidOption(
            "- means standard input, which is a terminal",
            "text or JSON lines in a pipe",
            "type `zstdcat corpus.txt.zst | bpeline train - --name news`",
        )
    workspace = Workspace.open(addresses().home)
    kept = keep_standard_input(workspace, sys.stdin.buffer, text_field or "text")
    kind = "JSON lines" if kept.suffix == ".jsonl" else "text"
    click.echo(f"note: standard input is read as {kind}, and kept as {kept}", err=True)
    return [str(kept) if path == "-" else path for path in dict.fromkeys(paths)]
