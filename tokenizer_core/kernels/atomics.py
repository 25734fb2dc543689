"""Loads, stores and counters that threads share. Addresses are int64, aligned to eight bytes.

What a thread wrote before `store_release` is seen by every thread whose `load_acquire` finds the
value stored: so a record that is complete before its mark is set is never seen by halves. On
x86-64 both are plain moves that the compiler may not reorder; on ARM they are LDAR and STLR.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I64 = ir.IntType(64)


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _I64.as_pointer())


@intrinsic
def load_acquire(typing_context: Any, address: Any) -> Any:
    """The uint64 at an address; nothing that is read later was read before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_pointer(builder, arguments[0]), "acquire", 8, typ=_I64)

    return types.uint64(types.int64), generate


@intrinsic
def store_release(typing_context: Any, address: Any, value: Any) -> Any:
    """Store a uint64; all that was written earlier is there before it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


@intrinsic
def take_if_zero(typing_context: Any, address: Any, value: Any) -> Any:
    """Store a uint64 where zero is; whether this thread did it. One of many threads does."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(builder, arguments[0])
        zero = ir.Constant(_I64, 0)
        result = builder.cmpxchg(pointer, zero, arguments[1], "acq_rel", "monotonic")
        return builder.extract_value(result, 1)

    return types.boolean(types.int64, types.uint64), generate


@intrinsic
def add_and_tell(typing_context: Any, address: Any, amount: Any) -> Any:
    """Add to an int64; what was there before. No two threads are told the same."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(builder, arguments[0])
        return builder.atomic_rmw("add", pointer, arguments[1], "monotonic")

    return types.int64(types.int64, types.int64), generate
