"""The manifest of a directory of ours: JSON that is sealed and says its format and its version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import MAX_FILE_BYTES, json_of, read_bounded
from bpeline.tokenizer_core.digests import unsealed
from bpeline.tokenizer_core.errors import InvalidTokenizer

MANIFEST = "manifest.json"


def read_sealed_manifest(
    directory: Path,
    format: str,
    version: int,
    corrupt: Callable[[Path, str], NoReturn],
    *,
    most_bytes: int = MAX_FILE_BYTES,
    called: str = "",
) -> dict[str, Any]:
    """A manifest as it was written; its other fields are the caller's to check.

    Args:
        directory: where it lies.
        format: what its field ``format`` must be.
        version: the highest that its field ``format_version`` may be.
        corrupt: raises CorruptFile of the directory, for a reason.
        most_bytes: of its file.
        called: how people know the directory, where it is a copy.

    Raises:
        MissingSource: there is none.
        CorruptFile: not JSON, of another format, or altered.
        InvalidTokenizer: a format version that this program does not know.
    """
    path = directory / MANIFEST
    try:
        manifest = json_of(read_bounded(path, most_bytes), path)
    except InvalidTokenizer as error:
        corrupt(directory, error.happened)
    if not isinstance(manifest, dict) or manifest.get("format") != format:
        corrupt(directory, f"{MANIFEST} is not one of the format {format!r}")
    try:
        manifest = unsealed(manifest)
    except ValueError:
        corrupt(directory, f"{MANIFEST} is not what was written")
    if manifest.get("format_version") not in range(1, version + 1):
        raise InvalidTokenizer(
            f"{called or directory} has format version {manifest.get('format_version')!r}",
            f"this program reads versions up to {version}",
            "upgrade bpeline",
        )
    return manifest
