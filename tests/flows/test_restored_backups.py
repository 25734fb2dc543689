"""An MLflow that was put back from a backup: said, and made good by `bpeline doctor --fix`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.registry.loading import VersionsLost
from bpeline.tokenizer_core.errors import RegistryError

Command = Callable[..., Result]
TRAIN = ("--vocab-size", "300", "--name", "news", "--held-out", "0.1")
MLFLOW, BACKUP = Path(".bpeline/mlflow.sqlite"), Path("mlflow.backup")
CATALOGUE, CATALOGUE_BACKUP = Path(".bpeline/catalogue.sqlite"), Path("catalogue.backup")
FILES = ("first.txt", "second.txt", "third.txt")


@pytest.fixture
def digests(
    folder_after: Callable[..., Path],
    english_and_code: str,
    bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """Those of news/1 to news/3, each champion once; MLflow is as it was after news/1."""
    files = {name: english_and_code[at * 30_000 :][:50_000] for at, name in enumerate(FILES)}
    commands = [("train", "first.txt", *TRAIN), ("promote", "news/1")]
    monkeypatch.chdir(folder_after(files, commands))
    shutil.copyfile(MLFLOW, BACKUP)
    shutil.copyfile(CATALOGUE, CATALOGUE_BACKUP)
    for number, name in ((2, "second.txt"), (3, "third.txt")):
        for typed in (("train", name, *TRAIN), ("promote", f"news/{number}", "--force")):
            result = bpeline(*typed)
            assert result.exit_code == 0, result.output
    digests = [one["digest"] for one in versions(bpeline)]
    assert load_tokenizer("news@champion").digest == digests[2]
    shutil.copyfile(BACKUP, MLFLOW)
    return digests


def versions(bpeline: Command) -> list[dict[str, object]]:
    return json.loads(bpeline("versions", "--json").stdout)  # type: ignore[no-any-return]


def aliases(bpeline: Command) -> dict[str, object]:
    return {alias: one["digest"] for one in versions(bpeline) for alias in one["aliases"]}  # type: ignore[attr-defined]


def test_what_it_lacks_is_said_and_registered_again_with_its_aliases(
    digests: list[str], bpeline: Command
) -> None:
    with pytest.warns(VersionsLost, match="news/3"):
        assert load_tokenizer("news@champion").digest == digests[0]
    assert "news/2, news/3" in bpeline("versions").stderr
    found = json.loads(bpeline("doctor", "--json").stdout)
    broken = " ".join(one["found"] for one in found if one["state"] == "broken")
    assert all(digest[:12] in broken for digest in digests[1:])
    assert bpeline("doctor", "--fix").exit_code == 0
    assert [one["digest"] for one in versions(bpeline)] == digests
    assert aliases(bpeline) == {"champion": digests[2], "candidate": digests[2]}
    assert load_tokenizer("news@champion").digest == digests[2]
    assert bpeline("rollback", "news").exit_code == 0
    assert aliases(bpeline)["champion"] == digests[1], "the last one that was champion before"


@pytest.mark.night
def test_a_number_that_means_another_tokenizer_is_accepted_by_the_fix(
    digests: list[str], bpeline: Command
) -> None:
    assert bpeline("show", "news/3").exit_code == 1, "MLflow has none"
    Path("fourth.txt").write_text("another text " * 500 + Path("third.txt").read_text())
    assert bpeline("train", "fourth.txt", *TRAIN).exit_code == 0
    with pytest.raises(RegistryError, match=digests[1][:12]):
        load_tokenizer("news/2")
    assert bpeline("rollback", "news").exit_code == 1, "what champion pointed to is not there"
    fixed = bpeline("doctor", "--fix")
    assert fixed.exit_code == 0, fixed.output
    found = [one["digest"] for one in versions(bpeline)]
    assert (found[0], found[2:]) == (digests[0], digests[1:])
    assert load_tokenizer("news/2").digest == found[1]
    assert aliases(bpeline)["champion"] == digests[2]
    assert bpeline("doctor").exit_code == 0


@pytest.mark.night
def test_a_machine_that_remembers_another_meaning_of_a_number_accepts_it_by_its_own_fix(
    digests: list[str], bpeline: Command
) -> None:
    """After catalogue and MLflow were put back together, only what this machine loaded differs."""
    shutil.copyfile(CATALOGUE_BACKUP, CATALOGUE)
    Path("fourth.txt").write_text("another text " * 500 + Path("third.txt").read_text())
    assert bpeline("train", "fourth.txt", *TRAIN).exit_code == 0
    with pytest.raises(RegistryError, match=digests[1][:12]):
        load_tokenizer("news/2")
    assert bpeline("doctor").exit_code == 1
    assert bpeline("doctor", "--fix").exit_code == 0
    assert load_tokenizer("news/2").digest not in digests
    assert [one["digest"] for one in versions(bpeline)][2:] == digests[1:], "files are kept here"
    assert bpeline("doctor").exit_code == 0
