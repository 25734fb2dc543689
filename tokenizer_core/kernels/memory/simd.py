"""The instructions of AVX-512 that LLVM has no words for, by name; knows no text and no table."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import binding, ir

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
    """The result of LLVM's intrinsic of this name."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def looked_up(builder: Any, places: Any, low: Any, high: Any) -> Any:
    """Of 64 places, each below 128, what stands there in two vectors of 64 bytes."""
    return by_name(builder, "llvm.x86.avx512.vpermi2var.qi.512", places.type, low, places, high)
