"""What is asked of rows beside their documents: the id, and columns that are carried over."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_SHOWN = 20  # names of fields in a message
# Names that columns of text often have.
_USUAL = ("text", "content", "contents", "body", "document", "article", "sentence")


@dataclass(frozen=True, slots=True)
class RowFields:
    """Fields of rows, or of JSON lines.

    Attributes:
        id: the field that names the document, which rows need not have; empty: none.
        columns: others.
    """

    id: str = ""
    columns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.id or self.columns)

    def values_of(self, record: Mapping[str, Any]) -> bytes:
        """The values of one row, as all rows give them: a JSON list in ASCII, the id first."""
        values = [record.get(name) for name in (self.id, *self.columns)]
        return json.dumps(values, default=str).encode("ascii")


def id_as_json(value: object) -> bytes:
    """A text or number; nothing for what names no document, such as a list."""
    return json.dumps(value).encode("ascii") if isinstance(value, str | int | float) else b""


def likely_field(field: str, texts: Mapping[str, object]) -> str:
    """The field that was meant by one that is not there; empty where that cannot be told.

    Args:
        texts: names of fields of text, each with the text that a row has there, if that is known.
    """
    for name in texts:
        if name != field and name.strip().casefold() == field.strip().casefold():
            return name
    others = {name: text for name, text in texts.items() if name != field}
    sizes = {name: len(text) for name, text in others.items() if isinstance(text, str)}
    if sizes:
        return max(sizes, key=lambda name: sizes[name])
    usual = [name for name in others if name.casefold() in _USUAL]
    return next(iter(usual or (others if len(others) == 1 else ())), "")


def advised_field(field: str, texts: Mapping[str, object]) -> str:
    """What to type where a field is not there; empty where that cannot be told; see above."""
    name = likely_field(field, texts)
    return f"type `--text-field {shlex.quote(name)}`" if name else ""


def parsed_line(text: str) -> Any:
    """`json.loads`, of whole numbers with any number of digits, too."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python converts only so many digits
        return json.loads(text, parse_int=_whole_number)


def parsed_json(text: str, at: int) -> tuple[Any, int]:
    """The value that stands at a place of a text, and where it ends; likewise."""
    try:
        return _PARSER.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _LONG_NUMBERS.raw_decode(text, at)


def without_text(record: Mapping[str, Any], field: str) -> str:
    """What is wrong with an object that has no text in a field, and which fields it has."""
    if record.get(field) is not None:
        return f"has something other than text in the field {field!r}"
    has = [repr(name) for name, value in record.items() if value is not None]
    return f"has no field {field!r}, but {', '.join(has[:_SHOWN]) or 'none'}"


def _whole_number(digits: str) -> int | Decimal:
    try:
        return int(digits)
    except ValueError:
        return Decimal(digits)


_PARSER = json.JSONDecoder()
_LONG_NUMBERS = json.JSONDecoder(parse_int=_whole_number)
