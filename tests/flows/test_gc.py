"""``bpeline gc``: says first, removes when asked, and nothing that training again would miss."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result
from faulty_disk import mounted
from mlflow import MlflowClient

from bpeline.registry.opening import open_registry
from bpeline.registry.tracking.tracked import OWNER_TAG


@pytest.mark.night
def test_what_could_go_is_said_and_then_removed(
    corpus: Path, bpeline: Callable[..., Result]
) -> None:
    train = ("train", corpus, "--name", "news", "--vocab-size", 300)
    assert bpeline(*train).exit_code == 0
    (corpus / "part-0.txt").write_text("something else altogether " * 200)
    assert bpeline(*train).exit_code == 0

    def left() -> set[Path]:
        return {path for path in Path(".bpeline").rglob("*") if path.is_file()}

    before = left()
    said = bpeline("gc", "--days", 0, "--dry-run")
    assert said.exit_code == 0
    assert "checkpoints" in said.output
    assert "bpeline gc --days 0 --yes\n" in said.output
    assert left() == before

    counts = json.loads(bpeline("gc", "--days", 0, "--counts-of", 0, "--dry-run", "--json").output)
    assert not counts["removed"]
    assert {one["kind"] for one in counts["old"]} == {"table", "shard", "run"}

    said = bpeline("gc", "--days", 0, "--counts-of", 0, "--dry-run")
    (again,) = re.findall(r"remove it:  bpeline (.*)\n", said.output)
    done = bpeline(*shlex.split(again))
    assert done.exit_code == 0, done.output
    assert "removed" in done.output
    assert len(list(Path(".bpeline/tables").glob("*.duckdb"))) == 1
    assert json.loads(bpeline("gc", "--days", 0, "--dry-run", "--json").output)["old"] == []

    again = json.loads(bpeline(*train, "--json").stdout)
    assert (again["reference"], again["newly_registered"]) == ("news/2", False)


@pytest.mark.night
def test_on_a_full_disk_gc_and_delete_make_room_first(
    tmp_path: Path, corpus: Path, bpeline: Callable[..., Result]
) -> None:
    """Both failed: they wrote a lock's holder, and a note, before anything was freed."""
    with mounted(tmp_path / "disk", "12m") as disk:
        home, ballast = disk / "home", disk / "ballast"
        shutil.copytree(".bpeline", home)
        for size in (300, 310):
            train = ("train", corpus, "--name", "news", "--vocab-size", size, "--workspace", home)
            assert bpeline(*train).exit_code == 0
        tracker = open_registry(home).tracker
        client = MlflowClient(tracker.settings.uri)
        client.create_run("1", tags={OWNER_TAG: tracker.settings.owner})  # which never ended
        for command in (("gc", "--days", 0), ("delete", "news/1")):
            assert bpeline("sql", "select 1", "--workspace", home).exit_code == 0
            with suppress(OSError), ballast.open("ab", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            done = bpeline(*command, "--yes", "--workspace", home)
            assert done.exit_code == 0, done.stderr
            assert not (home / "words.duckdb").exists()
            ballast.unlink()


def test_without_a_workspace_there_is_nothing(
    tmp_path: Path, bpeline: Callable[..., Result]
) -> None:
    result = bpeline("gc", "--dry-run")
    assert result.exit_code != 0
    assert str(tmp_path) in result.output + result.stderr
    assert not (tmp_path / ".bpeline").exists()
