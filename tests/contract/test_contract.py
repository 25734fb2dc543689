"""Today's program against the record of what 0.2 does: `python tests/contract` writes it anew."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import files
import pytest
import workspace
import workspace_0_2
from click.testing import CliRunner
from contract_records import made_behaviour, made_interface

from bpeline.flows.cli.main import cli
from bpeline.registry import environment, load_tokenizer
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_mlflow: None) -> Path:
    """The current folder, with nothing configured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "_configured", None)
    monkeypatch.setattr(environment, "_project", None)
    return tmp_path


def record(name: str) -> dict[str, Any]:
    """What was written down."""
    kept: dict[str, Any] = json.loads((HERE / f"{name}.json").read_bytes())
    return kept


def test_every_way_of_learning_makes_the_tokenizer_that_it_made(folder: Path) -> None:
    today, then = made_behaviour(folder), record("behaviour")
    made, kept = today["cases"], then["cases"]
    digests = {one["digest"] for one in kept.values()}
    assert made.keys() == kept.keys()
    for name, one in made.items():
        if today["unicode"] != then["unicode"]:  # which is part of the digest
            one["digest"] = kept[name]["digest"]
        assert one == kept[name], name
    assert len(digests) == len(kept), "cases that tell nothing apart"


@pytest.mark.parametrize("part", ["python", "options", "commands", "mlflow"])
def test_what_programs_rely_on_is_there(
    part: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    made = request.config.stash.get(MADE, None)
    if made is None:
        made = request.config.stash[MADE] = made_interface(folder)
    kept = record("interface")
    assert made[part].keys() == kept[part].keys()
    for name, one in made[part].items():
        assert one == kept[part][name], name


MADE = pytest.StashKey[dict[str, Any]]()


def test_files_that_were_written_then_are_read(tmp_path: Path) -> None:
    with tarfile.open(HERE / "files.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    said = json.loads((tmp_path / "said.json").read_bytes())
    del said["digests"]["superword-bpe"]
    assert files.read(tmp_path) == said
    with pytest.raises(InvalidTokenizer, match=r"(?s)superword-bpe.*bpeline 0\.2\.0"):
        Tokenizer.load(tmp_path / "tokenizers/superword-bpe")


def test_a_workspace_that_was_left_then_goes_on(folder: Path) -> None:
    said = workspace_0_2.unpacked(folder, workspace.ARCHIVE, workspace.PLACE)

    def asked(*typed: str) -> Any:
        ended = CliRunner().invoke(cli, [*typed, "--json"])
        assert ended.exit_code == 0, ended.output
        return json.loads(ended.stdout)

    assert asked("versions") == said["versions"]
    assert asked("evaluate", "--sets") == said["sets"]
    assert asked("show", "news") == said["history"]
    champion = load_tokenizer("news@champion")
    assert champion.digest == said["versions"][0]["digest"]
    assert asked("verify", "news/2")["identical"]
    asked("resume")
    for name, digest in said["unfinished"].items():
        assert load_tokenizer(f"{name}/1").digest == digest, name
