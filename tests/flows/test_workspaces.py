"""Where there is no workspace none is made by asking; those that share a catalogue stay apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result
from prefect.exceptions import TerminationSignal

from bpeline import train_from_iterator
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.flows.trainings.run import training_run
from bpeline.registry import environment
from bpeline.registry.catalogue import Registration, Version
from bpeline.registry.opening import open_registry

Command = Callable[..., Result]


@pytest.mark.parametrize(
    "arguments",
    [
        *(["versions"], ["versions", "news", "--json"], ["show", "news/1"], ["resume", "--list"]),
        *(["show", "news"], ["compare", "news/1", "news/2"], ["compare", "./a.json", "news/2"]),
        *(["promote", "news/1"], ["rollback", "news"]),
    ],
)
def test_asking_where_there_is_no_workspace_makes_none(
    arguments: list[str], bpeline: Command, tmp_path: Path
) -> None:
    asked = bpeline(*arguments)
    assert asked.exit_code == 1
    assert asked.stdout == ""
    assert str(tmp_path / ".bpeline") in asked.stderr
    assert "BPELINE_HOME" in asked.stderr
    assert "bpeline.toml" in asked.stderr
    assert "bpeline train --demo" in asked.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_folder_around_a_workspace_is_told_which_is_meant(
    bpeline: Command, tmp_path: Path
) -> None:
    open_registry(tmp_path / ".bpeline")
    asked = bpeline("show", "news/1", "--workspace", str(tmp_path))
    assert asked.exit_code == 1
    assert f"{tmp_path}," in asked.stderr
    assert f"{tmp_path / '.bpeline'}\n" in asked.stderr
    named = bpeline("show", "news/1", "--workspace", str(tmp_path / ".bpeline"))
    assert named.exit_code == 1
    assert "mlflow.sqlite\n" in named.stderr, "the workspace is taken, and holds no version"


def test_two_files_are_compared_without_a_workspace(bpeline: Command, tmp_path: Path) -> None:
    for name, size in (("a.json", 257), ("b.json", 258)):
        made = train_from_iterator(["low lower lowest"] * 3, vocab_size=size)
        made.save(tmp_path / name, format="hf")
    compared = bpeline("compare", "./a.json", "./b.json")
    assert compared.exit_code == 0, compared.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]


@pytest.mark.night
@pytest.mark.filterwarnings("ignore::bpeline.registry.loading.resolution.StaleAlias")
def test_a_catalogue_elsewhere_is_read_without_a_workspace_here(
    bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = open_registry(tmp_path / "elsewhere")
    elsewhere.catalogue.add_version(Version("news", "ab" * 32, vocab_size=300))
    elsewhere.catalogue.add_registration(Registration("", "news", 1, "ab" * 32))
    monkeypatch.setenv(environment.CATALOGUE_VARIABLE, elsewhere.catalogue.url)
    monkeypatch.setenv(environment.TRACKING_VARIABLE, "http://127.0.0.1:9")  # which is down
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    assert json.loads(bpeline("versions", "--json").stdout)[0]["name"] == "news"
    assert json.loads(bpeline("show", "news/1", "--json").stdout)["vocab_size"] == 300
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def request(tmp_path: Path) -> TrainingRequest:
    return TrainingRequest.checked(
        paths=[str(tmp_path / "corpus.txt")], name="news", vocab_size=300, held_out=0.0, workers=1
    )


def interrupted(asked: TrainingRequest, workspace: str) -> str:
    """The id of a run that somebody stopped."""
    with suppress(KeyboardInterrupt), training_run(asked, workspace) as run:
        raise KeyboardInterrupt
    return run.id


@pytest.mark.night
@pytest.mark.parametrize("hidden", [False, True], ids=["as it is", "behind an error"])
@pytest.mark.parametrize("signal", [KeyboardInterrupt(), TerminationSignal(15), SystemExit(1)])
def test_a_run_that_is_stopped_is_interrupted_here_and_killed_in_mlflow(
    tmp_path: Path, signal: BaseException, hidden: bool
) -> None:
    """Prefect ends a cancelled run by a signal of its own."""
    workspace = str(tmp_path / "home")
    with suppress(BaseException), training_run(request(tmp_path), workspace) as run:
        run.show_begin()
        try:
            raise signal
        finally:
            if hidden:
                raise RuntimeError("cannot release un-acquired lock")
    registry = open_registry(workspace)
    (ended,) = registry.catalogue.runs()
    assert (ended.state, ended.error) == ("interrupted", "")
    client = registry.tracker._client
    (shown,) = client.search_runs([client.get_experiment_by_name("news").experiment_id])
    assert shown.info.status == "KILLED"


def test_a_run_is_not_continued_by_another_workspace(
    bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        environment.CATALOGUE_VARIABLE, f"sqlite:///{tmp_path / 'shared-catalogue.sqlite'}"
    )
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    begun = [interrupted(request(tmp_path), place) for place in (there, here, here, there)]
    assert begun[0] != begun[1]
    assert begun[1:] == [begun[1], begun[1], begun[0]]  # each goes on with its own
    for workspace, run_id in ((here, begun[1]), (there, begun[0])):
        listed = json.loads(bpeline("resume", "--list", "--json", "--workspace", workspace).stdout)
        assert [one["id"] for one in listed] == [run_id]
    refused = bpeline("resume", begun[0], "--workspace", here)
    assert refused.exit_code == 2
    assert "workspace" in refused.stderr
