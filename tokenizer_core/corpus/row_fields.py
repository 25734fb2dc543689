"""The fields of rows: which holds the text, which the document's id."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_MOST_DIGITS = 640  # which Python converts whatever its environment says
_SHOWN = 20  # names of fields in a message
# Names that columns of text often have.
_USUAL = ("text", "content", "contents", "body", "document", "article", "sentence")


def id_as_json(value: object) -> bytes:
    """A text or number; nothing for what names no document, such as a list."""
    return json.dumps(value).encode("ascii") if isinstance(value, str | int | float) else b""


def likely_field(field: str, texts: Mapping[str, object]) -> str:
    """The field that was meant by one that is not there; empty where that cannot be told.

    Args:
        texts: names of fields, with the text that a row has there, if that is known.
    """
    others = [name for name in texts if name != field]
    alike = [name for name in others if name.strip().casefold() == field.strip().casefold()]
    seen = [name for name in others if isinstance(texts[name], str)]
    longest = sorted(seen, key=lambda name: -len(str(texts[name])))
    usual = [name for name in others if name.casefold() in _USUAL]
    return next(iter(alike or longest or usual or others[: len(others) == 1]), "")


def advised_field(field: str, texts: Mapping[str, object]) -> str:
    """What to type where a field is not there; empty where that cannot be told; see above."""
    name = likely_field(field, texts)
    return f"type `--text-field {shlex.quote(name)}`" if name else ""


def without_text(record: Mapping[str, Any], field: str) -> str:
    """What is wrong with an object that has no text in a field, and which fields it has."""
    if record.get(field) is not None:
        return f"has something other than text in the field {field!r}"
    has = [repr(name) for name, value in record.items() if value is not None]
    return f"has no field {field!r}, but {', '.join(has[:_SHOWN]) or 'none'}"


def whole_number(digits: str) -> int | Decimal:
    """A number of JSON: Python makes an int of so many digits and no more."""
    return int(digits) if len(digits) <= _MOST_DIGITS else Decimal(digits)
