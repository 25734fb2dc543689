"""Small JSON records beside large files: each carries its own digest, so damage is seen.

A record vouches for files that were written before it; writing it is what makes them exist. Knows
neither what is in a record nor what is in a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.workspace.shared_copies import fetch, share
from bpeline.tokenizer_core.bounded_files import read_file, read_json
from bpeline.tokenizer_core.digests import canonical_json, digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.records import check_fields

if TYPE_CHECKING:
    from bpeline.registry.workspace.workspace import Workspace

_SEAL = "digest"
_LARGEST = 1 << 30  # bytes of a record: 100 for each chunk of a corpus


@dataclass(frozen=True, slots=True)
class FileSeal:
    """What a file must be to be believed.

    Attributes:
        size: its bytes.
        sha256: of its content.
    """

    size: int
    sha256: str

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of_content(cls, content: Any) -> FileSeal:
        """Seal what a file holds: anything with the buffer protocol."""
        return cls(memoryview(content).nbytes, hashlib.sha256(content).hexdigest())

    def fits(self, path: Path, sharing: Workspace | None = None) -> bool:
        """Whether there is a file of the right size; its content is not read.

        Where a workspace shares its files, one that is missing is in the store: it went there
        before its record, and is fetched late.
        """
        try:
            return path.stat().st_size == self.size
        except FileNotFoundError:
            return sharing is not None and bool(sharing.store)
        except OSError:
            return False

    def read(self, path: Path, sharing: Workspace | None = None) -> bytes:
        """The content of the file, which is fetched where it is missing and shared.

        Raises:
            CorruptFile: it is missing or has other content.
        """
        if sharing is not None:
            fetch(sharing, path)
        if self.fits(path):
            content = read_file(path, self.size)
            if FileSeal.of_content(content) == self:
                return content
        raise damaged(path)


def write_record(path: Path, record: Mapping[str, Any], sharing: Workspace | None = None) -> None:
    """Write a record with its digest, atomically and durably.

    Args:
        path: its file.
        record: JSON values.
        sharing: the workspace into whose store it is copied first.
    """
    content = canonical_json({**record, _SEAL: digest_of(dict(record))})
    if sharing is not None:
        share(sharing, path, content)
    DURABLE.write(path, content)


def read_record(path: Path, format_number: int, sharing: Workspace | None = None) -> dict[str, Any]:
    """Read a record.

    Args:
        path: its file.
        format_number: what its member ``format`` must be.
        sharing: the workspace from whose store it is fetched when it is missing.

    Raises:
        CorruptFile: it is missing, damaged or of another format.
    """
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
    """The error for a file that is missing or not what was written."""
    return CorruptFile(
        f"{path} is {'not what was written' if path.exists() else 'missing'}",
        "the file as bpeline wrote it",
        "run the same command again: what is damaged is made anew",
    )
