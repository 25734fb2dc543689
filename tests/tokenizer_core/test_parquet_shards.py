"""Token shards as Parquet: the documents that the core's own formats hold, a row each."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.corpus.documents import read_documents
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.errors import CorruptFile, UnreadableSource
from bpeline.tokenizer_core.shards import shard_formats
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.shard_formats import PARQUET
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text

END = "<|end|>"


@pytest.fixture(params=[258, 70_000])
def of_width(request: pytest.FixtureRequest) -> Tokenizer:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" t", request.param: END.encode()}
    return Tokenizer(vocab, [(b" ", b"t")], [END])


def corpus(folder: Path) -> tuple[Path, list[str]]:
    texts = [f"document {i} to the point " * (i % 7) for i in range(200)]
    path = folder / "a.txt"
    path.write_text(END.join(texts))
    return path, [text for text in texts if text]


@pytest.mark.parametrize("group_tokens", [1, 900, 1 << 22])
def test_rows_are_documents(
    of_width: Tokenizer, group_tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_formats, "_GROUP_TOKENS", group_tokens)
    path, texts = corpus(tmp_path)
    shards = of_width.encode_files(
        path, tmp_path / "out", separator=END, end_of_text=END, shard_bytes=2_000, format=PARQUET
    )
    expected = [[*of_width.encode(text), of_width.special_tokens[END]] for text in texts]
    assert [ids.tolist() for ids in shards] == expected
    assert shards[17].tolist() == expected[17]
    tables = [pq.read_table(tmp_path / "out" / record.files[0].name) for record in shards.records]
    assert len(tables) > 5
    assert pa.concat_tables(tables).column("ids").to_pylist() == expected
    width = pa.uint16() if max(of_width.vocab) < 1 << 16 else pa.uint32()
    assert tables[0].schema.field("ids").type.value_type == width
    groups = [
        pq.ParquetFile(tmp_path / "out" / record.files[0].name).num_row_groups
        for record in shards.records
    ]
    assert (max(groups) > 1) == (group_tokens < 1_000)


def test_a_document_may_come_in_many_pieces(of_width: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("to the point " * 1_000)
    writer = PARQUET.write([tmp_path / "x.parquet"], "uint32")
    for begin in range(0, 100, 10):
        writer.add(np.arange(begin, begin + 10, dtype=np.uint32), np.empty(0, np.int64))
    writer.add(np.empty(0, np.uint32), np.array([100]))
    writer.close()
    ids, edges = PARQUET.read([tmp_path / "x.parquet"], np.dtype("uint32"))
    assert ids.tolist() == list(range(100))
    assert edges.tolist() == [0, 100]


def test_nothing_is_an_empty_table(of_width: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    shards = of_width.encode_files(tmp_path / "empty.txt", tmp_path / "out", format=PARQUET)
    assert list(shards) == []


def test_damage_is_found(of_width: Tokenizer, tmp_path: Path) -> None:
    path, _ = corpus(tmp_path)
    of_width.encode_files(path, tmp_path / "out", separator=END, format=PARQUET)
    shards = TokenShards(tmp_path / "out")
    shards.verify()
    (file,) = (tmp_path / "out").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFile, match="parquet"):
        TokenShards(tmp_path / "out").verify()


# Ids of rows


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
