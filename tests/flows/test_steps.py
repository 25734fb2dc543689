"""Steps without Prefect: plain calls, retries, threads that stop together."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from bpeline.flows.running.steps import MOST_TASKS, Stopped, map_step, raise_if_stopped, step
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus


def test_a_step_is_its_function() -> None:
    @step(name="double")
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert double(3) == 6
    assert double.__doc__ == "Twice."
    assert double.function(3) == 6


def test_only_named_errors_are_tried_again() -> None:
    calls: list[str] = []

    @step(name="shaky", retries=2, retry_on=(CorruptFile,))
    def shaky(error: type[Exception]) -> str:
        calls.append(error.__name__)
        if len(calls) < 3:
            raise error("broken")
        return "mended"

    assert shaky(CorruptFile) == "mended"
    assert calls == ["CorruptFile"] * 3
    calls.clear()
    with pytest.raises(EmptyCorpus):
        shaky(EmptyCorpus)
    assert calls == ["EmptyCorpus"]


def test_retries_end() -> None:
    calls: list[int] = []

    @step(name="broken", retries=2, retry_on=(CorruptFile,))
    def broken() -> None:
        calls.append(1)
        raise CorruptFile("for good")

    with pytest.raises(CorruptFile):
        broken()
    assert len(calls) == 3


def test_results_come_in_the_order_of_the_items_whoever_is_first() -> None:
    @step(name="wait")
    def wait(seconds: float, add: int) -> float:
        time.sleep(seconds)
        return seconds + add

    assert map_step(wait, [0.05, 0.0, 0.02], 3, add=1) == [1.05, 1.0, 1.02]
    assert map_step(wait, [], 3, add=1) == []


def test_the_first_error_stops_the_others() -> None:
    begun = threading.Barrier(2)
    ended: list[str] = []

    @step(name="work")
    def work(item: str) -> None:
        if item == "bad":
            begun.wait(5)
            raise EmptyCorpus("nothing here")
        if item == "long":
            begun.wait(5)
            try:
                for _ in range(500):
                    raise_if_stopped()
                    time.sleep(0.01)
            except Stopped:
                ended.append(item)
                raise
        else:
            ended.append(item)

    with pytest.raises(EmptyCorpus, match="nothing here"):
        map_step(work, ["bad", "long", "never", "never"], 2)
    assert ended == ["long"]
    raise_if_stopped()  # outside the map nobody is stopped


def test_an_interruption_waits_for_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    @step(name="work")
    def work(item: int) -> None:
        if item == 0:
            raise KeyboardInterrupt
        time.sleep(0.05)
        ended.append(item)

    with pytest.raises(KeyboardInterrupt):
        map_step(work, [1, 0, 2, 3, 4, 5], 2)
    done = len(ended)
    time.sleep(0.1)
    assert len(ended) == done, "something still ran after the map had ended"
    assert 5 not in ended


def test_too_many_items_are_refused() -> None:
    @step(name="work")
    def work(item: int) -> int:
        return item

    assert len(map_step(work, range(MOST_TASKS), 2)) == MOST_TASKS
    with pytest.raises(ValueError, match="group them"):
        map_step(work, range(MOST_TASKS + 1), 2)


def test_prefect_is_not_imported_to_find_out_that_it_is_absent() -> None:
    program = (
        "import sys; from bpeline.flows.running.steps import in_prefect_flow;"
        "print(in_prefect_flow(), 'prefect' in sys.modules)"
    )
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert ended.stdout.split() == ["False", "False"]
