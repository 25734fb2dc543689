"""Standard input where files are taken: ``-`` becomes a file that the workspace keeps."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

import click

from bpeline.flows.cli.options import typed_again
from bpeline.tokenizer_core.errors import InvalidOption

_KINDS = {"txt": "text", "jsonl": "JSON lines", "json": "JSON", "csv": "CSV", "tsv": "TSV",
          "parquet": "Parquet", "arrow": "Arrow"}  # fmt: skip


def standard_input() -> TextIO:
    """The stream that ``-`` stands for; the only place that uses it.

    Raises:
        InvalidOption: it is closed.
    """
    if sys.stdin is None:
        raise InvalidOption(
            "standard input is closed",
            "a file or a pipe that can be read",
            f"type `{typed_again()} < FILE`",
        )
    return sys.stdin


def with_standard_input(paths: Sequence[str], text_field: str | None) -> list[str]:
    """The paths, ``-`` replaced by a file of the workspace that says what came there.

    Args:
        paths: what was typed.
        text_field: the member or column of documents; None where the version that is asked for
            says which.

    Raises:
        InvalidOption: standard input is a terminal.
        BpelineError: see `keep_standard_input`.
    """
    if "-" not in paths or os.path.exists("-"):
        return list(paths)
    from bpeline.registry.environment import addresses
    from bpeline.registry.workspace import Workspace, keep_standard_input

    if standard_input().isatty():
        raise InvalidOption(
            "- means standard input, which is a terminal",
            "a corpus in a pipe",
            f"type `zstdcat corpus.txt.zst | {typed_again()}`",
        )
    workspace = Workspace.open(addresses().home)
    kept = keep_standard_input(workspace, standard_input().buffer, text_field)
    click.echo(f"note: {read_as(kept.name)}, and kept as {kept}", err=True)
    return [str(kept) if path == "-" else path for path in dict.fromkeys(paths)]


def read_as(name: str) -> str:
    """What standard input was taken for, by the name of the file that it became."""
    extension, _, compression = name.partition(".")[2].partition(".")
    kind = _KINDS.get(extension, extension)
    return f"standard input is read as {kind}{compression and f', compressed ({compression})'}"
