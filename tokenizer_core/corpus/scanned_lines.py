"""Lines of JSON scanned natively: their documents, and which lines are left; refuses none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.corpus.row_fields import id_as_json
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.json_lines import scan_json_lines
from bpeline.tokenizer_core.text import Text

_BYTES_PER_LINE = 64  # a first guess
_COLUMNS = 6
# Texts and numbers that `json.dumps` would write as they stand.
_AS_IT_IS = re.compile(rb'"[ !#-\[\]-~]*"|0|-?[1-9][0-9]*')


@dataclass(frozen=True, slots=True, eq=False)
class ScannedLines:
    """The lines of a chunk that are not blank.

    Attributes:
        raw: the chunk.
        lines: int64 ``[n, 2]``, where they stand in it.
        left: numbers of those that were not read: what `json` makes of them, or refuses, is not
            known yet.
    """

    raw: Text
    lines: NDArray[np.int64]
    left: NDArray[np.int64]
    _documents: Text  # of the others, each with a line feed behind it but the last
    _spans: NDArray[np.int64]
    _ids: NDArray[np.int64]

    @classmethod
    def of(
        cls, raw: Text, text_field: str, id_field: str, valid: int, most_parts: int
    ) -> ScannedLines:
        """Scan a chunk that begins and ends between lines.

        Args:
            text_field: the member that is the document.
            id_field: the member that names it; empty where nobody asks.
            valid: so many of the first bytes are known to be UTF-8.
            most_parts: commas and opening brackets of a line that is read here.
        """
        # No key that is UTF-8 equals a name that cannot be.
        text_name, id_name = (
            name.encode(errors="surrogatepass") for name in (text_field, id_field)
        )
        names = np.frombuffer(text_name + id_name or b"\0", np.uint8)
        sizes = len(text_name), len(id_name) if id_field else -1
        texts = np.empty(raw.size + PADDING, np.uint8)
        rows = np.empty((raw.size // _BYTES_PER_LINE + 1, _COLUMNS), np.int64)
        position = written = number = 0
        while position < raw.size:
            if number == len(rows):
                rows = np.concatenate((rows, np.empty_like(rows)))
            position, written, number = scan_json_lines(
                raw.data, raw.size, valid, names, *sizes, most_parts,
                position, texts, written, rows, number,
            )  # fmt: skip
        size = max(written - 1, 0)
        texts[size : size + PADDING] = 0
        rows = rows[:number]
        spans, lines, ids = (np.ascontiguousarray(rows[:, at : at + 2]) for at in (0, 2, 4))
        (left,) = np.nonzero(spans[:, 0] < 0)
        return cls(raw, lines, left, Text(texts[: size + PADDING], size), spans, ids)

    def with_documents(self, others: Mapping[int, bytes]) -> tuple[Text, NDArray[np.int64]]:
        """All documents, a line feed between them.

        Args:
            others: those of the lines that were left.

        Returns:
            Their text, and int64 ``[n, 2]``, where in it each stands.
        """
        if not others:
            return self._documents, self._spans
        sizes = self._spans[:, 1] - self._spans[:, 0]
        pieces = []
        begin = 0
        for number, document in others.items():
            pieces += self._between(begin, number)
            pieces.append(document)
            sizes[number] = len(document)
            begin = number + 1
        pieces += self._between(begin, len(sizes))
        ends = np.cumsum(sizes + 1) - 1
        return Text.of(b"\n".join(pieces)), np.stack((ends - sizes, ends), axis=1)

    def ids(self, others: Mapping[int, bytes]) -> tuple[bytes, ...]:
        """The ids of all lines, as `id_as_json` gives them.

        Args:
            others: those of the lines that were left.
        """
        content = self.raw.data.data
        found = []
        for number, (begin, end) in enumerate(self._ids.tolist()):
            if number in others:
                found.append(others[number])
                continue
            value = bytes(content[begin:end])
            if value and not _AS_IT_IS.fullmatch(value):
                value = id_as_json(json.loads(value.decode()))
            found.append(value)
        return tuple(found)

    def _between(self, first: int, last: int) -> list[bytes]:
        """The documents of lines that were read and have none between them that was left."""
        if first == last:
            return []
        return [self._documents.bytes(int(self._spans[first, 0]), int(self._spans[last - 1, 1]))]
