"""Lists of ids that share their ints: equal to NumPy's, and every reference is counted."""

from __future__ import annotations

import ctypes
import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bpeline.tokenizer_core.encoding import divided, id_lists, listed
from bpeline.tokenizer_core.encoding.id_lists import Numbers, numbers_to
from bpeline.tokenizer_core.kernels.memory.list_filling import NUMBERS, fill_lists
from bpeline.tokenizer_core.kernels.memory.python_lists import (
    LIST_ITEMS,
    LIST_ROOM,
    LIST_SIZE,
    list_facts,
    word_at,
)

filled = pytest.mark.skipif(list_facts() is None, reason="lists of this Python are not filled")
ID = 3_999  # not one of the ints that Python keeps
MOST = 1 << 19  # ints that are kept


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(id_lists, "_made", None)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 5_000])
@pytest.mark.parametrize("highest", [1, 4_095, 4_096, 100_000, MOST - 1, MOST, (1 << 32) - 1])
def test_lists_are_those_of_numpy(size: int, highest: int) -> None:
    generator = np.random.default_rng(size)
    for top in (100, highest):  # the ints that there are, and more of them
        ids = generator.integers(0, top, size, np.uint32, endpoint=True)
        ids[size // 2 : size // 2 + 1] = top
        assert listed(ids) == ids.tolist()
        edges = np.sort(generator.integers(0, size, 20, endpoint=True))
        edges[:3], edges[-1] = 0, size
        plain = ids.tolist()
        expected = [plain[edges[i] : edges[i + 1]] for i in range(19)]
        assert divided(ids, edges) == expected


def test_no_lists() -> None:
    assert divided(np.empty(0, np.uint32), np.zeros(1, np.int64)) == []
    assert divided(np.empty(0, np.uint32), np.zeros(3, np.int64)) == [[], []]


def test_some_lists_hold_ids_that_have_no_ints() -> None:
    ids = np.arange(300, dtype=np.uint32)
    ids[150] = MOST
    edges = np.array([0, 100, 200, 300], np.int64)
    listed(np.arange(1_000, dtype=np.uint32))
    found = divided(ids, edges)
    assert found == [ids[:100].tolist(), ids[100:200].tolist(), ids[200:].tolist()]
    found[1].append(5)


def test_a_list_is_its_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.arange(1_000, dtype=np.uint32)
    expected = ids.tolist()
    first, second = listed(ids), listed(ids)
    first.append(-1)
    first.extend(range(500))
    first.sort(reverse=True)
    del first[10:700]
    first.clear()
    assert second == expected
    assert sys.getsizeof(second) >= sys.getsizeof([]) + 8 * len(second)
    assert [type(id_) for id_ in second] == [int] * len(second)
    monkeypatch.setattr(id_lists, "list_facts", lambda: None)
    monkeypatch.setattr(id_lists, "_made", None)
    assert listed(ids) == expected


@filled
def test_references_are_counted() -> None:
    numbers = numbers_to(ID)
    assert numbers is not None
    number = numbers.ints[ID]
    before = sys.getrefcount(number)
    lists = divided(np.full(900, ID, np.uint32), np.array([0, 300, 900], np.int64))
    assert lists[0][0] is lists[1][-1] is number
    assert sys.getrefcount(number) == before + 900
    del lists[0][:100]
    assert sys.getrefcount(number) == before + 800
    del lists
    assert sys.getrefcount(number) == before


@filled
def test_lists_outlive_their_ints_being_replaced() -> None:
    early = listed(np.full(100, ID, np.uint32))
    late = listed(np.full(100, 100_000, np.uint32))
    assert id_lists._made is not None
    assert early[0] is id_lists._made.ints[ID]  # the same ints, and more of them
    id_lists._made = None
    assert early == [ID] * 100
    assert late == [100_000] * 100


@filled
def test_threads_lose_no_reference() -> None:
    numbers = numbers_to(ID)
    assert numbers is not None
    before = [sys.getrefcount(number) for number in numbers.ints[300:]]
    ids = np.array(random.Random(5).choices(range(ID), k=2_000), np.uint32)
    expected = ids.tolist()

    def make(_: int) -> bool:
        return all(listed(ids) == expected for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(make, range(8)))
    assert [sys.getrefcount(number) for number in numbers.ints[300:]] == before


@filled
@pytest.mark.parametrize("some_uncounted", [0, 1])
def test_references_that_are_not_counted(some_uncounted: int) -> None:
    """On objects that are only memory: from 3.12 on the lower half of some counts is negative."""
    facts = list_facts()
    assert facts is not None
    counts = [1, 0x7FFF_FFFE, 0xFFFF_FFFF, 0xC000_0000, 0x1_0000_0001]
    objects = np.array(counts, np.uint64)
    items = objects.ctypes.data + 8 * np.arange(len(counts))
    record = np.zeros(1, NUMBERS)
    record["items"], record["number"] = items.ctypes.data, len(counts)
    record["allocate"], record["some_uncounted"] = facts[0], some_uncounted
    empty = np.zeros(5, np.uint64)  # a list, as far as it is looked at
    inside = np.array([empty.ctypes.data], np.int64)
    lists = np.zeros(5, np.int64)
    lists[LIST_SIZE // 8], lists[LIST_ITEMS // 8] = 1, inside.ctypes.data
    ids = np.array([0, 2, 4, 1, 3, 0], np.uint32)
    assert fill_lists(ids, np.array([0, 6]), lists.ctypes.data, record.ctypes.data) == 1
    assert empty[[LIST_SIZE // 8, LIST_ROOM // 8]].tolist() == [6, 6]
    place = int(empty[LIST_ITEMS // 8])
    assert [word_at(place + 8 * i) for i in range(6)] == items[ids].tolist()
    ctypes.pythonapi.PyMem_Free(ctypes.c_void_p(place))
    added = [2, 1, 0, 0, 1] if some_uncounted else [2, 1, 1, 1, 1]
    assert objects.tolist() == [count + more for count, more in zip(counts, added, strict=True)]


@filled
def test_a_layout_that_is_not_the_one_expected_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert list_facts() is not None
    monkeypatch.setattr(sys, "gettotalrefcount", lambda: 0, raising=False)
    assert list_facts.__wrapped__() is None


def test_numbers_are_where_they_are_looked_for() -> None:
    facts = list_facts() or (1, 0)
    numbers = Numbers(list(range(10)), facts)
    record = np.frombuffer(ctypes.string_at(numbers.address, NUMBERS.itemsize), NUMBERS)[0]
    assert (record["number"], record["allocate"]) == (10, facts[0])
