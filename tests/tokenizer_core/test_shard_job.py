"""Shards of bounded size, the same however many threads make them and however they are killed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard

from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files, sources_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, MissingSource, WorkspaceLocked
from bpeline.tokenizer_core.shards.file_encoding import FileCutter, file_encoding_of
from bpeline.tokenizer_core.shards.shard_formats import BIN, NPY
from bpeline.tokenizer_core.shards.shard_job import ShardJob, ShardPart, plan_parts
from bpeline.tokenizer_core.shards.shard_places import ShardRecord, shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"
SHARD = 1_000


@pytest.fixture(scope="module")
def texts(fuzz_texts: list[str]) -> list[str]:
    """300 documents of 0 to some 100 bytes, and one longer than three shards."""
    short = [text.replace(END, "").replace("\r", "") for text in fuzz_texts[:300]]
    return [*short[:150], "a long document " * 250, *short[150:]]


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def corpus_of(texts: list[str], ending: str, folder: Path) -> Path:
    if "jsonl" in ending:
        content = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    else:
        content = END.join(texts).encode()
    if ending.endswith(".gz"):
        content = gzip.compress(content)
    if ending.endswith(".zst"):
        content = zstandard.compress(content)
    return written(folder / f"corpus{ending}", content)


@pytest.mark.parametrize("ending", [".txt", ".jsonl", ".txt.gz", ".jsonl.zst"])
def test_one_file_becomes_many_shards_of_whole_documents(
    tokenizer: Tokenizer, texts: list[str], ending: str, tmp_path: Path
) -> None:
    path = corpus_of(texts, ending, tmp_path)
    shards = tokenizer.encode_files(
        path, tmp_path / "out", separator=END, end_of_text=END, shard_bytes=SHARD
    )
    filled = [text for text in texts if text]
    end = tokenizer.special_tokens[END]
    assert [ids.tolist() for ids in shards] == [[*tokenizer.encode(text), end] for text in filled]
    longest = max(len(text.encode()) for text in texts)
    assert len(shards.records) > 8
    assert all(0 < record.bytes <= SHARD + longest for record in shards.records)
    assert sorted(record.bytes for record in shards.records)[-2] < 2 * SHARD
    assert shards.manifest["documents"] == len(filled)
    assert shards.manifest["tokens"] == sum(map(len, shards))


def test_shards_do_not_depend_on_threads(
    tokenizer: Tokenizer, texts: list[str], tmp_path: Path
) -> None:
    corpus_of(texts, ".txt", tmp_path / "in")
    corpus_of(texts, ".jsonl.gz", tmp_path / "in")
    files = find_source_files([Source(os.fspath(tmp_path / "in"))])
    made = []
    for threads, piece_bytes in ((1, 1 << 22), (2, 100), (5, 37)):
        encoding = replace(file_encoding_of(tokenizer, END), piece_bytes=piece_bytes)
        out = tmp_path / f"out{threads}"
        ShardJob(encoding, files, shard_place(out), BIN, SHARD).run(threads)
        made.append(contents(out))
    assert made[0] == made[1] == made[2]


@pytest.mark.parametrize("compression", ["", ".gz"])
def test_small_files_share_a_shard_and_never_a_document(
    tokenizer: Tokenizer, compression: str, tmp_path: Path
) -> None:
    for number in range(7):
        content = f"file {number} with {'x' * 30}".encode()
        packed = gzip.compress(content) if compression else content
        written(tmp_path / f"in/{number}.txt{compression}", packed)
    sizes = [path.stat().st_size for path in (tmp_path / "in").iterdir()]
    room = 3 * max(sizes) * (4 if compression else 1) + 1
    shards = tokenizer.encode_files(
        tmp_path / "in", tmp_path / "out", separator=END, shard_bytes=room
    )
    assert [record.documents for record in shards.records] == [3, 3, 1]
    assert tokenizer.decode(shards[5]) == "file 5 with " + "x" * 30


def test_a_compressed_file_without_its_separator_is_never_in_memory_whole(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"some words and more of them " * 400_000))
    (file,) = find_source_files([Source(str(path))])
    reading = file_encoding_of(tokenizer, END).reading
    most = 0
    with closing(FileCutter(file, reading, 1 << 18)) as cutter:
        for piece in cutter.pieces(1 << 20):
            assert piece.unpacked is not None
            most = max(most, piece.unpacked.size, len(cutter._source._window))  # type: ignore
        assert cutter.is_at_end
    assert most < 3 << 20


def test_npy_opens_with_numpy_and_holds_what_bin_holds(
    tokenizer: Tokenizer, texts: list[str], tmp_path: Path
) -> None:
    path = corpus_of(texts, ".txt", tmp_path)
    raw = tokenizer.encode_files(path, tmp_path / "bin", separator=END, shard_bytes=SHARD)
    shards = tokenizer.encode_files(
        path, tmp_path / "npy", separator=END, shard_bytes=SHARD, format="npy"
    )
    assert [ids.tolist() for ids in shards] == [ids.tolist() for ids in raw]
    for record in shards.records:
        ids, edges = (np.load(tmp_path / "npy" / file.name) for file in record.files[:2])
        assert ids.dtype == np.uint16
        assert edges.dtype == np.uint64
        assert (len(ids), len(edges)) == (record.tokens, record.documents + 1)
        assert edges[-1] == len(ids)
    (tmp_path / "empty.txt").write_bytes(b"")
    empty = tokenizer.encode_files(tmp_path / "empty.txt", tmp_path / "none", format=NPY)
    assert list(empty) == []
    assert [len(part) for part in empty.shard(0)] == [0, 1]
    assert TokenShards(tmp_path / "npy").format is NPY


@pytest.mark.parametrize("format", ["bin", "npy", "megatron"])
def test_a_reader_keeps_what_it_opened_and_goes_to_other_processes_without_it(
    tokenizer: Tokenizer, texts: list[str], format: str, tmp_path: Path
) -> None:
    path = corpus_of(texts, ".txt", tmp_path)
    shards = tokenizer.encode_files(
        path, tmp_path / "out", separator=END, shard_bytes=SHARD, format=format
    )
    first, again = shards.shard(0), shards.shard(0)
    assert first[0] is again[0]
    sent = pickle.loads(content := pickle.dumps(shards))
    assert len(content) < 1_000
    assert [ids.tolist() for ids in sent] == [ids.tolist() for ids in shards]
    few = TokenShards(tmp_path / "out", replace(shards.format, kept=2))
    rest = [few[number].tolist() for number in range(0, len(shards), 7)]
    assert rest == [sent[number].tolist() for number in range(0, len(shards), 7)]
    assert len(few._read) == 2


def test_records_say_the_digest_of_every_file(
    tokenizer: Tokenizer, texts: list[str], tmp_path: Path
) -> None:
    path = corpus_of(texts, ".txt", tmp_path)
    shards = tokenizer.encode_files(path, tmp_path / "out", separator=END, shard_bytes=SHARD)
    for record in shards.manifest["shards"]:
        for file in record["files"]:
            content = (tmp_path / "out" / file["name"]).read_bytes()
            assert file["bytes"] == len(content)
            assert file["sha256"] == hashlib.sha256(content).hexdigest()
    assert shards.manifest["separator"] == END
    assert shards.manifest["shard_bytes"] == SHARD


@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_finished_shards_are_kept_and_the_rest_is_made(
    tokenizer: Tokenizer,
    texts: list[str],
    ending: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = corpus_of(texts, ending, tmp_path)
    settings = {"separator": END, "shard_bytes": SHARD}
    whole = tokenizer.encode_files(path, tmp_path / "whole", **settings)  # type: ignore[arg-type]
    out = tmp_path / "out"
    made: list[str] = []

    class Killed(BaseException):
        pass

    publish = type(DURABLE).publish

    def killed_in_the_fourth(self: object, temporary: Path, path: Path) -> None:
        if len(made) == 3 * 6 + 1:
            raise Killed
        made.append(path.name)
        publish(DURABLE, temporary, path)

    with monkeypatch.context() as patch:
        patch.setattr(type(DURABLE), "publish", killed_in_the_fourth)
        with pytest.raises(Killed):
            tokenizer.encode_files(path, out, **settings)  # type: ignore[arg-type]
    with pytest.raises(MissingSource):
        TokenShards(out)
    kept = sorted(out.glob("*.json"))
    assert len(kept) == 3
    known = {path.stem.split(".")[0] for path in kept}
    named = [path.name for path in out.iterdir() if path.name.split(".")[0] not in known]
    assert not [name for name in named if name not in made and "lock" not in name], named
    damaged = next(out.glob(f"{kept[1].stem}.bin"))
    damaged.write_bytes(bytes(damaged.stat().st_size))
    before = {file: file.stat().st_mtime_ns for file in kept}
    seen: list[int] = []
    again = tokenizer.encode_files(path, out, on_progress=seen.append, **settings)  # type: ignore[arg-type]
    changed = [file for file in kept if file.stat().st_mtime_ns != before[file]]
    assert changed == [kept[1]], "a shard whose SHA-256 differs is made again, and no other"
    assert contents(out) == contents(tmp_path / "whole")
    assert sum(seen) == path.stat().st_size
    assert [ids.tolist() for ids in again] == [ids.tolist() for ids in whole]


def test_a_file_changed_in_place_with_its_time_set_back_is_encoded_again(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = written(tmp_path / "in/a.txt", b"one text of some words")
    tokenizer.encode_files(path, tmp_path / "out")
    status = path.stat()
    path.write_bytes(b"the same size, others!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    again = tokenizer.encode_files(path, tmp_path / "out")
    assert [tokenizer.decode(ids) for ids in again] == ["the same size, others!"]


def test_added_and_changed_files_are_encoded_and_stale_shards_removed(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    for number in range(4):
        written(tmp_path / f"in/{number}.txt", b"some text %d" % number)
    first = tokenizer.encode_files(tmp_path / "in", tmp_path / "out", shard_bytes=1)
    written(tmp_path / "in/3.txt", b"changed")
    written(tmp_path / "in/4.txt", b"one more")
    (tmp_path / "out/.tmp-0123456789ab-shard.bin").write_bytes(b"left by a killed writer")
    grown = tokenizer.encode_files(tmp_path / "in", tmp_path / "out", shard_bytes=1)
    assert grown.records[:3] == first.records[:3]
    assert [tokenizer.decode(ids) for ids in grown][-2:] == ["changed", "one more"]
    assert len(list((tmp_path / "out").iterdir())) == 5 * 6 + 1


def test_tokens_of_other_files_are_not_lost_in_silence(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    paths = [written(tmp_path / name, b"some text") for name in ("a.txt", "b.txt", "c.txt")]
    out = tmp_path / "out"
    tokenizer.encode_files(paths[:2], out, shard_bytes=1)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(InvalidOption, match=str(paths[1])):
        tokenizer.encode_files(paths[2], out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    with pytest.warns(UserWarning, match=str(paths[0])):
        assert len(tokenizer.encode_files(paths[1:], out, shard_bytes=1)) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paths[1].write_bytes(b"another text")
        tokenizer.encode_files(paths[1:], out, shard_bytes=1)
        tokenizer.encode_files(paths, out)  # all shards are others, of the same files and more
        for path in out.glob("*.sources.jsonl"):  # nobody knows of which files it was
            path.write_bytes(b"?")
        assert len(tokenizer.encode_files(paths[2], out)) == 1


def test_tokens_of_nothing_are_in_nobodys_way(tokenizer: Tokenizer, tmp_path: Path) -> None:
    empty, path = written(tmp_path / "a.txt", b""), written(tmp_path / "b.txt", b"some text")
    tokenizer.encode_files(empty, tmp_path / "out")
    assert len(tokenizer.encode_files(path, tmp_path / "out")) == 1


def test_two_writers_never_share_a_directory(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"text")
    with shard_place(tmp_path / "out").alone(), pytest.raises(WorkspaceLocked):
        tokenizer.encode_files(path, tmp_path / "out")
    tokenizer.encode_files(path, tmp_path / "out")


def test_an_unknown_format_is_refused_before_anything_is_written(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.txt", b"text")
    with pytest.raises(InvalidOption, match="bin, npy"):
        tokenizer.encode_files(path, tmp_path / "out", format="csv")
    assert not (tmp_path / "out").exists()


_PROGRAM = """
import os, sys
from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
from bpeline.tokenizer_core.durable_files import Disk
left = [int(sys.argv[1])]
replace = Disk.replace
def dies(self, source, target):
    if not left[0]:
        os.kill(os.getpid(), 9)
    left[0] -= 1
    replace(self, source, target)
Disk.replace = dies
Tokenizer.load("kept").encode_files(
    "corpus.txt", "out", separator="<|endoftext|>", shard_bytes=1_000
)
"""


@pytest.mark.night
def test_a_process_killed_at_any_publication_leaves_what_the_next_one_completes(
    tokenizer: Tokenizer, texts: list[str], tmp_path: Path
) -> None:
    tokenizer.save(tmp_path / "kept")
    path = corpus_of(texts, ".txt", tmp_path)
    whole = tmp_path / "whole"
    tokenizer.encode_files(path, whole, separator=END, shard_bytes=SHARD)
    root = Path(__file__).parent.parent.parent
    for left in (0, 1, 2, 3, 7):
        command = [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(left)]
        environment = {**os.environ, "PYTHONPATH": os.fspath(root)}
        killed = subprocess.run(command, cwd=tmp_path, env=environment, check=False)
        assert killed.returncode == -signal.SIGKILL
    tokenizer.encode_files(path, tmp_path / "out", separator=END, shard_bytes=SHARD)
    assert contents(tmp_path / "out") == contents(whole)


# Part by part


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
