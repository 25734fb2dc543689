"""What the texts were that said which language a training served: by name, content and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DevelopmentText:
    """The development text of one language, which says when it is worst off.

    Attributes:
        name: of the source that it measures.
        files: as they were typed.
        digest: of its documents, see `DocumentDigest`: it does not depend on the split pattern.
        documents, bytes: how much it is.
    """

    name: str
    files: tuple[str, ...]
    digest: str
    documents: int
    bytes: int

    def __str__(self) -> str:
        """``de 1f0c2a9b (997 documents, 131,072 bytes)``."""
        size = f"{self.documents:,} document{'' if self.documents == 1 else 's'}"
        return f"{self.name} {self.digest[:8]} ({size}, {self.bytes:,} bytes)"


def development_of(provenance: Mapping[str, Any]) -> tuple[DevelopmentText, ...]:
    """The development texts that a version's manifest names; empty where it names none."""
    return tuple(
        DevelopmentText(**{**one, "files": tuple(one["files"])})
        for one in provenance.get("development", ())
    )


def changed_development(
    first: Sequence[DevelopmentText], second: Sequence[DevelopmentText]
) -> list[tuple[DevelopmentText | None, DevelopmentText | None]]:
    """The texts whose content differs, by name; None where a side has no text of that name."""
    before, after = ({one.name: one for one in side} for side in (first, second))
    pairs = ((before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after]))
    return [
        (one, other)
        for one, other in pairs
        if one is None or other is None or one.digest != other.digest
    ]
