"""``bpeline count``: how many tokens files have."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from bpeline.flows.cli.options import bulk_options, echo_json, json_option, workspace_option
from bpeline.flows.running import for_stream
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.shards import FileCount

PIPE = "-"


@click.command(
    epilog="""\b
Examples:
  bpeline count news@champion article.txt
  bpeline count news/3 data/*.jsonl.zst --text-field body --json
  cat article.txt | bpeline count news@champion -
""",
)
@click.argument("reference", metavar="REF")
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@bulk_options
@workspace_option
@json_option
def count(reference: str, files: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Count the tokens, documents and bytes of FILES, or of standard input ("-").

    FILES are text or .jsonl, also .gz and .zst, directories or globs. Special tokens in them are
    ordinary text; a separator between documents is not counted. Bytes are those of documents.

    REF is name@alias, name/number, a digest or a path; news@champion:8000 is its size 8,000.
    """
    from bpeline.registry import load_tokenizer
    from bpeline.tokenizer_core.corpus import find_source_files, sources_of
    from bpeline.tokenizer_core.shards import FileCount, count_files, file_encoding_of

    threads = options.pop("threads")
    if PIPE in files and len(files) > 1:
        raise InvalidOption(
            "standard input was given beside files", "either of them", "leave - out, or the files"
        )
    tokenizer = load_tokenizer(reference)
    encoding = file_encoding_of(tokenizer, **options)
    progress = for_stream(sys.stderr) if sys.stderr.isatty() else None
    with _named(files) as paths:
        found = find_source_files(sources_of(paths))
        if progress is not None:
            progress.step_started("count", sum(file.size for file in found), "bytes")
        try:
            said = None if progress is None else lambda n: progress.step_advanced("count", n)
            counts = list(count_files(encoding, found, threads, said))
        finally:
            if progress is not None:
                progress.closed()
    if PIPE in files:
        counts = [FileCount(PIPE, one.tokens, one.documents, one.bytes) for one in counts]
    total = FileCount(
        "total",
        sum(one.tokens for one in counts),
        sum(one.documents for one in counts),
        sum(one.bytes for one in counts),
    )
    if as_json:
        rows = [{**asdict(one), "bytes_per_token": one.bytes_per_token} for one in (*counts, total)]
        total_row = {key: value for key, value in rows[-1].items() if key != "path"}
        echo_json({"digest": tokenizer.digest, "files": rows[:-1], "total": total_row})
        return
    _echo([*counts, total] if len(counts) > 1 else counts)


def _echo(counts: Sequence[FileCount]) -> None:
    click.echo(f"{'tokens':>14}  {'documents':>10}  {'bytes':>16}  {'bytes/token':>11}  file")
    for one in counts:
        ratio = "" if one.bytes_per_token is None else f"{one.bytes_per_token:.4f}"
        numbers = f"{one.tokens:>14,}  {one.documents:>10,}  {one.bytes:>16,}  {ratio:>11}"
        click.echo(f"{numbers}  {one.path}")


@contextmanager
def _named(files: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Files by their names; what comes through a pipe lies in a temporary one meanwhile."""
    if PIPE not in files:
        yield files
        return
    with tempfile.NamedTemporaryFile(suffix=".txt") as spooled:
        shutil.copyfileobj(sys.stdin.buffer, spooled, 1 << 20)
        spooled.flush()
        yield (spooled.name,)
