"""``bpeline delete`` and ``bpeline doctor --dismiss``, and runs that could never begin."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.flows.cli.diagnosis import examine
from bpeline.registry.opening import open_registry
from bpeline.registry.records import Tombstone
from bpeline.registry.upkeep import deletion_notes

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.mark.night
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
    # A training whose file is not there is refused before it is a run.
    assert [run.state for run in open_registry().catalogue.runs()] == ["refused"] * 3
    assert json.loads(bpeline("resume", "--list", "--json").stdout) == []
    assert "runs" not in [finding.subject for finding in examine()]


@pytest.mark.night
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


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_a_dismissed_run_is_forgotten_and_gc_takes_what_only_it_needed(bpeline: Command) -> None:
    registry = open_registry()
    Path("broken.txt").write_bytes(b"no \xff UTF-8 " * 1000)
    train = ("train", "corpus", "broken.txt", "--name", "news", "--vocab-size", 300)
    assert bpeline(*train).exit_code == 2
    (run,) = registry.catalogue.unfinished_runs()
    shown = bpeline("doctor", "--dismiss", run.id[:6], "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["state"] == "dismissed"
    assert '"published": []' in bpeline("resume", "--json").stdout
    again = bpeline("resume", run.id)
    assert (again.exit_code, "dismissed" in again.stderr) == (2, True)
    assert bpeline("doctor", "--dismiss", run.id).exit_code == 0
    unknown = bpeline("doctor", "--dismiss", "ffffffffffff")
    assert unknown.exit_code == 1
    assert "bpeline resume --list" in unknown.stderr
    assert bpeline("gc", "--days", 0, "--yes").exit_code == 0
    assert list(registry.workspace.shards.glob("*/*")) == []
    assert bpeline(*train).exit_code == 2  # typed again, it is another run
    assert registry.catalogue.unfinished_runs()[0].id != run.id


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_a_version_is_deleted_after_showing_what_would_go(bpeline: Command) -> None:
    train = ("train", "corpus", "--name", "news", "--vocab-size", 300)
    assert bpeline(*train).exit_code == 0
    assert bpeline("derive", "extend", "news/1", "--vocab-size", 320).exit_code == 0
    digest = json.loads(bpeline("show", "news/1", "--json").stdout)["digest"]
    refused = bpeline("delete", "news", "--yes")
    assert refused.exit_code == 1
    assert "bpeline delete news@candidate --yes" in refused.stderr
    for command in (("delete", "news/1"), ("gc", "--days", "0")):
        asked = bpeline(*command)
        assert asked.exit_code == 2
        assert "--dry-run" in asked.stderr
    said = bpeline("delete", "news/1", "--reason", "no need", "--dry-run")
    assert "news/2" in said.stdout
    assert said.stdout.endswith("bpeline delete news/1 --reason 'no need' --yes\n")
    assert "news/1" in bpeline("versions").stdout
    done = bpeline("delete", "news/1", "--yes", "--by", "ada", "--reason", "secret", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["removed"], told["versions"][0]["digest"]) == (True, digest)
    assert f"news/1  {digest[:12]}  deleted" in bpeline("versions", "news").stdout
    (entry,) = [
        one
        for one in json.loads(bpeline("show", "news", "--json").stdout)
        if one["kind"] == "delete"
    ]
    assert (entry["number"], entry["digest"], entry["by"]) == (1, digest, "ada")
    assert len(json.loads(bpeline("versions", "--json").stdout)) == 1
    assert re.search("news/1.*deleted", bpeline("show", "news/2").stdout)
    loaded = bpeline("encode", "news/1", "text")
    assert loaded.exit_code == 1
    assert "secret" in loaded.stderr
    assert [one.state for one in examine() if one.subject == "versions"] == ["ok"]
    assert bpeline("gc", "--days", 0, "--yes").exit_code == 0
    removed = bpeline("delete", "news@candidate", "--yes")
    assert re.match("news@candidate.*nowhere.*news/2", removed.stdout)
    again = bpeline(*train)
    assert again.exit_code == 0, again.output
    assert "news/3" in again.stdout
    assert re.search("news/3.*news/1.*deleted", again.stderr)


@pytest.mark.night
@pytest.mark.usefixtures("corpus")
def test_a_deletion_that_was_noted_is_done_by_resume_and_keeps_no_run_waiting(
    bpeline: Command,
) -> None:
    train = ("train", "corpus", "--name", "news", "--vocab-size")
    assert bpeline(*train, 300).exit_code == 0
    registry = open_registry()
    (row,) = registry.catalogue.registrations("news")
    noted = Tombstone("news", 1, row.digest, at="2026")
    deletion_notes.write(registry.workspace, row.store, [noted])
    assert "deletions" in [finding.subject for finding in examine()]
    Path("broken.txt").write_bytes(b"no \xff UTF-8 " * 1000)
    assert bpeline("train", "broken.txt", "--name", "other").exit_code == 2
    Path("broken.txt").write_text("mended, mended and mended " * 1000)
    resumed = bpeline("resume")  # candidate points to it
    assert resumed.exit_code == 0, resumed.output
    assert re.search(r"^note: .*candidate", resumed.stderr, re.MULTILINE)
    assert bpeline("delete", "news@candidate", "--yes").exit_code == 0
    deletion_notes.write(registry.workspace, row.store, [noted])
    done = bpeline("resume", "--json")
    assert json.loads(done.stdout) == {"published": [], "deleted": ["news/1"]}
    assert "deletions" not in [finding.subject for finding in examine()]
