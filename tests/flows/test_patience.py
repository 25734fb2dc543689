"""Runs that nobody watches: what they wait for, what they try again, and what they do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bpeline.flows.serving import patience
from bpeline.flows.serving.patience import patiently, require_nobody_trains
from bpeline.registry import environment
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.errors import EmptyCorpus, RegistryUnreachable, WorkspaceLocked


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept, without sleeping."""
    seconds: list[float] = []
    monkeypatch.setattr(patience.time, "sleep", seconds.append)
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


def silent() -> RegistryUnreachable:
    return RegistryUnreachable("MLflow does not answer", "a server", "start it")


def test_a_locked_workspace_is_waited_for_and_the_reason_said_once(slept: list[float]) -> None:
    said: list[str] = []
    work = failing(locked("one"), locked("one"), locked("another"))
    assert patiently(work, said.append) == "done"
    assert [re.findall("one|another", line) for line in said] == [["one"], ["another"]]
    assert slept == [patience.LOCKED_SECONDS] * 3


def test_a_registry_that_does_not_answer_is_asked_again_a_few_times(slept: list[float]) -> None:
    said: list[str] = []
    assert patiently(failing(silent(), silent(), silent()), said.append) == "done"
    assert slept == list(patience.UNREACHABLE_DELAYS)
    assert re.search(r"MLflow.*\b30\b", said[0])
    with pytest.raises(RegistryUnreachable):
        patiently(failing(*(silent() for _ in range(4))), said.append)


def test_bad_input_fails_at_once(slept: list[float]) -> None:
    with pytest.raises(EmptyCorpus):
        patiently(failing(EmptyCorpus("nothing in it", "text", "name some")), print)
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
