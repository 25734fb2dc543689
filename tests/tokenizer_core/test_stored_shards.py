"""Token shards in a store: what a directory would hold, resumed, read back; what can go wrong."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from s3_server import S3Server
from s3fs import S3FileSystem

from bpeline import TokenShards, train_from_iterator
from bpeline.tokenizer_core import remote_files
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    MissingSource,
    StorageError,
    WorkspaceLocked,
)
from bpeline.tokenizer_core.remote_files import names_below
from bpeline.tokenizer_core.shards import pack_shards
from bpeline.tokenizer_core.shards.shard_places import StorePlace
from bpeline.tokenizer_core.tokenizer import Tokenizer

SHARD = 20_000


@pytest.fixture(scope="module")
def tokenizer(english_and_code: str) -> Tokenizer:
    return train_from_iterator([english_and_code], vocab_size=400)


@pytest.fixture
def files(tmp_path: Path, english_and_code: str) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(4):
        text = english_and_code[number * 15_000 : number * 15_000 + 15_000]
        (folder / f"{number}.txt").write_text(text.replace("\n", "<|end|>"))
    return folder


def encoded(tokenizer: Tokenizer, files: Path, out: str | Path, **options: Any) -> TokenShards:
    usual: dict[str, Any] = {"separator": "<|end|>", "shard_bytes": SHARD, "threads": 2}
    return tokenizer.encode_files(files, out, **{**usual, **options})


# Of one file, of two, and of rows: a store knows no more of a format.
@pytest.mark.parametrize("format", ["bin", "megatron", "parquet"])
def test_a_store_holds_what_a_directory_would(
    format: str, tokenizer: Tokenizer, files: Path, tmp_path: Path, s3: S3Server
) -> None:
    url = s3.url(f"{tmp_path.name}/tokens")
    here = encoded(tokenizer, files, tmp_path / "tokens", format=format)
    there = encoded(tokenizer, files, f"{url}/", format=format)
    assert there.location == url
    assert there.manifest_digest == here.manifest_digest
    assert names_below(url) == sorted(path.name for path in here.path.iterdir())
    assert len(here.records) > 2
    for one, other in zip(TokenShards(url), here, strict=True):
        assert np.array_equal(one, other)
    last = len(there) - 1
    assert there.place(last) == here.place(last)
    there.verify()
    copied = TokenShards(url).fetch(tmp_path / "copied")
    assert copied.manifest == here.manifest
    copied.verify()
    sent = pickle.loads(pickle.dumps(there))
    assert np.array_equal(sent[last], here[last])


def test_what_is_handed_out_outlives_its_copy(
    tokenizer: Tokenizer, files: Path, tmp_path: Path, s3: S3Server
) -> None:
    url = s3.url(f"{tmp_path.name}/tokens")
    there = encoded(tokenizer, files, url, shard_bytes=4_000)
    here = encoded(tokenizer, files, tmp_path / "tokens", shard_bytes=4_000)
    assert len(there.records) > 8
    held = list(there)
    assert len([*there.path.glob("*.bin")]) <= 4, "of the last few only"
    assert all(np.array_equal(one, other) for one, other in zip(held, here, strict=True))
    folder = there.path
    del there
    assert not folder.exists()


def test_a_forked_process_leaves_the_copies_of_its_parent(
    tokenizer: Tokenizer, files: Path, tmp_path: Path, s3: S3Server
) -> None:
    there = encoded(tokenizer, files, s3.url(f"{tmp_path.name}/tokens"), shard_bytes=4_000)
    last, folder = there[len(there) - 1], there.path
    copies = {path.name for path in folder.glob("*.bin")}
    child = os.fork()
    if child == 0:  # where copies go, what is forgotten, and the end of the object
        there._place.forget(there.records[-1].files[0].name)
        elsewhere = there.path.parent == folder
        del there
        os._exit(0 if elsewhere else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert {path.name for path in folder.glob("*.bin")} == copies != set()
    assert np.array_equal(there[len(there) - 1], last)


@pytest.mark.night
def test_copies_of_a_process_that_was_killed_go_when_the_next_ones_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import time; from bpeline.tokenizer_core.shards.shard_places import StorePlace\n"
        "held = StorePlace('s3://bucket/tokens'); print(held.folder, flush=True); time.sleep(600)"
    )

    def begun() -> tuple[subprocess.Popen[str], Path]:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        os.utime(folder, (0, 0))
        return process, folder

    (killed, left), (living, used) = begun(), begun()
    with killed, living:
        killed.terminate()
        killed.wait()
        (being_made := tmp_path / "bpeline-shards-new").mkdir()
        assert left.is_dir()
        own = StorePlace("s3://bucket/tokens")
        assert not left.exists()
        assert used.is_dir()
        assert being_made.is_dir()
        assert own.folder.is_dir()
        living.kill()


def test_it_goes_on_behind_what_is_there(
    tokenizer: Tokenizer,
    files: Path,
    tmp_path: Path,
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = s3.url(f"{tmp_path.name}/tokens")
    published: list[str] = []
    publish = StorePlace.publish

    def counted(self: StorePlace, record: Any) -> None:
        if len(published) == 2:
            raise KeyboardInterrupt
        publish(self, record)
        published.append(record.name)

    monkeypatch.setattr(StorePlace, "publish", counted)
    with pytest.raises(KeyboardInterrupt):
        encoded(tokenizer, files, url)
    with pytest.raises(MissingSource, match=r"manifest\.json"):
        TokenShards(url)
    monkeypatch.setattr(StorePlace, "publish", publish)
    resumed: list[str] = []
    monkeypatch.setattr(
        StorePlace, "publish", lambda self, one: (publish(self, one), resumed.append(one.name))
    )
    others = {f"shard-{n:05}.tar" for n in range(2)} | {"tried", "shard-00000-mine.parquet"}
    for name in others:  # of somebody who has his own shards there
        s3.put(f"{tmp_path.name}/tokens/{name}", b"theirs")
    shards = encoded(tokenizer, files, url)
    assert others <= {*names_below(url)}
    for name in others:
        remote_files.remove_file(f"{url}/{name}")
    assert {*published, *resumed} == {record.name for record in shards.records}
    assert not {*published} & {*resumed}
    # A file fewer: what no longer belongs to the tokens goes, and the rest is not written again.
    (files / "3.txt").unlink()
    resumed.clear()
    with pytest.warns(UserWarning, match=rf"{url}.*3\.txt"):
        fewer = encoded(tokenizer, files, url)
    assert len(resumed) <= 1
    kept = {name.partition(".")[0] for name in names_below(url)} - {"manifest"}
    assert kept == {record.name for record in fewer.records}


def test_two_jobs_with_one_url_do_not_lose_shards_of_each_other(
    tokenizer: Tokenizer, files: Path, tmp_path: Path, s3: S3Server
) -> None:
    url, other = s3.url(f"{tmp_path.name}/tokens"), tmp_path / "other"
    other.mkdir()
    (other / "0.txt").write_text("another text")

    def meanwhile(record: Any) -> None:
        if not list(job):
            job.append(encoded(tokenizer, other, url))

    job: list[TokenShards] = []
    with pytest.raises(WorkspaceLocked, match=url):
        encoded(tokenizer, files, url, on_shard=meanwhile)
    TokenShards(url).verify()
    assert TokenShards(url).manifest == job[0].manifest
    with pytest.raises(InvalidOption, match=f"{url} .*{other}"):
        encoded(tokenizer, files, url)
    # Of the same files in the same way, both make the same.
    same = s3.url(f"{tmp_path.name}/same")
    twice = encoded(
        tokenizer, files, same, on_shard=lambda _: job.append(encoded(tokenizer, files, same))
    )
    assert len(job) > 2
    assert twice.manifest == job[-1].manifest


def test_what_was_damaged_or_lost_in_the_store_is_told_and_mended(
    tokenizer: Tokenizer, files: Path, tmp_path: Path, s3: S3Server
) -> None:
    url = s3.url(f"{tmp_path.name}/tokens")
    shards = encoded(tokenizer, files, url)
    name = shards.records[1].files[0].name
    good = shards.file(shards.records[1].files[0]).read_bytes()
    key = f"{tmp_path.name}/tokens/{name}"
    s3.put(key, bytes(len(good)))
    with pytest.raises(CorruptFile, match=name):
        shards.verify()  # not its own earlier copy
    with pytest.raises(CorruptFile, match=f"{url}.*{name}"):
        TokenShards(url).verify()
    s3.put(key, good[:-2])
    with pytest.raises(CorruptFile, match="size"):
        TokenShards(url)
    encoded(tokenizer, files, url).verify()
    other = train_from_iterator(["other text, other tokens"], vocab_size=260)
    with pytest.raises(InvalidOption, match=f"{url} .*{tokenizer.digest[:12]}"):
        encoded(other, files, url)


def test_packed_sequences_go_into_a_store(
    tokenizer: Tokenizer, files: Path, tmp_path: Path, s3: S3Server
) -> None:
    here = encoded(tokenizer, files, tmp_path / "tokens")
    url = s3.url(f"{tmp_path.name}/packed")
    expected = pack_shards(here, tmp_path / "packed", 64, seed=7, shard_tokens=2_000)
    packed = pack_shards(here, url, 64, seed=7, shard_tokens=2_000)
    assert packed.manifest == expected.manifest
    assert packed.parts(3) == expected.parts(3)
    assert all(np.array_equal(one, two) for one, two in zip(packed, expected, strict=True))


@pytest.mark.night
def test_a_store_that_does_not_answer_is_named(
    tokenizer: Tokenizer, files: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="s3://no-such-bucket/tokens"):
        encoded(tokenizer, files, "s3://no-such-bucket/tokens")
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(S3FileSystem, "retries", 1)  # of five, each after a longer pause
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3.stop()
    try:
        with pytest.raises(StorageError, match=s3.url("tokens")):
            encoded(tokenizer, files, s3.url("tokens"))
    finally:
        s3.start()
    with pytest.raises(InvalidOption, match=r"\*\*\*@bucket"):
        encoded(tokenizer, files, "s3://key:secret@bucket/tokens")
