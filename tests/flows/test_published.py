"""A copy of a published workspace is independent of its original."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from mlflow import MlflowClient
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_what_is_deleted_in_a_copy_stays_in_the_original(
    folder_after: Callable[..., Path],
    originals: Path,
    bpeline: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy, original = folder_after(begin="news"), originals / "news"
    before = contents(original)
    for name, content in contents(copy).items():
        assert not name.endswith(".sqlite") or str(original).encode() not in content, name
    # MLflow alone: opened by `bpeline`, addresses of a moved workspace would be repaired.
    client = MlflowClient(f"sqlite:///{copy / '.bpeline/mlflow.sqlite'}")
    version = client.get_model_version("news", "2")
    for address in (client.get_run(version.run_id).info.artifact_uri, version.source):
        get_artifact_repository(address).delete_artifacts()
    monkeypatch.chdir(copy)
    for command in (
        ("delete", "news@champion", "--yes"),
        ("delete", "news/1", "--yes"),
        ("gc", "--days", 0, "--yes"),
    ):
        done = bpeline(*command)
        assert done.exit_code == 0, done.output
    gone = before.keys() - contents(copy).keys()
    assert any("/mlflow-artifacts/" in name for name in gone)
    assert contents(original) == before
