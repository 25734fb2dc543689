"""Masks of 64 bytes: classes of characters, starts, runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory import addresses as memory
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, Int, Masks, U64s
from bpeline.tokenizer_core.kernels.scanning.classes import classes_by_page, classes_by_range

# Not inlined, so that the code for ASCII stays small enough to be inlined.
_beyond_ascii = classes_by_page if memory.HAS_SIMD else classes_by_range

_0 = np.uint64(0)
_1 = np.uint64(1)


@kernel
def class_masks(address: I64, valid: U64, straddling: Masks, table: I64) -> tuple[Any, ...]:
    """Masks of the classes of characters in 64 bytes of UTF-8.

    Args:
        valid: uint64, the bytes to use; all others are 0 in every mask.
        straddling: three masks, bytes of characters that began in the block before.
        table: address of `class_table`.

    Returns:
        letters, numbers, white space, marks, capitals beyond ASCII (upper and title case), small
        letters beyond ASCII, continuation bytes (all of the block), and ``straddling`` for the next
        block (at most its first three bytes).
    """
    low = (memory.mask_ascii_digits(address) & valid) | straddling[0]
    middle = (
        (memory.mask_spaces(address) | memory.mask_ascii_controls(address)) & valid
    ) | straddling[1]
    high = (memory.mask_ascii_letters(address) & valid) | straddling[2]
    non_ascii = memory.mask_non_ascii(address) & valid
    if not non_ascii:
        return high, low, middle, _0, _0, _0, _0, (_0, _0, _0)
    continued = memory.mask_continuations(address) & valid
    low, middle, high, straddling = _beyond_ascii(
        address, non_ascii & ~continued, low, middle, high, table
    )
    return (
        high,
        low & ~(middle | high),
        middle & ~(low | high),
        low & middle,
        low & high,
        middle & high,
        continued,
        straddling,
    )


@kernel
def mark_last_white(base: I64, block: I64, last_bytes: U64, before: U64, starts: U64s) -> None:
    """Mark white-space characters that end runs, except ASCII of this block.

    ``last_bytes`` are last bytes of characters of several bytes; ``before``: whether to mark the
    last character before the block too.
    """
    while last_bytes:
        k = memory.trailing_zeros(last_bytes)
        last_bytes &= last_bytes - _1
        _mark_character(base, block + k, starts)
    if before:
        _mark_character(base, block - 1, starts)


@kernel
def _mark_character(base: I64, position: I64, starts: U64s) -> None:
    while memory.load_u8(base + position) & np.uint8(0xC0) == np.uint8(0x80):
        position -= 1
    memory.mark(starts, position)


@kernel
def contraction_width(address: I64, fold: Int) -> I64:
    """Length of the contraction ('s 'd 'm 't 'll 've 're) at an apostrophe, or 0.

    ``fold`` is 0x20 to accept capitals and U+017F, which folds to s; else 0.
    """
    second = memory.load_u8(address + 1)
    third = memory.load_u8(address + 2)
    if fold and second == np.uint8(0xC5) and third == np.uint8(0xBF):
        return np.int64(3)
    second |= fold
    third |= fold
    if second in (0x73, 0x64, 0x6D, 0x74):  # s d m t
        return np.int64(2)
    if second == 0x6C and third == 0x6C:  # ll
        return np.int64(3)
    if (second == 0x76 or second == 0x72) and third == 0x65:  # ve re
        return np.int64(3)
    return np.int64(0)


_2 = np.uint64(2)
_63 = np.uint64(63)
_NOWHERE = np.int64(-1)


@kernel
def groups_of_three(characters: U64, run_begins: U64, in_group: I64) -> tuple[U64, I64]:
    """Begins of groups of three numbers; and the size of the last group.

    ``characters`` are first bytes of numbers, ``run_begins`` those that begin a run, ``in_group``
    the size of the last group of the block before.
    """
    begins = _0
    while characters:
        bit = characters & (_0 - characters)
        characters ^= bit
        if (bit & run_begins) or in_group == 3:
            begins |= bit
            in_group = np.int64(0)
        in_group += np.int64(1)
    return begins, in_group


@kernel
def number_begins(
    numbers: U64, numbers_before: U64, continued: U64, digits: I64, in_group: I64
) -> tuple[U64, I64]:
    """Begins of groups of ``digits`` numbers (1 or 3); and the new ``in_group``."""
    begins = numbers & ~((numbers << _1) | numbers_before)
    two = numbers & (numbers << _1)
    if digits == 1:
        begins = numbers & ~continued
    elif (two & (two << _2)) | (numbers & (continued | numbers_before)):
        begins, in_group = groups_of_three(numbers & ~continued, begins, in_group)
    elif numbers >> _63:
        in_group = memory.leading_zeros(~numbers)
    return begins, in_group


@kernel
def whole_characters(firsts: U64, before: U64, more: U64) -> U64:
    """The bytes of characters that begin at ``firsts``; ``more``: continuation bytes.

    ``before``: whether the last byte of the block before belongs to such a character.
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
    """Find runs that start no pre-token, because of the character after them.

    A run that reaches the end of the block stays marked and is *pending* until a later block
    decides.

    Args:
        begins: first bytes of the runs in question that begin in this block.
        refuting: bytes that refute the start of a run directly before them.
        pending: position of the run in question that began in an earlier block, or -1; if refuted,
            its mark is removed from ``starts``.

    Returns:
        The refuted bits of ``begins``, and the new pending position.
    """
    earlier = pending
    undecided = begins
    refuted_begins = _0
    if pending >= 0:
        if runs & _1:
            undecided |= _1
        else:
            if refuting & _1:
                memory.unmark(starts, pending)
            earlier = _NOWHERE
    refuted = (runs + undecided) & ~runs & refuting
    while refuted:
        k = memory.trailing_zeros(refuted)
        refuted &= refuted - _1
        begin = _63 - np.uint64(memory.leading_zeros(undecided & ((_1 << np.uint64(k)) - _1)))
        if begin == _0 and earlier >= 0:
            memory.unmark(starts, earlier)
        else:
            refuted_begins |= _1 << begin
    pending = _NOWHERE
    if runs >> _63:
        begin = np.uint64(64 - memory.leading_zeros(~runs))
        if (undecided >> begin) & _1:
            pending = earlier if begin == _0 and earlier >= 0 else block + np.int64(begin)
    return refuted_begins, pending


_I64 = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), memory.BLOCK)
_LETTER, _NUMBER, _OTHER, _WHITE, _SPACE, _NEWLINE, _BLANK, _CONTRACTED = (
    1 << bit for bit in range(8)
)
_CLASS = _LETTER | _NUMBER | _OTHER | _WHITE


def _facts_of(byte: int, contracted: str) -> int:
    """Flags of an ASCII character; ``contracted`` are letters that begin contractions."""
    character = chr(byte)
    if character.isalpha():
        return _LETTER | _CONTRACTED * (character in contracted)
    if character.isdigit():
        return _NUMBER
    if character in "\n\r":
        return _WHITE | _NEWLINE
    if character in "\t\v\f ":
        return _WHITE | _BLANK | _SPACE * (character == " ")
    return _OTHER


_SMALL = [_facts_of(byte, "sdmtlvr") for byte in range(2 * memory.BLOCK)]
_ANY_CASE = [_facts_of(byte, "sdmtlvrSDMTLVR") for byte in range(2 * memory.BLOCK)]


def _block_at(builder: Any, address: Any, step: int) -> Any:
    return memory.load_block(builder, builder.add(address, ir.Constant(_I64, step)))


def _facts_at(builder: Any, address: Any, steps: range, known: list[int]) -> list[Any]:
    low, high = (ir.Constant(_BYTES, known[at : at + memory.BLOCK]) for at in (0, memory.BLOCK))
    blocks = (_block_at(builder, address, step) for step in steps)
    return [memory.looked_up(builder, block, low, high) for block in blocks]


def _has(builder: Any, facts: Any, wanted: int) -> Any:
    return builder.icmp_unsigned("!=", builder.and_(facts, memory.filled(wanted)), memory.filled(0))


def _lacks(builder: Any, facts: Any, wanted: int) -> Any:
    return builder.icmp_unsigned("==", builder.and_(facts, memory.filled(wanted)), memory.filled(0))


def _all_of(builder: Any, *bits: Any) -> Any:
    return functools.reduce(builder.and_, bits)


def _contracting(builder: Any, address: Any, behind: Any) -> Any:
    here = _block_at(builder, address, 0)
    apostrophes = builder.icmp_unsigned("==", here, memory.filled(ord("'")))
    return builder.and_(apostrophes, _has(builder, behind, _CONTRACTED))


def _masks(number: int, emit: Callable[[Any, Any], list[Any]]) -> Any:
    @intrinsic
    def masks(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = [ir.Constant(_I64, 0)] * number
            if memory.HAS_SIMD:
                numbers = [builder.bitcast(bits, _I64) for bits in emit(builder, arguments[0])]
            return context.make_tuple(builder, signature.return_type, numbers)

        return types.UniTuple(types.uint64, number)(types.int64), generate

    return masks


@intrinsic
def is_ascii_around(_context: Any, address: Any) -> Any:
    """Whether 64 bytes, two before and one after are ASCII; always False without SIMD."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not memory.HAS_SIMD:
            return ir.Constant(ir.IntType(1), 0)
        blocks = [_block_at(builder, arguments[0], step) for step in (-2, 1)]
        some = builder.or_(*blocks)
        beyond = builder.bitcast(builder.icmp_signed("<", some, memory.filled(0)), _I64)
        return builder.icmp_unsigned("==", beyond, ir.Constant(_I64, 0))

    return types.boolean(types.int64), generate


def _of_gpt2(builder: Any, address: Any) -> list[Any]:
    before, here, after = _facts_at(builder, address, range(-1, 2), _SMALL)
    first_of_run = _has(builder, builder.xor(before, here), _CLASS)
    starts = builder.and_(first_of_run, _lacks(builder, before, _SPACE))
    last_white = builder.and_(_has(builder, here, _WHITE), _lacks(builder, after, _WHITE))
    return [builder.or_(starts, last_white), _contracting(builder, address, after)]


# ``gpt2_starts(address)``, if `is_ascii_around`: starts of pre-tokens of `gpt2` except for
# contractions; and apostrophes before a letter that begins contractions.
gpt2_starts = _masks(2, _of_gpt2)


def _of_cl100k(builder: Any, address: Any) -> list[Any]:
    earlier, before, here, after = _facts_at(builder, address, range(-2, 2), _ANY_CASE)
    letters, others, white, blanks, newlines, numbers = (
        _has(builder, here, wanted)
        for wanted in (_LETTER, _OTHER, _WHITE, _BLANK, _NEWLINE, _NUMBER)
    )
    others_start = builder.and_(others, _lacks(builder, before, _OTHER | _SPACE))
    alone = builder.and_(_has(builder, before, _OTHER), _lacks(builder, earlier, _OTHER | _SPACE))
    letters_start = _all_of(
        builder, letters, _lacks(builder, before, _LETTER | _BLANK), builder.not_(alone)
    )
    last_blank = builder.and_(blanks, _lacks(builder, after, _WHITE))
    starts = builder.or_(builder.or_(others_start, letters_start), last_blank)
    return [
        starts,
        builder.and_(white, _lacks(builder, before, _WHITE)),
        builder.and_(blanks, _has(builder, before, _NEWLINE)),
        blanks,
        newlines,
        builder.and_(newlines, _has(builder, before, _OTHER)),
        numbers,
        _contracting(builder, address, after),
    ]


# ``cl100k_starts(address)``, the same for `cl100k`: starts of runs of letters and of others, and
# blanks (white space except newlines) that end a run of white space; first white space of runs;
# blanks after newlines; blanks; newlines; newlines after others; numbers; apostrophes as above.
cl100k_starts = _masks(8, _of_cl100k)
