"""What waits in the outbox comes back as it went in, and so do records of earlier days."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bpeline.registry import publish_version
from bpeline.registry.opening import Registry
from bpeline.registry.records.publication import CorpusInput, Publication

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
    points = registry.catalogue.metrics("news", publication.digest)
    assert [(p.step, p.value) for p in points if p.key == "bytes_per_token/german"] == list(curve)
    client = registry.tracker._client
    shown = client.get_metric_history(published.mlflow_run_id, "bytes_per_token/german")
    assert [(one.step, one.value) for one in shown] == list(curve)
    (stored,) = registry.workspace.mlflow_artifacts.rglob("comparison/comparison.html")
    assert stored.read_text(encoding="utf-8") == "<p>better</p>"
