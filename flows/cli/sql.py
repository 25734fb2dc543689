"""``bpeline sql``: questions to versions and their words in SQL."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from bpeline.flows.cli.commands import FILE, command
from bpeline.flows.cli.text_arguments import standard_input
from bpeline.flows.wording import counted
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.redaction import Unescaped
from bpeline.tokenizer_core.tables import Table

if TYPE_CHECKING:
    from bpeline.registry.querying import Answer

_SHOWN = 40
_WIDEST = 60  # characters of a cell
_ESCAPED = b"\\'\""  # so that DuckDB reads what it gets back: 'a\xE2'::BLOB


@command(
    'bpeline sql "FROM versions"',
    "bpeline sql \"SELECT text, count FROM tokens('news@candidate') ORDER BY count DESC LIMIT 20\"",
    "bpeline sql \"SELECT word, count, tokens FROM splits('news/3') WHERE tokens > 4\" --csv",
    "bpeline sql \"FROM word_counts('news/3')\" -o words.parquet",
    "bpeline sql - < question.sql",
)
@click.argument("statement")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with the names of the columns.")
@click.option("-o", "--output", type=FILE, help="Write the rows to a Parquet file.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=_SHOWN,
    metavar="N",
    help="How many rows a table for people shows; --json, --csv and -o give all.",
)
def sql(statement: str, as_csv: bool, output: Path | None, rows: int, as_json: bool) -> None:
    """Answer STATEMENT, one SELECT of DuckDB's SQL ("-": standard input).

    \b
    Tables:
      versions, sources, chunks, runs
      tokens('news/3')        id, bytes, text, rank, count, made, words, slices
      merges('news/3')        rank, id, left_id, right_id, and their bytes
      word_counts('news/3')   the words it was trained on
      words_of_source('news/3', 'english')
      splits('news/3')        word, count, tokens, ids

    A version is name@alias, name/number or a digest. What a statement reads is added to the
    workspace's words.duckdb when it is first asked for; every DuckDB client since 1.4 opens
    that file, read-only. Nothing else can be read, and nothing written. docs/querying.md
    describes all columns.
    """
    from bpeline.registry.querying import querying

    if as_json + as_csv + (output is not None) > 1:
        raise InvalidOption(
            "several forms of the answer were asked for",
            "expected one of --json, --csv and -o FILE, or none for a table",
            "leave out all but one",
        )
    text = standard_input().read() if statement == "-" else statement
    with querying(text, on_adding=_say) as answer:
        if output is not None:
            click.echo(f"{counted(answer.write_parquet(output), 'row')} in {output}", err=True)
        elif as_json:
            _print_json(answer)
        elif as_csv:
            _print_csv(answer)
        else:
            _print_table(answer, rows)


def _say(what: str) -> None:
    click.echo(f"adding {what} to words.duckdb", err=True)


def _print_json(answer: Answer) -> None:
    """A list of objects, written row by row."""
    columns, rows = answer.rows()
    begin = "["
    for row in rows:
        values = dict(zip(columns, map(_plain, row), strict=True))
        click.echo(f"{begin}\n  {json.dumps(values, ensure_ascii=False)}", nl=False)
        begin = ","
    click.echo("[]" if begin == "[" else "\n]")


def _print_csv(answer: Answer) -> None:
    columns, rows = answer.rows()
    stream = sys.stdout if sys.stdout.isatty() else Unescaped(sys.stdout)
    out = csv.writer(stream, lineterminator="\n")
    out.writerow(columns)
    out.writerows([_csv_value(value) for value in row] for row in rows)


def _print_table(answer: Answer, most: int) -> None:
    columns, rows = answer.rows()
    shown = list(itertools.islice(rows, most))
    numbers = [
        any(one is not None for one in values) and all(_is_number(one) for one in values)
        for values in _columns_of(shown, len(columns))
    ]
    cells = [[_cell(value) for value in row] for row in shown]
    left = [at for at, number in enumerate(numbers) if not number]
    for line in Table(columns, cells, left).lines(bordered=True):
        click.echo(line)
    more = next(rows, None) is not None
    click.echo(
        f"the first {counted(most, 'row')}; --rows N shows more, --csv and --json all"
        if more
        else f"{counted(len(shown), 'row')}",
        err=more,
    )


def _columns_of(rows: Sequence[Sequence[Any]], number: int) -> Iterator[Iterable[Any]]:
    for at in range(number):
        yield [row[at] for row in rows]


def _is_number(value: Any) -> bool:
    return value is None or (
        isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    )


def _cell(value: Any) -> str:
    """What a person reads: control characters and what has no glyph escaped."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e15 else f"{value:g}"
    plain = _plain(value)
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    if len(text) > _WIDEST:
        text = f"{text[: _WIDEST - 1]}…"
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode()
        for one in text
    )


def _csv_value(value: Any) -> Any:
    plain = _plain(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, (list, dict)) else plain


def _plain(value: Any) -> Any:
    """A value as JSON has it: bytes and times as DuckDB writes them."""
    if isinstance(value, bytes):
        return "".join(
            chr(one) if 32 <= one < 127 and one not in _ESCAPED else f"\\x{one:02X}"
            for one in value
        )
    if isinstance(value, dict):
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (datetime, date, time, timedelta, UUID)):
        return str(value)
    if isinstance(value, Decimal):
        if value == value.to_integral_value():
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value


def _key(key: Any) -> str:
    plain = _plain(key)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
