"""Digests of values and files, and manifests that are sealed by one."""

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
# Made once: `json.dumps` makes one for each value, which takes as long as a short one does.
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
)


def digest_of_bytes(*parts: Any) -> str:
    """SHA-256 of the concatenated buffers, as 64 hexadecimal digits.

    Args:
        parts: anything with the buffer protocol (bytes, memoryview, contiguous NumPy arrays).
    """
    state = hashlib.sha256()
    for part in parts:
        state.update(part)
    return state.hexdigest()


class DocumentDigest:
    """Documents pass by, and what they were together is known afterwards.

    Attributes:
        documents, bytes: how much has passed.
    """

    def __init__(self) -> None:
        self.documents = self.bytes = 0
        self._state = hashlib.sha256()

    def watching(self, documents: Iterable[bytes]) -> Iterator[bytes]:
        """The same documents, one after the other."""
        for document in documents:
            self.documents += 1
            self.bytes += len(document)
            self._state.update(len(document).to_bytes(8, "little"))
            self._state.update(document)
            yield document

    @classmethod
    def of(cls, documents: Iterable[bytes]) -> DocumentDigest:
        """After all of them."""
        made = cls()
        for _ in made.watching(documents):
            pass
        return made

    @property
    def digest(self) -> str:
        """SHA-256 of the length (8 bytes, little-endian) and the bytes of each document."""
        return self._state.hexdigest()


def canonical_json(value: Any) -> bytes:
    """``value`` as UTF-8 JSON with sorted keys and no insignificant white space.

    Bytes are not JSON: callers write them as hexadecimal or through the printable mapping.
    NaN and infinities raise ``ValueError``.
    """
    return _CANONICAL.encode(value).encode()


def digest_of(value: Any) -> str:
    """Digest of a JSON value in canonical form."""
    return digest_of_bytes(canonical_json(value))


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON record with the digest of all that it says, by which damage to its file is seen."""
    values = json.loads(canonical_json(dict(record)))
    return {**record, SEAL: digest_of(values)}


def unsealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """What was sealed; a record without a seal is taken as it is, since older ones have none.

    Raises:
        ValueError: it does not say what was sealed.
    """
    if not isinstance(record, Mapping):
        raise ValueError("it is no record")
    values = dict(record)
    seal = values.pop(SEAL, None)
    if seal is not None and seal != digest_of(values):
        raise ValueError("it does not have the digest that it gives")
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
