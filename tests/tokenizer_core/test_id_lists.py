"""Lists of ids that share their ints: equal to NumPy's, and every reference is counted."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bpeline.tokenizer_core.kernels.memory import python_objects
from bpeline.tokenizer_core.kernels.memory.python_objects import divided, ints_to, listed

ID = 3_999  # not one of the ints that Python keeps
MOST = 1 << 19  # ints that are kept


@pytest.fixture(autouse=True)
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_objects, "_ints", [])


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 5_000])
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


def test_a_list_is_its_owners() -> None:
    ids = np.arange(1_000, dtype=np.uint32)
    expected = ids.tolist()
    first, second = listed(ids), listed(ids)
    first.append(-1)
    first.extend(range(500))
    first.sort(reverse=True)
    del first[10:700]
    first.clear()
    assert second == expected
    assert [type(id_) for id_ in second] == [int] * len(second)


def test_references_are_counted() -> None:
    ints = ints_to(ID)
    assert ints is not None
    number = ints[ID]
    before = sys.getrefcount(number)
    lists = divided(np.full(900, ID, np.uint32), np.array([0, 300, 900], np.int64))
    assert lists[0][0] is lists[1][-1] is number
    assert sys.getrefcount(number) == before + 900
    del lists[0][:100]
    assert sys.getrefcount(number) == before + 800
    del lists
    assert sys.getrefcount(number) == before


def test_lists_outlive_their_ints_being_replaced() -> None:
    early = listed(np.full(300, ID, np.uint32))
    late = listed(np.full(300, 100_000, np.uint32))
    assert early[0] is python_objects._ints[ID]  # the same ints, and more of them
    python_objects._ints = []
    assert early == [ID] * 300
    assert late == [100_000] * 300


def test_threads_lose_no_reference() -> None:
    ints = ints_to(ID)
    assert ints is not None
    before = [sys.getrefcount(number) for number in ints[300:]]
    ids = np.array(random.Random(5).choices(range(ID), k=2_000), np.uint32)
    expected = ids.tolist()

    def make(_: int) -> bool:
        return all(listed(ids) == expected for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(make, range(8)))
    assert [sys.getrefcount(number) for number in ints[300:]] == before
