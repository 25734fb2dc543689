"""Read text from arguments, files and standard input."""

from __future__ import annotations

import codecs
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from bpeline.flows.cli.commands import typed_again
from bpeline.registry.environment import addresses
from bpeline.registry.workspace import Workspace, keep_standard_input
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidUtf8,
    MissingSource,
    UnreadableSource,
)

_MAX_BYTES = 4 << 30  # limit for a file that is one text


def text_of(text: str | None, file: Path | None) -> str:
    """The typed text or that of a file; standard input for ``-`` or nothing.

    Raises:
        InvalidOption: both a text and a file, or a text that is the name of a file.
        InvalidUtf8, MissingSource, UnreadableSource: it cannot be read.
    """
    if text is not None and file is not None:
        raise InvalidOption(
            "both a text and a file were given", "expected one of them", "leave one of them out"
        )
    return _decoded(file) if file is not None or text in {None, "-"} else _typed(str(text))


def _typed(text: str) -> str:
    """Check a typed text; invalid UTF-8 arrives as lone surrogates."""
    if os.path.isfile(text):
        name = shlex.quote(text)
        raise InvalidOption(
            f"{text} is a file, and a text was expected",
            "expected a text, - for standard input, or --file",
            f"type --file {name} instead; for the name itself: printf %s {name} | bpeline … -",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidUtf8(
            f"the text is not UTF-8 at character {error.start}",
            "expected UTF-8",
            "write it to a file and convert that, for example with iconv",
        ) from error
    return text


def content_of(file: Path, kind: str) -> bytes:
    """Read a file; ``kind`` names it in errors, such as "text file"."""
    try:
        return read_file(file, _MAX_BYTES, pipes=True)
    except FileNotFoundError as error:
        raise MissingSource(
            f"there is no file {file}", f"expected the path of a {kind}", "check the spelling"
        ) from error
    except OSError as error:
        raise UnreadableSource(
            f"{file} cannot be read: {error.strerror}",
            f"expected a readable {kind} or pipe of at most {_MAX_BYTES:,} bytes",
            f"ls -l {shlex.quote(str(file))}",
        ) from error


def _decoded(file: Path | None) -> str:
    content = standard_input().buffer.read() if file is None else content_of(file, "text file")
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise InvalidUtf8(
            f"{file or 'standard input'} is not UTF-8 at byte {error.start}",
            "expected UTF-8",
            "convert it first, for example with iconv",
        ) from error


_KINDS = {"txt": "text", "jsonl": "JSON lines", "json": "JSON", "csv": "CSV", "tsv": "TSV",
          "parquet": "Parquet", "arrow": "Arrow"}  # fmt: skip


def standard_input() -> TextIO:
    """Standard input; raises `InvalidOption` if it is closed."""
    if sys.stdin is None:
        raise InvalidOption(
            "standard input is closed",
            "expected a readable file or pipe",
            f"type `{typed_again()} < FILE`",
        )
    return sys.stdin


def with_standard_input(paths: Sequence[str], text_field: str | None) -> list[str]:
    """Replace ``-`` in paths by a workspace file with the content of standard input.

    ``text_field`` None means that of the version. Errors as `keep_standard_input`, and
    `InvalidOption` if standard input is a terminal.
    """
    if "-" not in paths or os.path.exists("-"):
        return list(paths)

    if standard_input().isatty():
        raise InvalidOption(
            "- means standard input, which is a terminal",
            "expected a pipe or a file",
            f"type `zstdcat corpus.txt.zst | {typed_again()}`",
        )
    workspace = Workspace.open(addresses().home)
    saved = keep_standard_input(workspace, standard_input().buffer, text_field)
    click.echo(f"note: {read_as(saved.name)}, saved as {saved}", err=True)
    return [str(saved) if path == "-" else path for path in dict.fromkeys(paths)]


def read_as(name: str) -> str:
    """A sentence about the detected type of standard input, from the name of its file."""
    extension, _, compression = name.partition(".")[2].partition(".")
    kind = _KINDS.get(extension, extension)
    return f"standard input is read as {kind}{compression and f', compressed ({compression})'}"
