"""Columns of rows go with their documents into Parquet shards, whatever the rows come in."""

from __future__ import annotations

import csv
import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpeline.tokenizer_core.corpus.documents import read_documents
from bpeline.tokenizer_core.corpus.reading import Reading
from bpeline.tokenizer_core.corpus.row_fields import RowFields
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.errors import InvalidOption, UnreadableSource
from bpeline.tokenizer_core.shards.carried_columns import CarriedColumn, carried_columns
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.parquet_shards import PARQUET, missing_values
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer

COLUMNS = ("url", "score:double", "length:int64", "good:bool")


@pytest.fixture(scope="module")
def rows(fuzz_texts: list[str]) -> list[dict[str, Any]]:
    texts = ["", *(text.replace("\r", "") for text in fuzz_texts[:150]), "long one " * 300, ""]
    return [
        {
            "url": f'https://ü.example/{n}\n"{n}"',
            "id": f"<urn:{n}>",
            "text": text,
            "score": n / 8,
            "length": len(text) - (1 << 53),
            "good": n % 3 == 0,
        }
        for n, text in enumerate(texts)
    ]


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=9)


def as_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)


def as_feather(path: Path, rows: list[dict[str, Any]]) -> None:
    """A stream, as caches of `datasets` are."""
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)


def as_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def as_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=n % 2 == 0) + "\n" for n, row in
                            enumerate(rows)))  # fmt: skip


def as_json(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows, indent=1))


WRITERS = {
    one.__name__.removeprefix("as_"): one
    for one in (as_parquet, as_arrow, as_feather, as_csv, as_jsonl, as_json)
}


def encoded(
    tokenizer: Tokenizer, file: Path, out: Path, piece_bytes: int = 1 << 22, **options: Any
) -> TokenShards:
    encoding = file_encoding_of(tokenizer, columns=options.pop("columns", COLUMNS), **options)
    files = find_source_files([Source(str(file))])
    return ShardJob(
        replace(encoding, piece_bytes=piece_bytes), files, shard_place(out), PARQUET, 4_000
    ).run(2)


def read(shards: TokenShards) -> list[dict[str, Any]]:
    paths = [shards.path / record.files[0].name for record in shards.records]
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("piece_bytes", [61, 1 << 22])
@pytest.mark.parametrize("kind", WRITERS)
def test_rows_keep_their_columns_in_every_format(
    tokenizer: Tokenizer, rows: list[dict[str, Any]], kind: str, piece_bytes: int, tmp_path: Path
) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, rows)
    shards = encoded(tokenizer, file, tmp_path / "out", piece_bytes)
    names = [column.partition(":")[0] for column in COLUMNS]
    expected = [
        {"ids": tokenizer.encode(row["text"]), "id": row["id"], **{n: row[n] for n in names}}
        for row in rows
        if row["text"]
    ]
    assert len(shards.records) > 1
    assert read(shards) == expected
    assert [shards.place(n).id for n in range(len(shards))] == [row["id"] for row in expected]
    types = dict(zip(names, ("string", "double", "int64", "bool"), strict=True))
    assert shards.manifest["columns"] == types
    schema = pq.read_schema(shards.path / shards.records[0].files[0].name)
    assert {name: str(schema.field(name).type) for name in names} == types

    # One shard is lost, and made again from rows behind those that are there.
    lost = shards.records[1].files[0].name
    content = (shards.path / lost).read_bytes()
    (shards.path / lost).unlink()
    encoded(tokenizer, file, tmp_path / "out", piece_bytes)
    assert (shards.path / lost).read_bytes() == content


def test_values_of_other_types_are_kept_as_json(tokenizer: Tokenizer, tmp_path: Path) -> None:
    when = datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC)
    row = {"text": "a", "when": when, "tags": ["x", None], "who": {"name": "y"}, "raw": b"z\xff"}
    as_parquet(tmp_path / "rows.parquet", [row])
    columns = "when, tags:json, who:json,raw"
    (made,) = read(encoded(tokenizer, tmp_path, tmp_path / "out", columns=columns))
    assert made == {
        "ids": tokenizer.encode("a"), "id": None, "when": "2026-02-03 04:05:00+00:00",
        "tags": '["x", null]', "who": '{"name": "y"}', "raw": "z\\xff",
    }  # fmt: skip


def test_rows_without_a_value_have_none_and_are_counted(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    lines = [{"text": "a", "url": "u", "n": 1}, {"text": "b", "n": None}, {"text": "c", "id": 7}]
    as_jsonl(tmp_path / "rows.jsonl", lines)
    shards = encoded(tokenizer, tmp_path, tmp_path / "out", columns=("url", "n:int64"))
    assert [(row["id"], row["url"], row["n"]) for row in read(shards)] == [
        (None, "u", 1), (None, None, None), ("7", None, None),
    ]  # fmt: skip
    paths = [shards.path / record.files[0].name for record in shards.records]
    assert missing_values(paths, ["url", "n"]) == {"url": 2, "n": 2}


def test_an_id_that_is_carried_over_has_its_type(tokenizer: Tokenizer, tmp_path: Path) -> None:
    as_csv(tmp_path / "rows.csv", [{"text": "a", "id": 7}, {"text": "b", "id": ""}])
    shards = encoded(tokenizer, tmp_path / "rows.csv", tmp_path / "out", columns="id:int64")
    assert [row["id"] for row in read(shards)] == [7, None]


@pytest.mark.parametrize(
    ("columns", "value", "advice"),
    [
        ("v", 0.5, "v:double"),
        ("v", 3, "v:int64"),
        ("v", True, "v:bool"),
        ("v", ["x"], "v:json"),
        ("v:int64", 0.5, "v:double"),
        ("v:int64", 1 << 63, "v:double"),
        ("v:int64", "half", "v:json"),
        ("v:double", True, "v:bool"),
        ("v:bool", 1, "v:int64"),
    ],
)
def test_a_value_of_another_type_is_refused(
    tokenizer: Tokenizer, columns: str, value: Any, advice: str, tmp_path: Path
) -> None:
    as_jsonl(tmp_path / "rows.jsonl", [{"text": "a", "v": value}])
    with pytest.raises(InvalidOption, match=rf"--columns {advice}") as refusal:
        encoded(tokenizer, tmp_path, tmp_path / "out", columns=columns)
    assert "rows.jsonl" in str(refusal.value)
    as_type = advice.partition(":")[2]
    assert CarriedColumn("v", as_type).value(value, "") is not None


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather", "csv"])
def test_a_column_that_is_not_there_is_refused(
    tokenizer: Tokenizer, rows: list[dict[str, Any]], kind: str, tmp_path: Path
) -> None:
    WRITERS[kind](tmp_path / f"rows.{kind}", rows)
    with pytest.raises(UnreadableSource, match=r"(?s)has no column 'link'.*'url'.*leave link out"):
        encoded(tokenizer, tmp_path / f"rows.{kind}", tmp_path / "out", columns="link")


@pytest.mark.parametrize(
    "values", [[b"[1]"], [b"[1]", b"{}"], [b"[1]", b"[" * 99_999], [b"1", b""]]
)
def test_values_that_a_harmed_process_sends_are_refused(values: list[bytes]) -> None:
    file = SourceFile("a.parquet", "given", "parquet", None, 0, 0, 0, 0)
    raw, reading = Text.of(b"a\xffb\xff"), Reading(SplitPattern(regex=r"\w+|\W"))
    read = read_documents(raw, file, 0, reading, RowFields("id"), [b"[1]", b'["b"]'])
    assert read.row_ids == (b"1", b'"b"')
    with pytest.raises(UnreadableSource, match=r"a\.parquet was decoded to 2 documents"):
        read_documents(raw, file, 0, reading, RowFields("id"), values)


def test_text_has_no_columns(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(UnreadableSource, match=r"a\.txt is text, which has no columns"):
        encoded(tokenizer, tmp_path / "a.txt", tmp_path / "out")


@pytest.mark.parametrize("format", ["bin", "npy", "megatron", "olmo"])
def test_other_formats_have_no_columns(tokenizer: Tokenizer, format: str, tmp_path: Path) -> None:
    as_jsonl(tmp_path / "rows.jsonl", [{"text": "a", "url": "u"}])
    with pytest.raises(InvalidOption, match="--format parquet"):
        tokenizer.encode_files(tmp_path, tmp_path / "out", format=format, columns="url")


@pytest.mark.parametrize("columns", ["ids", "url,url", ["url", "url:json"], ":int64"])
def test_columns_that_cannot_be_are_refused(columns: Any) -> None:
    if columns == ":int64":
        assert carried_columns(columns) == (CarriedColumn(":int64"),)
        return
    with pytest.raises(InvalidOption, match="--columns"):
        carried_columns(columns)


def test_names_may_hold_colons() -> None:
    assert carried_columns("dc:title, dc:date:json") == (
        CarriedColumn("dc:title"),
        CarriedColumn("dc:date", "json"),
    )
