"""Trainings on files of records: the version is that of the same documents as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from record_files import as_jsonl, as_parquet

from bpeline.tokenizer_core.corpus import chunking

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
            "--plan", "--json",
        ).stdout
    )  # fmt: skip
    assert plan["chunks_reused"] > 1
    assert plan["unread"] == []
    assert bpeline("verify", "table/1").exit_code == 0
    told = json.loads(bpeline("explain", "table/1", "the", "--json").stdout)
    assert told
