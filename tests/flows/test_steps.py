"""Steps without Prefect: plain calls, tries of a flow, threads that stop together."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from bpeline.flows.running.steps import (
    MOST_TASKS,
    FlowKind,
    StepKind,
    Stopped,
    attempts,
    map_step,
    raise_if_stopped,
    step,
)
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus


def test_a_step_is_its_function() -> None:
    @step(StepKind("double", 1))
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert double(3) == 6
    assert double.__doc__ == "Twice."
    assert double.function(3) == 6


def flow_of(times: int) -> FlowKind:
    return FlowKind("shaky", "shaky", (), hours=1, again_after=CorruptFile, attempts=times)


def test_a_flow_is_tried_again_after_its_own_error_alone() -> None:
    said: list[str] = []
    done: list[str] = []
    errors = [CorruptFile("broken"), CorruptFile("broken again")]
    for attempt in attempts(flow_of(3), said.append):
        with attempt:
            if errors:
                raise errors.pop(0)
            done.append("mended")
    assert done == ["mended"]
    assert [line.partition(";")[0] for line in said] == ["broken", "broken again"]
    with pytest.raises(EmptyCorpus):  # noqa: PT012
        for attempt in attempts(flow_of(3), said.append):
            with attempt:
                raise EmptyCorpus("nothing")
    assert len(said) == 2


def test_tries_end() -> None:
    calls: list[int] = []
    with pytest.raises(CorruptFile):  # noqa: PT012
        for attempt in attempts(flow_of(3), print):
            with attempt:
                calls.append(1)
                raise CorruptFile("for good")
    assert len(calls) == 3


def test_results_come_in_the_order_of_the_items_whoever_is_first() -> None:
    @step(StepKind("wait", 1))
    def wait(seconds: float, add: int) -> float:
        time.sleep(seconds)
        return seconds + add

    assert map_step(wait, [0.05, 0.0, 0.02], 3, add=1) == [1.05, 1.0, 1.02]
    assert map_step(wait, [], 3, add=1) == []


def test_the_first_error_stops_the_others() -> None:
    begun = threading.Barrier(2)
    ended: list[str] = []

    @step(StepKind("work", 1))
    def work(item: str) -> None:
        if item == "bad":
            begun.wait(60)
            raise EmptyCorpus("nothing here")
        if item == "long":
            begun.wait(60)
            try:
                for _ in range(6_000):
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


def test_an_interruption_waits_for_what_runs_and_begins_nothing() -> None:
    begun, ended = threading.Event(), list[int]()

    def is_stopped() -> bool:
        try:
            raise_if_stopped()
        except Stopped:
            return True
        return False

    @step(StepKind("work", 1))
    def work(item: int) -> None:
        if item == 0:
            assert begun.wait(60)
            raise KeyboardInterrupt
        begun.set()
        while not is_stopped():
            time.sleep(0.01)
        time.sleep(0.05)
        ended.append(item)

    with pytest.raises(KeyboardInterrupt):
        map_step(work, [1, 0, 2, 3, 4, 5], 2)
    assert ended == [1]


def test_too_many_items_are_refused() -> None:
    @step(StepKind("work", 1))
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
