"""Vocab, merges and split automaton as a few hundred kilobytes of text inside a page.

Whole numbers in LEB128, section after section, then raw DEFLATE, then base64: `report.js` reads
them back. Bytes of tokens need not be sent: merges say them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.scanning.automaton import MOVE
from bpeline.tokenizer_core.vocabulary import BYTE_BPE

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer

_MOST_BYTES_OF_ONE = 9  # 63 bits
_LEVEL = 9


def packed_tokenizer(
    tokenizer: Tokenizer, by_id: Mapping[str, NDArray[np.int64]]
) -> dict[str, Any]:
    """Everything `report.js` needs to encode text and to show the vocab.

    Args:
        tokenizer: of any algorithm; only byte-level BPE is encoded with.
        by_id: numbers from 0 for every id, int64 ``[largest id + 1]``; sent under their names.

    Returns:
        ``about``, JSON values, and ``content``, the sections in base64.
    """
    over_bytes = tokenizer.algorithm == BYTE_BPE
    ids = np.array(sorted(tokenizer.vocab), np.int64)
    nothing = np.zeros(0, np.int64)
    left = right = results = byte_ids = nothing
    if over_bytes:
        left, right, results = tokenizer.merge_ids
        byte_ids = tokenizer.byte_pairs.byte_ids.astype(np.int64)
    others = np.setdiff1d(ids, np.concatenate([results, byte_ids]))
    tokens = [tokenizer.vocab[id_] for id_ in others.tolist()]
    sections = {
        "bytes": byte_ids,
        "left": left,
        "right": right,
        "results": _differences(results),
        "others": _differences(others),
        "otherLengths": np.fromiter(map(len, tokens), np.int64, len(tokens)),
        "otherBytes": np.frombuffer(b"".join(tokens), np.uint8).astype(np.int64),
        "ids": _differences(ids),
        **{name: values[ids] for name, values in by_id.items()},
    }
    automaton = tokenizer.pattern.automaton if over_bytes else None
    about: dict[str, Any] = {
        "special": {token: int(id_) for token, id_ in tokenizer.special_tokens.items()},
        "ignoreMerges": tokenizer.ignore_merges,
        "overBytes": over_bytes,
        "split": None,
    }
    if automaton is not None:
        columns = automaton.columns
        sections["classes"] = _runs(automaton.class_of_point)
        sections["rows"] = automaton.moves[..., 0].ravel().astype(np.int64) // (columns * MOVE)
        sections["flags"] = automaton.moves[..., 1].ravel().astype(np.int64)
        about["split"] = {
            "columns": int(columns),
            "lastLineFeed": int(automaton.last_line_feed),
            "end": int(automaton.end),
        }
    about["sections"] = {name: len(values) for name, values in sections.items()}
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    content = deflate.compress(b"".join(map(leb128, sections.values()))) + deflate.flush()
    return {"about": about, "content": base64.b64encode(content).decode()}


def leb128(values: NDArray[np.int64]) -> bytes:
    """Whole numbers from 0 as bytes of 7 bits each, the lowest first; 128 is added to all but the
    last of a number."""
    shifts = np.arange(_MOST_BYTES_OF_ONE) * 7
    rest = values[:, None] >> shifts
    septets = (rest & 127).astype(np.uint8)
    more = rest >> 7 > 0
    septets[more] |= 128
    needed = np.ones_like(more)
    needed[:, 1:] = more[:, :-1]
    return septets[needed].tobytes()


def _differences(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each number less the one before, signs in the lowest bit."""
    steps = np.diff(values, prepend=0)
    return np.where(steps < 0, -2 * steps - 1, 2 * steps)


def _runs(classes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Class and length of each run, alternating."""
    edges = np.flatnonzero(np.diff(classes)) + 1
    begins = np.concatenate([[0], edges])
    lengths = np.diff(np.concatenate([begins, [len(classes)]]))
    return np.stack([classes[begins].astype(np.int64), lengths], axis=1).ravel()
