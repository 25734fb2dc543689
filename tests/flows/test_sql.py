"""``bpeline sql``: what the tables say, compared with plain Python; what is refused; who waits."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path]) -> Path:
    """A folder with ``news/1`` and ``news/2`` of two sources, and ``plain/1`` of files."""
    return folder_after(begin="two sources")


@pytest.fixture
def ask(bpeline: Command) -> Callable[[str], list[dict[str, Any]]]:
    """The rows that a statement answers."""

    def asked(statement: str) -> list[dict[str, Any]]:
        answer = bpeline("sql", statement, "--json")
        assert answer.exit_code == 0, answer.output
        rows: list[dict[str, Any]] = json.loads(answer.stdout)
        return rows

    return asked


Ask = Callable[[str], list[dict[str, Any]]]


def counted(folder: Path, name: str) -> Counter[str]:
    return Counter(pre_tokens((folder / name).read_text(encoding="utf-8"), "gpt2"))


def test_word_counts_are_those_of_the_files(here: Path, ask: Ask) -> None:
    one, two = counted(here, "english.txt"), counted(here, "german.txt")
    weighted = one + Counter({word: 2 * count for word, count in two.items()})
    for statement, expected in {
        "FROM word_counts('news/2')": weighted,
        "FROM word_counts('plain/1')": one + two,
        "FROM words_of_source('news/2', 'english')": one,
        "FROM words_of_source('news/2', source := 'german')": two,
    }.items():
        rows = ask(statement)
        assert {row["word"]: row["count"] for row in rows} == expected
        assert len({row["first_position"] for row in rows}) == len(rows)


def test_splits_are_the_ids_of_each_word(here: Path, ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    rows = ask("FROM splits('news/2')")
    assert {row["word"]: row["count"] for row in rows} == {
        row["word"]: row["count"] for row in ask("FROM word_counts('news/2')")
    }
    for row in rows:
        assert row["ids"] == tokenizer.encode(row["word"])
        assert row["tokens"] == len(row["ids"])


def test_tokens_say_what_they_are_and_how_often_they_occur(here: Path, ask: Ask) -> None:
    tokenizer = load_tokenizer("news/1")
    splits = ask("FROM splits('news/1')")
    count: Counter[int] = Counter()
    words: Counter[int] = Counter()
    for split in splits:
        words.update(set(split["ids"]))
        for id_ in split["ids"]:
            count[id_] += split["count"]
    slices: dict[int, dict[str, int]] = {}
    for source, file in (("english", "english.txt"), ("german", "german.txt")):
        for word, occurrences in counted(here, file).items():
            for id_ in tokenizer.encode(word):
                of_id = slices.setdefault(id_, {})
                of_id[source] = of_id.get(source, 0) + occurrences
    ranks = {result: rank for rank, result in enumerate(map(b"".join, tokenizer.merges))}
    rows = ask("SELECT *, bytes::VARCHAR AS shown, hex(bytes) AS hexadecimal FROM tokens('news/1')")
    assert [row["id"] for row in rows] == sorted(tokenizer.vocab)
    for row in rows:
        token = tokenizer.id_to_token(row["id"])
        assert bytes.fromhex(row["hexadecimal"]) == token
        assert row["bytes"] == row["shown"]
        assert row["special"] == tokenizer.is_special(row["id"])
        assert row["rank"] == ranks.get(token)
        if row["parts"]:
            assert b"".join(map(tokenizer.id_to_token, row["parts"])) == token
        assert row["count"] == count[row["id"]]
        assert row["words"] == words[row["id"]]
        assert row["made"] >= row["count"]
        assert (row["slices"] or {}) == slices.get(row["id"], {})
        try:
            assert row["text"] == token.decode()
        except UnicodeDecodeError:
            assert row["text"] is None
    made = {row["id"]: row["made"] for row in rows}
    fired = [merge for row in splits for merge in _merges(tokenizer, row["word"], row["count"])]
    expected: Counter[bytes] = Counter()
    for result, times in fired:
        expected[result] += times
    assert {token: made[tokenizer.token_to_id(token)] for token in expected} == expected


def _merges(tokenizer: Any, word: str, count: int) -> list[tuple[bytes, int]]:
    return [
        (merge.left + merge.right, count) for one in tokenizer.explain(word) for merge in one.merges
    ]


def test_merges_stand_in_order_of_rank(here: Path, ask: Ask) -> None:
    tokenizer = load_tokenizer("news/2")
    rows = ask(
        "SELECT rank, id, left_id, right_id, hex(left_bytes) AS l, hex(right_bytes) AS r "
        "FROM merges('news/2')"
    )
    assert [(bytes.fromhex(row["l"]), bytes.fromhex(row["r"])) for row in rows] == tokenizer.merges
    assert [row["rank"] for row in rows] == list(range(len(rows)))
    assert [
        [row[name] for row in rows] for name in ("left_id", "right_id", "id")
    ] == [one.tolist() for one in tokenizer.merge_ids]  # fmt: skip


def test_versions_sources_chunks_and_runs(here: Path, ask: Ask, bpeline: Command) -> None:
    listed = json.loads(bpeline("versions", "--json").stdout)
    rows = ask("FROM versions")
    assert [row["digest"] for row in rows] == [one["digest"] for one in listed]
    assert [row["aliases"] for row in rows] == [list(one["aliases"]) for one in listed]
    assert [row["metrics"] for row in rows] == [one["metrics"] for one in listed]
    words = ask("SELECT count(*) AS n, sum(count) AS total FROM word_counts('news/1')")[0]
    assert (rows[0]["words"], rows[0]["occurrences"]) == (words["n"], words["total"])
    sources = ask("FROM sources ORDER BY ALL")
    assert [(row["version"], row["source"], row["language"]) for row in sources[:2]] == [
        ("news/1", "english", "en"),
        ("news/1", "german", None),
    ]
    files = [here / "english.txt", here / "german.txt"]
    assert [(row["source"], row["bytes"]) for row in sources if row["version"] == "plain/1"] == [
        (str(path), path.stat().st_size) for path in files
    ]
    chunks = ask("FROM chunks JOIN versions USING (corpus_digest) WHERE version = 'news/1'")
    assert [(row["path"], row["source"]) for row in chunks] == [
        (str(files[0]), "english"),
        (str(files[1]), "german"),
    ]
    assert [row["end_byte"] for row in chunks] == [path.stat().st_size for path in files]
    runs = ask(
        "SELECT r.state, v.version FROM runs r JOIN versions v ON v.run_id = r.id ORDER BY 2"
    )
    assert runs == [
        {"state": "finished", "version": one} for one in ("news/1", "news/2", "plain/1")
    ]


def test_a_version_is_found_by_every_name(here: Path, ask: Ask) -> None:
    digest = ask("SELECT digest FROM versions WHERE version = 'news/2'")[0]["digest"]
    size = "SELECT count(*) AS n FROM tokens('{}')"
    for name in ("news/2", "news@candidate", digest, digest[:12], digest[:8]):
        assert ask(size.format(name)) == [{"n": 900}]


# ---- forms of the answer -----------------------------------------------------------------------


def test_every_form_gives_the_same_rows(here: Path, bpeline: Command, ask: Ask) -> None:
    statement = "SELECT word, count, ids FROM splits('news/1') ORDER BY count DESC, word LIMIT 300"
    expected = ask(statement)
    as_csv = list(csv.reader(io.StringIO(bpeline("sql", statement, "--csv").stdout)))
    assert as_csv[0] == ["word", "count", "ids"]
    assert [[row[0], int(row[1]), json.loads(row[2])] for row in as_csv[1:]] == [
        list(row.values()) for row in expected
    ]
    written = bpeline("sql", statement, "-o", "answer.parquet")
    assert "300 rows" in written.stderr
    assert pyarrow.parquet.read_table("answer.parquet").to_pylist() == expected
    table = bpeline("sql", statement, "--rows", 5)
    assert len(table.stdout.splitlines()) == 7
    assert "5 rows" in table.stderr
    assert r"\n" in bpeline("sql", "SELECT chr(10) || 'x' AS a").stdout


def test_columns_of_one_name_are_told_apart(here: Path, bpeline: Command, ask: Ask) -> None:
    statement = "SELECT 1 AS a, 2 AS a, 3 AS a_1, NULL AS b"
    assert ask(statement) == [{"a": 1, "a_1": 2, "a_1_1": 3, "b": None}]
    assert bpeline("sql", statement, "-o", "twice.parquet").exit_code == 0
    assert pyarrow.parquet.read_table("twice.parquet").column_names == ["a", "a_1", "a_1_1", "b"]


def test_numbers_are_exact_and_bytes_can_be_read_back(here: Path, ask: Ask) -> None:
    assert ask("SELECT 9223372036854775807::HUGEINT * 2 AS n, 'a\\xE2\\x5C'::BLOB AS b") == [
        {"n": 18446744073709551614, "b": "a\\xE2\\x5C"}
    ]
    assert ask("SELECT 0.1::DECIMAL(5, 2) AS d, 'nan'::DOUBLE AS x") == [{"d": 0.1, "x": "nan"}]
    assert ask("SELECT 1 AS n WHERE false") == []


def test_a_statement_from_standard_input(here: Path, bpeline: Command) -> None:
    answer = bpeline("sql", "-", "--json", input="SELECT number FROM versions\nLIMIT 1")
    assert json.loads(answer.stdout) == [{"number": 1}]


# ---- what is refused ---------------------------------------------------------------------------

REFUSED = [
    "", "SELECT 1; SELECT 2", "SELEC 1", "DROP TABLE versions", "DELETE FROM versions",
    "INSERT INTO versions (name) VALUES ('x')", "CREATE TABLE t AS SELECT 1", "SET threads = 1",
    "COPY (SELECT 1) TO 'x.csv'", "ATTACH 'other.duckdb'", "INSTALL httpfs", "LOAD httpfs",
    "CALL enable_logging()", "PRAGMA version", "EXPORT DATABASE 'x'", "CHECKPOINT",
    "FROM read_csv('english.txt')", "FROM read_text('english.txt')", "FROM 'english.txt'",
    "FROM glob('*')", "FROM parquet_scan('x')", "FROM arrow_scan(1, 2, 3)",
    "FROM query('SELECT 1')", "FROM enable_logging(storage_path='x')",
    "FROM 'https://example.org/x.parquet'",
    "SELECT (SELECT content FROM read_text('english.txt'))", "FROM nowhere", "SELECT nothing",
    "FROM tokens()", "FROM tokens('news/1', 'news/2')", "FROM tokens(1)", "FROM tokens(NULL)",
    "FROM words_of_source('news/1')", "FROM words_of_source('news/1', 'none')",
    "FROM words_of_source('plain/1', 'english.txt')", "FROM tokens('./english.txt')",
    "FROM tokens('models:/news/1')", "FROM tokens('news')", "SELECT 'a' + 1",
]  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_no_question_to_this_workspace_is_refused(
    here: Path, bpeline: Command, statement: str
) -> None:
    before = sorted(path.name for path in here.iterdir())
    answer = bpeline("sql", statement)
    assert answer.exit_code == 2, answer.output
    assert answer.stdout == ""
    said = [line for line in answer.stderr.splitlines() if not line.startswith("adding ")]
    assert len(said) == 3
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_connection_cannot_be_opened_further(here: Path) -> None:
    from bpeline.registry.querying.answers import reading
    from bpeline.registry.querying.contents import Contents
    from bpeline.registry.querying.statements import Statement

    statements = [one for one in REFUSED[3:] if "(" not in one or "READ" in one.upper()]
    contents = Contents(open_registry())
    with reading(contents, Statement("", (), frozenset()), print) as connection:
        for statement in [*statements, "FROM enable_logging(storage_path='x')"]:
            if not statement.startswith(("CHECKPOINT", "PRAGMA", "SELECT", "FROM tokens")):
                with pytest.raises(duckdb.Error):
                    connection.execute(statement)


def test_unknown_versions_are_named(here: Path, bpeline: Command) -> None:
    answer = bpeline("sql", "FROM tokens('news/9')")
    assert answer.exit_code == 1
    assert "news/9" in answer.stderr
    assert "expected one of" in answer.stderr


@pytest.mark.night
def test_an_import_that_equals_a_trained_version_has_no_words_of_its_own(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bpeline: Command, ask: Ask
) -> None:
    shutil.copytree(here, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    digest = ask("SELECT digest FROM versions WHERE version = 'plain/1'")[0]["digest"]
    bpeline("export", "plain/1", "--format", "tiktoken", "--output", "x.tiktoken")
    for name in ("a", "z"):  # before and after the version's name in the list
        made = bpeline("import", "x.tiktoken,pattern=gpt2", "--name", name, "--json")
        assert json.loads(made.stdout)["digest"] == digest
    words = ask("FROM word_counts('plain/1')")
    assert ask(f"FROM word_counts('{digest}')") == words
    for relation in ("word_counts", "splits"):
        for name in ("a/1", "z/1"):
            answer = bpeline("sql", f"FROM {relation}('{name}')")
            assert name in answer.stderr
            advised = re.search(r"`bpeline sql (.*)`", answer.stderr)
            assert advised is not None
            assert advised[1] == f"\"FROM {relation}('plain/1')\""
            assert bpeline("sql", *shlex.split(advised[1])).exit_code == 0


def test_two_forms_at_once_are_refused(here: Path, bpeline: Command) -> None:
    assert bpeline("sql", "SELECT 1", "--json", "--csv").exit_code == 2
    assert bpeline("sql", "SELECT 1", "-o", "no/such/x.parquet").exit_code == 2


# ---- the file ----------------------------------------------------------------------------------

_IN_ANOTHER_PROGRAM = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute(sys.argv[2]).fetchall()[0][0])
"""


def in_another_program(path: Path, statement: str) -> str:
    """What a DuckDB client without bpeline says, in a process of its own, from another folder."""
    command = [sys.executable, "-I", "-c", _IN_ANOTHER_PROGRAM, str(path), statement]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    return done.stdout.strip() or done.stderr.strip()


def test_the_file_opens_in_any_client_and_after_it_was_moved(
    here: Path, tmp_path: Path, ask: Ask
) -> None:
    ask("SELECT count(*) FROM tokens('news/1'), splits('news/1') LIMIT 1")
    moved = tmp_path / "elsewhere" / "moved"
    shutil.copytree(here / ".bpeline", moved)
    statement = "SELECT count(*) FROM tokens('news/1')"
    assert in_another_program(moved / "words.duckdb", statement) == "500"
    said = in_another_program(moved / "words.duckdb", "FROM splits('nothing/1')")
    assert "nothing/1" in said
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{moved / 'words.duckdb'}' AS words (READ_ONLY); USE words")
        assert connection.execute(statement).fetchall() == [(500,)]
        assert connection.execute("SELECT count(*) FROM versions").fetchall() == [(3,)]


def test_what_is_written_is_read_by_clients_of_several_versions(here: Path, ask: Ask) -> None:
    """No older client is installed here; DuckDB says since which version a file can be read."""
    ask("SELECT count(*) FROM splits('news/1')")
    files = [here / ".bpeline" / "words.duckdb", *(here / ".bpeline" / "tables").glob("*.duckdb")]
    assert len(files) > 1
    for path in files:
        statement = "SELECT tags['storage_version'] FROM duckdb_databases() WHERE tags <> MAP {}"
        assert in_another_program(path, statement) == "v1.4.0+", path


def test_a_moved_workspace_answers_from_any_folder(
    here: Path, tmp_path: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(here / ".bpeline", moved)
    monkeypatch.chdir("/")
    for statement in ("SELECT count(*) AS n FROM splits('plain/1')", "FROM versions"):
        answer = bpeline("sql", statement, "--workspace", moved, "--json")
        assert answer.exit_code == 0, answer.output


def test_readers_and_trainings_do_not_wait_for_each_other(here: Path, ask: Ask) -> None:
    statement = "SELECT count(*) AS n FROM word_counts('plain/1')"
    words = ask(statement)
    path = here / ".bpeline" / "words.duckdb"
    held = duckdb.connect(path, read_only=True)
    with open_registry().workspace.lock("training"):
        assert ask(statement) == words
        path.unlink()
        assert ask(statement) == words  # made anew beside a training, and beside a reader
    assert held.execute("SELECT count(*) FROM versions").fetchall() == [(3,)]
    held.close()


def test_an_alias_that_moves_is_seen(here: Path, ask: Ask, bpeline: Command) -> None:
    size = "SELECT count(*) AS n FROM tokens('news@shown')"
    assert bpeline("promote", "news/1", "--to", "shown").exit_code == 0
    assert ask(size) == [{"n": 500}]
    kept = (here / ".bpeline" / "words.duckdb").stat().st_mtime_ns
    assert ask(size) == [{"n": 500}]
    assert (here / ".bpeline" / "words.duckdb").stat().st_mtime_ns == kept
    assert bpeline("promote", "news/2", "--to", "shown").exit_code == 0
    assert ask(size) == [{"n": 900}]


def test_a_deleted_version_leaves_the_file(
    folder_after: Callable[..., Path], bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is made again; gc takes the whole file when asked for everything."""
    folder = folder_after(begin="two sources")
    monkeypatch.chdir(folder)
    assert bpeline("sql", "FROM splits('news/1'), tokens('news/2') LIMIT 1").exit_code == 0
    path = folder / ".bpeline" / "words.duckdb"
    count = "SELECT count(*) FROM stored.parts WHERE kind = 'splits'"
    assert in_another_program(path, count) == "2"
    assert bpeline("delete", "news/1", "--yes").exit_code == 0
    assert not path.exists()
    assert bpeline("sql", "FROM tokens('news/1')").exit_code != 0
    assert bpeline("sql", "FROM splits('news/2')").exit_code == 0
    assert in_another_program(path, count) == "1"
    assert bpeline("gc", "--days", 0, "--dry-run").exit_code == 0
    assert path.exists()
    assert bpeline("gc", "--days", 0, "--yes").exit_code == 0
    assert not path.exists()


def test_parts_that_nothing_needs_are_left_out(here: Path, ask: Ask) -> None:
    ask("SELECT count(*) FROM splits('plain/1')")
    path = here / ".bpeline" / "words.duckdb"
    with duckdb.connect(path) as connection:  # as if of a version that is gone
        connection.execute("UPDATE stored.parts SET key = 'gone' WHERE kind = 'words'")
        connection.execute("UPDATE stored.state SET versions = 'others'")
        kept = connection.execute("SELECT count(*) FROM stored.split_rows").fetchall()
    assert ask("SELECT count(*) AS n FROM word_counts('plain/1')")[0]["n"] > 0
    with duckdb.connect(path, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM stored.split_rows").fetchall() == kept
        keys = connection.execute("SELECT count(*) FROM stored.parts WHERE key = 'gone'").fetchall()
    assert keys == [(0,)]


@pytest.mark.parametrize("content", [b"", b"no database", b"\0" * 20_000])
def test_a_damaged_file_is_made_anew(here: Path, ask: Ask, content: bytes) -> None:
    path = here / ".bpeline" / "words.duckdb"
    path.write_bytes(content)
    assert ask("SELECT count(*) AS n FROM merges('plain/1')") == [{"n": 544}]


def test_a_file_of_another_format_is_made_anew(here: Path, ask: Ask) -> None:
    path = here / ".bpeline" / "words.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE something AS SELECT 1 AS a")
    assert ask("SELECT count(*) AS n FROM merges('plain/1')") == [{"n": 544}]


def test_a_client_that_writes_is_told_of(here: Path, ask: Ask, bpeline: Command) -> None:
    ask("FROM versions")
    path = here / ".bpeline" / "words.duckdb"
    log = path.with_name("words.duckdb.wal")
    log.write_bytes(b"")
    try:
        answer = bpeline("sql", "FROM versions")
    finally:
        log.unlink()
    assert answer.exit_code == 1
    assert str(path) in answer.stderr


def test_what_a_killed_process_left_is_removed(here: Path, ask: Ask) -> None:
    path = here / ".bpeline" / "words.duckdb"
    aside = here / ".bpeline" / "querying"
    aside.mkdir(exist_ok=True)
    (aside / "words.duckdb").write_bytes(b"half")
    (aside / "words.duckdb.wal").write_bytes(b"half")
    path.unlink(missing_ok=True)
    assert ask("SELECT count(*) AS n FROM merges('plain/1')") == [{"n": 544}]
    assert [one.name for one in aside.iterdir()] == ["lock"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_workspace_that_can_only_be_read(here: Path, tmp_path: Path, bpeline: Command) -> None:
    shutil.copytree(here / ".bpeline", tmp_path / "kept")
    (tmp_path / "kept" / "words.duckdb").unlink(missing_ok=True)
    (tmp_path / "kept").chmod(0o555)
    try:
        answer = bpeline("sql", "FROM versions", "--workspace", tmp_path / "kept")
    finally:
        (tmp_path / "kept").chmod(0o755)
    assert answer.exit_code == 0, answer.output
