"""Where CPython keeps the items of a list, the value of a small int, and bytes; refuses to guess.

`array("I", ids)` takes 5.5 ns an id, through a function of the interpreter for each; a kernel that
reads the objects where they lie takes half a nanosecond. The offsets are those of ``PyListObject``,
``PyLongObject`` and ``PyBytesObject`` in CPython's ``Include/cpython/listobject.h``,
``longintrepr.h`` and ``bytesobject.h``, the same in all versions from 3.11 on whose objects are
counted under one lock. What marks an int as zero or as one digit (30 bits) long and positive
differs between versions: it is read off 0 and 1.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import sysconfig

OBJECT_TYPE = 8
LIST_SIZE = 16
LIST_ITEMS = 24  # address of the array of addresses
INT_TAG = 16
INT_VALUE = 24
BYTES_SIZE = 16
BYTES_BEGIN = 32

_NEWEST = (3, 14)  # whose layout was read
LAYOUT_UNKNOWN = (
    f"lists of ids are read item by item, as {sys.implementation.name} "
    f"{sys.version_info[0]}.{sys.version_info[1]} keeps them in a way that was not tried"
)


@functools.cache
def int_facts() -> tuple[int, int, int] | None:
    """Address of the type of ints, the tags of 0 and of 1; None where the layout is not known.

    The layout is tried on one list before it is believed.
    """
    if not _is_known():
        return None
    probe = [123_456_789, 0, 1]
    if _word(id(probe) + LIST_SIZE) != len(probe):
        return None
    items = _word(id(probe) + LIST_ITEMS)
    number, zero, one = (_word(items + 8 * index) for index in range(len(probe)))
    facts = _word(number + OBJECT_TYPE), _word(zero + INT_TAG), _word(one + INT_TAG)
    value = _word(number + INT_VALUE) % (1 << 32)
    as_expected = (
        [number, zero, one] == [id(item) for item in probe]
        and facts[0] == id(int)
        and _word(number + INT_TAG) == facts[2]
        and value == probe[0]
    )
    return facts if as_expected else None


@functools.cache
def bytes_are_known() -> bool:
    """Whether ``bytes`` objects lie as `BYTES_SIZE` and `BYTES_BEGIN` say; tried on one."""
    probe = b"".join((b"a probe", b" of eleven"))
    return (
        _is_known()
        and id(probe) % 8 == 0
        and _word(id(probe) + BYTES_SIZE) == len(probe)
        and ctypes.string_at(id(probe) + BYTES_BEGIN, len(probe)) == probe
    )


def _is_known() -> bool:
    """Whether this is an interpreter whose layout was read."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] <= _NEWEST
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and struct.calcsize("P") == 8
        and sys.byteorder == "little"
    )


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value
