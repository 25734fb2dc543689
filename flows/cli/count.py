"""``bpeline count``: count the tokens of files."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.commands import answer, bulk_options, command, found_by
from bpeline.flows.cli.text_arguments import read_as, standard_input
from bpeline.flows.running import Progress, for_stream, listening
from bpeline.registry.workspace import begin_standard_input, copy_standard_input
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.shards import FileCount

PIPE = "-"


@command(
    "bpeline count news@champion article.txt",
    "bpeline count news/3 data/*.jsonl.zst --text-field body --json",
    "cat article.txt | bpeline count news@champion -",
)
@click.argument("reference", metavar="REF")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@bulk_options
def count(reference: str, files: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Count the tokens, documents and bytes of FILES.

    FILES are files, directories or globs, as for `bpeline train`, or "-". The special tokens of REF
    separate the documents of text files and are not counted. An imported tokenizer counts them.
    Bytes are those of documents, without separators.

    REF is name@alias, name/number, a digest or a path; news@champion:8000 is its size 8,000.
    """
    from bpeline.flows.counting import notes_on_documents
    from bpeline.registry import load_tokenizer
    from bpeline.tokenizer_core.shards import (
        FileCount,
        count_files,
        file_encoding_of,
        separators_of,
    )

    threads, include = options.pop("threads"), options.pop("include")
    strict = options.pop("strict")
    if PIPE in files and len(files) > 1:
        raise InvalidOption(
            "standard input was given together with files",
            "expected one of them",
            "leave out - or the files",
        )
    tokenizer = load_tokenizer(reference)
    separator = options.pop("separator")
    separators = separators_of(tokenizer, separator, encoded=True)
    encoding = file_encoding_of(tokenizer, separators, id_field="", **options)
    watching = for_stream(sys.stderr) if sys.stderr.isatty() else Progress()
    with _named(files, options["text_field"]) as (paths, remarks), listening(watching):
        search = found_by(paths, include, strict)
        source_files = search.files
        watching.step_started("count", sum(file.size for file in source_files), "bytes")
        advanced = partial(watching.step_advanced, "count")
        counts = list(count_files(encoding, source_files, threads, advanced))
        notes = [*remarks, *filter(None, [search.skipped.remark])]
        notes += notes_on_documents(source_files, tokenizer, separator)
    if PIPE in files:
        counts = [replace(row, path=PIPE) for row in counts]
    total = FileCount(
        "total",
        sum(row.tokens for row in counts),
        sum(row.documents for row in counts),
        sum(row.bytes for row in counts),
    )
    *rows, total_row = (
        {**asdict(row), "bytes_per_token": row.bytes_per_token} for row in (*counts, total)
    )
    del total_row["path"]
    result = {"digest": tokenizer.digest, "separators": separators, "files": rows,
            "total": total_row, "skipped": search.skipped.as_dict(), "notes": notes}  # fmt: skip
    if not as_json:
        for note in notes:
            click.echo(f"note: {note}", err=True)
    answer(as_json, result, _lines([*counts, total] if len(counts) > 1 else counts))


def _lines(counts: Sequence[FileCount]) -> Iterator[str]:
    yield f"{'tokens':>14}  {'documents':>10}  {'bytes':>16}  {'bytes/token':>11}  file"
    for row in counts:
        ratio = "" if row.bytes_per_token is None else f"{row.bytes_per_token:.4f}"
        numbers = f"{row.tokens:>14,}  {row.documents:>10,}  {row.bytes:>16,}  {ratio:>11}"
        yield f"{numbers}  {row.path}"


@contextmanager
def _named(files: tuple[str, ...], text_field: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the paths, standard input as a temporary file, and notes on its detected type."""
    if PIPE not in files:
        yield files, []
        return

    piped = standard_input().buffer
    head, extension = begin_standard_input(piped, text_field)
    with tempfile.NamedTemporaryFile(suffix=extension) as copy:
        copy_standard_input(piped, head, Path(copy.name))
        yield (copy.name,), [read_as(f"standard-input{extension}")]
