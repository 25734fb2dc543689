"""Loading what was loaded before: quickly, without a registry, and never what was meant then."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from kept_registry import KeptRegistry, with_two_versions

from bpeline.registry import configure, load_tokenizer
from bpeline.registry.loading.resolution import StaleAlias, recall
from bpeline.registry.opening import Registry
from bpeline.registry.records.references import ByNumber
from bpeline.registry.tracking import MlflowTracker
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    RegistryUnreachable,
    StorageError,
    UnknownVersion,
)

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from bpeline.registry import configure, load_tokenizer
configure(workspace=sys.argv[1], tracking_uri=sys.argv[2])
print(*[load_tokenizer(reference).digest for reference in sys.argv[3:]])
print(*[name for name in ("mlflow", "sqlalchemy", "duckdb", "prefect") if name in sys.modules])
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    return with_two_versions(tmp_path_factory.mktemp("kept"), empty_mlflow)


@pytest.fixture
def news(kept: KeptRegistry) -> list[str]:
    """The digests of its versions."""
    return list(kept.filled)


def loaded_elsewhere(registry: Registry, *references: str) -> tuple[list[str], list[str]]:
    """The digests that a fresh process loads, and the heavy libraries it imported for that."""
    arguments = [str(registry.workspace.root), registry.tracker.settings.uri, *references]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    digests, imported = done.stdout.splitlines()
    return digests.split(), imported.split()


@pytest.mark.night
def test_a_fresh_process_that_loads_again_imports_no_registry_library(
    registry: Registry, news: list[str]
) -> None:
    references = ("news@champion", "news/2", news[0])
    for reference in references:
        load_tokenizer(reference)
    assert loaded_elsewhere(registry, *references) == ([news[0], news[1], news[0]], [])
    registry.tracker.move_alias("news", "champion", 2)
    assert loaded_elsewhere(registry, "news@champion") == ([news[1]], ["mlflow", "sqlalchemy"])
    assert loaded_elsewhere(registry, "news@champion") == ([news[1]], []), "kept when it was asked"


@pytest.mark.night
@pytest.mark.parametrize(
    "change",
    [
        lambda record: b"{",
        lambda record: b"[" * 10_000,
        lambda record: json.dumps({**record, "store": "another"}).encode(),
        lambda record: json.dumps({**record, "version": {}}).encode(),
        lambda record: json.dumps({**record, "version": {**record["version"], "digest": 1}}),
        lambda record: json.dumps({**record, "version": {**record["version"], "digest": "../x"}}),
    ],
)
def test_a_damaged_memory_is_none(
    registry: Registry, news: list[str], change: Callable[[dict[str, object]], bytes | str]
) -> None:
    load_tokenizer("news/1")
    path = registry.workspace.resolved("news/1")
    changed = change(json.loads(path.read_bytes()))
    path.write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    assert recall(registry.place, ByNumber("news", 1), registry.store) is None
    assert load_tokenizer("news/1").digest == news[0]
    assert recall(registry.place, ByNumber("news", 1), registry.store) is not None


@pytest.mark.night
def test_what_was_resolved_before_is_loaded_without_any_registry(
    registry: Registry,
    news: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another machine has no catalogue rows: what it fetched, it has by its own memory alone."""
    configure(workspace=tmp_path / "other", tracking_uri=registry.tracker.settings.uri)
    for reference in ("news@champion", "news/2"):
        load_tokenizer(reference)

    def unreachable(*_: object) -> None:
        raise RegistryUnreachable("it does not answer")

    monkeypatch.setattr(MlflowTracker, "identity", unreachable)
    with pytest.warns(StaleAlias, match="news/1"):
        assert load_tokenizer("news@champion").digest == news[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_tokenizer("news/2").digest == news[1]
    with pytest.raises(RegistryUnreachable):
        load_tokenizer("news@candidate")


def test_nothing_is_made_where_there_is_no_workspace(tmp_path: Path) -> None:
    configure(workspace=tmp_path / "nowhere")
    for reference in ("news@champion", "news/1", "0" * 64):
        with pytest.raises(StorageError):
            load_tokenizer(reference)
    with pytest.raises(UnknownVersion):
        load_tokenizer(tmp_path / "nothing.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.night
def test_a_smaller_size_is_served_from_one_version(registry: Registry, news: list[str]) -> None:
    whole = load_tokenizer("news/1")
    for reference in ("news@champion:257", "models:/news/1:257", f"{news[0]}:257"):
        smaller = load_tokenizer(reference)
        assert (smaller.vocab_size, smaller.merges) == (257, whole.merges[:1])
    assert load_tokenizer("news/1:257", expect_digest=news[0]).vocab_size == 257
    directory = registry.workspace.version_directory(news[0])
    assert load_tokenizer(f"{directory}:257").vocab_size == 257
    named = directory.with_name("named:257")
    whole.save(named)
    assert load_tokenizer(str(named)).vocab_size == whole.vocab_size
    with pytest.raises(InvalidOption, match="10,000"):
        load_tokenizer("news/1:10000")
    for misspelt in ("news:8000", "news/1:08", "news/1:"):
        with pytest.raises((InvalidOption, UnknownVersion)):
            load_tokenizer(misspelt)
