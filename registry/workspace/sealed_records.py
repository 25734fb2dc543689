"""Small JSON records of large files, with a digest that detects damage.

A record is written after the files it describes; only then do they count as existing. ``sharing``
is the workspace whose store gets a copy first, and provides missing files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.workspace.shared_copies import fetch, share
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import canonical_json, digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile

if TYPE_CHECKING:
    from bpeline.registry.workspace.workspace import Workspace

_SEAL = "digest"
_LARGEST = 1 << 30  # bytes of a record: 100 for each chunk of a corpus


def write_record(path: Path, record: Mapping[str, Any], sharing: Workspace | None = None) -> None:
    """Write a record of JSON values with its digest, atomically and durably."""
    content = canonical_json({**record, _SEAL: digest_of(dict(record))})
    if sharing is not None:
        share(sharing, path, content)
    DURABLE.write(path, content)


def read_record(path: Path, format_number: int, sharing: Workspace | None = None) -> dict[str, Any]:
    """Read and verify a record."""
    if sharing is not None:
        fetch(sharing, path)
    try:
        record = read_json(path, _LARGEST)
        if record.pop(_SEAL) == digest_of(record) and record["format"] == format_number:
            return dict(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise damaged(path)


def damaged(path: Path) -> CorruptFile:
    """Return the error for a missing or damaged file."""
    return CorruptFile(
        f"{path} is {'damaged' if path.exists() else 'missing'}",
        "expected the file as bpeline wrote it",
        "run the same command again: it recreates damaged files",
    )
