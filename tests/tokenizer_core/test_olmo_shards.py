"""Token shards for OLMo: both files as the published writer leaves them, read by plain Python."""

from __future__ import annotations

import csv
import gzip
import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.shards.olmo_shards import OLMO
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    vocab = {byte: bytes([byte]) for byte in range(256)}
    return Tokenizer({**vocab, 256: END.encode()}, [], {END: 256})


def rows(shards: TokenShards) -> list[list[str]]:
    (path,) = Path(shards.path).glob("*.csv.gz")
    return list(csv.reader(gzip.decompress(path.read_bytes()).decode().splitlines()))


def test_the_bytes_are_those_of_the_published_layout(tmp_path: Path) -> None:
    ids, index = tmp_path / "a.npy", tmp_path / "a.csv.gz"
    writer = OLMO.write_rows and OLMO.write_rows([ids, index], "uint16", ())
    assert writer
    writer.describe("a.jsonl", [b"0", b'"one, two"', b""], (), 3)
    writer.add(np.array([5, 6, 7, 0, 8], np.uint16), np.array([4], np.int64))
    writer.add(np.array([0, 300, 10, 11, 12, 0], np.uint16), np.array([6, 11], np.int64))
    writer.close()
    assert ids.read_bytes().hex() == "050006000700000008000000" + "2c010a000b000c000000"
    lines = gzip.decompress(index.read_bytes()).decode()
    assert lines == '0,4,0,a.jsonl,1\n4,6,"one, two",a.jsonl,2\n6,11,,a.jsonl,3\n'
    digests = [sha256(path.read_bytes()).hexdigest() for path in (ids, index)]
    assert list(writer.digests([ids, index])) == digests


def test_documents_have_their_id_file_and_number(tmp_path: Path, tokenizer: Tokenizer) -> None:
    lines = [{"text": "one", "id": "a,b"}, {"text": ""}, {"text": "two \u00e9", "id": 7}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "y.txt").write_text(f"three{END}four")
    shards = tokenizer.encode_files(
        [tmp_path / "x.jsonl", tmp_path / "y.txt"],
        tmp_path / "out",
        separator=END,
        end_of_text=END,
        format="olmo",
    )
    x, y = str(tmp_path / "x.jsonl"), str(tmp_path / "y.txt")
    assert [(row[2], row[3], row[4]) for row in rows(shards)] == [
        ("a,b", x, "1"), ("7", x, "2"), ("", y, "1"), ("", y, "2"),
    ]  # fmt: skip
    (raw,) = set((tmp_path / "out").glob("*.npy")) - set((tmp_path / "out").glob("*.docs.npy"))
    ids = np.fromfile(raw, "<u2")
    for row, text in zip(rows(shards), ["one", "two \u00e9", "three", "four"], strict=True):
        document = ids[int(row[0]) : int(row[1])].tolist()
        assert document == [*text.encode(), 256]
    assert [shards[number].tolist() for number in range(4)] == [
        ids[int(row[0]) : int(row[1])].tolist() for row in rows(shards)
    ]
    shards.verify()


@pytest.mark.parametrize(
    "lie",
    [
        "0,3,,x,1\n",
        "0,4,,x,1\n5,11,,x,2\n",
        "0,4,,x,1\n4,4,,x,2\n4,11,,x,3\n",
        "0,99,,x,1\n",
        "0\n",
        "a,b,,x,1\n",
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: Path, lie: str) -> None:
    ids, index = tmp_path / "a.npy", tmp_path / "a.csv.gz"
    np.arange(11, dtype="<u2").tofile(ids)
    index.write_bytes(gzip.compress(lie.encode()))
    with pytest.raises(CorruptFile, match="is no index"):
        OLMO.read([ids, index], np.dtype("<u2"))
    for damaged in (b"", b"nonsense", gzip.compress(b"0,11,,x,1\n")[:-9]):
        index.write_bytes(damaged)
        with pytest.raises(CorruptFile, match="is no index"):
            OLMO.read([ids, index], np.dtype("<u2"))


def test_equal_shards_are_equal_bytes(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "x.txt").write_text(f"one{END}two")
    made = [
        tokenizer.encode_files(tmp_path / "x.txt", tmp_path / name, separator=END, format="olmo")
        for name in ("first", "second")
    ]
    files = [
        {path.name: path.read_bytes() for path in Path(shards.path).iterdir()} for shards in made
    ]
    assert files[0] == files[1]
