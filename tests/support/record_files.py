"""The same documents in each format that holds records, as other programs write them."""

from __future__ import annotations

import bz2
import csv
import json
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Write = Callable[[Path, Sequence[str]], Path]


def table_of(documents: Sequence[str], field: str = "text") -> pa.Table:
    """With columns before and behind that one."""
    numbers = list(range(len(documents)))
    texts = pa.array(documents, pa.string())
    return pa.table({"id": [f"<{n}>" for n in numbers], field: texts, "token_count": numbers})


def as_jsonl(folder: Path, documents: Sequence[str]) -> Path:
    lines = [json.dumps({"id": n, "text": one}) for n, one in enumerate(documents)]
    return _written(folder / "lines.jsonl", "".join(f"{line}\n" for line in lines))


def as_parquet(folder: Path, documents: Sequence[str]) -> Path:
    path = folder / "table.parquet"
    pq.write_table(table_of(documents), path, row_group_size=7, data_page_size=512)
    return path


def as_one_row_group(folder: Path, documents: Sequence[str]) -> Path:
    path = folder / "one.parquet"
    pq.write_table(table_of(documents), path, compression="zstd", use_dictionary=False)
    return path


def as_large_strings(folder: Path, documents: Sequence[str]) -> Path:
    table = table_of(documents)
    table = table.set_column(1, "text", table["text"].cast(pa.large_string()))
    pq.write_table(table, folder / "large.parquet", compression="gzip", row_group_size=20)
    return folder / "large.parquet"


def as_dictionary(folder: Path, documents: Sequence[str]) -> Path:
    table = table_of(documents)
    table = table.set_column(1, "text", table["text"].dictionary_encode())
    pq.write_table(table, folder / "dictionary.parquet")
    return folder / "dictionary.parquet"


def as_arrow_file(folder: Path, documents: Sequence[str]) -> Path:
    return _arrow(folder / "table.arrow", documents, pa.ipc.new_file)


def as_arrow_stream(folder: Path, documents: Sequence[str]) -> Path:
    """As caches of `datasets` are."""
    return _arrow(folder / "data-00000-of-00001.arrow", documents, pa.ipc.new_stream)


def as_feather(folder: Path, documents: Sequence[str]) -> Path:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    path = folder / "table.feather"
    return _arrow(
        path, documents, lambda out, schema: pa.ipc.new_file(out, schema, options=options)
    )


def as_csv(folder: Path, documents: Sequence[str]) -> Path:
    return _delimited(folder / "table.csv", documents, ",")


def as_tsv(folder: Path, documents: Sequence[str]) -> Path:
    path = _delimited(folder / "table.tsv", documents, "\t")
    (folder / "table.tsv.xz").write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()
    return folder / "table.tsv.xz"


def _delimited(path: Path, documents: Sequence[str], delimiter: str) -> Path:
    with path.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, delimiter=delimiter)
        writer.writerow(["id", "text", "token_count"])
        writer.writerows([f"<{n}>", one, n] for n, one in enumerate(documents))
    return path


def as_json(folder: Path, documents: Sequence[str]) -> Path:
    records = [{"id": n, "text": one, "more": [{}]} for n, one in enumerate(documents)]
    return _written(folder / "array.json", json.dumps(records, indent=1, ensure_ascii=False))


def as_json_objects(folder: Path, documents: Sequence[str]) -> Path:
    """One after the other, as much that is called .json is, here compressed."""
    lines = [json.dumps({"text": one}) for one in documents]
    path = folder / "objects.json.bz2"
    path.write_bytes(b"".join(bz2.compress(f"{line}\n".encode()) for line in lines))
    return path


def save_to_disk(folder: Path, documents: Sequence[str], shards: int = 1) -> Path:
    """As `datasets.Dataset.save_to_disk` lays a directory out; its own path."""
    folder.mkdir(parents=True)
    size = -(-len(documents) // shards)
    names = [f"data-{n:05}-of-{shards:05}.arrow" for n in range(shards)]
    for n, name in enumerate(names):
        _arrow(folder / name, documents[n * size : (n + 1) * size], pa.ipc.new_stream)
    text = {"dtype": "string", "_type": "Value"}
    about = {"citation": "", "description": "", "features": {"text": text}, "license": ""}
    _written(folder / "dataset_info.json", json.dumps(about, indent=2))
    state = {
        "_data_files": [{"filename": name} for name in names], "_fingerprint": "3b1f8a6d0c2e4f57",
        "_format_columns": None, "_format_kwargs": {}, "_format_type": None,
        "_output_all_columns": False, "_split": "train",
    }  # fmt: skip
    _written(folder / "state.json", json.dumps(state, indent=2))
    return folder


def datasets_cache(folder: Path, documents: Sequence[str]) -> Path:
    """As `datasets.load_dataset` keeps a split, with results of `map` and `filter` beside it."""
    revision = "parquet/default-7d1d3c5b8e2f4a60/0.0.0/2a1f9c"
    place = folder / revision
    place.mkdir(parents=True)
    _arrow(place / "parquet-train.arrow", documents, pa.ipc.new_stream)
    _arrow(place / "cache-0123456789abcdef.arrow", documents, pa.ipc.new_stream)
    _arrow(place / "cache-0123456789abcdef_00000_of_00002.arrow", documents, pa.ipc.new_stream)
    indices = pa.table({"indices": pa.array([2, 1], pa.uint64())})
    path = place / "cache-fedcba9876543210.arrow"
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_stream(out, indices.schema) as writer:
        writer.write_table(indices)
    _written(place / "dataset_info.json", json.dumps({"features": {}, "splits": {}}))
    _written(place.with_name("2a1f9c.incomplete_info.lock"), "")
    _written(folder / f"_cache_{revision.replace('/', '_')}_builder.lock", "")
    return folder


def hub_cache(folder: Path, documents: Sequence[str]) -> Path:
    """As `huggingface_hub` keeps a repository: links in a snapshot to files named by digests."""
    place = folder / "datasets--who--what"
    data, blobs = place / "snapshots" / "9d3e" / "data", place / "blobs"
    for one in (data, blobs, place / "refs"):
        one.mkdir(parents=True)
    as_parquet(folder, documents).rename(blobs / ("ab" * 32))
    (data / "train-00000-of-00001.parquet").symlink_to(f"../../../blobs/{'ab' * 32}")
    _written(blobs / "cd12", "# A dataset of no words\n")
    (place / "snapshots" / "9d3e" / "README.md").symlink_to("../../blobs/cd12")
    _written(place / "refs" / "main", "9d3e")
    return place


def _arrow(path: Path, documents: Sequence[str], make: Callable[..., pa.RecordBatchWriter]) -> Path:
    table = table_of(documents)
    with pa.OSFile(str(path), "wb") as out, make(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=11)
    return path


def _written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


WRITERS: dict[str, Write] = {
    write.__name__.removeprefix("as_"): write
    for write in (
        as_parquet, as_one_row_group, as_large_strings, as_dictionary,
        as_arrow_file, as_arrow_stream, as_feather, as_csv, as_tsv, as_json, as_json_objects,
    )
}  # fmt: skip
