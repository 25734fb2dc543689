"""``bpeline derive prune``: a plan in JSON, checked, and the tokenizer that is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.mark.night
def test_a_version_is_pruned_by_the_words_it_was_trained_on(
    corpus: Path, bpeline: Command, tmp_path: Path
) -> None:
    assert bpeline("train", "corpus", "--name", "news", "--vocab-size", "900").exit_code == 0
    options = ("--drop-unreachable", "--min-count", "20", "-o", "plan.json")
    shown = bpeline("derive", "prune", "news/1", *options, "--save-to", "pruned", "--json")
    assert shown.exit_code == 0, shown.output
    plan = json.loads(shown.stdout)
    assert plan == json.loads((tmp_path / "plan.json").read_text())
    before, after = load_tokenizer("news/1"), load_tokenizer("./pruned")
    assert (plan["tokenizer"], plan["pruned"]) == (before.digest, after.digest)
    assert plan["vocab_size"] == {"before": 900, "after": after.vocab_size}
    assert len(plan["dropped"]) == 900 - after.vocab_size > 0
    assert {one["reason"] for one in plan["dropped"]} <= {"rare", "unreachable"}
    for old, new in enumerate(plan["new_of_old"]):
        if new is None:
            assert old in {one["id"] for one in plan["dropped"]}
        else:
            assert plan["old_of_new"][new] == old
            assert after.vocab[new] == before.vocab[old]
    assert plan["sample"]["changed"] <= plan["sample"]["texts"]
    assert plan["tokens"]["after"] >= plan["tokens"]["before"]
    text = bpeline(
        "derive", "prune", "news/1", "corpus/part-0.txt", "--min-count", "3", "-o", "other.json"
    )
    assert text.exit_code == 0, text.output
    assert "900 tokens" in text.stdout
    counted = json.loads((tmp_path / "other.json").read_text())["counted_in"]
    assert counted["digest"] != plan["counted_in"]["digest"]


@pytest.mark.night
def test_what_cannot_be_pruned_says_why(corpus: Path, bpeline: Command) -> None:
    assert bpeline("train", "corpus", "--name", "news", "--vocab-size", "300").exit_code == 0
    assert bpeline("export", "news/1", "--output", "tokenizer.json").exit_code == 0
    for arguments, said in (
        (("news/1",), "add --drop-unreachable"),
        (("./tokenizer.json", "--min-count", "2"), "FILES... --min-count"),
        (("news/9", "--min-count", "2"), "news/1"),
    ):
        refused = bpeline("derive", "prune", *arguments, "-o", "plan.json")
        assert refused.exit_code in (1, 2)
        assert said in refused.stderr
    assert not Path("plan.json").exists()
