"""`bpeline sweep --variant`: the same pattern and size trained otherwise, on one evaluation set."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import Result

from bpeline.flows.engines import dask_engine
from bpeline.flows.sweep import sweep
from bpeline.tokenizer_core.errors import InvalidOption, WorkerLost

pytestmark = pytest.mark.fake_mlflow


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    random = Random(3)
    found = []
    for name, letters, documents in (("en", "abcdefg", 60), ("gr", "αβγδεζ", 12)):
        words = ["".join(random.choices(letters, k=random.randint(3, 7))) for _ in range(80)]
        texts = [" ".join(random.choices(words, k=60)) for _ in range(documents)]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (tmp_path / f"{name}.jsonl").write_text(lines)
        found.append(f"--source={name}={tmp_path / name}.jsonl")
    return found


@pytest.mark.night
def test_variants_are_measured_beside_the_plain_training(
    sources: list[str], bpeline: Callable[..., Result]
) -> None:
    variants = ["plain", "whole-characters", "parity"]
    command = ["sweep", *sources, "--name", "two", "--sizes", "300,330", "--held-out", 0.3]
    command += [f"--variant={one}" for one in variants]
    result = bpeline(*command, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["combinations"]
    assert [(one["variant"], one["vocab_size"]) for one in found] == [
        (variant, size) for variant in variants for size in (300, 330)
    ]
    by_variant = {one["variant"]: one for one in found if one["vocab_size"] == 330}
    assert len({one["record"]["set"]["digest"] for one in found}) == 1
    plain, whole, parity = (by_variant[one]["metrics"] for one in variants)
    assert not any("_percent/all" in name for name in plain)
    for metrics, label in ((whole, "unrestricted"), (parity, "ordinary")):
        change = metrics[f"vs_{label}_percent/all"]
        ratio = plain["compression/bytes_per_token"] / metrics["compression/bytes_per_token"]
        assert 100 * (ratio - 1) == pytest.approx(change, abs=0.01)
    assert parity["parity/gini_of_texts"] < parity["vs_ordinary/gini_of_texts"]
    assert by_variant["parity"]["gini"] == parity["parity/gini_of_texts"]
    assert by_variant["plain"]["gini"] == parity["vs_ordinary/gini_of_texts"]

    shown = bpeline(*command)
    assert "against plain" in shown.output
    assert "Gini" in shown.output
    assert "--parity base" in shown.output
    # What it says to type makes that tokenizer.
    typed = ["train", *sources, "--name", "two", "--vocab-size", 330, "--pattern", "gpt2"]
    trained = bpeline(*typed, "--held-out", 0.3, "--parity", "base", "--json")
    assert trained.exit_code == 0, trained.output
    learned = json.loads(trained.stdout)["metrics"]
    assert learned["compression/bytes_per_token"] == parity["compression/bytes_per_token"]


def test_a_sweep_counts_where_it_was_told(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "CONNECT_SECONDS", 0.3)
    with pytest.raises(WorkerLost):
        sweep([corpus], "other", [300], engine="tcp://127.0.0.1:9")


def test_what_is_no_variant_is_refused(corpus: Path) -> None:
    with pytest.raises(InvalidOption, match="whole-characters"):
        sweep([str(corpus)], "two", [300], variants=["wholly"])


def test_serving_sources_alike_takes_named_ones(
    corpus: Path, bpeline: Callable[..., Result]
) -> None:
    command = ["sweep", corpus, "--name", "two", "--sizes", 300, "--variant", "parity"]
    refused = bpeline(*command)
    assert refused.exit_code == 2
    assert "two named sources" in refused.output
