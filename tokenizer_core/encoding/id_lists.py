"""Arrays of ids as Python lists, whose ints are made once and for all tokenizers; knows no text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.memory.list_filling import NUMBERS, fill_lists
from bpeline.tokenizer_core.kernels.memory.python_lists import LIST_ITEMS, list_facts, word_at

_MOST = 1 << 19  # ints that are kept: 40 bytes each
_LEAST = 1 << 12
_FEW = 64  # ids that no ints are made for


class Numbers:
    """The ints from 0 on, where kernels find them.

    Args:
        ints: 0, 1, … in order; nobody changes the list.
        facts: see `list_facts`.

    Attributes:
        ints: as given.
        address: of a `NUMBERS`, as long as this object is held.
    """

    __slots__ = ("_record", "address", "ints")

    def __init__(self, ints: list[int], facts: tuple[int, int]) -> None:
        self.ints = ints
        self._record = np.zeros(1, NUMBERS)
        self._record["items"] = word_at(id(ints) + LIST_ITEMS)
        self._record["number"] = len(ints)
        self._record["allocate"], self._record["some_uncounted"] = facts
        self.address: int = self._record.ctypes.data


# The largest that was needed. Threads that replace it at once lose nothing but time.
_made: Numbers | None = None


def numbers_to(highest: int) -> Numbers | None:
    """The ints up to one, at least; None where there are too many, or lists cannot be filled."""
    global _made
    facts, made = list_facts(), _made
    if facts is None or highest >= _MOST:
        return None
    if made is None or highest >= len(made.ints):
        ints = [] if made is None else made.ints
        ints = [*ints, *range(len(ints), max(_LEAST, 1 << highest.bit_length()))]
        made = _made = Numbers(ints, facts)
    return made


def listed(ids: NDArray[np.uint32]) -> list[int]:
    """``ids.tolist()``, sooner."""
    if len(ids) < _FEW:
        plain: list[int] = ids.tolist()
        return plain
    return divided(ids, np.array([0, len(ids)], np.int64))[0]


def divided(ids: NDArray[np.uint32], edges: NDArray[np.int64]) -> list[list[int]]:
    """Lists of ``ids[edges[i]:edges[i + 1]]``.

    Args:
        ids: uint32. edges: int64 ``[n + 1]``, ascending.
    """
    lists: list[list[int]] = [[] for _ in range(len(edges) - 1)]
    done = _filled(ids, edges, lists, _made)
    if done < len(lists) and len(ids) >= _FEW:
        done += _filled(ids, edges[done:], lists[done:], numbers_to(int(ids.max())))
    for place in range(done, len(lists)):
        lists[place] = ids[edges[place] : edges[place + 1]].tolist()
    return lists


def _filled(
    ids: NDArray[np.uint32],
    edges: NDArray[np.int64],
    lists: list[list[int]],
    numbers: Numbers | None,
) -> int:
    """How many lists were filled, the first ones."""
    if numbers is None:
        return 0
    done: int = fill_lists(ids, edges, id(lists), numbers.address)
    return done
