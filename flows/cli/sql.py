"""``bpeline sql``: query versions and word counts in SQL."""

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
_ESCAPED = b"\\'\""  # so that DuckDB can parse the output again: 'a\xE2'::BLOB


@command(
    'bpeline sql "FROM versions"',
    "bpeline sql \"SELECT text, count FROM tokens('news@candidate') ORDER BY count DESC LIMIT 20\"",
    "bpeline sql \"SELECT word, count, tokens FROM splits('news/3') WHERE tokens > 4\" --csv",
    "bpeline sql \"FROM word_counts('news/3')\" -o words.parquet",
    "bpeline sql - < question.sql",
)
@click.argument("statement")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option("-o", "--output", type=FILE, help="Write the rows to a Parquet file.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=_SHOWN,
    metavar="N",
    help="Maximum rows of the printed table; --json, --csv and -o give all.",
)
def sql(statement: str, as_csv: bool, output: Path | None, rows: int, as_json: bool) -> None:
    """Run STATEMENT, one SELECT in DuckDB's SQL ("-": standard input).

    \b
    Tables:
      versions, sources, chunks, runs
      tokens('news/3')        id, bytes, text, rank, count, made, words, slices
      merges('news/3')        rank, id, left_id, right_id, and their bytes
      word_counts('news/3')   the words of its training
      words_of_source('news/3', 'english')
      splits('news/3')        word, count, tokens, ids

    A version is name@alias, name/number or a digest. Tables are added to words.duckdb in the
    workspace when first read; DuckDB clients from 1.4 on can open that file read-only. Statements
    cannot read other files or write. For all columns, see docs/querying.md.
    """
    from bpeline.registry.querying import querying

    if as_json + as_csv + (output is not None) > 1:
        raise InvalidOption(
            "several output formats were given",
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
    first_rows = list(itertools.islice(rows, most))
    numbers = [
        any(value_ is not None for value_ in values)
        and all(_is_number(value_) for value_ in values)
        for values in _columns_of(first_rows, len(columns))
    ]
    cells = [[_cell(value) for value in row] for row in first_rows]
    left_aligned = [at for at, number in enumerate(numbers) if not number]
    for line in Table(columns, cells, left_aligned).lines(bordered=True):
        click.echo(line)
    more = next(rows, None) is not None
    click.echo(
        f"first {counted(most, 'row')}; for more use --rows N, for all --csv or --json"
        if more
        else f"{counted(len(first_rows), 'row')}",
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
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode()
        for character in text
    )


def _csv_value(value: Any) -> Any:
    plain = _plain(value)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, (list, dict)) else plain


def _plain(value: Any) -> Any:
    """A value for JSON, with bytes and times as DuckDB writes them."""
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
