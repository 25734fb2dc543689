"""What is prepared while words are counted: it never fails a run, and never outlives it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows import train_tokenizer as flow
from bpeline.flows.train_tokenizer import train_tokenizer
from bpeline.flows.trainings.preparation import prepared
from bpeline.registry.opening import open_registry
from bpeline.registry.tracking import beside
from bpeline.registry.tracking.beside import Beside
from bpeline.registry.tracking.tracked import TrackingSettings
from bpeline.registry.tracking.tracking import MlflowTracker
from bpeline.tokenizer_core.errors import BpelineError, RegistryUnreachable


def test_a_database_is_there_when_the_block_has_ended(tmp_path: Path) -> None:
    registry = open_registry(tmp_path / "workspace")
    with prepared(registry.tracker) as preparing:
        pass
    assert not preparing.is_alive()
    assert (registry.workspace.root / "mlflow.sqlite").exists()
    assert registry.tracker.versions() == []


@pytest.mark.night
def test_what_cannot_be_prepared_is_told_by_publishing(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(RegistryUnreachable, match="bpeline resume"):
        train_tokenizer([str(corpus)], "news", 300)


def test_an_interrupted_run_waits_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(_: MlflowTracker) -> None:
        begun.set()
        threading.Event().wait(0.05)
        ended.set()

    monkeypatch.setattr(MlflowTracker, "prepare", slow)
    with (
        suppress(KeyboardInterrupt),
        prepared(MlflowTracker(TrackingSettings("sqlite://"))),
    ):
        begun.wait()
        raise KeyboardInterrupt
    assert ended.is_set()


@pytest.mark.parametrize("is_beside", [False, True])
def test_what_is_measured_waits_for_what_takes_its_time(
    monkeypatch: pytest.MonkeyPatch, is_beside: bool
) -> None:
    go = threading.Event()
    monkeypatch.setattr(MlflowTracker, "prepare", lambda _: go.wait())
    monkeypatch.setattr(MlflowTracker, "is_beside", is_beside)
    with prepared(MlflowTracker(TrackingSettings("sqlite://"))) as preparing:
        if not is_beside:
            threading.Timer(0.05, go.set).start()
        preparing.join_in_process()
        assert preparing.is_alive() == is_beside
        go.set()


@pytest.mark.parametrize("uri", ["", "http://127.0.0.1:9"])
def test_a_command_begins_a_process_for_mlflow_where_that_is_a_file(
    bpeline: Callable[..., Result], corpus: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    begun: list[Beside] = []

    def begin() -> Beside:
        begun.append(Beside())
        return begun[-1]

    def train(**_: object) -> None:
        raise BpelineError(f"{len(begun)} begun")

    monkeypatch.delitem(sys.modules, "mlflow", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr(beside, "available_processors", lambda: 2)
    monkeypatch.setattr(beside, "Beside", begin)
    monkeypatch.setattr(flow, "train_tokenizer", train)
    ended = bpeline("train", corpus, "--name", "news")
    assert f"{0 if uri else 1} begun" in ended.stderr
    assert all(one.is_gone for one in begun)
