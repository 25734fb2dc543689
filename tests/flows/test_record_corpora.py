"""Trainings on files of records: the version is that of the same documents as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from record_files import as_jsonl, as_parquet, save_to_disk

from bpeline.tokenizer_core.corpus import chunking, split_of

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.fixture
def documents(english_and_code: str) -> list[str]:
    return [english_and_code[at : at + 900] for at in range(0, 90_000, 900)]


def trained(bpeline: Command, *arguments: Any) -> dict[str, Any]:
    asked = ("--vocab-size", 400, "--held-out", 0.2, "--tie-break", "first-seen", "--json")
    ended = bpeline("train", *arguments, *asked)
    assert ended.exit_code == 0, ended.output
    summary: dict[str, Any] = json.loads(ended.stdout)
    return summary


@pytest.mark.night
def test_a_version_is_that_of_json_lines_counted_once_and_verified(
    documents: list[str],
    corpus: Path,
    bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunking, "PART_BYTES", 1 << 13)
    places = {}
    for name, write in (("lines", as_jsonl), ("table", as_parquet)):
        places[name] = corpus.parent / name
        places[name].mkdir()
        write(places[name], documents)
    lines = trained(bpeline, places["lines"], "--name", "lines")
    table = trained(bpeline, places["table"], "--name", "table")
    assert table["digest"] == lines["digest"]
    for figure in ("compression/bytes_per_token", "held_out/documents"):
        assert table["metrics"].get(figure) == lines["metrics"].get(figure)
    plan = json.loads(
        bpeline(
            "train", places["table"], "--name", "other", "--vocab-size", 400, "--held-out", 0.2,
            "--dry-run", "--json",
        ).stdout
    )  # fmt: skip
    assert plan["chunks_reused"] > 1
    assert plan["unread"] == []
    assert bpeline("verify", "table/1").exit_code == 0
    told = json.loads(bpeline("explain", "table/1", "the", "--json").stdout)
    assert told


def test_who_trains_on_test_texts_is_told(
    documents: list[str], corpus: Path, bpeline: Command
) -> None:
    place = corpus.parent / "saved"
    save_to_disk(place / "train", documents[:60], shards=2)
    save_to_disk(place / "test", documents[60:])

    def notes(*paths: Path) -> list[str]:
        plan = bpeline(
            "train", *paths, "--name", "other", "--vocab-size", 400, "--dry-run", "--json"
        )
        return [note for note in json.loads(plan.stdout)["notes"] if "splits" in note]

    (told,) = notes(place)
    assert "test (1 file), train (2 files)" in told
    assert notes(place / "train") == []
    assert notes(*(place / "train").glob("*.arrow"), *(place / "test").glob("*.arrow")) == []


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("/data/news/train/data-00000-of-00003.arrow", "train"),
        ("/cache/0.0.0/json-validation.arrow", "validation"),
        ("s3://bucket/news/TEST-00000-of-00004.parquet", "test"),
        ("dev.jsonl.gz", "dev"),
        ("train", "train"),
        ("/data/train/deeper/one.txt", ""),
        ("latest.parquet", ""),
        ("test_of_time.txt", ""),
        ("contest.txt", ""),
    ],
)
def test_splits_are_known_by_their_names(path: str, split: str) -> None:
    assert split_of(path) == split
