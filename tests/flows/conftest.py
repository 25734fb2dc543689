"""A workspace of its own for every test, and small corpora of real text."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fake_mlflow
import pytest
from click.testing import CliRunner, Result
from event_server import Prefect, event_server
from forked_readers import asking_by, forking_readers
from interruptions import Interrupted, interrupting
from published import (
    Recipe,
    copied,
    corpus_parts,
    made_once,
    make_workspace,
    recipes,
    trained_by_tokenizers,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_mlflow(quick_mlflow: None) -> None:
    """Nearly every test here makes a workspace with an MLflow database in it."""


@pytest.fixture(scope="session")
def find_originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Find the `originals`; for fixtures that several files share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return lambda: shared / ("published-fake" if fake_mlflow.is_installed() else "published")


@pytest.fixture(scope="module")
def originals(_quick_mlflow: None, find_originals: Callable[[], Path]) -> Path:
    """The folder of what is made once per run: all workers of a run share it."""
    return find_originals()


@pytest.fixture(scope="module")
def fresh_workspace(originals: Path) -> Path:
    """An empty workspace to copy: making MLflow's database takes seconds."""
    return made_once(originals / "empty", make_workspace)


@pytest.fixture(autouse=True, scope="module")
def _nothing_configured() -> Iterator[None]:
    """What a command of another module configured reaches no fixture of this one."""
    from bpeline.registry import environment

    environment._configured = environment._project = None
    yield
    environment._configured = environment._project = None


@pytest.fixture(autouse=True, scope="module")
def _few_texts() -> Iterator[None]:
    """Versions are exported and measured here by the way, and so on little text.

    Exports are compared on tens of texts, not on thousands; of held-out text 4 kB are perturbed,
    not all. What exports are worth, and what perturbed text tells, is tested in `tests/registry`
    and `tests/tokenizer_core`, on all.
    """
    from bpeline.registry.certify import sample_texts
    from bpeline.tokenizer_core.evaluation.robustness import measure_robustness

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_texts, "MIXED", 20)
        patch.setattr(sample_texts, "MOST_TOKENS", 50)
        patch.setattr(measure_robustness, "__defaults__", (0, 4 << 10))
        yield


@pytest.fixture(scope="session")
def _readers() -> Iterator[Any]:
    with forking_readers() as readers:
        yield readers


@pytest.fixture(autouse=True, scope="module")
def _quick_readers(_readers: Any) -> Iterator[None]:
    """Nearly every test here publishes a version, and asks libraries about exports by the way.

    Modules of other folders, whose turn in this process comes later, ask the program itself.
    """
    with asking_by(_readers):
        yield


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server of this machine takes part, and no workspace but this test's."""
    from bpeline.registry import environment

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setattr(environment, "_configured", None)
    monkeypatch.setattr(environment, "_project", None)


@pytest.fixture
def corpus(tmp_path: Path, english_and_code: str, fresh_workspace: Path) -> Path:
    """About 120 kB in three files, beside an empty workspace."""
    copied(fresh_workspace, tmp_path / ".bpeline")
    directory = tmp_path / "corpus"
    directory.mkdir()
    for name, text in corpus_parts(english_and_code).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return directory


def run_bpeline(*arguments: Any, **options: Any) -> Result:
    """The command line in this process: ``run_bpeline("versions", "--json")``."""
    from bpeline.flows.cli.main import cli

    return CliRunner().invoke(cli, list(map(str, arguments)), **options)


@pytest.fixture
def bpeline() -> Callable[..., Result]:
    """`run_bpeline`."""
    return run_bpeline


MakeFolder = Callable[..., Path]


@pytest.fixture(scope="module")
def folder_after(
    tmp_path_factory: pytest.TempPathFactory,
    originals: Path,
    fresh_workspace: Path,
    english_and_code: str,
) -> MakeFolder:
    """``folder_after(files, commands)``: a folder with a workspace, after these commands in it.

    ``folder_after(begin="news")`` copies a folder of `published.recipes`.
    """

    def fill(folder: Path, recipe: Recipe) -> None:
        for name, text in recipe.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            for command in recipe.commands:
                result = run_bpeline(*command)
                assert result.exit_code == 0, result.output

    def make_original(folder: Path) -> None:
        copied(fresh_workspace, folder / ".bpeline")
        imported = trained_by_tokenizers(english_and_code[:60_000])
        fill(folder, recipes(english_and_code, imported)[folder.name])

    def make(
        files: Mapping[str, str] | None = None,
        commands: Sequence[Sequence[object]] = (),
        begin: str = "",
    ) -> Path:
        folder = tmp_path_factory.mktemp("folder")
        if begin:
            copied(made_once(originals / begin, make_original), folder)
        else:
            copied(fresh_workspace, folder / ".bpeline")
        fill(folder, Recipe(files or {}, commands))
        return folder

    return make


@pytest.fixture(scope="session")
def interrupted(warm: Path) -> Interrupted:
    """A command that gets a signal in its middle, see `interruptions`."""
    return interrupting(warm)


@pytest.fixture
def prefect() -> Iterator[Prefect]:
    """A server that is configured once a test says so."""
    with event_server() as server:
        yield server


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that a file's tests share, made by its own fixture `trained`, to work in."""
    monkeypatch.chdir(trained)
    return trained
