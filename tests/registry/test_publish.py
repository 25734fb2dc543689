"""Publishing: once for each behaviour, in an order that a crash cannot turn into a lie."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from own_time import own_time

from bpeline.registry import promote
from bpeline.registry.loading.version_files import format_files, load_verified
from bpeline.registry.opening import Registry
from bpeline.registry.publishing.publish import publish_outbox, publish_version, waiting_records
from bpeline.registry.records.publication import CURVE_METRIC, Publication, PublishedVersion
from bpeline.registry.tracking import MlflowTracker
from bpeline.registry.tracking.mlflow_models import Models
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    RegistryError,
    RegistryUnreachable,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer

Made = Callable[..., Publication]


def publish(registry: Registry, publication: Publication) -> PublishedVersion:
    return publish_version(registry, publication)


def deliver(registry: Registry) -> list[PublishedVersion]:
    return publish_outbox(registry)


class LostReply(ConnectionError):
    """The server did as it was told; the answer never came."""


class LosingReplies(Models):
    """Raises after the version was created."""

    def create_version(self, publication: Publication, run: Any, model: Any) -> None:
        super().create_version(publication, run, model)
        raise LostReply


class Stuttering(Models):
    """Creates twice, as MLflow's client does when it repeats a request whose reply was lost."""

    def create_version(self, publication: Publication, run: Any, model: Any) -> None:
        super().create_version(publication, run, model)
        super().create_version(publication, run, model)


def through(registry: Registry, kind: type[Models] = Models) -> Registry:
    """The same registry, whose MLflow registers versions in another way."""
    tracker = MlflowTracker(registry.tracker.settings)
    tracker.models = kind(tracker._connection, tracker.runs)
    return Registry(registry.place, tracker)


def test_a_published_version_is_known_everywhere(registry: Registry, made: Made) -> None:
    publication = made(b"the")
    version = publish(registry, publication)
    assert version.reference == "news/1"
    assert version.newly_registered
    assert version.link.endswith("/models/news/versions/1?workflowType=machine_learning")
    (row,) = registry.catalogue.versions("news")
    assert row.digest == publication.digest
    assert row.corpus_digest == publication.corpus_digest
    assert [one.number for one in registry.catalogue.registrations("news")] == [1]
    assert registry.tracker.aliases("news").get("news", {}) == {"candidate": 1}
    points = {
        (one.key, one.step): one.value
        for one in registry.catalogue.find_version("news", publication.digest).metrics
    }
    assert points == {
        (CURVE_METRIC, 256): 1.0,
        (CURVE_METRIC, 258): 2.5,
        ("train/seconds", 258): 0.25,
    }
    kept = {path.name for path in version.directory.iterdir() if path.is_file()}
    assert kept == {path.name for path in format_files(version.directory)}
    assert waiting_records(registry.workspace) == []


@pytest.mark.night
def test_the_same_behaviour_is_registered_once(registry: Registry, made: Made) -> None:
    first = publish(registry, made(b"the", run_id="monday"))
    publish(registry, made(b"and", run_id="tuesday"))
    again = publish(registry, made(b"the", run_id="wednesday"))
    assert first.newly_registered
    assert not again.newly_registered
    assert (again.number, again.mlflow_run_id) == (1, first.mlflow_run_id)
    assert [one.number for one in registry.tracker.versions("news")] == [1, 2]
    assert [one.number for one in registry.catalogue.registrations("news")] == [1, 2]
    assert registry.tracker.aliases("news").get("news", {}) == {"candidate": 2}, "not back"
    same, stays = again.remarks
    assert "news/1" in same
    assert re.search(r"news@candidate\b.*news/2\b", stays)


@pytest.mark.night
def test_names_do_not_share_versions(registry: Registry, made: Made) -> None:
    assert publish(registry, made(b"the")).newly_registered
    other = publish(registry, made(b"the", name="code.v2"))
    assert other.newly_registered
    assert other.reference == "code.v2/1"


@pytest.mark.night
@pytest.mark.parametrize("kind", [LosingReplies, Stuttering])
def test_lost_and_repeated_replies_make_one_version(
    registry: Registry, made: Made, kind: type[Models]
) -> None:
    troubled = through(registry, kind)
    for number, word in enumerate((b"the", b"and", b"of"), 1):
        version = publish(troubled, made(word))
        assert version.newly_registered
        found = registry.tracker.find_versions("news", version.digest)
        assert [one.number for one in found] == [version.number]
        assert len(registry.tracker.versions("news")) == number


def test_duplicates_of_an_interrupted_call_are_removed_by_the_next(
    registry: Registry, made: Made
) -> None:
    class Interrupted(Stuttering):
        def create_version(self, publication: Publication, run: Any, model: Any) -> None:
            super().create_version(publication, run, model)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(through(registry, Interrupted), made(b"the"))
    assert [one.number for one in registry.tracker.versions("news")] == [1, 2]
    (version,) = deliver(registry)
    assert version.newly_registered
    assert [one.number for one in registry.tracker.versions("news")] == [1]


def test_no_alias_is_moved_to_a_duplicate_that_is_about_to_go(
    registry: Registry, made: Made
) -> None:
    class Promoting(Stuttering):
        def create_version(self, publication: Publication, run: Any, model: Any) -> None:
            super().create_version(publication, run, model)
            with pytest.raises(RegistryError, match="news/1"):
                promote("news/2", "champion")

    publish(through(registry, Promoting), made(b"the"))
    assert [one.number for one in registry.tracker.versions("news")] == [1]
    assert registry.tracker.aliases("news")["news"] == {"candidate": 1}


def test_a_duplicate_that_somebody_relies_on_is_left_alone(registry: Registry, made: Made) -> None:
    class Promoting(Stuttering):
        def create_version(self, publication: Publication, run: Any, model: Any) -> None:
            super().create_version(publication, run, model)
            registry.tracker.move_alias(publication.name, "champion", 2)

    version = publish(through(registry, Promoting), made(b"the"))
    assert version.number == 1, "the lowest number wins"
    assert [one.number for one in registry.tracker.versions("news")] == [1, 2]


@pytest.mark.night
def test_two_who_publish_at_the_same_moment_agree_on_one_version(
    registry: Registry, made: Made
) -> None:
    together = threading.Barrier(2, timeout=120)

    class Simultaneous(Models):
        def create_version(self, publication: Publication, run: Any, model: Any) -> None:
            together.wait()  # both have searched and found nothing
            super().create_version(publication, run, model)
            together.wait()

    rivals = [made(b"the", run_id=run_id) for run_id in ("one", "two")]
    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(publish, through(registry, Simultaneous), one) for one in rivals]
        versions = [future.result() for future in futures]
    assert {one.number for one in versions} == {1}
    assert sorted(one.newly_registered for one in versions) == [False, True]
    assert [one.number for one in registry.tracker.versions("news")] == [1]
    assert [one.number for one in registry.catalogue.registrations("news")] == [1]


def test_what_another_registers_meanwhile_is_found_and_costs_no_number(
    registry: Registry, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtaken = through(registry)
    record = overtaken.tracker.runs.record_run

    def overtaking(*arguments: Any) -> Any:
        publish(registry, made(b"the", run_id="another"))  # after nothing was found
        return record(*arguments)

    monkeypatch.setattr(overtaken.tracker.runs, "record_run", overtaking)
    version = publish(overtaken, made(b"the", run_id="one"))
    assert not version.newly_registered
    assert version.number == 1
    assert publish(registry, made(b"and")).number == 2


@pytest.mark.night
@pytest.mark.parametrize(
    "moment",
    ["find_versions", "runs.record_run", "models.ensure_registered_model", "models.log_model",
     "models.create_version", "move_alias"],
)  # fmt: skip
def test_whenever_mlflow_goes_down_the_outbox_completes_it(
    registry: Registry, made: Made, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise RegistryUnreachable(f"down at {moment}")

    failing = through(registry)
    *parts, method = moment.split(".")
    part = attrgetter(*parts)(failing.tracker) if parts else failing.tracker
    monkeypatch.setattr(part, method, down)
    publication = made(b"the")
    with pytest.raises(RegistryUnreachable) as caught:
        publish(failing, publication)
    assert "bpeline resume" in caught.value.next_step
    (version,) = deliver(registry)
    assert version.reference == "news/1"
    assert version.newly_registered
    assert len(registry.tracker.versions("news")) == 1
    experiment = registry.tracker._client.get_experiment_by_name("news")
    assert len(registry.tracker._client.search_runs([experiment.experiment_id])) == 1
    assert waiting_records(registry.workspace) == []
    assert deliver(registry) == []


def test_a_crash_before_the_catalogue_row_is_completed(
    registry: Registry, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(registry.catalogue), "add_version", killed)
        with pytest.raises(KeyboardInterrupt):
            publish(registry, made(b"the"))
    assert len(waiting_records(registry.workspace)) == 1
    (version,) = deliver(registry)
    assert version.newly_registered
    assert [row.digest for row in registry.catalogue.versions("news")] == [version.digest]
    assert len(registry.tracker.versions("news")) == 1


def test_a_dead_server_leaves_a_record_and_answers_soon(
    registry: Registry, disconnected: Registry, made: Made
) -> None:
    publication = made(b"the")
    begin = own_time()
    with pytest.raises(RegistryUnreachable):
        publish(disconnected, publication)
    with pytest.raises(RegistryUnreachable):
        deliver(disconnected)
    assert own_time() - begin < 60
    (record,) = waiting_records(registry.workspace)
    for path in publication.tokenizer_directory.iterdir():
        path.unlink()  # the run's own directory may be gone when MLflow is back
    (version,) = deliver(registry)
    assert version.digest == publication.digest
    assert not record.exists()


def test_the_outbox_is_delivered_in_the_order_of_training(
    registry: Registry, disconnected: Registry, made: Made
) -> None:
    # Their records lie in the other order: they are called by their digests.
    first, second = sorted((made(b"aa"), made(b"zz")), key=lambda one: one.digest)
    # And the clock was put back between them.
    earlier = replace(second, created_at="2026-01-03T00:00:00+00:00")
    later = replace(first, created_at="2026-01-02T00:00:00+00:00")
    for publication in (earlier, later):
        with pytest.raises(RegistryUnreachable):
            publish(disconnected, publication)
    assert [one.digest for one in deliver(registry)] == [earlier.digest, later.digest]
    assert registry.tracker.aliases("news").get("news", {}) == {"candidate": 2}
    assert registry.tracker.version("news", 2).digest == later.digest  # type: ignore[union-attr]


def test_a_damaged_record_does_not_hold_up_the_others(
    registry: Registry, disconnected: Registry, made: Made
) -> None:
    with pytest.raises(RegistryUnreachable):
        publish(disconnected, made(b"the"))
    damaged = registry.workspace.outbox_record("aaa")
    DURABLE.write(damaged, b'{"format": 1, "name"')
    with pytest.raises(CorruptFile, match=r"aaa\.json"):
        deliver(registry)
    assert [one.number for one in registry.catalogue.registrations("news")] == [1]
    assert waiting_records(registry.workspace) == [damaged]


@pytest.mark.parametrize("name", ["tokenizer.bin", "manifest.json"])
def test_files_that_were_damaged_while_they_waited_are_not_published(
    registry: Registry, disconnected: Registry, made: Made, name: str
) -> None:
    publication = made(b"the")
    with pytest.raises(RegistryUnreachable):
        publish(disconnected, publication)
    path = registry.workspace.version_directory(publication.digest) / name
    DURABLE.write(path, path.read_bytes()[:-3])
    with pytest.raises(CorruptFile, match=publication.digest):
        deliver(registry)
    assert registry.tracker.versions("news") == []
    assert len(waiting_records(registry.workspace)) == 1


def test_a_record_survives_its_journey_through_json(made: Made, tmp_path: Path) -> None:
    publication = replace(made(b"the"), figures=(tmp_path / "a.svg",), tags={"source": "demo"})
    again = Publication.from_json(publication.as_json(), tmp_path)
    assert again == publication


def test_files_of_another_tokenizer_are_not_published(registry: Registry, made: Made) -> None:
    the, and_ = made(b"the"), made(b"and")
    swapped = replace(the, tokenizer_directory=and_.tokenizer_directory)
    with pytest.raises(CorruptFile, match=the.digest):
        publish(registry, swapped)
    assert registry.tracker.versions("news") == []
    assert waiting_records(registry.workspace) == []


@pytest.mark.parametrize("name", ["", "News", "a/b", "../x", "a b", "-a", "x" * 65, "a\0", "ü"])
def test_names_that_could_leave_their_place_are_refused(made: Made, name: str) -> None:
    with pytest.raises(InvalidOption):
        replace(made(b"the"), name=name)


def test_a_registered_version_keeps_the_special_tokens_that_it_finds(
    registry: Registry, made: Made, tmp_path: Path
) -> None:
    """A tokenizer.json of a version has its digest, and another default for special tokens."""
    first = made(b"the")
    trained = Tokenizer.load(first.tokenizer_directory)
    trained = Tokenizer(
        {**trained.vocab, 999: b"<|end|>"}, trained.merges, ["<|end|>"], trained.pattern
    )
    trained.save(first.tokenizer_directory)
    publish(registry, replace(first, digest=trained.digest))
    trained.save(tmp_path / "tokenizer.json", "hf")
    imported = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (imported.digest, imported.spec.allowed_special) == (trained.digest, "all")
    imported.save(tmp_path / "again")
    again = replace(
        first, digest=imported.digest, tokenizer_directory=tmp_path / "again", run_id="run-again"
    )
    assert publish(registry, again).newly_registered is False
    kept = load_verified(registry.workspace.version_directory(imported.digest))
    assert kept.spec.allowed_special == "none"
    assert 999 not in kept.encode("a <|end|>")
