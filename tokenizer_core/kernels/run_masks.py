"""Runs of characters as runs of bits: groups of three, and starts that later text refutes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpeline.tokenizer_core.kernels.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import leading_zeros, trailing_zeros

_0 = np.uint64(0)
_1 = np.uint64(1)
_6 = np.uint64(6)
_63 = np.uint64(63)
_NOWHERE = np.int64(-1)


@kernel
def groups_of_three(characters: Any, run_begins: Any, in_group: Any) -> Any:
    """Where groups of three numbers begin.

    Args:
        characters: first bytes of numbers.
        run_begins: those that begin a run.
        in_group: how many numbers the group at the end of the block before has.
    """
    begins = _0
    while characters:
        one = characters & (_0 - characters)
        characters ^= one
        if (one & run_begins) or in_group == 3:
            begins |= one
            in_group = np.int64(0)
        in_group += np.int64(1)
    return begins, in_group


@kernel
def refuted_runs(
    block: Any, runs: Any, begins: Any, refuting: Any, pending: Any, starts: Any
) -> Any:
    """Which runs start no pre-token after all, because of the character behind them.

    A run that reaches the end of the block stays marked and is *pending* until a later block
    decides.

    Args:
        block: position of the block.
        runs: bytes of the runs.
        begins: first bytes of the runs in question that begin in this block.
        refuting: bytes which, directly behind a run, refute its start.
        pending: position of the run in question that began in an earlier block, or -1; refuted
            here, it is taken out of ``starts``.

    Returns:
        The bits of ``begins`` that are refuted, and the new pending position.
    """
    earlier = pending
    undecided = begins
    taken_back = _0
    if pending >= 0:
        if runs & _1:
            undecided |= _1
        else:
            if refuting & _1:
                unmark(pending, starts)
            earlier = _NOWHERE
    refuted = (runs + undecided) & ~runs & refuting
    while refuted:
        k = trailing_zeros(refuted)
        refuted &= refuted - _1
        begin = _63 - np.uint64(leading_zeros(undecided & ((_1 << np.uint64(k)) - _1)))
        if begin == _0 and earlier >= 0:
            unmark(earlier, starts)
        else:
            taken_back |= _1 << begin
    pending = _NOWHERE
    if runs >> _63:
        begin = np.uint64(64 - leading_zeros(~runs))
        if (undecided >> begin) & _1:
            pending = earlier if begin == _0 and earlier >= 0 else block + np.int64(begin)
    return taken_back, pending


@kernel
def unmark(position: Any, starts: Any) -> None:
    starts[np.uint64(position) >> _6] &= ~(_1 << (np.uint64(position) & _63))
