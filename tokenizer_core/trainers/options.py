"""Which options of training are accepted; knows nothing of words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.model import validate_tie_break

_BYTES = 256


def validate_options(
    merges: int,
    tie_break: str,
    min_count: int,
    min_word_count: int,
    max_token_bytes: int | None,
    every: int,
) -> None:
    """Refuse options out of range.

    Raises:
        InvalidOption: naming the option and what it may be.
    """
    validate_tie_break(tie_break)
    for name, value, least in (
        ("merges", merges, 0),
        ("min_count", min_count, 1),
        ("min_word_count", min_word_count, 1),
        ("max_token_bytes", 1 if max_token_bytes is None else max_token_bytes, 1),
        ("checkpoint_every", every, 1),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidOption(
                f"{name} is {value!r}",
                f"a whole number from {least} on",
                "the defaults are min_count=2, min_word_count=1, max_token_bytes=None, "
                "checkpoint_every=1000",
            )


def validate_given(given: NDArray[np.int32] | None, merges: int) -> None:
    """Refuse given merges that are no merges, or more than are wanted.

    Raises:
        InvalidOption: naming what they must be.
    """
    if given is None:
        return
    made = np.arange(_BYTES, _BYTES + len(given))[:, None]
    in_order = given.ndim == 2 and given.shape[1] == 2
    in_order = in_order and bool(np.all((given >= 0) & (given < made)))
    if not in_order or len(np.unique(given, axis=0)) != len(given):
        raise InvalidOption(
            "the given merges are not a list of different pairs of existing tokens",
            "an int32 array [n, 2]; row k, which makes token 256 + k, names two tokens below it",
            "take left and right of a LearnedMerges or a Checkpoint",
        )
    if len(given) > merges:
        raise InvalidOption(
            f"{len(given)} merges are given and only {merges} wanted",
            f"merges is {len(given)} or more",
            "a smaller vocabulary needs no training: keep the first merges",
        )
