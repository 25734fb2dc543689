"""Runs of characters as runs of bits: what several patterns ask of them."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.addresses import leading_zeros, trailing_zeros
from bpeline.tokenizer_core.kernels.memory.bitmaps import unmark
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, U64s

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_63 = np.uint64(63)
_NOWHERE = np.int64(-1)


@kernel
def groups_of_three(characters: U64, run_begins: U64, in_group: I64) -> tuple[U64, I64]:
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
def number_begins(
    numbers: U64, numbers_before: U64, continued: U64, digits: I64, in_group: I64
) -> tuple[U64, I64]:
    """Where groups of ``digits`` numbers (1 or 3) begin, and ``in_group`` for the next block."""
    begins = numbers & ~((numbers << _1) | numbers_before)
    two = numbers & (numbers << _1)
    if digits == 1:
        begins = numbers & ~continued
    elif (two & (two << _2)) | (numbers & (continued | numbers_before)):
        begins, in_group = groups_of_three(numbers & ~continued, begins, in_group)
    elif numbers >> _63:
        in_group = leading_zeros(~numbers)
    return begins, in_group


@kernel
def whole_characters(firsts: U64, before: U64, more: U64) -> U64:
    """The characters that begin at ``firsts``, with ``more`` of their bytes.

    Args:
        before: whether the last byte of the block before belongs to such a character.
        more: continuation bytes.
    """
    bytes_ = firsts
    if more:
        bytes_ |= ((bytes_ << _1) | before) & more
        bytes_ |= (bytes_ << _1) & more
        bytes_ |= (bytes_ << _1) & more
    return bytes_


@kernel
def refuted_runs(
    block: I64, runs: U64, begins: U64, refuting: U64, pending: I64, starts: U64s
) -> tuple[U64, I64]:
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
                unmark(starts, pending)
            earlier = _NOWHERE
    refuted = (runs + undecided) & ~runs & refuting
    while refuted:
        k = trailing_zeros(refuted)
        refuted &= refuted - _1
        begin = _63 - np.uint64(leading_zeros(undecided & ((_1 << np.uint64(k)) - _1)))
        if begin == _0 and earlier >= 0:
            unmark(starts, earlier)
        else:
            taken_back |= _1 << begin
    pending = _NOWHERE
    if runs >> _63:
        begin = np.uint64(64 - leading_zeros(~runs))
        if (undecided >> begin) & _1:
            pending = earlier if begin == _0 and earlier >= 0 else block + np.int64(begin)
    return taken_back, pending
