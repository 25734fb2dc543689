"""Files into token shards and back to documents: the ids of encode, however it is cut or killed."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidSpecialToken,
    InvalidTokenizer,
    InvalidUtf8,
    MissingSource,
)
from bpeline.tokenizer_core.shards.file_encoding import FileEncoding
from bpeline.tokenizer_core.shards.shard_formats import BIN
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

MakeTokenizer = Callable[..., Tokenizer]
END = "<|endoftext|>"


@pytest.fixture
def documents(fuzz_texts: list[str]) -> list[str]:
    joined = [" and ".join(fuzz_texts[i : i + 4]) for i in range(0, 1_200, 4)]
    return [text.replace(END, "").replace("\r", "") for text in joined]


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("chunk_bytes", [50, 1_000, 1 << 22])
@pytest.mark.parametrize("pattern", ["gpt2", r"\p{L}+|[^\p{L}]{1,3}"])
def test_documents_between_separators_come_back(
    trained: MakeTokenizer,
    documents: list[str],
    pattern: str,
    chunk_bytes: int,
    tmp_path: Path,
) -> None:
    tokenizer = trained(pattern)
    texts = [*documents[:100], "", "", *documents[100:], ""]
    written(tmp_path / "in/a.txt", END.join(texts).encode())
    written(tmp_path / "in/b.txt", (END + END.join(documents[::-1])).encode())
    written(tmp_path / "in/empty.txt", b"")
    end = tokenizer.special_tokens[END]
    reading = ReadOptions(tokenizer.pattern, (END,))
    encoding = FileEncoding(
        tokenizer.encoder, tokenizer.digest, reading, end, "uint16", chunk_bytes
    )
    files = find_source_files([Source(os.fspath(tmp_path / "in"))])
    shards = ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN).run(threads=2)
    by_method = tokenizer.encode_files(
        tmp_path / "in", tmp_path / "out", separator=END, end_of_text=END
    )
    assert by_method.records == shards.records
    filled = [text for text in documents if text]
    expected = [[*tokenizer.encode(text), end] for text in [*filled, *filled[::-1]]]
    assert [ids.tolist() for ids in shards] == expected
    assert len(shards) == len(expected)
    assert shards[len(shards) - 1].tolist() == expected[-1]
    assert shards.manifest["tokens"] == sum(map(len, expected))
    assert shards.manifest["bytes"] == sum(len(text.encode()) for text in filled) * 2
    assert shards.tokenizer_digest == tokenizer.digest
    with pytest.raises(IndexError):
        shards[len(shards)]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_each_json_line_is_a_document(
    tokenizer: Tokenizer, documents: list[str], ending: str, tmp_path: Path
) -> None:
    lines = "\n".join(json.dumps({"body": text}) for text in ["", *documents, ""]).encode()
    content = gzip.compress(lines) if ending.endswith("gz") else lines
    path = written(tmp_path / f"in{ending}", content)
    shards = tokenizer.encode_files([path], tmp_path / "out", text_field="body")
    expected = [tokenizer.encode(text) for text in documents if text]
    assert [ids.tolist() for ids in shards] == expected
    assert shards[3].dtype == np.uint16


def test_a_file_without_separator_is_one_document(
    tokenizer: Tokenizer, mixed_text: str, tmp_path: Path
) -> None:
    wide = Tokenizer(
        {**tokenizer.vocab, 70_000: b"\xff\xff\xff\xff"}, tokenizer.merges, (), tokenizer.pattern
    )
    path = written(tmp_path / "a.txt", mixed_text.encode())
    shards = wide.encode_files(os.fspath(path), tmp_path / "out")
    assert len(shards) == 1
    assert shards[0].tolist() == wide.encode(mixed_text)
    assert shards[0].dtype == np.uint32


def test_other_settings_make_other_shards(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"text")
    plain = tokenizer.encode_files([path], tmp_path / "out")
    closed = tokenizer.encode_files([path], tmp_path / "out", end_of_text=END)
    assert plain.records != closed.records
    assert closed[0].tolist() == [*tokenizer.encode("text"), tokenizer.special_tokens[END]]


def test_another_separator_makes_other_documents_of_the_same_files(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.txt", b"one--two==three--four")
    for separator, texts in (
        (None, ["one--two==three--four"]),
        ("--", ["one", "two==three", "four"]),
        ("==", ["one--two", "three--four"]),
        (["--", "=="], ["one", "two", "three", "four"]),
    ):
        shards = tokenizer.encode_files([path], tmp_path / "out", separator=separator)
        assert [ids.tolist() for ids in shards] == [tokenizer.encode(text) for text in texts]
        assert shards.manifest["separator"] == separator


def test_damage_is_found(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"some text")
    out = tmp_path / "out"
    tokenizer.encode_files([path], out)
    (ids,) = out.glob("*.bin")
    ids.write_bytes(ids.read_bytes()[:-1])
    with pytest.raises(CorruptFile, match="size"):
        TokenShards(out)
    repaired = tokenizer.encode_files([path], out)
    assert repaired[0].tolist() == tokenizer.encode("some text")
    repaired.verify()
    ids.write_bytes(bytes([ids.read_bytes()[0] ^ 1]) + ids.read_bytes()[1:])
    damaged = TokenShards(out)
    with pytest.raises(CorruptFile, match=ids.name):
        damaged.verify()
    tokenizer.encode_files([path], out).verify()
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["seal"]
    for change, error in (
        ({"format": "x"}, CorruptFile),
        ({"format_version": 3}, InvalidTokenizer),
        ({"document_index": 2}, InvalidTokenizer),
        ({"document_index": None}, InvalidTokenizer),
        ({"format_version": 1, "document_index": None}, CorruptFile),
        ({"dtype": "float"}, CorruptFile),
        ({"shards": [{"name": "a"}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "name": "../a"}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "tokens": -1}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "files": []}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "files": [{"name": "../a"}]}]}, CorruptFile),
        ({"shards": None}, CorruptFile),
        ({"shard_format": "parquet"}, CorruptFile),
        ({"shard_format": "odd"}, InvalidOption),
    ):
        (out / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(error):
            TokenShards(out)


def test_what_cannot_be_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"text")
    out = tmp_path / "out"
    with pytest.raises(InvalidSpecialToken):
        tokenizer.encode_files([path], out, end_of_text="<no>")
    for wrong in ({"threads": 0}, {"shard_bytes": 0}):
        with pytest.raises(InvalidOption):
            tokenizer.encode_files([path], out, **wrong)  # type: ignore[arg-type]
    with pytest.raises(MissingSource):
        tokenizer.encode_files([tmp_path / "none"], out)
    invalid = written(tmp_path / "b.txt", b"a\xff")
    with pytest.raises(InvalidUtf8):
        tokenizer.encode_files([invalid], out)
    assert not list(out.glob("*"))
    replaced = tokenizer.encode_files([invalid], out, invalid_utf8="replace")
    assert tokenizer.decode(replaced[0]) == "a\ufffd"
    other = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
    with pytest.raises(InvalidOption, match=tokenizer.digest[:12]):
        other.encode_files([path], out)
    assert tokenizer.decode(TokenShards(out)[0]) == "a\ufffd"
