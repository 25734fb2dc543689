"""Entry kernels: one signature each, the declared one; other versions of Numba, other machines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fresh_python import output_of
from numba import types

from bpeline.tokenizer_core.kernels.compiling import machine_code
from bpeline.tokenizer_core.kernels.compiling.compilation import (
    IS_PLAIN,
    compile_declared,
    entry_kernel,
    entry_kernels,
    kernel,
)
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    U64,
    I64Rows,
    I64s,
    Int,
    ReadOnlyU8s,
    U8s,
    signature_of,
)
from bpeline.tokenizer_core.kernels.scanning.find_passages import fingerprint_spans
from bpeline.tokenizer_core.kernels.tables.hashing import scrambled
from bpeline.tokenizer_core.warm_up import modules_of_kernels

ENTRIES = [one for name in modules_of_kernels() for one in entry_kernels(import_module(name))]


with_tricks = pytest.mark.skipif(IS_PLAIN, reason="only what is private to Numba refuses types")


class Pair(NamedTuple):
    rows: I64Rows
    width: int


@kernel
def _twice(number: Int) -> Int:
    return number + number


@entry_kernel
def _first_or_number(content: ReadOnlyU8s, number: I64, doubled: bool) -> I64:
    if len(content) > 0:
        return np.int64(content[0])
    return _twice(number) if doubled else number


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels of this file are kept by their lines: not longer than a test."""
    monkeypatch.setenv("BPELINE_KERNEL_CACHE", str(tmp_path))
    machine_code._found.cache_clear()
    yield
    machine_code._found.cache_clear()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: str(one.py_func.__name__))
def test_every_entry_kernel_declares_what_it_takes_and_gives(entry: Any) -> None:
    declared = signature_of(entry.py_func)
    assert entry.py_func.__defaults__ is None
    assert len(declared.dtypes) == entry.py_func.__code__.co_argcount


def test_annotations_are_numbas_types() -> None:
    def declared(text: U8s, pair: Pair, bits: U64, found: bool) -> tuple[I64, float]:
        raise NotImplementedError

    declared.__annotations__ = {
        "text": U8s, "pair": Pair, "bits": U64, "found": bool, "return": tuple[I64, float],
    }  # fmt: skip
    signature = signature_of(declared)
    pair = Pair(np.zeros((1, 2), np.int64), 1)
    given = np.zeros(1, np.uint8), pair, np.uint64(1), True
    assert signature.types_of(given) == signature.dtypes
    assert signature.returned == types.Tuple((types.int64, types.float64))


@pytest.mark.parametrize("unsaid", [Int, tuple[U64, ...], None.__class__ | int, list[int]])
def test_what_declares_no_dtype_is_named(unsaid: object) -> None:
    def vague(text: U8s, size: I64) -> None:
        raise NotImplementedError

    vague.__annotations__ = {"text": U8s, "size": unsaid, "return": None}
    with pytest.raises(TypeError, match=r"\bsize\b.*\.vague"):
        signature_of(vague)
    del vague.__annotations__["size"]
    with pytest.raises(TypeError, match="None"):
        signature_of(vague)


@with_tricks
@pytest.mark.night
@pytest.mark.usefixtures("own_cache")
def test_other_types_are_refused_by_the_name_of_the_argument() -> None:
    entry: Any = _first_or_number
    empty = np.zeros(0, np.uint8)
    for _ in range(2):  # before it is compiled, and after
        with pytest.raises(TypeError, match=r"\bnumber\b"):
            entry(empty, 1.5, False)
        with pytest.raises(TypeError, match=r"_first_or_number .*\bcontent\b"):
            entry(empty.astype(np.uint16), 1, False)
        with pytest.raises(TypeError, match=r"\bcontent\b.*array\(uint8, 1d, A"):
            entry(np.zeros(4, np.uint8)[::2], 1, False)
        with pytest.raises(TypeError, match=r"\bdoubled\b"):
            entry(empty, 1, 1)
        assert entry(empty, 7, False) == 7
        assert entry(empty, np.int64(7), True) == 14
    assert entry(np.frombuffer(b"a", np.uint8), 7, False) == ord("a")
    assert entry(np.full(1, 9, np.uint8), 7, False) == 9
    assert len(entry.signatures) == 1


@with_tricks
def test_python_calls_entry_kernels_only() -> None:
    with pytest.raises(TypeError, match=r"kernels\.tables\.hashing\.scram"):
        scrambled(np.uint64(1))


@pytest.mark.night
@pytest.mark.usefixtures("own_cache")
def test_kernels_are_compiled_when_asked_to() -> None:
    @entry_kernel
    def first(numbers: I64s) -> I64:
        return numbers[0]

    first.py_func.__annotations__ = {"numbers": I64s, "return": I64}  # type: ignore[attr-defined]
    assert first.signatures == []  # type: ignore[attr-defined]
    compile_declared(first)
    assert first.signatures == [(types.int64[::1],)]  # type: ignore[attr-defined]
    assert first(np.array([3, 4])) == 3


UNTRIED = """
import sys, warnings
import numba
numba.__version__ = sys.argv[1]
import numpy
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from bpeline.tokenizer_core.kernels.scanning.find_passages import fingerprint_spans
prints = numpy.zeros(1, numpy.uint64)
fingerprint_spans(numpy.arange(64, dtype=numpy.uint8), numpy.array([[0, 20]]), prints)
from bpeline.tokenizer_core.kernels.compiling.compilation import compile_declared
compile_declared(fingerprint_spans)
print(prints[0], len(fingerprint_spans.signatures))
print([str(one.message) for one in caught if one.category is RuntimeWarning])
print([name for name in sys.modules if name.endswith("private_numba")])
"""


@pytest.mark.night
@pytest.mark.parametrize(
    ("version", "switch", "private"),
    [("0.68.9", "0", 1), ("0.68.9", "1", 0), ("0.67.1", "", 0), ("0.70.0rc1", "", 0)],
)
def test_other_versions_and_a_switch_mean_public_functions_of_numba_alone(
    version: str, switch: str, private: int
) -> None:
    printed = output_of(UNTRIED, version, BPELINE_PLAIN_NUMBA=switch)
    prints, said, modules = printed.splitlines()
    expected = np.zeros(1, np.uint64)
    fingerprint_spans(np.arange(64, dtype=np.uint8), np.array([[0, 20]]), expected)
    assert prints == f"{expected[0]} 1"
    assert said.startswith("[]" if switch else f"['Numba {version}")
    assert modules.count("private_numba") == private


MACHINE = """
import numpy, numba, sys, os, struct
exec(sys.argv[1])
from bpeline.tokenizer_core.kernels.memory import types
"""


@pytest.mark.parametrize(
    ("unlike", "says"),
    [
        ("sys.byteorder = 'big'", "big-endian"),
        ("struct.calcsize = lambda kind: 4", "32 bits"),
    ],
)
def test_other_machines_are_refused(unlike: str, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MACHINE, unlike], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "BpelineError" in done.stderr
    assert says in done.stderr
