"""What waits in the outbox comes back as it went in, and so do records of earlier days."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpeline.registry import publish_version
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import CorpusInput, Publication
from bpeline.tokenizer_core.errors import InvalidOption

pytestmark = pytest.mark.fake_mlflow

Made = Callable[..., Publication]


def test_a_record_comes_back_as_it_went_in(made: Made, tmp_path: Path) -> None:
    publication = replace(
        made(b"the"),
        curves={"bytes_per_token/german": ((512, 1.5), (1024, 2.0))},
        inputs=(CorpusInput("german", "de/*.txt", "f" * 64, "evaluation"),),
        figures=(tmp_path / "a.svg",),
        pages=(tmp_path / "comparison.html",),
    )
    assert Publication.from_json(publication.as_json(), tmp_path) == publication


def test_records_without_the_newer_members_are_read(made: Made, tmp_path: Path) -> None:
    record = json.loads(made(b"the").as_json())
    for newer in ("pages", "curves", "kept", "seal"):
        del record[newer]
    record["inputs"] = [["web", "/corpus/*.txt", "e" * 64]]
    found = Publication.from_json(json.dumps(record).encode(), tmp_path)
    assert (found.pages, dict(found.curves)) == ((), {})
    assert found.inputs[0].context == "training"


def test_points_without_a_value_are_left_out_of_curves(made: Made) -> None:
    publication = replace(made(b"the"), curves={"x": ((512, math.nan), (1024, 2.0))})
    assert publication.curves == {"x": ((1024, 2.0),)}


def test_pages_and_curves_are_kept_with_the_version_and_shown(
    registry: Registry, made: Made, tmp_path: Path
) -> None:
    page = tmp_path / "comparison.html"
    page.write_text("<p>better</p>", encoding="utf-8")
    curve = ((512, 1.5), (1024, 2.0))
    publication = replace(made(b"the"), pages=(page,), curves={"bytes_per_token/german": curve})
    published = publish_version(registry, publication)
    kept = published.directory / "pages" / "comparison.html"
    assert kept.read_text(encoding="utf-8") == "<p>better</p>"
    points = registry.catalogue.versions("news")[-1].metrics
    assert [(p.step, p.value) for p in points if p.key == "bytes_per_token/german"] == list(curve)
    client = registry.tracker._client
    shown = client.get_metric_history(published.mlflow_run_id, "bytes_per_token/german")
    assert [(one.step, one.value) for one in shown] == list(curve)
    (stored,) = registry.workspace.mlflow_artifacts.rglob("comparison/comparison.html")
    assert stored.read_text(encoding="utf-8") == "<p>better</p>"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": 3},
        {"digest": b"x"},
        {"tokenizer_directory": 5},
        {"vocab_size": "3"},
        {"params": ["vocab_size"]},
        {"metrics": [1]},
        {"metrics": {"x": "1"}},
        {"curve": 5},
        {"curves": {"x": 3}},
        {"inputs": ("web",)},
        {"tags": {"a": 1}},
        {"tags": {"a": "\ud800"}},
        {"figures": "a.svg"},
        {"set_number": True},
    ],
)
def test_what_is_of_the_wrong_kind_is_not_published(made: Made, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption) as refused:
        replace(made(b"the"), **wrong)
    assert next(iter(wrong)) in str(refused.value)
    assert refused.value.next_step


@pytest.mark.parametrize("wrong", [{"name": 2}, {"source": Path("a")}, {"digest": "\udce9"}])
def test_an_input_has_texts(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(wrong))):
        replace(CorpusInput("web", "a", "f" * 64), **wrong)


def test_names_that_are_no_utf8_and_figures_without_a_value_may_be_published(
    made: Made, tmp_path: Path
) -> None:
    name = os.fsdecode(b"caf\xe9")
    publication = replace(
        made(b"the"),
        inputs=(CorpusInput(name, name, "f" * 64),),
        params={name: [name]},
        tags={name: name},
        report=name,
        started_by=name,
        metrics={name: np.float32(0.5), "x": math.nan, "y": math.inf},
        curves={name: ((1, 0.5),)},
        figures=(tmp_path / name,),
    )
    assert publication.metrics == {name: 0.5}
    assert Publication.from_json(publication.as_json(), tmp_path) == publication
