"""What is asked of rows beside their documents: the id, and columns that are carried over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
        return json.dumps(values).encode("ascii")


def id_as_json(value: object) -> bytes:
    """A text or number; nothing for what names no document, such as a list."""
    return json.dumps(value).encode("ascii") if isinstance(value, str | int | float) else b""
