"""Shards written part by part, in any order and by anybody, are those of one run."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from bpeline.tokenizer_core.corpus.sources import SourceFile, find_source_files, sources_of
from bpeline.tokenizer_core.errors import InvalidOption, WorkspaceLocked
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.shard_formats import BIN
from bpeline.tokenizer_core.shards.shard_job import ShardJob, ShardPart, plan_parts
from bpeline.tokenizer_core.shards.shard_places import ShardRecord, shard_place
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"
SHARD = 1_000


@pytest.fixture
def files(fuzz_texts: list[str], tmp_path: Path) -> list[SourceFile]:
    """Divided and small files of each kind: text and JSON lines, plain and compressed."""
    texts = [text.replace(END, "").replace("\r", "") for text in fuzz_texts[:250]]
    texts.insert(100, "a long document " * 250)
    plain = END.join(texts).encode()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    contents = {
        "a.txt": plain, "b.txt": b"small", "c.txt": b"small too",
        "d.txt.gz": gzip.compress(plain),
        "e.jsonl": lines, "f.jsonl.zst": zstandard.compress(lines), "g.txt": b"",
        "h.txt": b"x" * 5000, "i.txt.zst": zstandard.compress(b"a little"),
        "j.txt": (END * 900).encode(),
    }  # fmt: skip
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return list(find_source_files(sources_of([str(folder)])))


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def test_parts_in_any_order_make_the_files_of_one_run(
    tokenizer: Tokenizer, files: list[SourceFile], tmp_path: Path
) -> None:
    encoding = file_encoding_of(tokenizer, END, END)
    ShardJob(encoding, files, shard_place(tmp_path / "run"), BIN, SHARD).run(2)
    expected = contents(tmp_path / "run")
    seen: list[ShardRecord] = []

    def by_others(parts: Sequence[ShardPart]) -> list[list[ShardRecord]]:
        written: dict[int, list[ShardRecord]] = {}
        for part in random.Random(1).sample(parts, len(parts)):
            other = replace(
                encoding, piece_bytes=random.Random(part.number).choice([37, 300, 9999])
            )
            job = ShardJob(other, part.files, shard_place(tmp_path / "parts"), BIN, SHARD)
            written[part.number] = job.write_part(part, threads=1)
            assert job.write_part(part, threads=1) == written[part.number]  # done twice
        return [written[part.number] for part in parts]

    job = ShardJob(
        encoding, files, shard_place(tmp_path / "parts"), BIN, SHARD, on_shard=seen.append
    )
    shards = job.run_by_parts(by_others)
    assert contents(tmp_path / "parts") == expected
    assert tuple(seen) == shards.records


def test_the_plan_tells_where_each_shard_of_a_plain_file_begins(
    tokenizer: Tokenizer, files: list[SourceFile], tmp_path: Path
) -> None:
    encoding = file_encoding_of(tokenizer, END)
    parts = list(plan_parts(files, encoding.reading, SHARD))
    shards = ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN, SHARD).run(1)
    of_a = [part for part in parts if part.files[0].path.endswith("/a.txt")]
    assert (of_a[0].begin, of_a[0].end) == (0, shards.records[0].end)
    assert [part.end for part in of_a] == [one.end for one in shards.records[: len(of_a)]]
    assert of_a[-1].end == of_a[0].files[0].size
    (packed,) = [part for part in parts if part.files[0].path.endswith("/d.txt.gz")]
    assert (packed.begin, packed.end) == (0, None)
    number = parts.index(packed)
    assert parts[number + 1].number - packed.number > 5
    together = [part for part in parts if not part.divided and len(part.files) > 1]
    assert {Path(file.path).name for part in together for file in part.files} >= {"b.txt", "c.txt"}


def test_what_a_run_refuses_parts_refuse_too(
    tokenizer: Tokenizer, files: list[SourceFile], tmp_path: Path
) -> None:
    def never(_: Sequence[ShardPart]) -> list[list[ShardRecord]]:
        pytest.fail("refused before anything is written")

    encoding = file_encoding_of(tokenizer, END)
    with pytest.raises(InvalidOption, match="shard_bytes"):
        ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN, 0).run_by_parts(never)

    def meanwhile(_: Sequence[ShardPart]) -> list[list[ShardRecord]]:
        with pytest.raises(WorkspaceLocked):
            ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN, SHARD).run(1)
        return []

    assert (
        len(
            ShardJob(encoding, [], shard_place(tmp_path / "out"), BIN, SHARD).run_by_parts(
                meanwhile
            )
        )
        == 0
    )
