"""A cache of MLflow's registry: commands that only read need not import MLflow.

It is valid while the SQLite file has the same device, inode, size, times and change counter
(https://www.sqlite.org/fileformat2.html#file_change_counter), and no transaction is open.
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

_LARGEST = 1 << 30  # bytes; a version takes about one thousand
_COUNTER = slice(24, 28)

Stamp = list[int]


@dataclass(frozen=True, slots=True)
class Registered:
    """The content of MLflow's registry.

    Attributes:
        versions: all versions by name and number; those not from bpeline have no digest.
        aliases: name → alias → version number.
    """

    identity: str = ""
    versions: tuple[TrackedVersion, ...] = ()
    aliases: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    model_tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def version(self, name: str, number: int) -> TrackedVersion | None:
        """Return one version, or None if it does not exist."""
        matches = (item for item in self.versions if (item.name, item.number) == (name, number))
        return next(matches, None)


def stamp_of(database: Path) -> Stamp | None:
    """Return a stamp of the state of a SQLite file; None while it may be changing."""
    try:
        if Path(f"{database}-journal").exists():
            return None
        with suppress(FileNotFoundError):
            if Path(f"{database}-wal").stat().st_size:
                return None
        with open_file(database) as file:
            status = os.fstat(file.fileno())
            counter = int.from_bytes(file.read(_COUNTER.stop)[_COUNTER], "big")
    except OSError:
        return None
    return [
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        counter,
    ]


def read(kept: Path, stamp: Stamp) -> Registered | None:
    """Read the cached registry for this stamp; None if there is none or it is damaged."""
    try:
        content = read_json(kept, _LARGEST)
        if content["stamp"] != stamp:
            return None
        versions = tuple(TrackedVersion(**fields) for fields in content["versions"])
        aliases, tags = (
            {name: dict(fields) for name, fields in content[part].items()}
            for part in ("aliases", "model_tags")
        )
        return Registered(str(content["identity"]), versions, aliases, tags)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write(kept: Path, stamp: Stamp, registered: Registered) -> None:
    """Cache a registry; failures are ignored, since MLflow can be asked again."""
    content: dict[str, Any] = {"stamp": stamp, **asdict(registered)}
    with suppress(OSError, BpelineError):
        DURABLE.write(kept, json.dumps(content).encode())
