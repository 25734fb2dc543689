"""What share of a text is exact copies, told by sections that were chosen by their content alone.

Held-out sections are such: equal ones are held out together, wherever they stand. So the copies
among them are the copies in the text, on a smaller scale. Reads no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning.fingerprint import fingerprint_spans
from bpeline.tokenizer_core.text import Text

_MOST_KEPT = (
    1 << 20
)  # distinct sections, of 24 bytes; of more, those with the smallest fingerprints
_TOGETHER = 1 << 12  # lists that are put together at once
_SEEN = np.dtype([("fingerprint", np.uint64), ("bytes", np.int64), ("times", np.int64)])


@dataclass(frozen=True, slots=True)
class CopiedSections:
    """Some sections of a text, and how many of them are exact copies of others of them.

    Attributes:
        sections, bytes: those that were looked at.
        copies, copied_bytes: those of which an equal one was seen before.
    """

    sections: int = 0
    bytes: int = 0
    copies: int = 0
    copied_bytes: int = 0

    @property
    def share(self) -> float:
        """Of the bytes."""
        return self.copied_bytes / self.bytes if self.bytes else 0.0


class SectionSample:
    """Sections by fingerprint, a bounded number of them; their order says nothing.

    Args:
        most: how many distinct ones are kept. Of more, those with the smallest fingerprints, each
            with all of its copies.
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._below: np.uint64 | None = None  # what was left out has this fingerprint or a higher
        self._seen = np.zeros(0, _SEEN)
        self._waiting: list[NDArray[np.void]] = []
        self._rows = 0

    def add(self, sections: Sequence[bytes]) -> None:
        """Look at some sections, a few MiB at most."""
        new = np.ones(len(sections), _SEEN)
        new["bytes"] = list(map(len, sections))
        ends = np.cumsum(new["bytes"])
        spans = np.ascontiguousarray(np.stack([ends - new["bytes"], ends], axis=1))
        fingerprints = np.empty(len(sections), np.uint64)
        fingerprint_spans(Text.of(b"".join(sections)).data, spans, fingerprints)
        new["fingerprint"] = fingerprints
        self._waiting.append(new if self._below is None else new[fingerprints < self._below])
        self._rows += len(self._waiting[-1])
        if self._rows > self._most or len(self._waiting) > _TOGETHER:
            self._put_together()

    def result(self) -> CopiedSections:
        """What was seen."""
        self._put_together()
        times, sizes = self._seen["times"], self._seen["bytes"]
        return CopiedSections(
            sections=int(times.sum()),
            bytes=int((times * sizes).sum()),
            copies=int((times - 1).sum()),
            copied_bytes=int(((times - 1) * sizes).sum()),
        )

    def _put_together(self) -> None:
        every = np.concatenate([self._seen, *self._waiting])
        distinct, first, place = np.unique(
            every["fingerprint"], return_index=True, return_inverse=True
        )
        times = np.zeros(len(distinct), np.int64)
        np.add.at(times, place, every["times"])
        self._seen = every[first]  # ascending
        self._seen["times"] = times
        if len(distinct) > self._most:
            self._below = distinct[self._most]
            self._seen = self._seen[: self._most].copy()
        self._waiting, self._rows = [], 0
