"""Where pre-tokens of ASCII text start, 64 bytes at a time; knows no other characters.

Each byte is looked at with its neighbours, so that little is carried from one block to the next.
By AVX-512 alone: elsewhere `is_ascii_around` is never true, and `class_masks` tells runs apart.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.memory.addresses import BLOCK, filled, load_block
from bpeline.tokenizer_core.kernels.memory.simd import HAS_SIMD, looked_up

_I64 = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), BLOCK)
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


_SMALL = [_facts_of(byte, "sdmtlvr") for byte in range(2 * BLOCK)]
_ANY_CASE = [_facts_of(byte, "sdmtlvrSDMTLVR") for byte in range(2 * BLOCK)]


def _block_at(builder: Any, address: Any, step: int) -> Any:
    return load_block(builder, builder.add(address, ir.Constant(_I64, step)))


def _facts_at(builder: Any, address: Any, steps: range, known: list[int]) -> list[Any]:
    """The facts of 64 bytes, for each step so many bytes further."""
    low, high = (ir.Constant(_BYTES, known[at : at + BLOCK]) for at in (0, BLOCK))
    blocks = (_block_at(builder, address, step) for step in steps)
    return [looked_up(builder, block, low, high) for block in blocks]


def _has(builder: Any, facts: Any, wanted: int) -> Any:
    return builder.icmp_unsigned("!=", builder.and_(facts, filled(wanted)), filled(0))


def _lacks(builder: Any, facts: Any, wanted: int) -> Any:
    return builder.icmp_unsigned("==", builder.and_(facts, filled(wanted)), filled(0))


def _all_of(builder: Any, *bits: Any) -> Any:
    return functools.reduce(builder.and_, bits)


def _contracting(builder: Any, address: Any, behind: Any) -> Any:
    """Apostrophes before a letter that contractions begin with."""
    here = _block_at(builder, address, 0)
    apostrophes = builder.icmp_unsigned("==", here, filled(ord("'")))
    return builder.and_(apostrophes, _has(builder, behind, _CONTRACTED))


def _masks(number: int, emit: Callable[[Any, Any], list[Any]]) -> Any:
    """An intrinsic ``masks(address) -> number × uint64``."""

    @intrinsic
    def masks(_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers = [ir.Constant(_I64, 0)] * number
            if HAS_SIMD:
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
        if not HAS_SIMD:
            return ir.Constant(ir.IntType(1), 0)
        blocks = [_block_at(builder, arguments[0], step) for step in (-2, 1)]
        some = builder.or_(*blocks)
        beyond = builder.bitcast(builder.icmp_signed("<", some, filled(0)), _I64)
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
