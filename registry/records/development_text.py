"""The development texts of a training: name, content digest and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DevelopmentText:
    """The development text of one language, to measure compression in training.

    Attributes:
        name: the source that it measures.
        files: paths as the user typed them.
        digest: `DocumentDigest` of its documents, independent of the split pattern.
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
    """Return the development texts listed in a version's manifest."""
    return tuple(
        DevelopmentText(**{**record, "files": tuple(record["files"])})
        for record in provenance.get("development", ())
    )


def changed_development(
    first: Sequence[DevelopmentText], second: Sequence[DevelopmentText]
) -> list[tuple[DevelopmentText | None, DevelopmentText | None]]:
    """Return pairs of same-named texts with different content; None if missing."""
    before, after = ({text.name: text for text in side} for side in (first, second))
    pairs = ((before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after]))
    return [
        (text, other)
        for text, other in pairs
        if text is None or other is None or text.digest != other.digest
    ]
