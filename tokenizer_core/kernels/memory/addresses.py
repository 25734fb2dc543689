"""Intrinsics that Numba lacks: raw loads and stores, bits, atomics, AVX-512.

Addresses are int64, like ``array.ctypes.data`` in a kernel, and bounds are not checked. Loads and
stores are unaligned and little-endian; the atomic ones need an alignment of eight bytes.

`load_acquire` that reads a value also sees everything written before the `store_release` of that
value, so a record completed before its mark is set is never seen half written. On x86-64 both are
plain moves that the compiler may not reorder; on ARM they are LDAR and STLR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, U64s

BLOCK = 64  # bytes that become one mask
PADDING = 128  # readable bytes that must follow every text, so that loads need no bounds check

_I8, _I16, _I32, _I64 = map(ir.IntType, (8, 16, 32, 64))
_VECTOR = ir.VectorType(_I8, BLOCK)
Emit = Callable[..., Any]  # takes the LLVM builder and the arguments, returns the result
NO_RESULT = ir.Constant(_I8.as_pointer(), None)  # what Numba expects from a void intrinsic


def of_one(result: Any, argument: Any, emit: Emit) -> Any:
    """An intrinsic of one argument; ``result`` and ``argument`` are Numba types."""

    @intrinsic
    def instruction(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return result(argument), generate

    return instruction


def of_two(result: Any, first: Any, second: Any, emit: Emit) -> Any:
    @intrinsic
    def instruction(typing_context: Any, one: Any, other: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, *arguments)

        return result(first, second), generate

    return instruction


def pointer(builder: Any, address: Any, pointed: ir.Type) -> Any:
    return builder.inttoptr(address, pointed.as_pointer())


def _loader(width: ir.Type, number: Any) -> Any:
    def emit(builder: Any, address: Any) -> Any:
        return builder.load(pointer(builder, address, width), align=1, typ=width)

    return of_one(number, types.int64, emit)


def _storer(width: ir.Type, number: Any) -> Any:
    def emit(builder: Any, address: Any, value: Any) -> Any:
        builder.store(value, pointer(builder, address, width), align=1)
        return NO_RESULT

    return of_two(types.void, types.int64, number, emit)


load_u8 = _loader(_I8, types.uint8)
load_u16 = _loader(_I16, types.uint16)
load_u32 = _loader(_I32, types.uint32)
load_u64 = _loader(_I64, types.uint64)
store_u8 = _storer(_I8, types.uint8)
store_u16 = _storer(_I16, types.uint16)
store_u32 = _storer(_I32, types.uint32)
store_u64 = _storer(_I64, types.uint64)

_DEFINED = ir.Constant(ir.IntType(1), 0)  # the result for zero is defined: 64
# Index of the lowest set bit of a uint64.
trailing_zeros = of_one(types.int64, types.uint64, lambda llvm, mask: llvm.cttz(mask, _DEFINED))
ones_in = of_one(types.int64, types.uint64, lambda llvm, mask: llvm.ctpop(mask))
# Number of zero bits above the highest one.
leading_zeros = of_one(types.int64, types.uint64, lambda llvm, mask: llvm.ctlz(mask, _DEFINED))


_I128 = ir.IntType(128)


def _fold(builder: Any, left: Any, right: Any) -> Any:
    product = builder.mul(builder.zext(left, _I128), builder.zext(right, _I128))
    upper = builder.lshr(product, ir.Constant(_I128, 64))
    return builder.xor(builder.trunc(product, _I64), builder.trunc(upper, _I64))


# XOR of the two halves of the 128-bit product of two uint64.
folded_product = of_two(types.uint64, types.uint64, types.uint64, _fold)


def filled(value: int) -> Any:
    return ir.Constant(_VECTOR, [value] * BLOCK)


def load_block(builder: Any, address: Any) -> Any:
    return builder.load(pointer(builder, address, _VECTOR), align=1, typ=_VECTOR)


def _copier(width: ir.Type) -> Any:
    def emit(builder: Any, source: Any, target: Any) -> Any:
        copied = builder.load(pointer(builder, source, width), align=1, typ=width)
        builder.store(copied, pointer(builder, target, width), align=1)
        return NO_RESULT

    return of_two(types.void, types.int64, types.int64, emit)


# Copy 64 or 16 bytes from one address to another.
copy_block = _copier(_VECTOR)
copy_sixteen = _copier(_I128)


def range_mask(first: int, size: int, fold_case: bool = False) -> Any:
    """``mask(address) -> uint64``: which of 64 bytes are in [first, first + size)."""

    def emit(builder: Any, address: Any) -> Any:
        block = load_block(builder, address)
        if fold_case:
            block = builder.or_(block, filled(0x20))
        distance = builder.sub(block, filled(first))
        return builder.bitcast(builder.icmp_unsigned("<", distance, filled(size)), _I64)

    return of_one(types.uint64, types.int64, emit)


Sequence = tuple[tuple[int, int], ...]


def plane_masks(rows: list[tuple[Sequence, int, int]]) -> Any:
    """``masks(address) -> 4 × uint64``: where byte sequences begin, by class.

    The masks are the three bits of the class, lowest first, and whether any sequence begins.

    Args:
        rows: per sequence the lowest and highest value of up to three consecutive bytes, and the
            class (0 to 7) if its last byte is even and if it is odd. All sequences begin characters
            that are as long as the longest sequence.
    """
    width = max(len(sequence) for sequence, _, _ in rows)

    @intrinsic
    def masks(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            offsets = (ir.Constant(_I64, offset) for offset in range(width))
            blocks = [load_block(builder, builder.add(arguments[0], at)) for at in offsets]
            bits = ir.VectorType(ir.IntType(1), BLOCK)
            odd = builder.trunc(blocks[-1], bits)
            planes = [ir.Constant(bits, [0] * BLOCK)] * 4
            for sequence, even_class, odd_class in rows:
                matches = ir.Constant(bits, [1] * BLOCK)
                for block, (first, last) in zip(blocks, sequence, strict=False):
                    distance = builder.sub(block, filled(first))
                    inside = builder.icmp_unsigned("<=", distance, filled(last - first))
                    matches = builder.and_(matches, inside)
                for bit in range(3):
                    if not ((even_class | odd_class) >> bit) & 1:
                        continue
                    here = matches
                    if not (odd_class >> bit) & 1:
                        here = builder.and_(matches, builder.not_(odd))
                    elif not (even_class >> bit) & 1:
                        here = builder.and_(matches, odd)
                    planes[bit] = builder.or_(planes[bit], here)
                planes[3] = builder.or_(planes[3], matches)
            numbers = [builder.bitcast(plane, _I64) for plane in planes]
            return context.make_tuple(builder, signature.return_type, numbers)

        return types.UniTuple(types.uint64, 4)(types.int64), generate

    return masks


# LLVM compiles each to AVX-512, AVX2, SSE or NEON compares, depending on the processor.
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


_KEEP_IN_NONE, _KEEP_IN_ALL_CACHES, _DATA = 0, 3, 1


def _prefetcher(*, for_writing: bool, keep: int = _KEEP_IN_ALL_CACHES) -> Any:
    hints = [ir.Constant(_I32, hint) for hint in (int(for_writing), keep, _DATA)]
    kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])

    def emit(builder: Any, address: Any) -> Any:
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [_I8.as_pointer()], kind)
        builder.call(prefetch, [pointer(builder, address, _I8), *hints])
        return NO_RESULT

    return of_one(types.void, types.int64, emit)


# Start loading the cache line at any int64 address. `prefetch` (to write) takes the line away from
# other cores, so memory that threads share is only prefetched to read.
prefetch = _prefetcher(for_writing=True)
prefetch_to_read = _prefetcher(for_writing=False)
# For data that is used once and soon: a hint not to displace other data from the outer caches.
prefetch_non_temporal = _prefetcher(for_writing=False, keep=_KEEP_IN_NONE)


def _load_acquire(builder: Any, address: Any) -> Any:
    return builder.load_atomic(pointer(builder, address, _I64), "acquire", 8, typ=_I64)


def _store_release(builder: Any, address: Any, value: Any) -> Any:
    builder.store_atomic(value, pointer(builder, address, _I64), "release", 8)
    return NO_RESULT


def _take(builder: Any, address: Any, value: Any) -> Any:
    place, zero = pointer(builder, address, _I64), ir.Constant(_I64, 0)
    return builder.extract_value(builder.cmpxchg(place, zero, value, "acq_rel", "monotonic"), 1)


def _add(builder: Any, address: Any, amount: Any) -> Any:
    return builder.atomic_rmw("add", pointer(builder, address, _I64), amount, "monotonic")


# Load a uint64; no later read happens before it.
load_acquire = of_one(types.uint64, types.int64, _load_acquire)
# Store a uint64; every earlier write is visible before it.
store_release = of_two(types.void, types.int64, types.uint64, _store_release)
# Store a uint64 if the address holds zero. Returns True to exactly one of the competing threads.
take_if_zero = of_two(types.boolean, types.int64, types.uint64, _take)
# Add to an int64 atomically; returns the previous value.
add_and_tell = of_two(types.int64, types.int64, types.int64, _add)


@intrinsic
def let_others_run(_typing_context: Any) -> Any:
    """Yield the processor to a waiting thread: ``sched_yield``.

    Without it, a spinning thread that shares the core spins until its time slice ends.
    """

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        by_name(builder, "sched_yield", _I32)
        return NO_RESULT

    return types.void(), generate


_NEEDED = ("aes", "avx512bw", "avx512dq", "avx512vbmi", "avx512vbmi2", "vaes")


def _has_simd() -> bool:
    configured = numba.config.CPU_FEATURES
    if configured is None:
        has = {name for name, there in binding.get_host_cpu_features().items() if there}
    else:
        has = {name.removeprefix("+") for name in configured.split(",")}
    return bool(numba.config.ENABLE_AVX) and has.issuperset(_NEEDED)


HAS_SIMD = _has_simd()


def by_name(builder: Any, name: str, result: ir.Type, *arguments: Any) -> Any:
    """Call a function by name: of LLVM, the C library or Python."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def looked_up(builder: Any, places: Any, low: Any, high: Any) -> Any:
    """Look up 64 indices, each below 128, in two concatenated vectors of 64 bytes."""
    return by_name(builder, "llvm.x86.avx512.vpermi2var.qi.512", places.type, low, places, high)


# Bitmaps: uint64, 64 places each.
_0, _1, _6, _63 = np.uint64(0), np.uint64(1), np.uint64(6), np.uint64(63)


@kernel
def mark(bitmap: U64s, place: I64) -> None:
    bitmap[np.uint64(place) >> _6] |= _1 << (np.uint64(place) & _63)


@kernel
def unmark(bitmap: U64s, place: I64) -> None:
    bitmap[np.uint64(place) >> _6] &= ~(_1 << (np.uint64(place) & _63))


@kernel
def is_marked(bitmap: U64s, place: I64) -> bool:
    return (bitmap[np.uint64(place) >> _6] >> (np.uint64(place) & _63)) & _1 != _0
