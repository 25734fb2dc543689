"""Texts of arguments, files and standard input."""

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

_MAX_BYTES = 4 << 30  # of a file that is one text


def text_of(text: str | None, file: Path | None) -> str:
    """The text that was given, or a file's; standard input for ``-`` or nothing.

    Raises:
        InvalidOption: both a text and a file; a text that is the name of a file.
        InvalidUtf8, MissingSource, UnreadableSource: it cannot be read.
    """
    if text is not None and file is not None:
        raise InvalidOption(
            "both a text and a file were given", "either of them", "leave one of them out"
        )
    return _decoded(file) if file is not None or text in {None, "-"} else _typed(str(text))


def _typed(text: str) -> str:
    """A text from the command line, where bytes that are not UTF-8 arrive as lone surrogates."""
    if os.path.isfile(text):
        name = shlex.quote(text)
        raise InvalidOption(
            f"{text} is a file, and a text was expected",
            "a text, - for standard input, or a file after --file",
            f"type --file {name} instead; for the name itself: printf %s {name} | bpeline … -",
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidUtf8(
            f"the text given is not UTF-8 at character {error.start}",
            "text in UTF-8",
            "put it into a file and convert that first, for example with iconv",
        ) from error
    return text


def content_of(file: Path, kind: str) -> bytes:
    """The bytes of a file; ``kind`` is what it should be, such as "text file".

    Raises:
        MissingSource, UnreadableSource: it cannot be read.
    """
    try:
        return read_file(file, _MAX_BYTES, pipes=True)
    except FileNotFoundError as error:
        raise MissingSource(
            f"there is no file {file}", f"the path of a {kind}", "check the spelling"
        ) from error
    except OSError as error:
        raise UnreadableSource(
            f"{file} cannot be read: {error.strerror}",
            f"a readable {kind} or pipe of at most {_MAX_BYTES:,} bytes",
            f"ls -l {shlex.quote(str(file))}",
        ) from error


def _decoded(file: Path | None) -> str:
    content = standard_input().buffer.read() if file is None else content_of(file, "text file")
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise InvalidUtf8(
            f"{file or 'standard input'} is not UTF-8 at byte {error.start}",
            "text in UTF-8",
            "convert it first, for example with iconv",
        ) from error


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
