"""A workspace of release 0.2: what 0.2 said of its versions, sets and aliases stays true."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import workspace_0_2
from click.testing import CliRunner, Result
from postgres import PostgresServer
from sqlalchemy import MetaData, create_engine

from bpeline.flows.cli.main import cli
from bpeline.registry import environment, load_tokenizer
from bpeline.registry.catalogue import schema
from bpeline.registry.catalogue.catalogue import Catalogue

PLACES = {"big/1": "", "big/2": "", "code/1": "", "code/2": "", "words/1": "",
          "news/1": "project", "news/2": "project"}  # fmt: skip
UNFINISHED = "c437246396ccf33c5f60f17337db254c5b0d7d1d6c8b41ce2728e1a8e13a268e"
Enter = Callable[[str], None]


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The workspace for tests that only read, and what 0.2 said of it."""
    directory = tmp_path_factory.mktemp("kept")
    return directory, workspace_0_2.unpacked(directory)


@pytest.fixture
def enter(kept: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Goes to a directory of the kept workspace."""

    def go(place: str, root: Path = kept[0]) -> None:
        monkeypatch.chdir(root / place)
        monkeypatch.setattr(environment, "_configured", None)
        monkeypatch.setenv("PREFECT_HOME", str(root / "home/.prefect"))

    return go


def bpeline(*typed: str) -> Result:
    """A command that must succeed."""
    ended = CliRunner().invoke(cli, typed)
    assert ended.exit_code == 0, ended.output
    return ended


def asked(*typed: str) -> Any:
    """The JSON that a command prints."""
    return json.loads(bpeline(*typed, "--json").stdout)


@pytest.mark.parametrize("reference", PLACES)
def test_versions_keep_their_digest_aliases_and_figures(
    reference: str, kept: tuple[Path, dict[str, Any]], enter: Enter
) -> None:
    enter(PLACES[reference])
    said = kept[1]["versions"][reference]
    shown = asked("show", reference)
    for key in ("digest", "aliases", "metrics", "created_at"):
        assert shown[key] == said[key], key
    text = re.compile("evaluation set [0-9a-f]{8}|text of its own training")
    assert text.match(shown["measured_on"])[0] == text.match(said["measured_on"])[0]  # type: ignore[index]
    assert load_tokenizer(reference).digest == said["digest"]


def test_evaluation_sets_and_the_moves_of_aliases_stay(
    kept: tuple[Path, dict[str, Any]], enter: Enter
) -> None:
    enter("")
    sets = asked("evaluate", "--sets")
    enter("project")
    sets += asked("evaluate", "--sets")
    as_then = ("at", "current", "digest", "name", "number", "provisional", "reason")
    assert [{key: one[key] for key in as_then} for one in sets] == [
        {key: one[key] for key in as_then} for one in kept[1]["sets"]
    ]
    history = asked("show", "news")
    for move, then in zip(history, kept[1]["history"], strict=True):
        assert move.items() >= then.items()


def rows_of(path: Path) -> dict[str, list[Any]]:
    """All rows of a SQLite file by their tables, but for schema numbers."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for (name,) in names
            if name != "schema_version"
        }


def test_a_conversion_that_was_cut_short_is_done_again_and_the_former_tables_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace_0_2.unpacked(tmp_path)
    path = tmp_path / "project/.bpeline/catalogue.sqlite"
    former = rows_of(path)
    with monkeypatch.context() as cut:
        cut.setattr(schema, "AliasMove", lambda **_row: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Catalogue(f"sqlite:///{path}")
    assert rows_of(path) == former
    catalogue = Catalogue(f"sqlite:///{path}")
    converted = rows_of(path)
    assert converted.items() >= former.items()
    moves = catalogue.alias_history("news")
    digests = {one.number: one.digest for one in catalogue.registrations("news")}
    assert [move.to_digest for move in moves] == [digests[move.to_number] for move in moves]
    Catalogue(f"sqlite:///{path}")
    assert rows_of(path) == converted


def test_a_deletion_that_0_2_had_begun_is_named(tmp_path: Path) -> None:
    workspace_0_2.unpacked(tmp_path)
    path = tmp_path / "project/.bpeline/catalogue.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO deletions VALUES ('store', 'news', 1, ?, '', '', '2026', '', '')",
            ("0" * 64,),
        )
    with pytest.warns(UserWarning, match=r"bpeline delete news/1 --yes"):
        Catalogue(f"sqlite:///{path}")


@pytest.mark.night
def test_a_catalogue_on_postgresql_is_converted_alike(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    workspace_0_2.unpacked(tmp_path)
    file = f"sqlite:///{tmp_path / 'project/.bpeline/catalogue.sqlite'}"
    former, url = MetaData(), postgres.new_url()
    with create_engine(file).connect() as there, create_engine(url).begin() as here:
        former.reflect(there)
        former.create_all(here)
        for table in former.sorted_tables:
            if rows := there.execute(table.select()).mappings().all():
                here.execute(table.insert(), [dict(row) for row in rows])
    on_file, on_server = Catalogue(file), Catalogue(url)
    assert on_server.versions() == on_file.versions() != []
    assert on_server.runs() == on_file.runs() != []
    assert on_server.alias_history("news") == on_file.alias_history("news") != []


@pytest.mark.night
@pytest.mark.parametrize("reference", PLACES)
def test_versions_come_out_the_same_from_their_texts(reference: str, enter: Enter) -> None:
    enter(PLACES[reference])
    assert "is identical" in bpeline("verify", reference).stdout


@pytest.mark.night
def test_the_unfinished_training_goes_on_from_its_checkpoint(tmp_path: Path, enter: Enter) -> None:
    workspace_0_2.unpacked(tmp_path)
    enter("", tmp_path)
    assert "244 merges, 204" in bpeline("resume").stderr
    assert load_tokenizer("big/3").digest == UNFINISHED


@pytest.mark.night
def test_texts_of_a_former_set_are_the_set_for_every_pattern(tmp_path: Path, enter: Enter) -> None:
    said = workspace_0_2.unpacked(tmp_path)
    enter("", tmp_path)
    assert "not known" in bpeline("show", "big/2").stdout
    former = next(one["digest"] for one in said["sets"] if one["name"] == "code")
    asked_for = ("--name", "code", "--vocab-size", "500", "--eval", "t=held.jsonl")
    trained = asked("train", "code.py", *asked_for, "--pattern", "gpt2")
    assert former[:8] in trained["measured_on"]
    assert not [name for name in trained["metrics"] if name.startswith("own_new_text/")]
    with open("held.jsonl", encoding="utf-8") as held:
        in_both = json.loads(next(held))["text"]
    blank_lines = 3  # before it, where no cut is legal
    assert trained["metrics"]["corpus/left_out_bytes"] == blank_lines + len(in_both)
