"""A statement before it runs: that it only reads, and which versions' words it names.

DuckDB parses it; nothing is opened or executed here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bpeline.registry.closed_duckdb import connect, library
from bpeline.tokenizer_core.errors import InvalidOption

# Table functions of ours, and how many texts each is given.
PARAMETERS = {
    "tokens": ("version",),
    "merges": ("version",),
    "word_counts": ("version",),
    "splits": ("version",),
    "words_of_source": ("version", "source"),
}
TABLES = ("versions", "sources", "chunks", "runs")
# Of DuckDB's own table functions those that make rows of nothing but their arguments, or list what
# the file holds. Others read files, take addresses of memory, or change how DuckDB works.
_HARMLESS = {
    *("range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"),
    *("duckdb_columns", "duckdb_databases", "duckdb_functions", "duckdb_schemas", "duckdb_tables"),
    *("duckdb_types", "duckdb_views", "duckdb_keywords", "pragma_table_info", "test_all_types"),
}
_CALLS = [f"{name}({', '.join(given)})" for name, given in PARAMETERS.items()]
ACCEPTED = f"one SELECT in DuckDB's SQL over {', '.join((*TABLES, *_CALLS))}"
NEXT_STEP = "type `bpeline sql --help` for examples; docs/querying.md describes every column"


@dataclass(frozen=True, slots=True, order=True)
class Mention:
    """A table function of ours in a statement.

    Attributes:
        relation: its name.
        version: as it was typed.
        source: for ``words_of_source``; empty for the others.
    """

    relation: str
    version: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """One SELECT.

    Attributes:
        text: of it.
        mentions: what it reads of versions, each once.
        tables: tables that it names, ours or not.
    """

    text: str
    mentions: tuple[Mention, ...]
    tables: frozenset[str]


def read_statement(text: str) -> Statement:
    """Read what a person typed.

    Raises:
        InvalidOption: it is not SQL, not one SELECT, or calls a table function that reads something
            else than the words of versions.
    """
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
    said = str(answer["error_message"]).splitlines()[0]
    raise InvalidOption(f"DuckDB cannot read the statement: {said}", ACCEPTED, NEXT_STEP)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """All objects of a parsed statement."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _mention(function: dict[str, Any]) -> Mention | None:
    name = str(function["function_name"]).casefold()
    if name not in PARAMETERS:
        if name in _HARMLESS:
            return None
        raise InvalidOption(
            f"{name}(…) is not among the tables of a workspace", ACCEPTED, NEXT_STEP
        )
    names = PARAMETERS[name]
    given = dict(zip(names, ("",) * len(names), strict=True))
    for place, argument in enumerate(function["arguments"]):
        called = str(argument["name"]).casefold() or (names[place] if place < len(names) else "")
        value = argument["expression"].get("literal", {})
        if called not in given or value.get("kind") != "STRING":
            raise _wrongly_called(name, names)
        given[called] = str(value["text"])
    if not all(given.values()) or len(function["arguments"]) != len(names):
        raise _wrongly_called(name, names)
    return Mention(name, **given)


def _wrongly_called(name: str, names: tuple[str, ...]) -> InvalidOption:
    values = {"version": "'news/3'", "source": "'english'"}
    example = f"{name}({', '.join(values[one] for one in names)})"
    return InvalidOption(
        f"{name}(…) is not called as it can be",
        f"{name}({', '.join(names)}), each a text in single quotes",
        f"type {example}; `bpeline versions` lists versions, `bpeline sql 'FROM sources'` sources",
    )


def first_line(error: BaseException) -> str:
    """What DuckDB complains of, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
