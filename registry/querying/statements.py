"""Parse a statement with DuckDB; it must only read.

Finds the versions whose words it names. Nothing is executed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bpeline.registry.closed_duckdb import connect, library
from bpeline.tokenizer_core.errors import InvalidOption

# Our table functions and their parameters.
PARAMETERS = {
    "tokens": ("version",),
    "merges": ("version",),
    "word_counts": ("version",),
    "splits": ("version",),
    "words_of_source": ("version", "source"),
}
TABLES = ("versions", "sources", "chunks", "runs")
# DuckDB's table functions that only use their arguments or list the schema. Others read files, take
# memory addresses or change settings.
_HARMLESS = {
    *("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"),
    *("duckdb_columns", "duckdb_databases", "duckdb_functions", "duckdb_schemas", "duckdb_tables"),
    *("duckdb_types", "duckdb_views", "duckdb_keywords", "pragma_table_info", "test_all_types"),
}
_CALLS = [f"{name}({', '.join(given)})" for name, given in PARAMETERS.items()]
ACCEPTED = f"expected one SELECT in DuckDB's SQL over {', '.join((*TABLES, *_CALLS))}"
NEXT_STEP = "type `bpeline sql --help` for examples; docs/querying.md describes every column"


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A call of one of our table functions; ``source`` is for ``words_of_source``."""

    relation: str
    version: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT, its calls of our table functions, and all table names in it."""

    text: str
    mentions: tuple[Mention, ...]
    tables: frozenset[str]


def read_statement(text: str) -> Statement:
    """Parse one SELECT; raises InvalidOption if it may do more than read tables."""
    parsed = _parsed(text)
    if len(parsed) != 1:
        raise InvalidOption(f"there are {len(parsed)} statements", ACCEPTED, NEXT_STEP)
    mentions, tables = set(), set()
    for node in _nodes(parsed[0]):
        kind = node.get("type")
        if kind == "TABLE_FUNCTION":
            mention = _mention(node["function"])
            if mention is not None:
                mentions.add(mention)
        elif kind in ("BASE_TABLE", "SHOW_REF"):
            tables.add(str(node.get("table_name", "")).strip('"').casefold())
    return Statement(text, tuple(sorted(mentions)), frozenset(tables))


def _parsed(text: str) -> list[Any]:
    with_json = connect(None, {})
    try:
        rows = with_json.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
        answer = json.loads(rows[0][0])
    except (library().Error, ValueError, RecursionError, UnicodeError) as error:
        raise InvalidOption(
            f"DuckDB cannot read the statement: {first_line(error)}", ACCEPTED, NEXT_STEP
        ) from error
    finally:
        with_json.close()
    if not answer["error"]:
        parsed: list[Any] = answer["statements"]
        return parsed
    if answer["error_type"] == "not implemented":
        raise InvalidOption("the statement is not a SELECT", ACCEPTED, NEXT_STEP)
    message = str(answer["error_message"]).splitlines()[0]
    raise InvalidOption(f"DuckDB cannot read the statement: {message}", ACCEPTED, NEXT_STEP)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _mention(function: dict[str, Any]) -> Mention | None:
    name = str(function["function_name"]).casefold()
    if name not in PARAMETERS:
        if name in _HARMLESS:
            return None
        raise InvalidOption(
            f"{name}(…) is not a table function of a workspace", ACCEPTED, NEXT_STEP
        )
    names = PARAMETERS[name]
    values = dict(zip(names, ("",) * len(names), strict=True))
    for index, argument in enumerate(function["arguments"]):
        parameter = str(argument["name"]).casefold() or (names[index] if index < len(names) else "")
        value = argument["expression"].get("literal", {})
        if parameter not in values or value.get("kind") != "STRING":
            raise _wrongly_called(name, names)
        values[parameter] = str(value["text"])
    if not all(values.values()) or len(function["arguments"]) != len(names):
        raise _wrongly_called(name, names)
    return Mention(name, **values)


def _wrongly_called(name: str, names: tuple[str, ...]) -> InvalidOption:
    values = {"version": "'news/3'", "source": "'english'"}
    example = f"{name}({', '.join(values[parameter] for parameter in names)})"
    return InvalidOption(
        f"{name}(…) has wrong arguments",
        f"expected {name}({', '.join(names)}), each a string in single quotes",
        f"type {example}; `bpeline versions` lists versions, `bpeline sql 'FROM sources'` sources",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of DuckDB's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
