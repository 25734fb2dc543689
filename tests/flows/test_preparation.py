"""What is prepared while words are counted: it never fails a run, and never outlives it."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest
from flow_calls import train_tokenizer

from bpeline.flows.trainings.run import prepared
from bpeline.registry.opening import open_registry
from bpeline.registry.tracking import MlflowTracker
from bpeline.registry.tracking.tracked import TrackingSettings
from bpeline.tokenizer_core.errors import RegistryUnreachable


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
