"""A workspace of its own for every test, and small corpora of real text."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result


@pytest.fixture(autouse=True, scope="session")
def _quick_mlflow(quick_mlflow: None) -> None:
    """Nearly every test here makes a workspace with an MLflow database in it."""


@pytest.fixture(scope="session")
def fresh_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty workspace to copy: making MLflow's database takes seconds."""
    from registry.opening import open_registry

    root = tmp_path_factory.mktemp("fresh") / "workspace"
    registry = open_registry(root)
    assert registry.tracker.versions() == []
    registry.catalogue.close()
    return root


@pytest.fixture(autouse=True, scope="module")
def _nothing_configured() -> Iterator[None]:
    """What a command of another module configured reaches no fixture of this one."""
    from registry import environment

    environment._configured = None
    yield
    environment._configured = None


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server of this machine takes part, and no workspace but this test's."""
    from flows import settings
    from registry import environment

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setattr(settings, "LOCAL_SERVER", "http://127.0.0.1:1/api")
    monkeypatch.setattr(environment, "_configured", None)


@pytest.fixture
def corpus(tmp_path: Path, english_and_code: str, fresh_workspace: Path) -> Path:
    """About 120 kB in three files, beside an empty workspace."""
    shutil.copytree(fresh_workspace, tmp_path / ".bpeline")
    directory = tmp_path / "corpus"
    directory.mkdir()
    for number, begin in enumerate((0, 40_000, 90_000)):
        text = english_and_code[begin : begin + 40_000]
        (directory / f"part-{number}.txt").write_text(text, encoding="utf-8")
    return directory


@pytest.fixture
def bpeline() -> Callable[..., Result]:
    """The command line in this process: ``bpeline("versions", "--json")``."""

    def run(*arguments: Any, **options: Any) -> Result:
        from flows.cli.main import cli

        return CliRunner().invoke(cli, list(map(str, arguments)), **options)

    return run
