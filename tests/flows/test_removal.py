"""``bpeline delete`` and ``bpeline dismiss``, and runs that could never begin."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.diagnosis import examine
from bpeline.registry.opening import open_registry

Command = Callable[..., Result]


@pytest.mark.slow
@pytest.mark.usefixtures("corpus")
def test_a_run_that_could_never_begin_is_not_kept_as_unfinished(bpeline: Command) -> None:
    asked = ("corpus", "--name", "news", "--vocab-size", 300)
    for typo in (
        ("train", "nosuch.txt", "--name", "news"),
        ("train", *asked, "--baseline", "nobody/4"),
        ("train", *asked, "--eval", "german=nowhere.txt"),
        ("sweep", "nosuch.txt", "--name", "news", "--sizes", "300,400"),
    ):
        assert bpeline(*typo).exit_code in (1, 2)
    assert [run.state for run in open_registry().catalogue.runs()] == ["refused"] * 4
    assert bpeline("resume", "--list").stdout == "no run is unfinished\n"
    assert "runs" not in [finding.subject for finding in examine()]


@pytest.mark.slow
@pytest.mark.usefixtures("corpus")
def test_a_training_that_was_under_way_stays_though_its_files_vanish(bpeline: Command) -> None:
    catalogue = open_registry().catalogue
    Path("corpus/part-0.txt").write_bytes(b"no \xff UTF-8 " * 1000)
    train = ("train", "corpus/part-0.txt", "--name", "news", "--vocab-size", 300)
    assert bpeline(*train).exit_code == 2
    assert [run.state for run in catalogue.runs()] == ["failed"]
    Path("corpus/part-0.txt").unlink()
    assert bpeline(*train).exit_code == 2
    (run,) = catalogue.unfinished_runs()
    assert (run.state, run.id) == ("failed", catalogue.runs()[0].id)


@pytest.mark.slow
@pytest.mark.usefixtures("corpus")
def test_a_dismissed_run_is_forgotten_and_gc_takes_what_only_it_needed(bpeline: Command) -> None:
    registry = open_registry()
    Path("broken.txt").write_bytes(b"no \xff UTF-8 " * 1000)
    train = ("train", "corpus", "broken.txt", "--name", "news", "--vocab-size", 300)
    assert bpeline(*train).exit_code == 2
    (run,) = registry.catalogue.unfinished_runs()
    shown = bpeline("dismiss", run.id[:6], "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["state"] == "dismissed"
    assert "nothing to resume" in bpeline("resume").stdout
    again = bpeline("resume", run.id)
    assert (again.exit_code, "is dismissed" in again.stderr) == (2, True)
    assert bpeline("dismiss", run.id).exit_code == 0
    unknown = bpeline("dismiss", "ffffffffffff")
    assert unknown.exit_code == 1
    assert "bpeline resume --list" in unknown.stderr
    assert bpeline("gc", "--days", 0, "--remove").exit_code == 0
    assert list(registry.workspace.shards.glob("*/*")) == []
    assert bpeline(*train).exit_code == 2  # typed again, it is another run
    assert registry.catalogue.unfinished_runs()[0].id != run.id
