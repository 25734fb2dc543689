"""What MLflow shows of a version: few figures, settings and tags, and all others in artifacts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bpeline.registry import publish_version
from bpeline.registry.evaluation import metrics_of
from bpeline.registry.loading import ResolvedVersion
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import CorpusInput, Publication
from bpeline.registry.tracking.mlflow_runs import (
    MOST_METRICS,
    MOST_PARAMS,
    decisive_metrics,
    decisive_params,
)

Made = Callable[..., Publication]
MOST_TAGS = 6
SLICES = [f"language-{number:02}" for number in range(60)]
FIGURES = {
    "compression/bytes_per_token": 3.5,
    "words/fertility": 1.3,
    "seconds/evaluate": 2.0,
    **{f"bytes_per_token/{one}": 3.0 for one in SLICES},
    **{f"vs_champion_percent/{one}{end}": -1.0 for one in SLICES for end in ("", "_low", "_high")},
}


def test_the_decisive_ones_come_first_and_intervals_of_slices_not_at_all() -> None:
    shown = decisive_metrics(FIGURES)
    assert shown[:2] == ["compression/bytes_per_token", "words/fertility"]
    assert len(shown) == MOST_METRICS
    assert "seconds/evaluate" not in shown
    assert not any(name.endswith(("_low", "_high")) for name in shown)
    whole = {"vs_champion_percent/all", "vs_champion_percent/all_low"}
    assert whole <= set(decisive_metrics(whole))


def test_of_parameters_what_was_not_given_is_left_out() -> None:
    given = {"workers": 2, "baselines": [], "champion": "news/1", "vocab_size": 400, "other": "x"}
    assert list(decisive_params(given, MOST_PARAMS)) == ["champion", "vocab_size", "other"]
    assert len(decisive_params({f"p{i}": i for i in range(1, 99)}, MOST_PARAMS)) == MOST_PARAMS


def test_a_version_has_few_of_each_and_all_are_in_its_artifacts(
    registry: Registry, made: Made
) -> None:
    texts = CorpusInput("evaluation set", "3 documents", "e" * 64, "evaluation")
    made_with = {f"setting-{number}": number for number in range(1, 30)}
    publication = replace(
        made(b"the"), metrics=FIGURES, params=made_with, inputs=(texts,), set_number=2,
        tags={"extends": "news/1", "measured_on": "a set"},
    )  # fmt: skip
    published = publish_version(registry, publication)
    client = registry.tracker._client
    run = client.get_run(published.mlflow_run_id)
    assert len(run.data.metrics) == MOST_METRICS
    assert "compression/bytes_per_token.set2" in run.data.metrics
    assert len(run.data.params) == MOST_PARAMS
    assert run.data.params["extends"] == "news/1"
    own = [key for key in run.data.tags if not key.startswith("mlflow.")]
    assert len(own) <= MOST_TAGS, own
    (version,) = client.search_model_versions("name = 'news'")
    assert len(version.tags) <= MOST_TAGS, version.tags
    place = client.download_artifacts(run.info.run_id, "metrics.json")
    assert json.loads(Path(place).read_text()) == FIGURES
    elsewhere = ResolvedVersion("unknown", 1, "d" * 64, published.mlflow_run_id)
    assert metrics_of(registry, elsewhere).items() >= FIGURES.items(), "on another machine, too"
    model = client.get_logged_model(run.data.tags["model_id"])
    of_texts = {one.key: one.dataset_name for one in model.metrics}
    assert of_texts["compression/bytes_per_token.set2"] == "evaluation set"
    assert all(one.model_id == model.model_id for one in model.metrics)
