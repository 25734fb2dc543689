"""SHA-256 digests of values and files, and manifests that carry their own digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import MAX_FILE_BYTES, json_of, read_bounded
from bpeline.tokenizer_core.errors import InvalidTokenizer

DIGEST_LENGTH = 64  # hexadecimal digits of a SHA-256
SEAL = "seal"
# Created once: `json.dumps` creates one per call, which doubles the time for short values.
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)


def digest_of_bytes(*parts: Any) -> str:
    """Return the SHA-256 of concatenated buffers in hexadecimal."""
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return state.hexdigest()


class DocumentDigest:
    """Digest of a stream of documents, with their number and total bytes."""

    def __init__(self) -> None:
        self.documents = self.bytes = 0
        self._state = hashlib.sha256()

    def watching(self, documents: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the same documents while adding them to the digest."""
        for document in documents:
            self.documents += 1
            self.bytes += len(document)
            self._state.update(len(document).to_bytes(8, "little"))
            self._state.update(document)
            yield document

    @classmethod
    def of(cls, documents: Iterable[bytes]) -> DocumentDigest:
        digest = cls()
        for _ in digest.watching(documents):
            pass
        return digest

    @property
    def digest(self) -> str:
        """SHA-256 of the length (8 bytes, little-endian) and the bytes of each document."""
        return self._state.hexdigest()


def canonical_json(value: Any) -> bytes:
    """Encode as UTF-8 JSON with sorted keys and no white space; ValueError for NaN."""
    return _CANONICAL.encode(value).encode()


def digest_of(value: Any) -> str:
    return digest_of_bytes(canonical_json(value))


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Add a digest of its content to a JSON record, so that damage is detected."""
    values = json.loads(canonical_json(dict(record)))
    return {**record, SEAL: digest_of(values)}


def unsealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sealed record without its digest; ValueError if it does not match.

    Records of old versions have no digest.
    """
    if not isinstance(record, Mapping):
        raise ValueError("it is not a record")
    values = dict(record)
    seal = values.pop(SEAL, None)
    if seal is not None and seal != digest_of(values):
        raise ValueError("its digest does not match")
    return values


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
    """Read a manifest and check its format, version and digest.

    Args:
        version: highest supported ``format_version``.
        corrupt: raises CorruptFile for a directory and a reason.
        called: name of the directory in messages, where it is a copy.

    Raises:
        MissingSource: there is no manifest.
        CorruptFile: it is not JSON, has another format, or was altered.
        InvalidTokenizer: its format version is not supported.
    """
    path = directory / MANIFEST
    try:
        manifest = json_of(read_bounded(path, most_bytes), path)
    except InvalidTokenizer as error:
        corrupt(directory, error.happened)
    if not isinstance(manifest, dict) or manifest.get("format") != format:
        corrupt(directory, f"{MANIFEST} does not have the format {format!r}")
    try:
        manifest = unsealed(manifest)
    except ValueError:
        corrupt(directory, f"{MANIFEST} was altered: its digest does not match")
    if manifest.get("format_version") not in range(1, version + 1):
        raise InvalidTokenizer(
            f"{called or directory} has format version {manifest.get('format_version')!r}",
            f"expected version {version} or earlier",
            "upgrade bpeline",
        )
    return manifest
