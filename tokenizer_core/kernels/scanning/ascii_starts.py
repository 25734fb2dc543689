"""Where pre-tokens of ASCII text start, 64 bytes at a time; knows no other characters.

Each byte is looked at with the one before and the one behind it, so that nothing is carried from
one block to the next. By AVX-512 alone: elsewhere no block is done here, and `class_masks` tells
runs of characters apart.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.memory.addresses import BLOCK, filled, load_block
from bpeline.tokenizer_core.kernels.memory.simd import looked_up

_I64 = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), BLOCK)
_LETTER, _NUMBER, _OTHER, _WHITE, _SPACE, _CONTRACTED = (1 << bit for bit in range(6))
_CLASS = _LETTER | _NUMBER | _OTHER | _WHITE


def _facts_of(byte: int) -> int:
    character = chr(byte)
    if character.isalpha():
        return _LETTER | _CONTRACTED * (character in "sdmtlvr")
    if character.isdigit():
        return _NUMBER
    if character in "\t\n\v\f\r ":
        return _WHITE | _SPACE * (character == " ")
    return _OTHER


_FACTS = [_facts_of(byte) for byte in range(2 * BLOCK)]


def _with_neighbours(builder: Any, address: Any) -> list[Any]:
    """The 64 bytes before those at an address, these, and the ones behind: one further each."""
    steps = (ir.Constant(_I64, step) for step in (-1, 0, 1))
    return [load_block(builder, builder.add(address, step)) for step in steps]


@intrinsic
def is_ascii_around(_context: Any, address: Any) -> Any:
    """``is_ascii_around(address)``: whether 64 bytes, one before and one behind are all ASCII."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        before, here, behind = _with_neighbours(builder, arguments[0])
        some = builder.or_(builder.or_(before, here), behind)
        beyond = builder.bitcast(builder.icmp_signed("<", some, filled(0)), _I64)
        return builder.icmp_unsigned("==", beyond, ir.Constant(_I64, 0))

    return types.boolean(types.int64), generate


@intrinsic
def gpt2_starts(_context: Any, address: Any) -> Any:
    """``gpt2_starts(address)``: what `gpt2` says of 64 bytes, but for contractions.

    Args:
        address: int64, of bytes for which `is_ascii_around` holds.

    Returns:
        Two uint64: where pre-tokens start; which apostrophes stand before a letter that
        contractions begin with.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        low, high = (ir.Constant(_BYTES, _FACTS[at : at + BLOCK]) for at in (0, BLOCK))
        blocks = _with_neighbours(builder, arguments[0])
        before, here, behind = (looked_up(builder, block, low, high) for block in blocks)

        def has(facts: Any, wanted: int, some: str = "!=") -> Any:
            return builder.icmp_unsigned(some, builder.and_(facts, filled(wanted)), filled(0))

        first_of_run = has(builder.xor(before, here), _CLASS)
        starts = builder.and_(first_of_run, has(before, _SPACE, "=="))
        last_white = builder.and_(has(here, _WHITE), has(behind, _WHITE, "=="))
        apostrophes = builder.icmp_unsigned("==", blocks[1], filled(ord("'")))
        contracting = builder.and_(apostrophes, has(behind, _CONTRACTED))
        numbers = [
            builder.bitcast(bits, _I64) for bits in (builder.or_(starts, last_white), contracting)
        ]
        return context.make_tuple(builder, signature.return_type, numbers)

    return types.UniTuple(types.uint64, 2)(types.int64), generate
