"""The merges learned so far as one file that is whole or refused; knows nothing of learning.

Layout, little-endian: magic (8 bytes), format version (uint32), length of the header (uint32),
number of merges n (uint64), header (canonical JSON: the two digests and the number of base tokens),
left ids (int32 [n]), right ids (int32 [n]), counts when merged (int64 [n]), SHA-256 of all of that
(32 bytes).

The file before the last one is kept beside it, so whatever happens to the last one, at most the
work since the one before is lost.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import parse_json, read_file
from bpeline.tokenizer_core.digests import DIGEST_LENGTH, canonical_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

MAGIC = b"BPLMERGE"
FORMAT_VERSION = 1

_FRAME = struct.Struct("<8sIIQ")
_TRAILER = hashlib.sha256().digest_size
_BYTES_PER_MERGE = 4 + 4 + 8
_LONGEST_HEADER = 4096
_BYTES = 256


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """Merges in the numbering of training: base tokens first, then merges.

    Attributes:
        counts_digest: of the word counts they were learned from.
        settings_digest: of everything else that decides which merges are learned; not of how
            many, so one chain of checkpoints serves every vocabulary size.
        left, right: int32 [n].
        counts: int64 [n], each pair's count when it was merged.
        base_tokens: how many there are: 256 bytes, or the characters of the words.
    """

    counts_digest: str
    settings_digest: str
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    counts: NDArray[np.int64]
    base_tokens: int = _BYTES

    def __len__(self) -> int:
        return len(self.left)

    def require_same_run(self, counts_digest: str, settings_digest: str) -> None:
        """Refuse to be continued with other counts or settings.

        Raises:
            InvalidOption: either digest differs.
        """
        for what, ours, theirs, remedy in (
            ("word counts", self.counts_digest, counts_digest, "the same corpus and pattern"),
            (
                "settings",
                self.settings_digest,
                settings_digest,
                "the same algorithm, tie_break, min_count, min_word_count and other settings",
            ),
        ):
            if ours != theirs:
                raise InvalidOption(
                    f"the checkpoint was made with other {what}: {ours[:12]}…, now {theirs[:12]}…",
                    f"a checkpoint continues only with {remedy}; the vocabulary size may differ",
                    f"give {remedy}, or train from the beginning without resume_from",
                )


def previous_path(path: Path) -> Path:
    """Where the checkpoint before the last one is kept."""
    return path.with_name(path.name + ".previous")


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write ``checkpoint`` durably; the file that was there becomes `previous_path`.

    A broken file never displaces a whole one.

    Raises:
        DiskFull: no space; what was there can still be loaded.
    """
    if path.exists():
        try:
            _read(path)
        except CorruptFile:
            pass
        else:
            DURABLE.replace(path, previous_path(path))
    DURABLE.write(path, _encoded(checkpoint))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the last checkpoint, or the one before when the last is broken or missing.

    Raises:
        CorruptFile: neither is whole.
        InvalidOption: there is neither.
    """
    candidates = [place for place in (path, previous_path(path)) if place.is_file()]
    if not candidates:
        raise InvalidOption(
            f"there is no checkpoint at {path}",
            "resume_from takes a file that an earlier run wrote as its checkpoint",
            "check the path, or train from the beginning without resume_from",
        )
    for place in candidates[:-1]:
        try:
            return _read(place)
        except CorruptFile:
            continue
    return _read(candidates[-1])


def _encoded(checkpoint: Checkpoint) -> bytes:
    header = canonical_json(
        {
            "counts_digest": checkpoint.counts_digest,
            "settings_digest": checkpoint.settings_digest,
            "base_tokens": checkpoint.base_tokens,
        }
    )
    content = b"".join(
        (
            _FRAME.pack(MAGIC, FORMAT_VERSION, len(header), len(checkpoint)),
            header,
            checkpoint.left.astype("<i4").tobytes(),
            checkpoint.right.astype("<i4").tobytes(),
            checkpoint.counts.astype("<i8").tobytes(),
        )
    )
    return content + hashlib.sha256(content).digest()


def _read(path: Path) -> Checkpoint:
    try:
        content = read_file(path)
    except OSError as error:
        raise _corrupt(path, f"cannot be read ({error.strerror})") from error
    if len(content) < _FRAME.size + _TRAILER:
        raise _corrupt(path, f"ends after {len(content)} bytes")
    magic, version, header_length, merges = _FRAME.unpack_from(content)
    if magic != MAGIC:
        raise _corrupt(path, "does not begin as a checkpoint does")
    if version != FORMAT_VERSION:
        raise _corrupt(path, f"has format {version}; this program reads format {FORMAT_VERSION}")
    expected = _FRAME.size + header_length + merges * _BYTES_PER_MERGE + _TRAILER
    if header_length > _LONGEST_HEADER or len(content) != expected:
        raise _corrupt(path, f"holds {len(content)} bytes and declares {expected}")
    if hashlib.sha256(content[:-_TRAILER]).digest() != content[-_TRAILER:]:
        raise _corrupt(path, "fails its SHA-256")
    body = content[_FRAME.size : -_TRAILER]
    counts_digest, settings_digest, base = _described(path, body[:header_length])
    at = header_length
    left = np.frombuffer(body, "<i4", merges, at).astype(np.int32)
    right = np.frombuffer(body, "<i4", merges, at + 4 * merges).astype(np.int32)
    counts = np.frombuffer(body, "<i8", merges, at + 8 * merges).astype(np.int64)
    made = np.arange(base, base + merges)
    for ids in (left, right):
        if np.any((ids < 0) | (ids >= made)):
            raise _corrupt(path, "holds a merge of tokens that do not exist yet")
    return Checkpoint(counts_digest, settings_digest, left, right, counts, base)


def _described(path: Path, header: bytes) -> tuple[str, str, int]:
    try:
        fields = parse_json(header)
        digests = fields["counts_digest"], fields["settings_digest"]
        base = fields.get("base_tokens", _BYTES)
    except (ValueError, KeyError, TypeError) as error:
        raise _corrupt(path, "has a header that is not understood") from error
    if not all(isinstance(digest, str) and len(digest) == DIGEST_LENGTH for digest in digests):
        raise _corrupt(path, "has a header without digests")
    if type(base) is not int or not 0 <= base < 1 << 31:
        raise _corrupt(path, "has a header without a number of base tokens")
    return *digests, base


def _corrupt(path: Path, what: str) -> CorruptFile:
    return CorruptFile(
        f"the checkpoint {path} {what}",
        "a checkpoint is whole: written aside, synced and renamed",
        f"delete {path} and train again without resume_from",
    )
