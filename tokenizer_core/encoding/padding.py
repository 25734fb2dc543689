"""Sequences of ids of different lengths as one array and a mask; knows no tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import whole_number
from bpeline.tokenizer_core.errors import InvalidOption

_LONGEST = 1 << 31  # ids of a row
Side = Literal["left", "right"]


def pad(
    batch: Sequence[Sequence[int] | NDArray[Any]],
    max_length: int | None = None,
    pad_id: int = 0,
    pad_to: int | None = None,
    pad_side: Side = "right",
    cut_side: Side = "right",
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Cut and pad sequences of ids to one length.

    Args:
        batch: sequences of ids.
        max_length: longer sequences are cut to it; None cuts none.
        pad_id: what stands where a sequence has ended.
        pad_to: the length of the rows, at least; by default the longest sequence that is left.
        pad_side: on which side ids are added: ``right``, or ``left`` as generation wants it.
        cut_side: on which side ids are dropped.

    Returns:
        ids, uint32 ``[n, length]``; and a mask, bool ``[n, length]``: False where it is padding.

    Raises:
        InvalidOption: a negative length, ``pad_to`` above ``max_length``, another side, or a
            padding id that is no uint32.
    """
    if max_length is not None:
        max_length = whole_number("max_length", max_length, 0)
    if pad_to is not None:
        pad_to = whole_number("pad_to", pad_to, 0)
        if pad_to > _LONGEST:
            raise InvalidOption(f"pad_to is {pad_to}", f"0 to {_LONGEST}", "leave pad_to out")
    if max_length is not None and pad_to is not None and pad_to > max_length:
        raise InvalidOption(
            f"max_length is {max_length} and pad_to is {pad_to}",
            "lengths from 0 upwards, pad_to not above max_length",
            "leave pad_to out to pad to the longest sequence",
        )
    if not 0 <= whole_number("pad_id", pad_id, 0, "write pad_id=0") < 1 << 32:
        raise InvalidOption(f"pad_id is {pad_id}", "an id", "pad_id=0")
    for side in (pad_side, cut_side):
        if not isinstance(side, str) or side not in ("left", "right"):
            raise InvalidOption(f"a side is {side!r}", "accepted: 'left', 'right'", "leave it out")
    kept = [_cut(ids, max_length, cut_side) for ids in batch]
    length = max(map(len, kept), default=0)
    length = length if pad_to is None else max(length, pad_to)
    ids = np.full((len(kept), length), pad_id, np.uint32)
    mask = np.zeros((len(kept), length), np.bool_)
    for row, sequence in enumerate(kept):
        begin = length - len(sequence) if pad_side == "left" else 0
        ids[row, begin : begin + len(sequence)] = sequence
        mask[row, begin : begin + len(sequence)] = True
    return ids, mask


def _cut(
    ids: Sequence[int] | NDArray[Any], max_length: int | None, side: Side
) -> Sequence[int] | NDArray[Any]:
    if max_length is None or len(ids) <= max_length:
        return ids
    return ids[len(ids) - max_length :] if side == "left" else ids[:max_length]
