"""Loads, stores and counters that threads share, and how they wait for each other.

Addresses are int64, aligned to eight bytes.

What a thread wrote before `store_release` is seen by every thread whose `load_acquire` finds the
value stored: so a record that is complete before its mark is set is never seen by halves. On
x86-64 both are plain moves that the compiler may not reorder; on ARM they are LDAR and STLR.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from bpeline.tokenizer_core.kernels.memory.addresses import NO_RESULT, of_one, of_two, pointer

_I64 = ir.IntType(64)
_YIELD = "sched_yield"  # of the C library


def _load(builder: Any, address: Any) -> Any:
    return builder.load_atomic(pointer(builder, address, _I64), "acquire", 8, typ=_I64)


def _store(builder: Any, address: Any, value: Any) -> Any:
    builder.store_atomic(value, pointer(builder, address, _I64), "release", 8)
    return NO_RESULT


def _take(builder: Any, address: Any, value: Any) -> Any:
    place, zero = pointer(builder, address, _I64), ir.Constant(_I64, 0)
    return builder.extract_value(builder.cmpxchg(place, zero, value, "acq_rel", "monotonic"), 1)


def _add(builder: Any, address: Any, amount: Any) -> Any:
    return builder.atomic_rmw("add", pointer(builder, address, _I64), amount, "monotonic")


# The uint64 at an address; nothing that is read later was read before it.
load_acquire = of_one(types.uint64, types.int64, _load)
# Store a uint64; all that was written earlier is there before it.
store_release = of_two(types.void, types.int64, types.uint64, _store)
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
        answers = ir.FunctionType(ir.IntType(32), ())
        called = builder.module.globals.get(_YIELD)
        if called is None:
            called = ir.Function(builder.module, answers, _YIELD)
        builder.call(called, ())
        return NO_RESULT

    return types.void(), generate
