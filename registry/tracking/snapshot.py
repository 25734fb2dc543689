"""What MLflow's registry holds, kept so that reading commands need not import MLflow: a cache.

It counts for a SQLite file while that is what it was when MLflow was asked: the same device,
inode, size, times and SQLite's own counter of changes (bytes 24 to 27 of its header, see
https://www.sqlite.org/fileformat2.html#file_change_counter), and no transaction is open.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bpeline.registry.tracking.tracked import TrackedVersion
from bpeline.tokenizer_core.bounded_files import open_file, read_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError

_LARGEST = 1 << 30  # bytes; a version needs about one thousand
_COUNTER = slice(24, 28)

Stamp = list[int]


@dataclass(frozen=True, slots=True)
class Registered:
    """What MLflow's registry holds.

    Attributes:
        identity: of this MLflow; empty where nothing of ours was ever written.
        versions: all, by name and number; those that are not ours have no digest.
        aliases: of every name that has some, where they point.
        model_tags: of every name, the tags of the registered model.
    """

    identity: str = ""
    versions: tuple[TrackedVersion, ...] = ()
    aliases: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    model_tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """One version; None where there is none of that number."""
        found = (one for one in self.versions if (one.name, one.number) == (name, number))
        return next(found, None)


def stamp_of(database: Path) -> Stamp | None:
    """What tells this state of a SQLite file from all others; None while it may be changing."""
    try:
        if Path(f"{database}-journal").exists():
            return None
        with suppress(FileNotFoundError):
            if Path(f"{database}-wal").stat().st_size:
                return None
        with open_file(database) as file:
            found = os.fstat(file.fileno())
            counter = int.from_bytes(file.read(_COUNTER.stop)[_COUNTER], "big")
    except OSError:
        return None
    return [
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        counter,
    ]


def read(kept: Path, stamp: Stamp) -> Registered | None:
    """What was kept for a file in this state; None where that is nothing, or damaged."""
    try:
        found = read_json(kept, _LARGEST)
        if found["stamp"] != stamp:
            return None
        versions = tuple(TrackedVersion(**one) for one in found["versions"])
        aliases, tags = (
            {name: dict(one) for name, one in found[part].items()}
            for part in ("aliases", "model_tags")
        )
        return Registered(str(found["identity"]), versions, aliases, tags)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write(kept: Path, stamp: Stamp, registered: Registered) -> None:
    """Keep it; where that cannot be done, MLflow is asked again next time."""
    content: dict[str, Any] = {"stamp": stamp, **asdict(registered)}
    with suppress(OSError, BpelineError):
        DURABLE.write(kept, json.dumps(content).encode())
