"""What MLflow shows of a run: its true begin, state and end, whoever tells it and however late."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bpeline.registry import publish_outbox, publish_version
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import Publication, RunRecord
from bpeline.registry.tracking.tracked import OWNER_TAG, milliseconds
from bpeline.registry.upkeep.retention import find_leftovers, remove_leftovers
from bpeline.registry.upkeep.run_ends import dismiss, show_ends
from bpeline.tokenizer_core.errors import RegistryError, RegistryUnreachable

Made = Callable[..., Publication]

pytestmark = pytest.mark.night

BEGIN, END = "2026-01-02T03:00:00+00:00", "2026-01-02T03:04:05+00:00"


def started(run_id: str) -> RunRecord:
    return RunRecord(
        name="news", run_id=run_id, started_at=BEGIN, started_by="ada",
        params={"vocab_size": "258"},
    )  # fmt: skip


def runs_of(registry: Registry, name: str = "news") -> list[Any]:
    client = registry.tracker._client
    experiment = client.get_experiment_by_name(name)
    return list(client.search_runs([experiment.experiment_id]))


def test_a_run_is_shown_from_its_begin_to_its_end(registry: Registry, made: Made) -> None:
    publication = replace(made(b"the", run_id="monday"), started_at=BEGIN, started_by="ada")
    registry.tracker.runs.open_run(started("monday"))
    (run,) = runs_of(registry)
    assert (run.info.status, run.info.start_time) == ("RUNNING", milliseconds(BEGIN))
    assert run.data.params == {"vocab_size": "258"}
    assert run.info.user_id == "ada" or run.data.tags["mlflow.user"] == "ada"
    publish_version(registry, publication)
    (run,) = runs_of(registry)
    assert (run.info.status, run.info.end_time) == ("FINISHED", milliseconds(END))
    assert run.info.run_name == "news/1"
    assert run.data.metrics["compression/bytes_per_token"] == 2.5


def test_what_was_published_later_has_the_times_of_its_training(
    registry: Registry, disconnected: Registry, made: Made
) -> None:
    publication = replace(made(b"the"), started_at=BEGIN, started_by="ada")
    with pytest.raises(RegistryUnreachable):
        publish_version(disconnected, publication)
    publish_outbox(registry)
    (run,) = runs_of(registry)
    assert (run.info.start_time, run.info.end_time) == (milliseconds(BEGIN), milliseconds(END))
    assert run.data.tags["mlflow.user"] == "ada"


def test_a_run_that_made_what_there_was_is_shown_too(registry: Registry, made: Made) -> None:
    publish_version(registry, made(b"the", run_id="monday"))
    publish_version(registry, made(b"the", run_id="tuesday"))
    names = sorted(run.info.run_name for run in runs_of(registry))
    assert names == ["news/1", "news/1 again"]
    assert {run.info.status for run in runs_of(registry)} == {"FINISHED"}
    assert len(registry.tracker.versions()) == 1


def test_the_first_line_of_a_description_tells_versions_apart(
    registry: Registry, made: Made
) -> None:
    publish_version(registry, made(b"the"))
    version = registry.tracker._client.get_model_version("news", "1")
    first = version.description.splitlines()[0]
    assert re.search(r"\b2\.500 .*, 258 .*\bgpt2\b.*\bweb$", first)


def test_runs_that_are_dead_are_ended_by_the_workspace_that_owns_them(
    registry: Registry, tmp_path: Any
) -> None:
    failed, killed, alive = (registry.catalogue.start_run("news", {}) for _ in range(3))
    for run in (failed, killed, alive):
        registry.tracker.runs.open_run(started(run.id))
    registry.catalogue.end_run(failed.id, "failed", "no space left")
    registry.catalogue.end_run(killed.id, "interrupted")
    from bpeline.registry import configure

    configure(workspace=tmp_path / "another")
    assert show_ends(open_registry()) == 0
    assert show_ends(registry) == 2
    shown = {run.data.tags["run_id"]: run for run in runs_of(registry)}
    assert shown[failed.id].info.status == "FAILED"
    assert shown[failed.id].data.tags["error"] == "no space left"
    assert shown[killed.id].info.status == "KILLED"
    assert shown[alive.id].info.status == "RUNNING"
    registry.tracker.runs.open_run(started(killed.id))  # continued
    assert len(runs_of(registry)) == 3
    registry.tracker.runs.close_run("news", killed.id, "FAILED", "it did not fit")
    assert show_ends(registry) == 0


def test_a_run_that_was_made_twice_is_shown_once(registry: Registry, made: Made) -> None:
    """A server that had stood still did what it was asked, when nobody waited any longer."""
    row = registry.catalogue.start_run("news", {})
    tracker = registry.tracker
    first = tracker.runs.open_run(started(row.id))
    tracker.runs._begin_run(started(row.id))
    assert len(runs_of(registry)) == 1
    version = publish_version(registry, made(b"the", run_id=row.id))
    late = {"run_id": row.id, "mlflow.source.name": "bpeline", OWNER_TAG: registry.workspace.id}
    tracker._client.create_run(first.experiment_id, 978_307_200_000, late, "news-late")
    registry.catalogue.end_run(row.id, "finished")
    assert show_ends(registry) == 0
    (run,) = runs_of(registry)
    assert (run.info.run_id, run.info.status) == (version.mlflow_run_id, "FINISHED")
    # Before it has ended, the one that a version was made from stays.
    tracker._client.create_run(first.experiment_id, 978_307_200_000, late, "news-late")
    assert publish_version(registry, made(b"the", run_id=row.id)).mlflow_run_id == run.info.run_id
    assert [one.info.run_id for one in runs_of(registry)] == [run.info.run_id]


def test_gc_removes_what_killed_processes_left_in_mlflow(
    registry: Registry, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    publication = made(b"the")
    with monkeypatch.context() as patch:
        patch.setattr(registry.tracker.models, "create_version", killed)
        with pytest.raises(KeyboardInterrupt):
            publish_version(registry, publication)
    registry.tracker.runs.open_run(started("gone"))
    assert [one.kind for one in find_leftovers(registry, days=0).old] == ["mlflow run"], (
        "the model belongs to a publication that waits"
    )
    for record in registry.workspace.outbox.glob("*.json"):
        record.unlink()
    found = remove_leftovers(registry, days=0).old
    assert {"mlflow model", "mlflow run"} <= {one.kind for one in found}
    left = find_leftovers(registry, days=0).old
    assert [one.kind for one in left if one.kind.startswith("mlflow")] == []


def test_a_dismissed_run_ends_killed_and_one_at_work_is_refused(registry: Registry) -> None:
    registry.make_store()
    run = registry.catalogue.start_run("news", {})
    registry.tracker.runs.open_run(started(run.id))
    with pytest.raises(RegistryError, match="process"):
        dismiss(registry, run.id)
    registry.catalogue.end_run(run.id, "interrupted")
    assert dismiss(registry, run.id[:8]).state == "dismissed"
    (shown,) = runs_of(registry)
    assert shown.info.status == "KILLED"
    assert registry.catalogue.unfinished_runs() == []
    registry.catalogue.end_run(registry.catalogue.start_run("news", {}).id, "finished")
    with pytest.raises(RegistryError, match="finished"):
        dismiss(registry, registry.catalogue.runs()[0].id)


def test_a_dismissed_run_publishes_nothing_any_more(
    registry: Registry, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = registry.catalogue.start_run("news", {})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    publication = made(b"the", run_id=run.id)
    with monkeypatch.context() as patched:
        patched.setattr(registry.tracker.runs, "record_run", killed)
        with pytest.raises(KeyboardInterrupt):
            publish_version(registry, publication)
    registry.catalogue.end_run(run.id, "unpublished")
    dismiss(registry, run.id)
    assert publish_outbox(registry) == []
    assert registry.catalogue.versions() == []
    assert {one.kind for one in find_leftovers(registry, days=0).old} == {"version"}


def test_a_run_whose_version_is_registered_already_is_not_dismissed(
    registry: Registry, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = registry.catalogue.start_run("news", {})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    publication = made(b"the", run_id=run.id)
    with monkeypatch.context() as patched:
        patched.setattr(type(registry.catalogue), "add_registration", killed)
        with pytest.raises(KeyboardInterrupt):
            publish_version(registry, publication)
    registry.catalogue.end_run(run.id, "unpublished")
    with pytest.raises(RegistryError, match="news/1") as refused:
        dismiss(registry, run.id)
    assert "bpeline delete news/1" in refused.value.next_step
    assert [one.reference for one in publish_outbox(registry)] == ["news/1"]
