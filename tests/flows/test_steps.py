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
    Stopped,
    attempts,
    map_threads,
    raise_if_stopped,
)
from bpeline.flows.serving.flow_runs import task
from bpeline.tokenizer_core.errors import CorruptFile, EmptyCorpus


def test_a_task_is_its_function_outside_a_flow_run() -> None:
    @task(name="double")
    def double(number: int) -> int:
        """Twice."""
        return 2 * number

    assert double(3) == 6
    assert double.__doc__ == "Twice."
    assert double.plain(3) == 6
    assert double.map_all([1, 2], 2, None) == [2, 4]


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
    def wait(seconds: float, add: int) -> float:
        time.sleep(seconds)
        return seconds + add

    assert map_threads(wait, [0.05, 0.0, 0.02], 3, add=1) == [1.05, 1.0, 1.02]
    assert map_threads(wait, [], 3, add=1) == []


def test_the_first_error_stops_the_others() -> None:
    begun = threading.Barrier(2)
    ended: list[str] = []

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
        map_threads(work, ["bad", "long", "never", "never"], 2)
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
        map_threads(work, [1, 0, 2, 3, 4, 5], 2)
    assert ended == [1]


def test_too_many_items_are_refused() -> None:
    def work(item: int) -> int:
        return item

    assert len(map_threads(work, range(MOST_TASKS), 2)) == MOST_TASKS
    with pytest.raises(ValueError, match="group them"):
        map_threads(work, range(MOST_TASKS + 1), 2)


def test_what_is_no_flow_imports_no_prefect() -> None:
    program = (
        "import sys; from bpeline.flows import counting, learning, evaluation, publishing, running;"
        "counting.count_words, learning.learn, evaluation.evaluate, publishing.publish;"
        "print('prefect' in sys.modules)"
    )
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert ended.stdout.split() == ["False"]


def test_settings_that_prefect_cannot_read_are_named() -> None:
    program = "from bpeline.flows.serving import task"
    path = os.pathsep.join(map(os.path.abspath, sys.path))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path, "PREFECT_SERVER_API_PORT": "abc"},
    )  # fmt: skip
    assert "InvalidOption: Prefect cannot be imported" in ended.stderr
    assert "`prefect config view`" in ended.stderr
