"""The catalogue's memory of runs: killed ones are seen, continued ones keep their id."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.errors import RegistryError

ROOT = Path(__file__).parents[2]


def test_a_run_is_followed_from_start_to_end(catalogue: Catalogue) -> None:
    run = catalogue.start_run("news", {"vocab_size": 32000, "paths": ["ä.txt"]}, 2)
    assert (run.state, run.left_out_rule) == ("running", 2)
    assert catalogue.run(run.id[:4]) == run
    catalogue.step_reached(run.id, "count words", corpus_digest="c")
    catalogue.step_reached(run.id, "train merges", counts_digest="w")
    reached = catalogue.run(run.id)
    assert (reached.step, reached.corpus_digest, reached.counts_digest) == (
        "train merges",
        "c",
        "w",
    )
    assert catalogue.unfinished_runs() == [reached]
    catalogue.end_run(run.id, "finished")
    assert catalogue.unfinished_runs() == []
    done = catalogue.run(run.id)
    assert (done.state, done.config) == ("finished", {"vocab_size": 32000, "paths": ["ä.txt"]})
    assert done.finished_at >= done.started_at


def test_failed_and_unpublished_runs_stay_unfinished_and_can_be_continued(
    catalogue: Catalogue,
) -> None:
    failed, waiting = catalogue.start_run("a", {}), catalogue.start_run("b", {})
    catalogue.end_run(failed.id, "failed", "disk full")
    catalogue.end_run(waiting.id, "unpublished", "no answer")
    states = [(run.name, run.state, run.error) for run in catalogue.unfinished_runs()]
    assert states == [("b", "unpublished", "no answer"), ("a", "failed", "disk full")]
    continued = catalogue.continue_run(failed.id)
    assert (continued.state, continued.error, continued.finished_at) == ("running", "", "")


@pytest.mark.night
def test_a_run_whose_process_was_killed_is_interrupted_and_can_be_taken_over(
    catalogue: Catalogue, url: str
) -> None:
    program = (
        "import os, sys; from bpeline.registry.catalogue.catalogue import Catalogue; "
        "print(Catalogue(sys.argv[1]).start_run('news', {}).id, flush=True); os._exit(137)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, url], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    run_id = killed.stdout.strip()
    assert [run.state for run in catalogue.unfinished_runs()] == ["interrupted"]
    assert catalogue.continue_run(run_id).state == "running"
    assert catalogue.run(run_id).state == "running"


@pytest.mark.night
def test_a_run_of_another_living_process_is_not_taken_over(catalogue: Catalogue, url: str) -> None:
    program = (
        "import sys; from bpeline.registry.catalogue.catalogue import Catalogue; "
        "print(Catalogue(sys.argv[1]).start_run('news', {}).id, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, url],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        run_id = other.stdout.readline().strip()
        assert [run.state for run in catalogue.unfinished_runs()] == ["running"]
        with pytest.raises(RegistryError, match=str(other.pid)):
            catalogue.continue_run(run_id)
        other.communicate("")


def test_runs_are_listed_newest_first(catalogue: Catalogue) -> None:
    started = [catalogue.start_run("news", {"k": k}).id for k in range(3)]
    assert [run.id for run in catalogue.runs()] == started[::-1]


@pytest.mark.parametrize("prefix", ["", "zz", "%", "_"])
def test_an_unknown_run_is_said_to_be_unknown(catalogue: Catalogue, prefix: str) -> None:
    catalogue.start_run("news", {})
    with pytest.raises(RegistryError):
        catalogue.run(prefix)
    with pytest.raises(RegistryError):
        catalogue.heartbeat(prefix)


@pytest.mark.night
def test_workspaces_that_share_a_catalogue_keep_their_runs_apart(url: str) -> None:
    here, there = Catalogue(url, "here"), Catalogue(url, "there")
    mine, theirs = here.start_run("news", {}), there.start_run("news", {})
    for catalogue, run in ((here, mine), (there, theirs)):
        catalogue.end_run(run.id, "interrupted")
        assert [one.id for one in catalogue.unfinished_runs()] == [run.id]
    with pytest.raises(RegistryError, match="workspace"):
        here.continue_run(theirs.id)
    assert here.continue_run(mine.id).state == "running"
    assert here.run(theirs.id).state == "interrupted"  # seen, and left alone
    assert [run.workspace for run in here.runs()] == ["there", "here"]


def test_a_run_elsewhere_counts_as_running_while_it_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Catalogue(url, "here"), Catalogue(url, "there")
    here.start_run("news", {})
    theirs, other = there.start_run("news", {}), there.start_run("other", {})
    assert [run.id for run in here.running_elsewhere("news")] == [theirs.id]
    assert [run.id for run in here.running_elsewhere("other")] == [other.id]
    there.end_run(other.id, "finished")
    assert here.running_elsewhere("other") == []
    long_ago = -1.0  # by now
    monkeypatch.setattr("bpeline.registry.catalogue.catalogue.SILENCE_SECONDS", long_ago)
    assert here.running_elsewhere("news") == []
