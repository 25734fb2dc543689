"""What MLflow is told, and what it answers; on its real SQLite store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_time import own_time

from bpeline.registry.figures import draw_observations, draw_sweep
from bpeline.registry.loading.version_files import all_files, format_files
from bpeline.registry.opening import Registry, open_registry, tracking_settings
from bpeline.registry.publishing.publish import publish_version, register_once
from bpeline.registry.records.publication import CURVE_METRIC, Publication
from bpeline.registry.tracking import MlflowTracker
from bpeline.registry.tracking.descriptions import shortened_page
from bpeline.registry.tracking.mlflow_errors import insisting
from bpeline.registry.tracking.tracked import LONGEST_TEXT, TrackingSettings, model_link, run_link
from bpeline.registry.workspace.servers import remember_ui_port, serving_ui
from bpeline.tokenizer_core.errors import RegistryError, RegistryUnreachable, UnknownVersion

Made = Callable[..., Publication]


def record(registry: Registry, publication: Publication) -> Any:
    files = all_files(publication.tokenizer_directory)
    return registry.tracker.runs.record_run(publication, files)


def register(registry: Registry, publication: Publication, tmp_path: Path) -> int:
    run = record(registry, publication)
    staging = tmp_path / f"staging-{publication.run_id}"
    staging.mkdir()
    files = format_files(publication.tokenizer_directory)
    config = {"tokenizers": "", "packages": ["bpeline"]}
    return register_once(registry.tracker, publication, run, files, config, staging).number


def test_a_run_shows_what_was_asked_and_what_came_of_it(registry: Registry, made: Made) -> None:
    publication = made(b"the")
    client = registry.tracker._client
    run = client.get_run(record(registry, publication).run_id)
    assert run.info.status == "FINISHED"
    asked = {"vocab_size": "258", "sources": "a.txt, b.txt"}
    assert run.data.params == {**asked, "evaluation_set": "none"}
    assert run.data.metrics == {CURVE_METRIC: 2.5}, "the decisive ones"
    assert run.data.tags["digest"] == publication.digest
    assert run.data.tags["corpus_digest"] == publication.corpus_digest
    (source,) = run.inputs.dataset_inputs
    assert source.dataset.name == "web"
    assert source.dataset.digest == "e" * 36
    assert "e" * 64 in source.dataset.profile


@pytest.mark.parametrize("switch", ["asynchronous", "active model", "uv project"])
def test_a_run_is_the_same_whatever_mlflow_is_switched_to(
    switch: str, registry: Registry, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = made(b"the")
    registry.tracker.prepare()
    from mlflow.tracking import fluent

    if switch == "asynchronous":
        monkeypatch.setenv("MLFLOW_ENABLE_ASYNC_LOGGING", "true")
    elif switch == "active model":
        fluent._set_active_model_id("m-0123")
    else:
        monkeypatch.chdir(tmp_path)
        for name in ("uv.lock", "pyproject.toml"):
            (tmp_path / name).write_text("version = 1")
    try:
        register(registry, publication, tmp_path)
        run = registry.tracker._client.get_run(record(registry, publication).run_id)
    finally:
        fluent.clear_active_model()
    assert run.data.metrics == {CURVE_METRIC: 2.5}, "the decisive ones"
    assert not list(registry.workspace.mlflow_artifacts.rglob("uv.lock"))


def test_the_curve_has_the_vocab_size_as_step(registry: Registry, made: Made) -> None:
    run = record(registry, made(b"the"))
    points = registry.tracker._client.get_metric_history(run.run_id, CURVE_METRIC)
    assert [(point.step, point.value) for point in points] == [(256, 1.0), (258, 2.5)]


def test_recording_again_continues_the_same_run(registry: Registry, made: Made) -> None:
    publication = made(b"the")
    first = record(registry, publication)
    assert record(registry, publication).run_id == first.run_id
    client = registry.tracker._client
    assert len(client.search_runs([first.experiment_id])) == 1
    assert len(client.get_metric_history(first.run_id, CURVE_METRIC)) == 2


def test_files_figures_and_report_are_kept_under_an_absolute_place(
    registry: Registry, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    figures = (draw_sweep({"gpt2": [(512, 2.0), (256, 1.0)]}, tmp_path / "curve.svg", "news"),)
    record(registry, replace(made(b"the"), figures=figures))
    place = registry.workspace.mlflow_artifacts
    kept = {str(path.relative_to(place)).split("artifacts/")[1] for path in place.rglob("*.*")}
    assert kept == {
        "tokenizer/tokenizer.bin",
        "tokenizer/manifest.json",
        "figures/curve.svg",
        "report.md",
        "params.json",
        "metrics.json",
    }
    assert not list(elsewhere.iterdir())


def test_pictures_of_the_same_numbers_are_the_same_bytes(tmp_path: Path) -> None:
    curve = {"gpt2": [(256, 1.0), (512, 1.9)]}
    first = draw_sweep(curve, tmp_path / "1.svg").read_bytes()
    assert first == draw_sweep(curve, tmp_path / "2.svg").read_bytes()
    assert first != draw_sweep({"gpt2": [(256, 1.0), (512, 1.8)]}, tmp_path / "3.svg").read_bytes()
    assert b"<svg" in first


@pytest.mark.parametrize(
    ("watched", "lines"),
    [({1: 3.0, 2: 3.0, 3: 3.0}, 1), ({1: 3.0, 2: 4.0, 3: 4.0}, 2), ({2: 3.0, 3: 3.0}, 2)],
    ids=["one version", "two versions", "one that is not known"],
)
def test_a_line_of_observations_ends_with_its_version(
    watched: dict[int, float], lines: int, tmp_path: Path
) -> None:
    series = {"all": [(1, 3.4), (2, 3.3), (3, 3.2)]}
    picture = draw_observations(series, watched, tmp_path / "a.svg", level=3.5).read_text()
    assert picture.count('stroke="rgb') == lines + 1
    assert picture.count("stroke-dasharray") == 1


def test_long_and_odd_parameters_are_cut_visibly_and_kept_whole_beside(
    registry: Registry, made: Made
) -> None:
    publication = replace(made(b"the"), params={"sources": "x" * 9000, "nothing": None})
    run = record(registry, publication)
    shown = registry.tracker._client.get_run(run.run_id).data.params
    assert len(shown["sources"]) == LONGEST_TEXT
    assert shown["sources"].endswith("…")
    (whole,) = registry.workspace.mlflow_artifacts.rglob("params.json")
    assert "x" * 9000 in whole.read_text()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\n\n## two\n\n| a |\n" * 9, ""),
        ("one\n\n" + "## two\n\n| a |\n" * 900, "| a |"),
        ("| row |\n" * 900, "| row |"),
        ("x" * 9000, "x"),
    ],
    ids=["short", "sections", "one table", "one line"],
)
def test_a_long_description_ends_with_a_section_or_a_row(text: str, shown: str) -> None:
    page = shortened_page(text, "report.md")
    if not shown:
        assert page == text.rstrip()
        return
    kept, _, rest = page.rpartition("\n\n")
    assert text.startswith(kept)
    assert kept.endswith(shown)
    assert rest == "The rest is in the artifact `report.md`."
    assert 4900 < len(page) <= 5000


def test_values_without_a_finite_number_are_left_out(made: Made) -> None:
    publication = made(b"the")
    odd = Publication(
        "news", publication.digest, publication.tokenizer_directory, "run",
        metrics={"a": float("nan"), "b": float("inf"), "c": 1},
    )  # fmt: skip
    assert odd.metrics == {"c": 1.0}


@pytest.mark.night
def test_versions_are_found_by_digest_alias_and_number(
    registry: Registry, made: Made, tmp_path: Path
) -> None:
    the, and_ = made(b"the"), made(b"and")
    tracker = registry.tracker
    assert register(registry, the, tmp_path) == 1
    assert register(registry, and_, tmp_path) == 2
    tracker.move_alias("news", "champion", 2)
    champion = tracker.version_of_alias("news", "champion")
    assert champion is not None
    assert (champion.number, champion.digest) == (2, and_.digest)
    assert champion.run_id == and_.run_id
    assert tracker.aliases("news").get("news", {}) == {"champion": 2}
    assert [one.number for one in tracker.find_versions("news", the.digest)] == [1]
    assert [one.number for one in tracker.versions()] == [1, 2]
    assert tracker.version("news", 3) is None
    assert tracker.version("nothing", 1) is None
    assert tracker.version_of_alias("news", "nobody") is None
    assert tracker.version_of_alias("nothing", "champion") is None
    assert tracker.aliases("nothing").get("nothing", {}) == {}
    assert tracker.runs.metrics_of("0" * 32) == {}


def test_models_of_other_people_are_not_taken_for_ours(registry: Registry) -> None:
    client = registry.tracker._client
    client.create_registered_model("churn")
    client.create_model_version("churn", source="file:///somewhere")
    assert registry.tracker.versions() == []


def test_only_named_files_are_downloaded(registry: Registry, made: Made, tmp_path: Path) -> None:
    publication = made(b"the")
    register(registry, publication, tmp_path)
    target = tmp_path / "fetched"
    target.mkdir()
    names = ["manifest.json", "tokenizer.bin"]
    registry.tracker.models.download_version("news", 1, names, target)
    assert sorted(path.name for path in target.rglob("*")) == names
    for path in target.iterdir():
        assert path.read_bytes() == (publication.tokenizer_directory / path.name).read_bytes()
    with pytest.raises(UnknownVersion, match="tokenizer/secrets"):
        registry.tracker.models.download_version("news", 1, ["secrets"], target)


def test_nothing_pickled_is_stored(registry: Registry, made: Made, tmp_path: Path) -> None:
    register(registry, made(b"the"), tmp_path)
    kinds = {path.suffix for path in registry.workspace.mlflow_artifacts.rglob("*.*")}
    assert kinds <= {".json", ".bin", ".txt", ".py", ".yaml", ".md", ""}


def test_a_dead_server_is_reported_soon_and_in_three_parts() -> None:
    tracker = MlflowTracker(TrackingSettings("http://127.0.0.1:9", timeout_seconds=2, retries=0))
    begin = own_time()
    with pytest.raises(RegistryUnreachable) as caught:
        tracker.versions()
    assert own_time() - begin < 60  # MLflow's own defaults would take minutes
    assert "http://127.0.0.1:9" in caught.value.happened
    assert caught.value.accepted
    assert "MLFLOW_TRACKING_URI" in caught.value.next_step


def test_a_race_lost_inside_mlflow_is_asked_again_and_nothing_else_is() -> None:
    answers: list[object] = [
        RuntimeError("(sqlite3.IntegrityError) UNIQUE constraint failed"),
        "found",
    ]

    def ask() -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert insisting(ask) == "found"
    answers[:] = [RuntimeError("no space left"), "found"]
    with pytest.raises(RuntimeError, match="no space"):
        insisting(ask)
    answers[:] = [RuntimeError("IntegrityError")] * 99
    with pytest.raises(RuntimeError, match="IntegrityError"):
        insisting(ask)


def test_a_refusal_is_not_taken_for_silence(registry: Registry) -> None:
    with pytest.raises(RegistryError) as caught:
        registry.tracker.move_alias("nothing", "champion", 1)
    assert not isinstance(caught.value, RegistryUnreachable)


def test_links_open_the_view_with_charts() -> None:
    base = TrackingSettings("http://mlflow.local:5000/").ui
    links = [
        run_link(base, "1", "abc"),
        model_link(base, "news"),
        model_link(base, "news", 3),
    ]
    assert all(one.startswith("http://mlflow.local:5000/#/") for one in links)
    assert all(one.endswith("workflowType=machine_learning") for one in links)
    assert links[2].startswith("http://mlflow.local:5000/#/models/news/versions/3?")
    assert TrackingSettings("sqlite:////x/mlflow.sqlite").ui == "http://127.0.0.1:5000"


@pytest.mark.night
def test_links_name_the_port_at_which_the_pages_were_served_last(
    registry: Registry, made: Callable[..., Publication]
) -> None:
    def published(word: bytes) -> tuple[str, str]:
        again = open_registry()
        version = publish_version(again, made(word))
        return version.link.split("/#")[0], version.ui_command

    workspace = registry.workspace
    assert published(b"the") == ("http://127.0.0.1:5000", "bpeline serve --mlflow-only")
    remember_ui_port(workspace, 5010)
    assert published(b"and") == (
        "http://127.0.0.1:5010",
        "bpeline serve --mlflow-only --mlflow-port 5010",
    )
    for damaged in (b"", b"0", b"70000", b"-5", b"5" * 99, b"\xff", b"5010; rm"):
        workspace.ui_port_file.write_bytes(damaged)
        assert open_registry().tracker.settings.ui == "http://127.0.0.1:5000"
    remember_ui_port(workspace, 5010)
    with serving_ui(workspace, 5020), serving_ui(workspace, 5030):
        assert published(b"then") == ("http://127.0.0.1:5020", "")
    assert published(b"as") == (
        "http://127.0.0.1:5030",
        "bpeline serve --mlflow-only --mlflow-port 5030",
    )
    remember_ui_port(workspace, 5010)
    elsewhere = tracking_settings("http://mlflow.local:5000", workspace)
    assert (elsewhere.ui, elsewhere.ui_command) == ("http://mlflow.local:5000", "")
