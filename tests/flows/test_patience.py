"""Runs that nobody watches: what they wait for, what they try again, and what they do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from bpeline.flows import prefect_flows
from bpeline.flows.collect_garbage import collect_garbage
from bpeline.flows.serving import flow_runs
from bpeline.flows.serving.flow_runs import require_nobody_trains, waiting_for_others
from bpeline.flows.train_tokenizer import publish
from bpeline.registry import environment
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.errors import (
    EmptyCorpus,
    InvalidOption,
    RegistryUnreachable,
    StorageError,
    WorkspaceLocked,
)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept, without sleeping."""
    seconds: list[float] = []
    monkeypatch.setattr(flow_runs.time, "sleep", seconds.append)
    return seconds


def failing(*errors: Exception) -> Callable[[], str]:
    """Work that fails so, one time after the other, and then succeeds."""
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def locked(who: str) -> WorkspaceLocked:
    return WorkspaceLocked(f"{who} works here", "one at a time", "wait")


def test_a_locked_workspace_is_waited_for_and_the_reason_said_once(slept: list[float]) -> None:
    said: list[str] = []
    work = failing(locked("one"), locked("one"), locked("another"))
    assert waiting_for_others(work, said.append) == "done"
    assert [re.findall("one|another", line) for line in said] == [["one"], ["another"]]
    assert slept == [10.0, 20.0, 40.0], "and a minute in the end"


def hiding(interruption: BaseException) -> RegistryUnreachable:
    """An error of a library's that Ctrl-C, or a cancellation, is behind."""
    error = RegistryUnreachable("MLflow does not answer", "a server", "start it")
    error.__context__ = interruption
    return error


@pytest.mark.parametrize(
    ("deployment", "error", "again"),
    [
        ("made it", hiding(KeyboardInterrupt()), False),
        ("made it", RegistryUnreachable("MLflow does not answer", "a server", "start it"), True),
        (None, RegistryUnreachable("MLflow does not answer", "a server", "start it"), False),
        ("made it", EmptyCorpus("nothing in it", "text", "name some"), False),
    ],
)
def test_a_server_that_does_not_answer_is_asked_again_where_nobody_waits(
    deployment: str | None, error: Exception, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimpleNamespace(flow_run=SimpleNamespace(deployment_id=deployment))
    monkeypatch.setattr(flow_runs.prefect.context.FlowRunContext, "get", lambda: run)
    state = SimpleNamespace(data=error)
    assert publish.retry_condition_fn(publish, None, state) is again
    assert (publish.retries, publish.retry_delay_seconds) == (3, [30, 120, 300])


def test_bad_input_fails_at_once(slept: list[float]) -> None:
    with pytest.raises(EmptyCorpus):
        waiting_for_others(failing(EmptyCorpus("nothing in it", "text", "name some")), print)
    assert slept == []


def test_one_training_of_a_name_at_a_time_in_all_workspaces_of_a_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    monkeypatch.setenv(environment.CATALOGUE_VARIABLE, url)
    elsewhere = Catalogue(url, "elsewhere")
    run = elsewhere.start_run("news", {})
    with pytest.raises(WorkspaceLocked, match=f"{run.id}.*news"):
        require_nobody_trains("news", None)
    require_nobody_trains("other", None)
    elsewhere.end_run(run.id, "finished")
    require_nobody_trains("news", None)


def test_a_deployment_that_0_2_made_says_what_to_type() -> None:
    with pytest.raises(InvalidOption) as refused:
        _ = prefect_flows.train_tokenizer
    assert "`bpeline deploy`" in refused.value.next_step


def test_inside_a_flow_of_somebody_else_a_flow_s_function_is_a_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = SimpleNamespace(flow=SimpleNamespace(fn=print), parameters={}, flow_run=None)
    monkeypatch.setattr(flow_runs.prefect.context.FlowRunContext, "get", lambda: theirs)
    with pytest.raises(StorageError):  # not of a parameter that the other flow does not have
        collect_garbage.fn()
