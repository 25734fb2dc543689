"""Machines that share a store and a catalogue: nothing is counted twice, versions load anywhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import Result
from postgres import PostgresServer
from s3_server import SECRET, S3Server

from bpeline.flows.counting import word_counting
from bpeline.registry import environment, load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core import remote_files

pytest.importorskip("s3fs")
pytest.importorskip("psycopg")

Command = Callable[..., Result]
Machine = Callable[[str], Command]


@pytest.fixture
def texts(s3: S3Server, english_and_code: str, tmp_path: Path) -> str:
    """About 300 kB in three objects of three kinds; the URL of their folder."""
    place = f"corpus-{tmp_path.name}"
    parts = [english_and_code[begin : begin + 100_000] for begin in range(0, 300_000, 100_000)]
    s3.put(f"{place}/a.txt", parts[0].encode())
    s3.put(f"{place}/b.txt.zst", zstandard.ZstdCompressor().compress(parts[1].encode()))
    lines = "".join(json.dumps({"text": line}) + "\n" for line in parts[2].split("\n\n"))
    s3.put(f"{place}/deep/c.jsonl", lines.encode())
    return f"s3://{s3.bucket}/{place}"


@pytest.fixture
def machine(
    s3: S3Server,
    postgres: PostgresServer,
    fresh_workspace: Path,
    tmp_path: Path,
    bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> Machine:
    """The command line of a machine: a disk of its own, the same store, catalogue and MLflow."""
    mlflow = tmp_path / "mlflow.sqlite"
    mlflow.write_bytes((fresh_workspace / "mlflow.sqlite").read_bytes())
    monkeypatch.setenv("BPELINE_CATALOGUE_URL", postgres.new_url())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{mlflow}")
    monkeypatch.setenv("BPELINE_STORE", f"s3://{s3.bucket}/store-{tmp_path.name}")

    def at(name: str) -> Command:
        def run(*arguments: Any) -> Result:
            environment._configured = None
            monkeypatch.setenv("BPELINE_HOME", str(tmp_path / name))
            return bpeline(*arguments)

        return run

    return at


def trained(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


TRAIN = ("--name", "news", "--vocab-size", "400", "--json")


@pytest.mark.night
def test_what_one_machine_made_no_other_makes_again(
    machine: Machine, texts: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trained(machine("a")("train", texts, *TRAIN))
    stored = s3.keys(f"store-{tmp_path.name}/")
    kinds = {key.split("/")[1] for key in stored}
    assert kinds == {
        "shards", "tables", "runs", "versions", "mlflow-artifacts", "evaluation-sets",
    }  # fmt: skip

    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("counted again")

    with monkeypatch.context() as patched:
        patched.setattr(word_counting, "count_chunk", refuse)
        patched.setattr(word_counting, "cut_chunks", refuse)
        again = machine("b")("train", texts, *TRAIN)
    second = trained(again)
    assert second["digest"] == first["digest"]
    assert second["reference"] == first["reference"] == "news/1"

    # A third machine only loads; a fourth goes on with the merges and the counts.
    assert machine("c")("versions").exit_code == 0
    loaded = load_tokenizer("news@candidate")
    assert loaded.digest == first["digest"]
    home = tmp_path / "c"
    assert not any((home / "shards").rglob("*.arrow"))
    on_url = ("--eval", f"code={texts}/b.txt.zst")
    larger = trained(
        machine("d")("train", texts, *TRAIN[:2], "--vocab-size", "500", "--json", *on_url)
    )
    assert larger["digest"] != first["digest"]
    tokenizer = load_tokenizer("news/2")
    assert tokenizer.merges[: len(loaded.merges)] == loaded.merges

    # What was held out when the version was made is compared on, wherever that was.
    compared = machine("e")("compare", "news/1", "news/2", "--json")
    assert compared.exit_code == 0, compared.stderr
    on_urls = machine("e")("compare", "news/1", "news/2", "--eval", f"{texts}/a.txt", "--json")
    assert on_urls.exit_code == 0, on_urls.stderr
    counted = machine("e")("count", "news/1", f"{texts}/*.txt", "--json")
    assert json.loads(counted.stdout)["total"]["bytes"] >= 100_000
    encoded = machine("e")("encode", "news/1", texts, "-o", tmp_path / "tokens", "--json")
    assert encoded.exit_code == 0, encoded.stderr
    # The evaluation set is people's text: any machine removes it with the last version, everywhere.
    sets = f"store-{tmp_path.name}/evaluation-sets/"
    gone = machine("f")
    assert gone("delete", "news@candidate", "--yes").exit_code == 0
    told = gone("delete", "news/1", "--yes").stdout
    (kept_set,) = {key.removeprefix(sets).partition("/")[0] for key in s3.keys(sets)}
    assert f"evaluation set {kept_set[:8]}" in told, "that of news/2"
    assert gone("delete", "news", "--yes").exit_code == 0
    assert s3.keys(sets) == []
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.night
def test_a_store_that_goes_away_stops_a_run_and_the_next_one_goes_on(
    machine: Machine, texts: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # else botocore alone takes half a minute
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.01)
    plain = word_counting.count_chunk
    calls = []

    def counting(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            s3.stop()
        return plain(*arguments)

    monkeypatch.setattr(word_counting, "count_chunk", counting)
    try:
        stopped = machine("a")("train", texts, *TRAIN, "--threads", "1")
    finally:
        s3.start()
    assert stopped.exit_code in {1, 2}
    assert len(calls) == 2
    assert "s3://" in stopped.stderr
    assert "cannot be" in stopped.stderr
    assert "again" in stopped.stderr
    assert SECRET not in stopped.stderr
    (run,) = open_registry().catalogue.unfinished_runs()
    assert run.state == "failed"
    done = trained(machine("a")("train", texts, *TRAIN))
    assert len(calls) == 4  # the first was kept
    assert open_registry().catalogue.unfinished_runs() == []
    assert trained(machine("b")("train", texts, *TRAIN))["digest"] == done["digest"]
    assert len(calls) == 4


@pytest.mark.night
def test_a_version_that_another_machine_deletes_is_gone_from_the_store(
    machine: Machine, texts: str, s3: S3Server, tmp_path: Path
) -> None:
    digest = trained(machine("a")("train", f"{texts}/a.txt", *TRAIN))["digest"]
    store = f"store-{tmp_path.name}/"

    def kept() -> list[str]:
        own = (f"/versions/{digest}/", "/mlflow-artifacts/")
        return [key for key in s3.keys(store) if any(one in key for one in own)]

    assert len(kept()) > 10
    assert machine("b")("delete", "news@candidate", "--yes").exit_code == 0
    gone = machine("b")("delete", "news/1", "--yes", "--reason", "an address")
    assert gone.exit_code == 0, gone.output
    assert kept() == []
    assert "bpeline gc" not in gone.stdout  # which refuses a workspace with a store
    assert "other machines" in gone.stdout
    told = machine("c")("encode", "news/1", "text")
    assert told.exit_code == 1
    assert "an address" in told.stderr
    assert trained(machine("c")("train", f"{texts}/a.txt", *TRAIN))["reference"] == "news/2"


@pytest.mark.night
def test_a_file_that_is_written_anew_is_counted_anew(
    machine: Machine, s3: S3Server, english_and_code: str, tmp_path: Path
) -> None:
    key = f"changing-{tmp_path.name}/a.txt"
    url = f"s3://{s3.bucket}/{key}"
    run = machine("a")
    digests = []
    for begin in (0, 50_000):
        s3.put(key, english_and_code[begin : begin + 50_000].encode())
        digests.append(trained(run("train", url, *TRAIN))["digest"])
    assert digests[0] != digests[1]


@pytest.mark.night
@pytest.mark.parametrize("removed", ["as gc says", "the workspace"])
def test_what_was_not_published_survives_the_removal_of_a_machines_files(
    machine: Machine, texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: str
) -> None:
    """`gc` said to remove all of it, an unpublished version in the outbox included."""
    run, uri = machine("a"), os.environ["MLFLOW_TRACKING_URI"]
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    failed = run("train", f"{texts}/a.txt", *TRAIN)
    assert failed.exit_code == 1
    assert "is not published" in failed.stderr
    (words,) = re.findall("`rm -r ([^`]*)`", run("gc", "--dry-run").stderr)
    everything = removed == "the workspace"
    for directory in [tmp_path / "a"] if everything else map(Path, shlex.split(words)):
        shutil.rmtree(directory)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    if everything:
        assert '"published": []' in run("resume", "--json").stdout
        assert re.search(r"^broken +versions +.*news \(\w+\)", run("doctor").stdout, re.MULTILINE)
        fixed = run("doctor", "--fix")
        assert re.search(r"^ok +fixed +news \(\w+\)", fixed.stdout, re.MULTILINE)
    else:
        assert "news/1" in run("resume").stdout
    assert "broken" not in run("doctor").stdout
    (version,) = json.loads(run("versions", "--json").stdout)
    assert (version["number"], version["aliases"]) == (1, ["candidate"])
    assert load_tokenizer("news@candidate").digest == version["digest"]
    assert open_registry().catalogue.unfinished_runs() == []
    again = trained(run("train", f"{texts}/a.txt", *TRAIN))
    assert (again["reference"], again["newly_registered"]) == ("news/1", False)
    assert again["chunks_reused"] == again["chunks"]


@pytest.mark.night
def test_a_password_in_a_url_is_refused_before_anything_is_kept(
    machine: Machine, s3: S3Server
) -> None:
    run = machine("a")
    for arguments in (
        ("train", "ftp://user:hunter2@host/a.txt", *TRAIN),
        ("train", "s3://b/a.txt", *TRAIN, "--eval", "x=ftp://user:hunter2@host/a.txt"),
        ("count", "news/1", "ftp://user:hunter2@host/a.txt"),
    ):
        refused = run(*arguments)
        assert refused.exit_code != 0
        assert "hunter2" not in refused.stderr + refused.stdout
    assert open_registry().catalogue.runs() == []
