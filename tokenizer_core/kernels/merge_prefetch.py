"""Asking for memory before it is needed; changes no result, only how long one waits for it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I32 = ir.IntType(32)
_FOR_WRITING, _KEEP_IN_ALL_CACHES, _DATA = 1, 3, 1


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Start loading the cache line at an int64 address. Any address is allowed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        hints = (_FOR_WRITING, _KEEP_IN_ALL_CACHES, _DATA)
        builder.call(instruction, [pointer, *(ir.Constant(_I32, hint) for hint in hints)])
        return context.get_dummy_value()

    return types.void(types.int64), generate
