"""Where CPython keeps the items of a list, the value of a small int, and text; refuses to guess.

`array("I", ids)` takes 5.5 ns an id, through a function of the interpreter for each; a kernel that
reads the objects where they lie takes half a nanosecond. The offsets are those of ``PyListObject``,
``PyLongObject``, ``PyBytesObject`` and ``PyASCIIObject`` in CPython's
``Include/cpython/listobject.h``, ``longintrepr.h``, ``bytesobject.h`` and ``unicodeobject.h``, the
same in all versions from 3.11 on whose objects are counted under one lock. What marks an int as
zero or as one digit (30 bits) long and positive differs between versions: it is read off 0 and 1.
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
LIST_ROOM = 32  # items that the array has room for
INT_TAG = 16
INT_VALUE = 24
BYTES_SIZE = 16
BYTES_BEGIN = 32
TEXT_LENGTH = 16  # in characters
TEXT_STATE = 32
# Of the state: bytes of a character (three bits), whether the characters lie in the object itself,
# and whether they are all ASCII.
TEXT_KIND, TEXT_COMPACT, TEXT_ASCII = 2, 5, 6

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
    if word_at(id(probe) + LIST_SIZE) != len(probe):
        return None
    items = word_at(id(probe) + LIST_ITEMS)
    number, zero, one = (word_at(items + 8 * index) for index in range(len(probe)))
    facts = word_at(number + OBJECT_TYPE), word_at(zero + INT_TAG), word_at(one + INT_TAG)
    value = word_at(number + INT_VALUE) % (1 << 32)
    as_expected = (
        [number, zero, one] == [id(item) for item in probe]
        and facts[0] == id(int)
        and word_at(number + INT_TAG) == facts[2]
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
        and word_at(id(probe) + BYTES_SIZE) == len(probe)
        and ctypes.string_at(id(probe) + BYTES_BEGIN, len(probe)) == probe
    )


@functools.cache
def list_facts() -> tuple[int, int] | None:
    """What fills lists has to know; None where the layout is not known. Tried on one list.

    Returns:
        Address of the function that gives lists the memory for their items, and whether there are
        objects whose references are not counted (from 3.12 on: the lower half of their count is
        negative, and stays).
    """
    if not _is_known() or hasattr(sys, "gettotalrefcount"):  # which counts all references
        return None
    probe: list[int] = []
    number = int("123456789")
    empty = [word_at(id(probe) + place) for place in (LIST_SIZE, LIST_ITEMS, LIST_ROOM)]
    references = word_at(id(number))
    probe.append(number)
    as_expected = (
        empty == [0, 0, 0]
        and word_at(id(probe) + LIST_SIZE) == 1
        and word_at(id(probe) + LIST_ROOM) >= 1
        and word_at(word_at(id(probe) + LIST_ITEMS)) == id(number)
        and word_at(id(number)) == references + 1
    )
    allocate = ctypes.cast(ctypes.pythonapi.PyMem_Malloc, ctypes.c_void_p).value
    if not as_expected or allocate is None:
        return None
    return allocate, int(sys.version_info >= (3, 12))


@functools.cache
def text_facts() -> tuple[int, int] | None:
    """Where the characters of a ``str`` begin, of one that is ASCII and of others; tried on some.

    None where the layout is not known.
    """
    if not _is_known():
        return None
    letters = ("a", "\xe4", "\u6f22", "\U0001f642")
    probes = ["".join((letter, "probe of ten", letter)) for letter in letters]
    facts = tuple(sys.getsizeof(probe) - len(probe) - 1 for probe in probes[:2])
    for probe, letter, width in zip(probes, letters, (1, 1, 2, 4), strict=True):
        is_ascii = letter.isascii()
        begin, encoding = facts[not is_ascii], {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width]
        state = width | 1 << TEXT_COMPACT - TEXT_KIND | is_ascii << TEXT_ASCII - TEXT_KIND
        as_expected = (
            id(probe) % 8 == begin % 8 == 0
            and word_at(id(probe) + TEXT_LENGTH) == len(probe)
            and word_at(id(probe) + TEXT_STATE) >> TEXT_KIND & 31 == state
            and ctypes.string_at(id(probe) + begin, width * len(probe)) == probe.encode(encoding)
        )
        if not as_expected:
            return None
    return facts[0], facts[1]


def _is_known() -> bool:
    """Whether this is an interpreter whose layout was read."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] <= _NEWEST
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and struct.calcsize("P") == 8
        and sys.byteorder == "little"
    )


def word_at(address: int) -> int:
    """The uint64 at an address of an object that the caller holds."""
    return ctypes.c_uint64.from_address(address).value
