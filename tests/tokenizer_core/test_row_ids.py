"""The ids of rows go with their documents into Parquet shards, whatever the rows come in."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpeline.tokenizer_core.corpus.documents import read_documents
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.errors import UnreadableSource
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.shard_formats import PARQUET
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(trained: Callable[..., Tokenizer]) -> Tokenizer:
    return trained("gpt2")


@pytest.fixture(scope="module")
def rows(fuzz_texts: list[str]) -> list[dict[str, Any]]:
    texts = ["", *(text.replace("\r", "") for text in fuzz_texts[:150]), "long one " * 300, ""]
    return [
        {
            "id": f'<urn:{n}>ü\n"{n}"',
            "text": text,
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
    encoding = file_encoding_of(tokenizer, **options)
    files = find_source_files([Source(str(file))])
    return ShardJob(
        replace(encoding, piece_bytes=piece_bytes), files, shard_place(out), PARQUET, 4_000
    ).run(2)


def read(shards: TokenShards) -> list[dict[str, Any]]:
    paths = [shards.path / record.files[0].name for record in shards.records]
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("piece_bytes", [61, 1 << 22])
@pytest.mark.parametrize("kind", WRITERS)
def test_rows_keep_their_ids_in_every_format(
    tokenizer: Tokenizer, rows: list[dict[str, Any]], kind: str, piece_bytes: int, tmp_path: Path
) -> None:
    file = tmp_path / f"rows.{kind}"
    WRITERS[kind](file, rows)
    shards = encoded(tokenizer, file, tmp_path / "out", piece_bytes)
    expected = [
        {"ids": tokenizer.encode(row["text"]), "id": row["id"]} for row in rows if row["text"]
    ]
    assert len(shards.records) > 1
    assert read(shards) == expected
    assert [shards.place(n).id for n in range(len(shards))] == [row["id"] for row in expected]

    # One shard is lost, and made again from rows behind those that are there.
    lost = shards.records[1].files[0].name
    content = (shards.path / lost).read_bytes()
    (shards.path / lost).unlink()
    encoded(tokenizer, file, tmp_path / "out", piece_bytes)
    assert (shards.path / lost).read_bytes() == content


@pytest.mark.parametrize("kind", WRITERS)
def test_ids_may_be_numbers_or_missing(tokenizer: Tokenizer, kind: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": 7, "text": "one"}, {"id": None, "text": "two"}]
    WRITERS[kind](tmp_path / f"rows.{kind}", rows)
    ids = [row["id"] for row in read(encoded(tokenizer, tmp_path / f"rows.{kind}", tmp_path / "a"))]
    assert ids == ["7", "" if kind == "csv" else None]
    shards = encoded(tokenizer, tmp_path / f"rows.{kind}", tmp_path / "b", id_field="name")
    assert [row["id"] for row in read(shards)] == [None, None]


@pytest.mark.parametrize("row_ids", [[b"1"], [b"1", b"[" * 99_999], [b"1", b""]])
def test_ids_that_a_harmed_process_sends_are_refused(row_ids: list[bytes]) -> None:
    file = SourceFile("a.parquet", "given", "parquet", None, 0, 0, 0, 0)
    raw, reading = Text.of(b"a\xffb\xff"), ReadOptions(SplitPattern(regex=r"\w+|\W"))
    read = read_documents(raw, file, 0, reading, "id", [b"1", b'"b"'])
    assert read.row_ids == (b"1", b'"b"')
    with pytest.raises(UnreadableSource, match=r"a\.parquet"):
        read_documents(raw, file, 0, reading, "id", row_ids)
