"""Masks of 64 bytes: characters, their starts, runs of a class."""

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

# A function of its own, so that what ASCII needs stays small enough to be inlined.
_beyond_ascii = classes_by_page if memory.HAS_SIMD else classes_by_range

_0 = np.uint64(0)
_1 = np.uint64(1)


@kernel
def class_masks(address: I64, valid: U64, straddling: Masks, table: I64) -> tuple[Any, ...]:
    """Masks of the classes of characters in the block at ``address``.

    Args:
        address: of 64 bytes of UTF-8.
        valid: uint64, which of them to look at; all others are 0 in every mask.
        straddling: three masks, bytes of characters that began in the block before.
        table: address of `class_table`.

    Returns:
        letters, numbers, white space, marks, capitals beyond ASCII (upper and title case), small
        letters beyond ASCII, continuation bytes (all of the block), and the three masks of the
        bytes that belong to the next block (at most its first three).
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
    """Mark the white-space characters that end at bytes other than one of this block's ASCII.

    Args:
        base: address of the text.
        block: position of the block.
        last_bytes: uint64, last bytes of characters that are several bytes long.
        before: uint64, whether the character that ends with the block before is meant too.
        starts: the bitmap.
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
    """Bytes of the contraction ('s 'd 'm 't 'll 've 're) at an apostrophe's ``address``, or 0.

    ``fold`` is 0x20 to take capitals too, and U+017F, which folds to s; 0 for small letters only.
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
        in_group = memory.leading_zeros(~numbers)
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
            taken_back |= _1 << begin
    pending = _NOWHERE
    if runs >> _63:
        begin = np.uint64(64 - memory.leading_zeros(~runs))
        if (undecided >> begin) & _1:
            pending = earlier if begin == _0 and earlier >= 0 else block + np.int64(begin)
    return taken_back, pending


_I64 = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), memory.BLOCK)
_LETTER, _NUMBER, _OTHER, _WHITE, _SPACE, _NEWLINE, _BLANK, _CONTRACTED = (
    1 << bit for bit in range(8)
)
_CLASS = _LETTER | _NUMBER | _OTHER | _WHITE


def _facts_of(byte: int, contracted: str) -> int:
    """What there is to know of a character; letters that contractions begin with are given."""
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
    """The facts of 64 bytes, for each step so many bytes further."""
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
    """Apostrophes before a letter that contractions begin with."""
    here = _block_at(builder, address, 0)
    apostrophes = builder.icmp_unsigned("==", here, memory.filled(ord("'")))
    return builder.and_(apostrophes, _has(builder, behind, _CONTRACTED))


def _masks(number: int, emit: Callable[[Any, Any], list[Any]]) -> Any:
    """An intrinsic ``masks(address) -> number × uint64``."""

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
    """``is_ascii_around(address)``: whether 64 bytes, two before and one behind are all ASCII.

    Never, where a processor has not the SIMD to go on with.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if not memory.HAS_SIMD:
            return ir.Constant(ir.IntType(1), 0)
        blocks = [_block_at(builder, arguments[0], step) for step in (-2, 1)]
        some = builder.or_(*blocks)
        beyond = builder.bitcast(builder.icmp_signed("<", some, memory.filled(0)), _I64)
        return builder.icmp_unsigned("==", beyond, ir.Constant(_I64, 0))

    return types.boolean(types.int64), generate


def _of_gpt2(builder: Any, address: Any) -> list[Any]:
    before, here, behind = _facts_at(builder, address, range(-1, 2), _SMALL)
    first_of_run = _has(builder, builder.xor(before, here), _CLASS)
    starts = builder.and_(first_of_run, _lacks(builder, before, _SPACE))
    last_white = builder.and_(_has(builder, here, _WHITE), _lacks(builder, behind, _WHITE))
    return [builder.or_(starts, last_white), _contracting(builder, address, behind)]


# ``gpt2_starts(address)``: what `gpt2` says of 64 bytes for which `is_ascii_around` holds, but for
# contractions: where pre-tokens start; which apostrophes stand before a letter that contractions
# begin with.
gpt2_starts = _masks(2, _of_gpt2)


def _of_cl100k(builder: Any, address: Any) -> list[Any]:
    earlier, before, here, behind = _facts_at(builder, address, range(-2, 2), _ANY_CASE)
    letters, others, white, blanks, newlines, numbers = (
        _has(builder, here, wanted)
        for wanted in (_LETTER, _OTHER, _WHITE, _BLANK, _NEWLINE, _NUMBER)
    )
    others_start = builder.and_(others, _lacks(builder, before, _OTHER | _SPACE))
    alone = builder.and_(_has(builder, before, _OTHER), _lacks(builder, earlier, _OTHER | _SPACE))
    letters_start = _all_of(
        builder, letters, _lacks(builder, before, _LETTER | _BLANK), builder.not_(alone)
    )
    last_blank = builder.and_(blanks, _lacks(builder, behind, _WHITE))
    starts = builder.or_(builder.or_(others_start, letters_start), last_blank)
    return [
        starts,
        builder.and_(white, _lacks(builder, before, _WHITE)),
        builder.and_(blanks, _has(builder, before, _NEWLINE)),
        blanks,
        newlines,
        builder.and_(newlines, _has(builder, before, _OTHER)),
        numbers,
        _contracting(builder, address, behind),
    ]


# ``cl100k_starts(address)``: the same of `cl100k`: where runs of letters and of others start, and
# which blanks (white space but newlines) are the last white space of a run; which white space is
# the first of a run; which blanks stand behind newlines; blanks; newlines; of them, those behind
# others; numbers; apostrophes before a letter that contractions begin with.
cl100k_starts = _masks(8, _of_cl100k)
