"""docs/token-shards.md is what programs without bpeline rely on: its blocks run and are true."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from s3_server import S3Server

from bpeline import Tokenizer, TokenShards
from bpeline.tokenizer_core.shards import pack_shards

PAGE = (Path(__file__).parent.parent / "docs" / "token-shards.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
END = "<|endoftext|>"
ROWS: list[dict[str, Any]] = [
    {"text": f"document {number} to the point " * (number % 5 + 1), "id": number or None}
    for number in range(40)
]


@pytest.fixture
def tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokenizer:
    """The directory ``tokens``, of a text file and JSON lines, in several shards."""
    monkeypatch.chdir(tmp_path)
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" t", 257: END.encode()}
    made = Tokenizer(vocab, [(b" ", b"t")], [END])
    Path("a.txt").write_text(f"to the{END}point")
    Path("b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("c.txt").write_text("")
    made.encode_files(
        ["a.txt", "b.jsonl", "c.txt"], "tokens", separator=END, end_of_text=END, shard_bytes=500
    )
    return made


def run(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, "docs/token-shards.md", "exec"), names)
    return names


def test_the_reader(tokenizer: Tokenizer) -> None:
    (block,) = [one for one in PYTHON if "shards.verify()" in one]
    names = run(block)
    assert names["count"] == 2 + len(ROWS)
    assert names["total"] == names["shards"].manifest["tokens"]
    assert names["row"] == b"to the"
    assert names["shards"].special_tokens == {END: 257}
    assert names["shards"].manifest["id_count"] == 258


def test_numpy_alone_reads_the_same(tokenizer: Tokenizer) -> None:
    (block,) = [one for one in PYTHON if "np.memmap" in one]
    assert "bpeline" not in re.sub(r'"bpeline-tokens"', "", block)
    found = run(block)["documents"]
    shards = TokenShards("tokens")
    assert len(shards.records) > 5
    assert [one["ids"].tolist() for one in found] == [ids.tolist() for ids in shards]
    places = [shards.place(number) for number in range(len(shards))]
    assert [(one["path"], one["bytes"], one["id"]) for one in found] == [
        (place.path, (place.begin, place.end), place.id) for place in places
    ]
    texts = [tokenizer.decode(one["ids"][:-1]) for one in found]
    assert texts == ["to the", "point", *(row["text"] for row in ROWS)]
    assert [one["id"] for one in found] == [None, None, *(row["id"] for row in ROWS)]


def test_shards_in_a_store_are_read_and_fetched(tokenizer: Tokenizer, s3: S3Server) -> None:
    (block,) = [one for one in PYTHON if "shards.fetch" in one]
    url = s3.url("page/tokens")
    shards = tokenizer.encode_files(["a.txt", "b.jsonl"], url, separator=END, end_of_text=END)
    names = run(block.replace("s3://corpora/tokens", url).replace('"tokens"', '"fetched"'))
    assert names["ids"].tolist() == shards[0].tolist()
    assert [*map(list, names["here"])] == [*map(list, TokenShards("fetched"))]


def test_packed_sequences_lead_back_to_rows(tokenizer: Tokenizer) -> None:
    (block,) = [one for one in PYTHON if "packed.parts" in one]
    pack_shards(TokenShards("tokens"), "tokens/packed-64-7", 64, seed=7)
    names = run(block)
    part, sequence = names["part"], names["sequence"]
    assert (len(sequence), part.end) == (64, 64)
    whole = names["documents"][part.document]
    assert names["ids"].tolist() == whole[part.first : part.first + len(names["ids"])].tolist()
    text = tokenizer.decode(whole[:-1])
    row = names["place"].read().decode()
    assert text == (json.loads(row)["text"] if row.startswith("{") else row)
    manifest = names["packed"].manifest
    length = manifest["packed"]["length"]
    for record in names["packed"].records:
        ids = np.memmap(Path(f"tokens/packed-64-7/{record.name}.bin"), manifest["dtype"], "r")
        assert ids.reshape(-1, length).tolist() == [one.tolist() for one in names["packed"]]


@pytest.mark.night
def test_a_toy_model_learns_from_shards_with_workers_of_a_data_loader(tokenizer: Tokenizer) -> None:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed; it is no dependency of ours")
    (block,) = [one for one in PYTHON if "import torch" in one]
    pack_shards(TokenShards("tokens"), "tokens/packed-64-7", 64, seed=7)
    Path("train.py").write_text(block)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error::UserWarning:__main__", "train.py"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 3
    assert losses[0] > losses[1] > losses[2]


def test_every_field_of_the_manifest_is_described(tokenizer: Tokenizer) -> None:
    described = set(re.findall(r"`(\w+)`", PAGE))
    manifest = json.loads(Path("tokens/manifest.json").read_text())
    assert set(manifest) <= described
    assert set(manifest["shards"][0]) <= described
    assert set(manifest["shards"][0]["files"][0]) <= described
    sources = [path.read_text() for path in Path("tokens").glob("*.sources.jsonl")]
    for line in "".join(sources).splitlines():
        assert set(json.loads(line)) <= described
    packed = pack_shards(TokenShards("tokens"), "packed", 8)
    assert {*packed.manifest, *packed.manifest["packed"]} <= described
    suffixes = set(re.findall(r"`NAME(\.[\w.]+)`", PAGE))
    written = {re.sub(r"^shard-\d+-\w+", "", path.name) for path in Path("tokens").glob("shard-*")}
    written |= {re.sub(r"^shard-\d+-\w+", "", path.name) for path in packed.path.glob("shard-*")}
    assert written <= suffixes
