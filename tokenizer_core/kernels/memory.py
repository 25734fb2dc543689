"""Raw loads, stores and bit operations that Numba has no words for. Nothing here checks bounds.

Addresses are int64, as ``array.ctypes.data`` gives them inside a kernel. Loads and stores are
unaligned and little-endian.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLOCK = 64  # bytes that become one mask
PADDING = 128  # readable bytes that must follow every text, so that no load needs a check

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_I8, BLOCK)


def _loader(width: ir.Type, number: Any) -> Any:
    @intrinsic
    def load(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(
                builder.inttoptr(arguments[0], width.as_pointer()), align=1, typ=width
            )

        return number(types.int64), generate

    return load


def _storer(width: ir.Type, number: Any) -> Any:
    @intrinsic
    def store(typing_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], width.as_pointer())
            builder.store(arguments[1], pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, number), generate

    return store


load_u8 = _loader(_I8, types.uint8)
load_u32 = _loader(_I32, types.uint32)
load_u64 = _loader(_I64, types.uint64)
store_u8 = _storer(_I8, types.uint8)
store_u32 = _storer(_I32, types.uint32)
store_u64 = _storer(_I64, types.uint64)


@intrinsic
def trailing_zeros(typing_context: Any, mask: Any) -> Any:
    """Index of the lowest set bit of a uint64 (64 for zero): C's ``__builtin_ctzll``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context: Any, mask: Any) -> Any:
    """Number of zero bits above the highest set bit of a uint64 (64 for zero)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def population_count(typing_context: Any, mask: Any) -> Any:
    """Number of set bits of a uint64: C's ``__builtin_popcountll``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def range_mask(first: int, size: int, fold_case: bool = False) -> Any:
    """An intrinsic ``mask(address) -> uint64``: which of 64 bytes lie in [first, first+size)."""

    @intrinsic
    def mask(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], _VECTOR.as_pointer())
            block = builder.load(pointer, align=1, typ=_VECTOR)
            if fold_case:
                block = builder.or_(block, ir.Constant(_VECTOR, [0x20] * BLOCK))
            distance = builder.sub(block, ir.Constant(_VECTOR, [first] * BLOCK))
            inside = builder.icmp_unsigned("<", distance, ir.Constant(_VECTOR, [size] * BLOCK))
            return builder.bitcast(inside, _I64)

        return types.uint64(types.int64), generate

    return mask


Sequence = tuple[tuple[int, int], ...]


def plane_masks(rows: list[tuple[Sequence, int, int]]) -> Any:
    """An intrinsic ``masks(address) -> 4 × uint64``: where sequences of bytes begin, by class.

    Args:
        rows: for each sequence the lowest and the highest value of consecutive bytes, at most
            three; and the class (0 to 7) of what begins there if its last byte is even, if odd.
            All are characters of as many bytes as the longest sequence has.

    Returns:
        For 64 places the three bits of the class, lowest first, and whether any sequence begins.
    """
    width = max(len(sequence) for sequence, _, _ in rows)

    @intrinsic
    def masks(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def filled(value: int) -> Any:
                return ir.Constant(_VECTOR, [value] * BLOCK)

            blocks = []
            for offset in range(width):
                place = builder.add(arguments[0], ir.Constant(_I64, offset))
                pointer = builder.inttoptr(place, _VECTOR.as_pointer())
                blocks.append(builder.load(pointer, align=1, typ=_VECTOR))
            bits = ir.VectorType(ir.IntType(1), BLOCK)
            odd = builder.trunc(blocks[-1], bits)
            planes = [ir.Constant(bits, [0] * BLOCK)] * 4
            for sequence, even_class, odd_class in rows:
                found = ir.Constant(bits, [1] * BLOCK)
                for block, (first, last) in zip(blocks, sequence, strict=False):
                    distance = builder.sub(block, filled(first))
                    inside = builder.icmp_unsigned("<=", distance, filled(last - first))
                    found = builder.and_(found, inside)
                for bit in range(3):
                    if not ((even_class | odd_class) >> bit) & 1:
                        continue
                    here = found
                    if not (odd_class >> bit) & 1:
                        here = builder.and_(found, builder.not_(odd))
                    elif not (even_class >> bit) & 1:
                        here = builder.and_(found, odd)
                    planes[bit] = builder.or_(planes[bit], here)
                planes[3] = builder.or_(planes[3], found)
            numbers = [builder.bitcast(plane, _I64) for plane in planes]
            return context.make_tuple(builder, signature.return_type, numbers)

        return types.UniTuple(types.uint64, 4)(types.int64), generate

    return masks


# LLVM lowers each to AVX-512, AVX2, SSE or NEON compares, whatever the processor has.
mask_ascii_letters = range_mask(ord("a"), 26, fold_case=True)
mask_ascii_capitals = range_mask(ord("A"), 26)
mask_ascii_digits = range_mask(ord("0"), 10)
mask_ascii_controls = range_mask(0x09, 5)  # tab, line feed, vertical tab, form feed, return
mask_spaces = range_mask(0x20, 1)
mask_slashes = range_mask(0x2F, 1)
mask_apostrophes = range_mask(0x27, 1)
mask_carriage_returns = range_mask(0x0D, 1)
mask_line_feeds = range_mask(0x0A, 1)
mask_non_ascii = range_mask(0x80, 0x80)
mask_continuations = range_mask(0x80, 0x40)  # UTF-8 bytes 10xxxxxx


_KEEP_IN_ALL_CACHES, _DATA = 3, 1


def _prefetcher(for_writing: bool) -> Any:
    @intrinsic
    def prefetch(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
            kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
            instruction = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
            hints = (int(for_writing), _KEEP_IN_ALL_CACHES, _DATA)
            builder.call(instruction, [pointer, *(ir.Constant(_I32, hint) for hint in hints)])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return prefetch


# Start loading the cache line at an int64 address. Any address is allowed. To write takes the line
# away from other processors, so what threads share is only ever asked for to be read.
prefetch = _prefetcher(for_writing=True)
prefetch_to_read = _prefetcher(for_writing=False)
