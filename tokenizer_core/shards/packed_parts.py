"""Which documents a packed sequence holds: the layout of that file, and reading it; packs nothing.

NAME.parts.npy       a record for each document of a packed shard, in order: ``document``, its
                     number in the shards that were packed; ``first``, the first of its ids that
                     is here; ``begin``, where that stands in the shard's ids. It goes on up to
                     the next ``begin``; what does not fit goes on in the next shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import open_file
from bpeline.tokenizer_core.errors import CorruptFile

PACK_VERSION = 1
PARTS_SUFFIX = ".parts.npy"
PART = np.dtype([("document", "<i8"), ("first", "<i8"), ("begin", "<i8")])
PARTS_HEADER = 256  # bytes of a .npy file with these names before its records


@dataclass(frozen=True, slots=True)
class SequencePart:
    """A document, or a piece of one, in a packed sequence.

    Attributes:
        document: its number in the shards that were packed.
        first: the first of its ids that is here.
        begin, end: where it stands in the sequence.
    """

    document: int
    first: int
    begin: int
    end: int


class PackedParts:
    """The parts of one packed shard.

    Args:
        path: of its file.
        tokens: ids of the shard.

    Raises:
        CorruptFile: the file does not hold the parts of so many ids.
    """

    def __init__(self, path: Path, tokens: int) -> None:
        try:
            with open_file(path) as file:
                parts = np.load(file, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise _corrupt(path, str(error)) from error
        if parts.dtype != PART or parts.ndim != 1 or bool(tokens) != bool(len(parts)):
            raise _corrupt(path, "not the parts of a packed shard")
        self.documents, self.firsts, begins = (np.array(parts[name]) for name in PART.names or ())
        self.begins: NDArray[Any] = np.append(begins, tokens)
        if (
            (np.diff(self.begins) <= 0).any()
            or self.begins[0]
            or (self.firsts < 0).any()
            or (self.documents < 0).any()
        ):
            raise _corrupt(path, "parts do not follow one another")

    def between(self, begin: int, end: int) -> list[SequencePart]:
        """The parts of the ids in [begin, end), which are not none."""
        first = int(np.searchsorted(self.begins, begin, side="right")) - 1
        last = int(np.searchsorted(self.begins, end, side="left"))
        found = []
        for at in range(first, last):
            stands, ends = int(self.begins[at]), int(self.begins[at + 1])
            before = max(begin - stands, 0)
            found.append(
                SequencePart(
                    int(self.documents[at]),
                    int(self.firsts[at]) + before,
                    stands + before - begin,
                    min(ends, end) - begin,
                )
            )
        return found


def _corrupt(path: Path, problem: str) -> CorruptFile:
    return CorruptFile(
        f"{path} cannot be read: {problem}", "the file as it was written", "pack the shards again"
    )
