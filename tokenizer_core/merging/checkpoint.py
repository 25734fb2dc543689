"""Checkpoints of learned merges: file format, save schedule, progress reports."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

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
    """Merges in training ids: base tokens first, then merges.

    Attributes:
        counts_digest: digest of the word counts.
        settings_digest: digest of all other settings that decide the merges; not of their number,
            so one chain of checkpoints serves every vocabulary size.
        left, right: int32 [n].
        counts: int64 [n], each pair's count when it was merged.
        base_tokens: number of base tokens: 256 bytes, or the characters of the words.
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
        """Raise `InvalidOption` if the counts or settings differ from the checkpoint's."""
        for kind, ours, theirs, remedy in (
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
                    f"the checkpoint was made with other {kind}: {ours[:12]}…, now {theirs[:12]}…",
                    f"expected {remedy}; the vocabulary size may differ",
                    f"use {remedy}, or train from the beginning without resume_from",
                )


def previous_path(path: Path) -> Path:
    """Path of the checkpoint before the last one."""
    return path.with_name(path.name + ".previous")


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write ``checkpoint`` durably; the last valid file becomes `previous_path`."""
    if path.exists():
        try:
            _read(path)
        except CorruptFile:
            pass
        else:
            DURABLE.replace(path, previous_path(path))
    DURABLE.write(path, _encoded(checkpoint))


def load_checkpoint(path: Path) -> Checkpoint:
    """Read the last checkpoint; if it is broken or missing, the one before.

    Raises:
        CorruptFile: neither is valid. InvalidOption: neither exists.
    """
    candidates = [place for place in (path, previous_path(path)) if place.is_file()]
    if not candidates:
        raise InvalidOption(
            f"there is no checkpoint at {path}",
            "expected a file that an earlier run wrote as its checkpoint",
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
        raise _corrupt(path, "does not begin like a checkpoint")
    if version != FORMAT_VERSION:
        raise _corrupt(path, f"has format {version}; expected format {FORMAT_VERSION}")
    expected = _FRAME.size + header_length + merges * _BYTES_PER_MERGE + _TRAILER
    if header_length > _LONGEST_HEADER or len(content) != expected:
        raise _corrupt(path, f"has {len(content)} bytes instead of {expected}")
    if hashlib.sha256(content[:-_TRAILER]).digest() != content[-_TRAILER:]:
        raise _corrupt(path, "fails its SHA-256")
    body = content[_FRAME.size : -_TRAILER]
    counts_digest, settings_digest, base = _described(path, body[:header_length])
    at = header_length
    left = np.frombuffer(body, "<i4", merges, at).astype(np.int32)
    right = np.frombuffer(body, "<i4", merges, at + 4 * merges).astype(np.int32)
    counts = np.frombuffer(body, "<i8", merges, at + 8 * merges).astype(np.int64)
    merged_ids = np.arange(base, base + merges)
    for ids in (left, right):
        if np.any((ids < 0) | (ids >= merged_ids)):
            raise _corrupt(path, "holds a merge of tokens that do not exist yet")
    return Checkpoint(counts_digest, settings_digest, left, right, counts, base)


def _described(path: Path, header: bytes) -> tuple[str, str, int]:
    try:
        fields = parse_json(header)
        digests = fields["counts_digest"], fields["settings_digest"]
        base = fields.get("base_tokens", _BYTES)
    except (ValueError, KeyError, TypeError) as error:
        raise _corrupt(path, "has an invalid header") from error
    if not all(isinstance(digest, str) and len(digest) == DIGEST_LENGTH for digest in digests):
        raise _corrupt(path, "has a header without digests")
    if type(base) is not int or not 0 <= base < 1 << 31:
        raise _corrupt(path, "has a header without a number of base tokens")
    return *digests, base


def _corrupt(path: Path, what: str) -> CorruptFile:
    return CorruptFile(
        f"the checkpoint {path} {what}",
        "expected a complete checkpoint",
        f"delete {path} and train again without resume_from",
    )


_SECONDS = 1.0
_SHARE = 20  # after a write of t seconds, merge for at least 20 t seconds


class CheckpointSchedule:
    """Saves after every second or every so many merges, whichever comes first.

    On a slow disk saves are rarer: they take at most a twentieth of the time. With ``every`` = 1
    each merge is saved, however slow. ``blank`` is a checkpoint of this run without merges.
    """

    def __init__(self, path: Path, blank: Checkpoint, saved: int, every: int) -> None:
        self._path = path
        self._blank = blank
        self._every = every
        self._saved = saved
        self._saved_at = time.monotonic()
        self._writing_took = 0.0

    @property
    def next_stop(self) -> int:
        """The number of merges at which a checkpoint is due."""
        return self._saved + self._every

    def look(self, learned: NDArray[np.int64]) -> None:
        """Save ``learned`` ([n, 3]: left, right, count) if a checkpoint is due."""
        idle = time.monotonic() - self._saved_at
        due = len(learned) >= self.next_stop or idle >= _SECONDS
        if due and (self._every == 1 or idle >= _SHARE * self._writing_took):
            self.save(learned)

    def save(self, learned: NDArray[np.int64]) -> None:
        """Save ``learned`` unless the file already holds as many merges."""
        if len(learned) <= self._saved:
            return
        began = time.monotonic()
        left, right = learned[:, 0].astype(np.int32), learned[:, 1].astype(np.int32)
        counts = learned[:, 2].copy()
        save_checkpoint(self._path, replace(self._blank, left=left, right=right, counts=counts))
        self._saved, self._saved_at = len(learned), time.monotonic()
        self._writing_took = self._saved_at - began


_REPORT_SECONDS = 0.1
_MEMORY_OF_SPEED = 0.7  # weight of the earlier estimate of seconds per merge at each report


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of training; the numbers of merges include those of a checkpoint.

    Attributes:
        best_pair: (left, right) bytes of the last merge.
        best_count: its count when it was merged.
        seconds: since the first merge began.
        eta_seconds: estimated seconds to the last merge, at the recent speed.
    """

    merges_done: int
    merges_total: int
    best_pair: tuple[bytes, bytes]
    best_count: int
    seconds: float
    eta_seconds: float


OnProgress = Callable[[TrainingProgress], None]


class Merger(Protocol):
    """Interface of `MergeEngine` and `ParityEngine`."""

    base: int

    @property
    def merges_done(self) -> int:
        """Number of merges so far."""

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count when merged."""

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; return False if no pair is left before."""

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2] until there are ``goal``; goal ≤ n."""

    def token(self, token: int) -> bytes:
        """The bytes of a token."""


class Reporter:
    """Calls ``on_progress`` at most ten times a second, and once at the end."""

    def __init__(self, on_progress: OnProgress | None, engine: Merger, total: int) -> None:
        self._on_progress = on_progress
        self._engine = engine
        self._total = total
        self._began = self._reported = time.monotonic()
        self._reported_merges = engine.merges_done
        self._seconds_per_merge: float | None = None

    def look(self) -> None:
        if self._on_progress and time.monotonic() - self._reported >= _REPORT_SECONDS:
            self._report()

    def finish(self) -> None:
        if self._on_progress and self._engine.merges_done > self._reported_merges:
            self._report()

    def _report(self) -> None:
        assert self._on_progress is not None
        now, done = time.monotonic(), self._engine.merges_done
        if done > self._reported_merges:
            recent = (now - self._reported) / (done - self._reported_merges)
            earlier = recent if self._seconds_per_merge is None else self._seconds_per_merge
            self._seconds_per_merge = earlier + (1 - _MEMORY_OF_SPEED) * (recent - earlier)
        self._reported, self._reported_merges = now, done
        if done == 0:
            return
        left, right, count = self._engine.learned[-1].tolist()
        self._on_progress(
            TrainingProgress(
                merges_done=done,
                merges_total=self._total,
                best_pair=(self._engine.token(left), self._engine.token(right)),
                best_count=count,
                seconds=now - self._began,
                eta_seconds=(self._total - done) * (self._seconds_per_merge or 0.0),
            )
        )
