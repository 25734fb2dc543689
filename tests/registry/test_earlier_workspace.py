"""A workspace of release 0.1: everything in it is found, keeps its meaning and can be gone on with.

``workspace_0_1.tar.xz`` was made by that release's own code, on a machine called ``example`` in
``/srv/texts``, from three files of 27 sentences each:

- ``news`` of 300, 320 and 340 ids became champion one after the other, a rule refused ``news/1``,
  and champion was rolled back to ``news/2``; ``words`` is WordPiece of 90 ids;
- ``staging`` was promoted to ``news/1`` and then moved to ``news/3`` with MLflow's client;
- while another process held MLflow's database, ``news`` of 360 ids was trained: it waits in the
  outbox; another training, of 400 ids, was killed after 60 merges had been saved.

Left out are the ``code`` folders of MLflow's models. A workspace lies where it was made, because
MLflow keeps absolute paths: what names ``/srv/texts`` is rewritten where it is unpacked.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tarfile
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from bpeline.registry import (
    alias_history,
    configure,
    environment,
    list_versions,
    load_tokenizer,
    promote,
    publish_outbox,
    rollback,
)
from bpeline.registry.evaluating import change_set
from bpeline.registry.evaluation_sets import Text, as_set
from bpeline.registry.gates import Rule, Rules
from bpeline.registry.opening import open_registry
from bpeline.registry.publishing import waiting_records
from bpeline.registry.records import PublishedVersion
from bpeline.registry.repair import repair
from bpeline.registry.retention import Leftover, remove_leftovers
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.errors import (
    PromotionNotJudged,
    PromotionRefused,
    StorageError,
    UnknownVersion,
)

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("workspace_0_1.tar.xz")
MADE_IN, MADE_ON = "/srv/texts", "example"
FIRST = "f4fef1d1ef344b2ba22597580ae0251d7087836fcaff43a142395a6483a3f61a"
SECOND = "3646b9209fe2ff24f0dd4dda78fc6f03c30b8567fc35cc2773d93766f9830b56"
THIRD = "552df36005bcda522c277a8701eef67a4407ae0c9afbf5a82961216b16023e17"
WORDS = "809a193bf7b9c96c6520db6244057019fcb2a35f03a4cf6084bd4c0a3fb4f649"
WAITING = "c2561517cc467bc70154c77632814ab94c4dcf191f36f033f0954ba51d5bb84c"
UNFINISHED = "0d6e7598446adf8da15f7703529352923725ce8d9ba9316ab378171b914ef529"
CHECKPOINT = "7ec7fb2b4246e98a"


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which that workspace lies; this process is configured for it."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="data")
    for name in ("catalogue.sqlite", "mlflow.sqlite"):
        replace_everywhere(tmp_path / ".bpeline" / name, MADE_IN, str(tmp_path))
    for record in (tmp_path / ".bpeline" / "outbox").iterdir():
        told = json.dumps(unsealed(json.loads(record.read_bytes())))
        moved = json.loads(told.replace(MADE_IN, str(tmp_path)))
        record.write_bytes(canonical_json(sealed(moved)))
    # The machine is this one, which was started anew since.
    sql(tmp_path, "catalogue", "UPDATE runs SET host = ?", socket.gethostname())
    monkeypatch.setattr(environment, "_configured", None)
    configure(workspace=tmp_path / ".bpeline")
    return tmp_path


def replace_everywhere(database: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                connection.execute(
                    f"UPDATE {table} SET \"{column}\" = replace(\"{column}\", ?, ?) "
                    f"WHERE instr(\"{column}\", ?)",
                    (old, new, old),
                )  # fmt: skip


def sql(root: Path, database: str, script: str, *values: str) -> list[tuple[object, ...]]:
    path = root / ".bpeline" / f"{database}.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(script, values).fetchall()


def places(aliases_of: str = "news") -> dict[str, int]:
    """Where the aliases of a name point."""
    return {alias: one.number for one in list_versions(aliases_of) for alias in one.aliases}


def train_what_was_killed(root: Path) -> str:
    """Type the same training again; what it says."""
    from bpeline.flows.running import progress
    from bpeline.flows.train_tokenizer import train_tokenizer

    said = io.StringIO()
    paths = [str(root / "corpus" / f"{day}.txt") for day in ("tuesday", "wednesday")]
    with progress.listening(progress.for_stream(said)):
        train_tokenizer(
            paths=paths, name="news", vocab_size=400, held_out=0.0, workers=1, workspace=None
        )
    return said.getvalue()


# ---- reading -------------------------------------------------------------------------------------


def test_its_versions_are_listed_and_load(earlier: Path) -> None:
    before = (earlier / ".bpeline" / "mlflow.sqlite").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        listed = list_versions()
        loaded = {
            reference: load_tokenizer(reference).digest
            for reference in ("news@champion", "news@staging", "news/1", "words@champion", FIRST,
                              SECOND[:10], WAITING[:10])
        }  # fmt: skip
    assert {one.reference: (one.digest, one.aliases) for one in listed} == {
        "news/1": (FIRST, ()),
        "news/2": (SECOND, ("champion",)),
        "news/3": (THIRD, ("candidate", "staging")),
        "words/1": (WORDS, ("candidate", "champion")),
    }
    assert all(one.metrics and one.run_id and one.created_at < "2026-11-23" for one in listed)
    assert list(loaded.values()) == [SECOND, THIRD, FIRST, WORDS, FIRST, SECOND, WAITING]
    assert not repair(open_registry()).found
    assert (earlier / ".bpeline" / "mlflow.sqlite").read_bytes() == before, "readers write nothing"


LOAD = """
import sys
from bpeline import load_tokenizer
for reference in sys.argv[2:]:
    print(load_tokenizer(reference, sys.argv[1]).digest)
"""


@pytest.mark.night
@pytest.mark.parametrize("whose", ["this user's", "another user's"])
def test_a_copy_that_can_only_be_read_loads(earlier: Path, whose: str) -> None:
    home = earlier / ".bpeline"
    everything = [home, *home.rglob("*")]
    alone: list[str] = []
    for path in everything:
        if whose == "this user's":
            path.chmod(path.stat().st_mode & ~0o222)
        elif os.getuid() == 0:
            os.chown(path, 65534, 65534)
        else:
            pytest.skip("only root can give files to another user")
    if whose == "this user's" and os.getuid() == 0:  # what root may do anyway is taken from it
        alone = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    before = {path: path.stat().st_mtime_ns for path in everything}
    references = "news@champion", "news/3", FIRST, SECOND[:10]
    try:
        loaded = subprocess.run(
            [*alone, sys.executable, "-c", LOAD, str(home), *references],
            capture_output=True, text=True, check=False, cwd=ROOT,
        )  # fmt: skip
    finally:
        for path in everything:
            path.chmod(path.stat().st_mode | 0o200)
    assert loaded.stdout.split() == [SECOND, THIRD, FIRST, SECOND], loaded.stderr
    assert {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]} == before
    assert catalogue_schema(earlier) == 3


def catalogue_schema(root: Path) -> object:
    return sql(root, "catalogue", "SELECT max(number) FROM schema_version")[0][0]


# ---- aliases -------------------------------------------------------------------------------------


@pytest.mark.night
def test_rollback_goes_where_the_earlier_history_says(earlier: Path) -> None:
    assert rollback("news", "staging").number == 1, "what was moved in MLflow is taken back"
    assert rollback("news").number == 1
    with pytest.raises(UnknownVersion, match="no earlier version"):
        rollback("news")
    assert places() == {"candidate": 3, "champion": 1, "staging": 1}
    kinds = [move.kind for move in alias_history("news", "champion")]
    assert kinds == ["rollback", "rollback", "refusal", "promote", "promote", "promote"]
    assert [move.kind for move in alias_history("news", "staging")] == [
        "rollback", "seen", "promote",
    ]  # fmt: skip
    (store,) = {move.store for move in alias_history("news")}
    assert store == open_registry().store
    assert {one.store for one in open_registry().catalogue.registrations()} == {store}


@pytest.mark.night
def test_the_champion_is_compared_with_and_promoted_over(earlier: Path) -> None:
    """It was taken for none until something had been published."""
    longer = Rules((Rule("compression/bytes_per_token", "higher", 0.0),), gain=0)
    with pytest.raises(PromotionNotJudged, match="news has no evaluation set"):
        promote("news/3", rules=longer)
    text = Text("text", [b"Is this what was trained? This is what was trained."] * 60)
    made, documents = as_set([text])
    change_set(open_registry(), "news", made, documents, by="ada", reason="the first")
    with pytest.raises(PromotionRefused):
        promote("news/1", rules=longer)
    change = promote("news/3", by="ada", rules=longer)
    assert (change.before, change.number) == (2, 3)
    assert rollback("news").number == 2


# ---- going on ------------------------------------------------------------------------------------


@pytest.mark.night
def test_its_outbox_is_delivered(earlier: Path) -> None:
    (version,) = deliver()
    assert (version.reference, version.digest, version.remarks) == ("news/4", WAITING, ())
    assert waiting_records(open_registry().workspace) == []
    assert places() == {"candidate": 4, "champion": 2, "staging": 3}
    registry = open_registry()
    assert {(one.store, one.digest) for one in registry.catalogue.registrations()} == {
        (registry.store, digest) for digest in (FIRST, SECOND, THIRD, WORDS, WAITING)
    }
    assert [run.state for run in registry.catalogue.unfinished_runs()] == ["interrupted"]
    assert not repair(registry).found


@pytest.mark.night
def test_the_unfinished_training_goes_on_from_its_checkpoint(earlier: Path) -> None:
    assert collect_garbage() == ()
    said = train_what_was_killed(earlier)
    assert "144 merges, 60 of them from the checkpoint" in said
    assert "reused" in said, "what was counted"
    assert load_tokenizer("news@candidate").digest == UNFINISHED
    deliver()
    assert places()["candidate"] == 4, "what waited is the older training"
    assert open_registry().catalogue.unfinished_runs() == []
    gone = collect_garbage()
    assert {one.kind for one in gone} == {"run"}
    assert CHECKPOINT in {one.key for one in gone}
    for digest in (FIRST, SECOND, THIRD, WORDS, WAITING, UNFINISHED):
        assert load_tokenizer(digest).digest == digest


# ---- lost and exchanged stores -------------------------------------------------------------------


@pytest.mark.night
@pytest.mark.parametrize("lost", ["catalogue", "mlflow"])
def test_a_lost_store_is_no_empty_one(earlier: Path, lost: str) -> None:
    """Nothing here remembers that there was one: no release before did that."""
    database = earlier / ".bpeline" / f"{lost}.sqlite"
    database.unlink()
    for ask in (list_versions, deliver, collect_garbage):
        with pytest.raises(StorageError, match="of this workspace is not at sqlite"):
            ask()
    assert not database.exists()
    assert repair(open_registry()).lost
    assert repair(open_registry(), write=True).written
    waiting = [one.digest for one in deliver()]
    assert waiting[-1] == WAITING
    listed = {one.digest: one.reference for one in list_versions()}
    assert listed == {
        FIRST: "news/1", SECOND: "news/2", THIRD: "news/3", WAITING: "news/4", WORDS: "words/1",
    }  # fmt: skip
    assert len(waiting) == {"catalogue": 1, "mlflow": 5}[lost]
    assert not repair(open_registry()).found
    # Of the run that only the catalogue knew, what it counted is not needed any more.
    assert {one.kind for one in collect_garbage()} <= {"run", "table"}
    assert [load_tokenizer(digest).digest for digest in listed] == list(listed)


def deliver() -> list[PublishedVersion]:
    return publish_outbox(open_registry())


def collect_garbage() -> tuple[Leftover, ...]:
    return remove_leftovers(open_registry(), days=0).old


@pytest.fixture
def exchanged(earlier: Path) -> Path:
    """As if ``news/1`` had been registered in another MLflow, which this one was put in place of.

    The earlier catalogue went on numbering: 1, 2 and 3 are 1 (there), 1 and 2 (here).
    """
    for table in ("model_versions", "model_version_tags", "registered_model_aliases"):
        sql(earlier, "mlflow", f"DELETE FROM {table} WHERE name = 'news' AND version = 1")
        for number in ("2", "3"):
            sql(
                earlier, "mlflow",
                f"UPDATE {table} SET version = version - 1 WHERE name = 'news' AND version = ?",
                number,
            )  # fmt: skip
    sql(earlier, "catalogue", "UPDATE versions SET mlflow_version = number - 1 WHERE number > 1")
    return earlier


@pytest.mark.night
def test_numbers_are_those_of_mlflow_where_the_catalogue_had_others(exchanged: Path) -> None:
    assert {one.reference: one.digest for one in list_versions("news")} == {
        "news/1": SECOND, "news/2": THIRD,
    }  # fmt: skip
    assert [load_tokenizer(f"news/{number}").digest for number in (1, 2)] == [SECOND, THIRD]
    assert places() == {"candidate": 2, "champion": 1, "staging": 2}
    with pytest.raises(UnknownVersion, match="no earlier version"):
        rollback("news")  # that one is in the other MLflow: its number means another here
    assert promote("news/2").before == 1
    assert rollback("news").number == 1
    assert load_tokenizer("news@champion").digest == SECOND
    (version,) = deliver()
    assert (version.number, version.remarks) == (3, ())
    assert not repair(open_registry()).found
    assert collect_garbage() == ()
    assert load_tokenizer(FIRST).digest == FIRST


@pytest.mark.night
def test_a_version_that_somebody_deleted_in_mlflow_is_forgotten_by_repair(earlier: Path) -> None:
    for table in ("model_versions", "model_version_tags", "registered_model_aliases"):
        sql(earlier, "mlflow", f"DELETE FROM {table} WHERE name = 'news' AND version = 2")
    with pytest.raises(StorageError, match="MLflow has no news/2 any more"):
        collect_garbage()
    repair(open_registry(), write=True)
    assert not repair(open_registry()).found
    assert collect_garbage() == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [one.number for one in list_versions("news")] == [1, 3]
    assert load_tokenizer(SECOND).digest == SECOND
