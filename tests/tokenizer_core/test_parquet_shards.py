"""Token shards as Parquet: the documents that the core's own formats hold, a row each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.shards import shard_formats
from bpeline.tokenizer_core.shards.shard_formats import PARQUET
from bpeline.tokenizer_core.shards.token_shards import TokenShards

END = "<|end|>"


@pytest.fixture(params=[258, 70_000])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" t", request.param: END.encode()}
    return Tokenizer(vocab, [(b" ", b"t")], [END])


def corpus(folder: Path) -> tuple[Path, list[str]]:
    texts = [f"document {i} to the point " * (i % 7) for i in range(200)]
    path = folder / "a.txt"
    path.write_text(END.join(texts))
    return path, [text for text in texts if text]


@pytest.mark.parametrize("group_tokens", [1, 900, 1 << 22])
def test_rows_are_documents(
    tokenizer: Tokenizer, group_tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_formats, "_GROUP_TOKENS", group_tokens)
    path, texts = corpus(tmp_path)
    shards = tokenizer.encode_files(
        path, tmp_path / "out", separator=END, end_of_text=END, shard_bytes=2_000, format=PARQUET
    )
    expected = [[*tokenizer.encode(text), tokenizer.special_tokens[END]] for text in texts]
    assert [ids.tolist() for ids in shards] == expected
    assert shards[17].tolist() == expected[17]
    tables = [
        pyarrow.parquet.read_table(tmp_path / "out" / record.files[0].name)
        for record in shards.records
    ]
    assert len(tables) > 5
    assert pyarrow.concat_tables(tables).column("ids").to_pylist() == expected
    width = pyarrow.uint16() if max(tokenizer.vocab) < 1 << 16 else pyarrow.uint32()
    assert tables[0].schema.field("ids").type.value_type == width
    groups = [
        pyarrow.parquet.ParquetFile(tmp_path / "out" / record.files[0].name).num_row_groups
        for record in shards.records
    ]
    assert (max(groups) > 1) == (group_tokens < 1_000)


def test_a_document_may_come_in_many_pieces(tokenizer: Tokenizer, tmp_path: Path) -> None:
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


def test_nothing_is_an_empty_table(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    shards = tokenizer.encode_files(tmp_path / "empty.txt", tmp_path / "out", format=PARQUET)
    assert list(shards) == []


def test_damage_is_found(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, _ = corpus(tmp_path)
    tokenizer.encode_files(path, tmp_path / "out", separator=END, format=PARQUET)
    shards = TokenShards(tmp_path / "out")
    shards.verify()
    (file,) = (tmp_path / "out").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CorruptFile, match="parquet"):
        TokenShards(tmp_path / "out").verify()
