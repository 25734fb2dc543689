"""``bpeline train --counts``: word counts of other programs through the whole chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core import count_texts

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.fixture
def here(tmp_path: Path, english_and_code: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """text.txt and heldout.txt, and the words of the first in two files below counts/."""
    monkeypatch.chdir(tmp_path)
    text = english_and_code[:200_000]
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    (tmp_path / "heldout.txt").write_text(english_and_code[200_000:500_000], encoding="utf-8")
    (tmp_path / "counts").mkdir()
    half = text.index(" ", 100_000)
    for number, part in enumerate((text[:half], text[half:])):
        pq.write_table(
            count_texts([part], "gpt2").to_arrow(), tmp_path / f"counts/{number}.parquet"
        )
    return tmp_path


def summary_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


EVAL = ("--eval", "text=heldout.txt")


@pytest.mark.night
def test_the_tokenizer_is_that_of_the_text(here: Path, bpeline: Command) -> None:
    options = ("--vocab-size", "600", "--json")
    given = summary_of(bpeline("train", "--counts", "counts", "--name", "given", *EVAL, *options))
    (here / "elsewhere").mkdir()
    counted = summary_of(
        bpeline("train", "text.txt", "--name", "own", "--held-out", "0", *EVAL, *options)
    )
    assert given["digest"] == counted["digest"]
    assert given["word_occurrences"] == counted["word_occurrences"]
    assert given["corpus_bytes"] == counted["corpus_bytes"]
    assert given["files"] == 2
    # What counts cannot tell is left out, not 0.
    assert "corpus/documents" in counted["metrics"]
    assert not {"corpus/documents", "corpus/held_out_bytes"} & given["metrics"].keys()
    assert any("optimistic" in note for note in given["notes"])
    shown = bpeline("show", "given/1")
    assert shown.exit_code == 0, shown.output
    verified = bpeline("verify", "given/1", "--json")
    assert json.loads(verified.stdout)["verdict"] == "identical", verified.output
    again = summary_of(bpeline("train", "--counts", "counts", "--name", "given", *EVAL, *options))
    assert again["chunks_reused"] == again["chunks"] == 2
    larger = summary_of(bpeline("derive", "extend", "given/1", "--vocab-size", "650", "--json"))
    assert larger["vocab_size"] == 650
    inputs = open_registry(make=False).catalogue.runs()[-1].config["counts"]
    assert [Path(one).name for one in inputs] == ["counts"]


@pytest.mark.night
def test_what_counts_do_not_hold_is_asked_for(here: Path, bpeline: Command) -> None:
    def refused(*options: str) -> str:
        result = bpeline("train", "--name", "given", "--vocab-size", "500", *options)
        assert result.exit_code in {2, 3}, result.output
        return result.stderr

    assert "--eval 'text=heldout.txt'" in refused("--counts", "counts")
    assert "counts" in refused("text.txt", "--counts", "counts", *EVAL)
    assert "--deduplicate" in refused("--counts", "counts", "--deduplicate", *EVAL)
    assert "Parquet" in refused("--counts", "text.txt", *EVAL)
    wrong = refused("--counts", "counts", "--count-columns", "token,n", *EVAL)
    assert "--count-columns WORD,COUNT" in wrong
    assert "word,count" in refused("--counts", "counts", "--count-columns", "word", *EVAL)
    assert "pre-token" in refused("--counts", "counts", "--pattern", r"\p{L}", *EVAL)
    plan = bpeline("train", "--name", "given", "--counts", "counts", *EVAL, "--dry-run")
    assert plan.exit_code == 0, plan.output
    trained = bpeline("train", "--name", "given", "--counts", "counts", *EVAL)
    assert trained.exit_code == 0, trained.output
    lines = bpeline("derive", "superwords", "given/1", "--vocab-size", "33000")
    assert lines.exit_code == 2
    assert "lines" in lines.stderr
    watched = bpeline("drift", "given@candidate", "text.txt", "--json")
    assert json.loads(watched.stdout)["outcome"] == "not judged", watched.output
