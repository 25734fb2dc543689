"""Instructions that Numba has no words for: raw loads and stores, bits, atomics, AVX-512.

Addresses are int64, as ``array.ctypes.data`` gives them inside a kernel. Nothing here checks
bounds. Loads and stores are unaligned and little-endian, but for those that threads share, which
are aligned to eight bytes.

What a thread wrote before `store_release` is seen by every thread whose `load_acquire` finds the
value stored: so a record that is complete before its mark is set is never seen by halves. On
x86-64 both are plain moves that the compiler may not reorder; on ARM they are LDAR and STLR.
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
PADDING = 128  # readable bytes that must follow every text, so that no load needs a check

_I8, _I16, _I32, _I64 = map(ir.IntType, (8, 16, 32, 64))
_VECTOR = ir.VectorType(_I8, BLOCK)
Emit = Callable[..., Any]  # takes LLVM's builder and arguments, returns the result
NO_RESULT = ir.Constant(_I8.as_pointer(), None)  # as Numba wants it


def of_one(result: Any, argument: Any, emit: Emit) -> Any:
    """An intrinsic of one argument. `result`, `argument`: Numba's types."""

    @intrinsic
    def instruction(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return emit(builder, arguments[0])

        return result(argument), generate

    return instruction


def of_two(result: Any, first: Any, second: Any, emit: Emit) -> Any:
    """An intrinsic of two arguments."""

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

_DEFINED = ir.Constant(ir.IntType(1), 0)  # for zero as well: 64
# Index of the lowest set bit of a uint64.
trailing_zeros = of_one(types.int64, types.uint64, lambda llvm, mask: llvm.cttz(mask, _DEFINED))
# Number of set bits.
ones_in = of_one(types.int64, types.uint64, lambda llvm, mask: llvm.ctpop(mask))
# Number of zero bits above the highest one.
leading_zeros = of_one(types.int64, types.uint64, lambda llvm, mask: llvm.ctlz(mask, _DEFINED))


_I128 = ir.IntType(128)


def _fold(builder: Any, left: Any, right: Any) -> Any:
    product = builder.mul(builder.zext(left, _I128), builder.zext(right, _I128))
    upper = builder.lshr(product, ir.Constant(_I128, 64))
    return builder.xor(builder.trunc(product, _I64), builder.trunc(upper, _I64))


# Both halves of the 128-bit product of two uint64, one XOR the other.
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


# Write the 64, or 16, bytes at one address to another.
copy_block = _copier(_VECTOR)
copy_sixteen = _copier(_I128)


def range_mask(first: int, size: int, fold_case: bool = False) -> Any:
    """An intrinsic ``mask(address) -> uint64``: which of 64 bytes lie in [first, first+size)."""

    def emit(builder: Any, address: Any) -> Any:
        block = load_block(builder, address)
        if fold_case:
            block = builder.or_(block, filled(0x20))
        distance = builder.sub(block, filled(first))
        return builder.bitcast(builder.icmp_unsigned("<", distance, filled(size)), _I64)

    return of_one(types.uint64, types.int64, emit)


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
            offsets = (ir.Constant(_I64, offset) for offset in range(width))
            blocks = [load_block(builder, builder.add(arguments[0], at)) for at in offsets]
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


_KEEP_IN_NONE, _KEEP_IN_ALL_CACHES, _DATA = 0, 3, 1


def _prefetcher(*, for_writing: bool, keep: int = _KEEP_IN_ALL_CACHES) -> Any:
    hints = [ir.Constant(_I32, hint) for hint in (int(for_writing), keep, _DATA)]
    kind = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])

    def emit(builder: Any, address: Any) -> Any:
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [_I8.as_pointer()], kind)
        builder.call(prefetch, [pointer(builder, address, _I8), *hints])
        return NO_RESULT

    return of_one(types.void, types.int64, emit)


# Start loading the cache line at an int64 address. Any address is allowed. To write takes the line
# away from other processors, so what threads share is only ever asked for to be read.
prefetch = _prefetcher(for_writing=True)
prefetch_to_read = _prefetcher(for_writing=False)
# The same of what is looked at once and soon: the processor is asked not to let it take the place
# of other things in caches beyond the nearest one.
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


# The uint64 at an address; nothing that is read later was read before it.
load_acquire = of_one(types.uint64, types.int64, _load_acquire)
# Store a uint64; all that was written earlier is there before it.
store_release = of_two(types.void, types.int64, types.uint64, _store_release)
# Store a uint64 where zero is; whether this thread did it. One of many threads does.
take_if_zero = of_two(types.boolean, types.int64, types.uint64, _take)
# Add to an int64; what was there before. No two threads are told the same.
add_and_tell = of_two(types.int64, types.int64, types.int64, _add)


@intrinsic
def let_others_run(_typing_context: Any) -> Any:
    """Let another thread have the processor that waits for it, if there is one: ``sched_yield``.

    Who waits for a thread without it waits for the end of a time slice where both share one.
    """

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        by_name(builder, "sched_yield", _I32)
        return NO_RESULT

    return types.void(), generate


_NEEDED = ("aes", "avx512bw", "avx512dq", "avx512vbmi", "avx512vbmi2", "vaes")


def _has_simd() -> bool:
    """Whether the processor that kernels are compiled for has all the instructions."""
    told = numba.config.CPU_FEATURES
    if told is None:
        has = {name for name, there in binding.get_host_cpu_features().items() if there}
    else:
        has = {name.removeprefix("+") for name in told.split(",")}
    return bool(numba.config.ENABLE_AVX) and has.issuperset(_NEEDED)


HAS_SIMD = _has_simd()


def by_name(builder: Any, name: str, result: ir.Type, *arguments: Any) -> Any:
    """The result of a function of this name: of LLVM's, of the C library, or of Python's."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def looked_up(builder: Any, places: Any, low: Any, high: Any) -> Any:
    """Of 64 places, each below 128, what stands there in two vectors of 64 bytes."""
    return by_name(builder, "llvm.x86.avx512.vpermi2var.qi.512", places.type, low, places, high)


# Bits of a bitmap: uint64, 64 places in each.
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
