"""``bpeline explain --token`` of a registered version: its merges' counts, its words, its files."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published import copied

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
RARE = "zyxqwv" * 2


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder with ``plain/1``, trained on two files of which one alone holds a strange word."""
    return folder_after(begin="two sources")


def explained(bpeline: Command, *arguments: str) -> Any:
    answer = bpeline("explain", *arguments, "--json")
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def counted(folder: Path, name: str) -> Counter[str]:
    return Counter(pre_tokens((folder / name).read_text(encoding="utf-8"), "gpt2"))


@pytest.mark.night
def test_the_words_are_those_that_made_it(here: Path, bpeline: Command) -> None:
    tokenizer = load_tokenizer("plain/1")
    found = explained(bpeline, "plain/1", "--token", "ing", "--words", "100000")
    every = counted(here, "english.txt") + counted(here, "german.txt")
    expected = {}
    for word, count in every.items():
        fired = tokenizer.explainer.token(word.encode()).merges
        times = sum(merge.left + merge.right == b"ing" for merge in fired)
        if times and count >= 2:
            expected[word.replace(" ", "Ġ")] = {"count": count, "times": times}
    assert {
        w["word"]: {"count": w["count"], "times": w["times"]} for w in found["words"]
    } == expected
    assert found["words_making_it"] == len(expected)
    assert found["made"] == sum(one["count"] * one["times"] for one in expected.values())
    assert found["trees"][0]["made"] == found["made"]
    assert found["left"] <= found["made"]
    places = {Path(source["path"]).name: source["made"] for source in found["sources"]}
    assert set(places) == {"english.txt", "german.txt"}
    assert sum(places.values()) == found["made"]


@pytest.mark.night
def test_a_strange_token_is_traced_to_its_file(here: Path, bpeline: Command) -> None:
    answer = bpeline("explain", "plain@candidate", "--token", f" {RARE}")
    assert answer.exit_code == 0, answer.output
    lines = answer.stdout.splitlines()
    assert f"Ġ{RARE}" in lines[0]
    assert lines[1].endswith("  60 ×")
    assert re.search(r"\b60\b.*\b60\b", answer.stdout)
    at = lines.index("words that produce it (1)")
    assert lines[at + 1].split() == ["60", f"Ġ{RARE}"]
    at = lines.index("sources (1), from 2 of 2 chunks")
    assert lines[at + 1].split()[:2] == ["60", str((here / "german.txt").absolute())]


def test_special_tokens_come_from_nowhere(here: Path, bpeline: Command) -> None:
    found = explained(bpeline, "news/1", "--token", "<|end|>")
    assert found["special"] is True
    assert "words" not in found
    assert "rank" not in bpeline("explain", "news/1", "--token", "<|end|>").stdout


def test_counts_that_are_gone_are_said_to_be(
    here: Path, bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(here / ".bpeline", tmp_path / ".bpeline")
    shutil.rmtree(tmp_path / ".bpeline" / "tables")
    monkeypatch.chdir(tmp_path)
    answer = bpeline("explain", "plain/1", "--token", "ing")
    assert answer.exit_code == 0, answer.output
    assert "rank" in answer.stdout
    assert "words" not in explained(bpeline, "plain/1", "--token", "ing")


def test_files_that_are_forgotten_leave_their_counts(
    here: Path, bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.registry.catalogue.catalogue import Catalogue

    monkeypatch.setattr(Catalogue, "file_readings", lambda *_: [])
    answer = bpeline("explain", "plain/1", "--token", f" {RARE}")
    assert "sources (1), " in answer.stdout
    assert "german.txt" not in answer.stdout
