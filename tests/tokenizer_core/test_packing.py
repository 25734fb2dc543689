"""Packed sequences are a plain shuffle of the documents, end to end, and say what they hold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidTokenizer,
    WorkspaceLocked,
)
from bpeline.tokenizer_core.shards import pack_shards
from bpeline.tokenizer_core.shards.packing import shuffled
from bpeline.tokenizer_core.shards.shard_formats import PARQUET, ShardFormat
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"
LONG = "a long document " * 150


@pytest.fixture
def shards(tokenizer: Tokenizer, fuzz_texts: list[str], tmp_path: Path) -> TokenShards:
    texts = [text.replace(END, "") for text in fuzz_texts[:300]]
    path = tmp_path / "a.txt"
    path.write_bytes(END.join([*texts[:100], LONG, *texts[100:]]).encode())
    return tokenizer.encode_files(
        path, tmp_path / "tokens", separator=END, end_of_text=END, shard_bytes=1_000
    )


def by_hand(count: int, seed: int) -> list[int]:
    """The order of documents, one key at a time."""
    keys = []
    for number in range(count):
        key = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) % 2**64
        keys.append(key ^ (key >> 31))
    return sorted(range(count), key=keys.__getitem__)


def sequences_of(documents: Sequence[Any], seed: int, length: int) -> tuple[list[list[int]], int]:
    stream = [id_ for at in by_hand(len(documents), seed) for id_ in documents[at].tolist()]
    full = len(stream) // length
    return [stream[at * length : (at + 1) * length] for at in range(full)], len(stream) % length


@pytest.mark.parametrize("seed", [0, 1, 7, 2**64 - 1])
@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
def test_the_order_is_that_of_splitmix64(count: int, seed: int) -> None:
    assert shuffled(count, seed).tolist() == by_hand(count, seed)


def test_the_generator_is_the_published_one() -> None:
    state = 1234567
    assert by_hand(5, state) == sorted(
        range(5),
        key=[
            6457827717110365317, 3203168211198807973, 9817491932198370423,
            4593380528125082431, 16408922859458223821,
        ].__getitem__,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("format", "length", "shard_tokens"),
    [
        *[("bin", *sizes) for sizes in ((64, 1_000), (7, 7), (1_000, 3), (1, 500))],
        *[(format, 64, 1_000) for format in ("npy", "megatron", PARQUET)],
    ],
)
def test_sequences_are_the_shuffled_documents_end_to_end(
    shards: TokenShards, format: str | ShardFormat, length: int, shard_tokens: int, tmp_path: Path
) -> None:
    packed = pack_shards(
        shards, tmp_path / "out", length, seed=3, format=format, shard_tokens=shard_tokens
    )
    expected, rest = sequences_of(shards, 3, length)
    assert [ids.tolist() for ids in packed] == expected
    assert packed.manifest["packed"]["left_out_tokens"] == rest
    assert packed.manifest["packed"]["seed"] == 3
    assert packed.manifest["packed"]["documents"] == len(shards)
    assert packed.manifest["tokens"] == len(expected) * length
    assert len(packed.records) == -(-len(expected) // max(1, shard_tokens // length))
    assert packed.special_tokens == shards.special_tokens
    packed.verify()
    for number, ids in itertools.islice(enumerate(packed), 0, None, 5):
        parts = packed.parts(number)
        assert (parts[0].begin, parts[-1].end) == (0, length)
        assert all(one.end == other.begin for one, other in itertools.pairwise(parts))
        together = [
            shards[part.document][part.first : part.first + part.end - part.begin].tolist()
            for part in parts
        ]
        assert list(itertools.chain(*together)) == ids.tolist()
        assert all(part.first == 0 for part in parts[1:])


def test_every_document_of_a_sequence_leads_back_to_its_row(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [{"text": f"row {number} " * (1 + number % 4), "id": number} for number in range(60)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    shards = tokenizer.encode_files(path, tmp_path / "tokens", end_of_text=END)
    packed = pack_shards(shards, tmp_path / "out", 32)
    seen = set()
    for number in range(len(packed)):
        for part in packed.parts(number):
            place = shards.place(part.document)
            row = json.loads(place.read())
            assert place.id == row["id"]
            ids = [*tokenizer.encode(row["text"]), shards.special_tokens[END]]
            size = part.end - part.begin
            found = packed[number][part.begin : part.end].tolist()
            assert found == ids[part.first : part.first + size]
            seen.add(place.id)
    assert len(seen) >= 58
    with pytest.raises(InvalidOption, match="parts"):
        packed.place(0)
    with pytest.raises(InvalidOption, match="--pack"):
        shards.parts(0)
    with pytest.raises(IndexError):
        packed.parts(len(packed))


def test_packed_parquet_comes_from_parquet(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(END.join(f"some text {number}" for number in range(200)))
    shards = tokenizer.encode_files(
        path, tmp_path / "tokens", separator=END, shard_bytes=500, format=PARQUET
    )
    packed = pack_shards(shards, tmp_path / "out", 16, seed=5)
    assert [ids.tolist() for ids in packed] == sequences_of(shards, 5, 16)[0]
    assert packed.format is PARQUET


def test_another_seed_is_another_order_and_the_same_seed_the_same_bytes(
    shards: TokenShards, tmp_path: Path
) -> None:
    def content(seed: int, out: str) -> dict[str, bytes]:
        packed = pack_shards(shards, tmp_path / out, 32, seed=seed, shard_tokens=500)
        return {path.name: path.read_bytes() for path in sorted(packed.path.iterdir())}

    first = content(1, "a")
    assert content(1, "b") == first
    assert content(2, "c").keys() != first.keys()


def test_finished_shards_are_kept_and_stale_ones_removed(
    shards: TokenShards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    whole = pack_shards(shards, tmp_path / "whole", 32, shard_tokens=500)
    made: list[str] = []

    class Killed(BaseException):
        pass

    publish = type(DURABLE).publish

    def killed_in_the_third(self: object, temporary: Path, path: Path) -> None:
        if len(made) == 2 * 4 + 1:
            raise Killed
        made.append(path.name)
        publish(DURABLE, temporary, path)

    with monkeypatch.context() as patch:
        patch.setattr(type(DURABLE), "publish", killed_in_the_third)
        with pytest.raises(Killed):
            pack_shards(shards, out, 32, shard_tokens=500)
    kept = sorted(out.glob("*.json"))
    assert len(kept) == 2
    damaged = next(out.glob(f"{kept[1].stem}.bin"))
    damaged.write_bytes(bytes(damaged.stat().st_size))
    before = {path: path.stat().st_mtime_ns for path in kept}
    seen: list[Any] = []
    again = pack_shards(shards, out, 32, shard_tokens=500, on_shard=seen.append)
    assert [path for path in kept if path.stat().st_mtime_ns != before[path]] == [kept[1]]
    assert tuple(seen) == again.records == whole.records
    pack_shards(shards, out, 16, shard_tokens=500)
    assert not kept[0].exists()


def test_what_cannot_be_packed_is_said(
    tokenizer: Tokenizer, shards: TokenShards, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for length, seed, told in ((0, 0, r"\b0\b"), (4, -1, "seed.*-1"), (4, 1 << 64, "seed=")):
        with pytest.raises(InvalidOption, match=told):
            pack_shards(shards, out, length, seed=seed)
    packed = pack_shards(shards, out, 8)
    with pytest.raises(InvalidOption, match=f"{out} .*packed"):
        pack_shards(packed, tmp_path / "twice", 8)
    with shard_place(out).alone(), pytest.raises(WorkspaceLocked):
        pack_shards(shards, out, 8)
    with pytest.raises(InvalidOption, match=f"{shards.location}/packed"):
        pack_shards(shards, shards.location, 8)
    with pytest.raises(InvalidOption, match=f"{out} .*packed"):
        tokenizer.encode_files(shards.place(0).path, out)
    shards.verify()
    packed.verify()
    few = pack_shards(shards, tmp_path / "few", 1 << 20)
    assert (len(few), few.records) == (0, ())
    assert few.manifest["packed"]["left_out_tokens"] == shards.manifest["tokens"]
    (tmp_path / "empty.txt").write_bytes(b"")
    nothing = tokenizer.encode_files(tmp_path / "empty.txt", tmp_path / "nothing")
    assert len(pack_shards(nothing, tmp_path / "none", 8)) == 0


@pytest.mark.parametrize("name", ["document", "first", "begin", None])
def test_damaged_parts_are_refused(shards: TokenShards, name: str | None, tmp_path: Path) -> None:
    out = tmp_path / "out"
    packed = pack_shards(shards, out, 8)
    (file,) = out.glob("*.parts.npy")
    if name is None:
        file.write_bytes(b"\xff" * file.stat().st_size)
    else:
        parts = np.load(file, mmap_mode="r+")
        parts[name] = -1
        parts.flush()
    with pytest.raises(CorruptFile, match="parts"):
        packed.parts(0)
    with pytest.raises(CorruptFile, match="parts"):
        packed.verify()


def test_a_packing_of_another_version_is_not_guessed_at(
    shards: TokenShards, tmp_path: Path
) -> None:
    pack_shards(shards, tmp_path / "out", 8)
    path = tmp_path / "out/manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["seal"]
    for packed, error in (
        ({**manifest["packed"], "version": 2}, InvalidTokenizer),
        ({"version": 1}, CorruptFile),
        ("x", CorruptFile),
    ):
        path.write_text(json.dumps({**manifest, "packed": packed}))
        with pytest.raises(error):
            TokenShards(tmp_path / "out")
