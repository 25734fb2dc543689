"""What standard input is taken for, by how it begins."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bpeline.tokenizer_core.corpus import HEAD, extension_for
from bpeline.tokenizer_core.errors import UnreadableSource

RECORD = '{"id": 1, "text": "one"}'
TABLE = pa.table({"text": ["one", "two"], "id": [1, 2]})
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
TEXTS = [
    ("Some text.\nMore of it.\n", ".txt"),
    ("\ufeff" + RECORD + "\n", ".jsonl"),
    (RECORD, ".jsonl"),
    ("\n" + RECORD + "\n" + RECORD, ".jsonl"),
    (json.dumps({"text": "x" * 2 * HEAD}), ".jsonl"),
    ('{"text": "' + "字" * HEAD + '"}', ".jsonl"),  # fewer characters than bytes
    (json.dumps({"text": "x " * HEAD}, indent=1), ".json"),
    (f'{{"text": "one", "n": {"9" * 5_000}}}\n', ".jsonl"),
    ('{"text": null}\n', ".jsonl"),  # an error of its row, not raw text
    (json.dumps([json.loads(RECORD)]), ".json"),
    (json.dumps([json.loads(RECORD)], indent=1), ".json"),
    (json.dumps(json.loads(RECORD), indent=1), ".json"),
    (json.dumps([{"text": "x" * 2 * HEAD}]), ".json"),
    ("id,text\n1,one\n", ".csv"),
    ('"id","text"\r\n1,"o,ne"\r\n', ".csv"),
    ("id\ttext\n1\tone\n", ".tsv"),
    ("", ".txt"),
    ("text\n", ".txt"),  # one word is no table
    ("a text, of course, but no table\n", ".txt"),
    ("[1] In the beginning\n", ".txt"),
    ("[{x}] is a set\n", ".txt"),
    ("{x} is a set\n", ".txt"),
    ("{" * 200_000, ".txt"),
    ("def f(x):\n    return {x: [x]}\n", ".txt"),
    ("one, two and " * 20_000, ".txt"),  # beyond what csv takes for a field
    ("a bar of progress\ris drawn, again\n", ".txt"),
]


@pytest.mark.parametrize(("text", "extension"), TEXTS)
def test_text_and_records_are_known_by_their_first_line(text: str, extension: str) -> None:
    assert extension_for(text.encode()[:HEAD], "text") == extension


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("text", "extension"), TEXTS)
def test_so_they_are_when_compressed(text: str, extension: str, compression: str) -> None:
    compressed = COMPRESSIONS[compression](text.encode())
    assert extension_for(compressed[:HEAD], "text") == extension + compression


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("padding", [b"", bytes(5_000)])
def test_members_are_one_text(compression: str, padding: bytes) -> None:
    compress = COMPRESSIONS[compression]
    line = json.dumps({"text": "words " * 30_000}).encode()
    parts = [b"", line[:65_000], line[65_000:]]
    if compression == ".zst":  # its reader takes no padding
        padding = b""
    members = padding.join(map(compress, parts))
    assert extension_for(members[:HEAD], "text") == ".jsonl" + compression


def test_files_of_columns_are_known() -> None:
    parquet, stream, file = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(TABLE, parquet)
    with pa.ipc.new_stream(stream, TABLE.schema) as writer:
        writer.write_table(TABLE)
    with pa.ipc.new_file(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    seen = [extension_for(one.getvalue(), "text") for one in (parquet, stream, file)]
    assert seen == [".parquet", ".arrow", ".arrow"]


def test_damaged_compression_is_left_to_whoever_reads_it() -> None:
    for extension, compress in COMPRESSIONS.items():
        damaged = compress(RECORD.encode())[:6] + b"\xff" * 50
        assert extension_for(damaged, "text") == ".txt" + extension


def test_a_bomb_is_not_set_off() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    with pytest.raises(UnreadableSource, match="begins as binary within Zstandard"):
        extension_for(bomb[:HEAD], "text")


@pytest.mark.parametrize("text", ['{"id": 1, "body": "one"}\n', '[{"id": 1, "body": "one"}]'])
def test_objects_without_the_member_are_refused_naming_theirs(text: str) -> None:
    with pytest.raises(UnreadableSource, match="no member 'text'") as refusal:
        extension_for(text.encode(), "text")
    assert "'id', 'body'" in refusal.value.accepted
    assert extension_for(text.encode(), "body") == extension_for(text.encode(), None) != ".txt"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\0b", "binary"),
        (b"%PDF-1.7", "PDF"),
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "gzip"),
    ],
)
def test_what_is_no_corpus_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(UnreadableSource, match=f"standard input begins as {said}"):
        extension_for(content, "text")
