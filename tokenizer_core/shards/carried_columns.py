"""Columns that Parquet shards carry over from the rows their documents came from; reads no file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from bpeline.tokenizer_core.errors import InvalidOption

_RESERVED = "ids"
_INT64 = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CarriedColumn:
    """A column of the shards.

    Attributes:
        name: in the source and in the shards.
        type: ``string``, ``int64``, ``double``, ``bool``, or ``json`` (any value, as JSON text).
    """

    name: str
    type: str = "string"

    @classmethod
    def of(cls, typed: str) -> CarriedColumn:
        """A column as people type it: ``url``, ``score:double``.

        Raises:
            InvalidOption: no name, or no such type.
        """
        name, _, type_ = typed.rpartition(":")
        if type_ in COLUMN_TYPES and name:
            return cls(name, type_)
        if not typed:
            raise InvalidOption(
                "a column without a name", "NAME or NAME:TYPE", "--columns url,score:double"
            )
        return cls(typed)

    def value(self, given: Any, path: str) -> Any:
        """What the shard holds for a value of a row; None where the row has none.

        Args:
            given: from JSON.
            path: the file, for messages.

        Raises:
            InvalidOption: the value is not of this type.
        """
        if given is None:
            return None
        try:
            return COLUMN_TYPES[self.type](given)
        except (TypeError, ValueError, OverflowError):
            shown = json.dumps(given)
            suited = next((name for name in _LIKELY if _is_of(given, name)), "json")
            raise InvalidOption(
                f"the column {self.name!r} of {path} holds {shown[:60]}, which is no {self.type}",
                f"values of one type in all rows: {', '.join(COLUMN_TYPES)}",
                f"name the type: --columns {self.name}:{suited}",
            ) from None


def _string(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    given.encode()  # half a surrogate pair cannot be kept
    return given


def _int64(given: Any) -> int | None:
    if isinstance(given, str):  # a cell of CSV
        if not given:
            return None
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError
    if not _INT64[0] <= given <= _INT64[1]:
        raise OverflowError
    return given


def _double(given: Any) -> float | None:
    if given == "":
        return None
    if not isinstance(given, int | float | str) or isinstance(given, bool):
        raise TypeError
    return float(given)


def _bool(given: Any) -> bool | None:
    if given == "":
        return None
    if isinstance(given, str):
        given = {"true": True, "false": False}.get(given.lower())
    if not isinstance(given, bool):
        raise TypeError
    return given


COLUMN_TYPES: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "int64": _int64,
    "double": _double,
    "bool": _bool,
    "json": json.dumps,
}
_LIKELY = ("bool", "int64", "double")


def _is_of(given: Any, type_: str) -> bool:
    try:
        return not isinstance(given, str) and COLUMN_TYPES[type_](given) is not None
    except (TypeError, ValueError, OverflowError):
        return False


def carried_columns(typed: str | Iterable[str]) -> tuple[CarriedColumn, ...]:
    """Columns as people type them, ``url,score:double``, or one by one.

    Raises:
        InvalidOption: no such type; a name twice, or that of the ids.
    """
    parts = typed.split(",") if isinstance(typed, str) else list(typed)
    columns = tuple(CarriedColumn.of(part.strip()) for part in parts if part.strip())
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or _RESERVED in names:
        what = f"{twice!r} twice" if twice is not None else f"{_RESERVED!r}, which holds the tokens"
        raise InvalidOption(
            f"columns to carry over name {what}",
            "each column of the source once",
            "--columns url,score:double",
        )
    return columns
