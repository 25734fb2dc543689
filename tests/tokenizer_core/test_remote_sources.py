"""Corpora named by URL: the same files, bytes and counts as on this disk, and what can go wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gzip
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import zstandard
from fresh_python import output_of
from nonsense import nonsense
from record_files import as_arrow_stream, as_parquet
from s3_server import SECRET, S3Server

from bpeline.tokenizer_core import count_words, remote_files
from bpeline.tokenizer_core.corpus import chunking, search_sources, source_bytes
from bpeline.tokenizer_core.corpus.source_bytes import open_source
from bpeline.tokenizer_core.corpus.sources import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.errors import (
    CorpusChanged,
    InvalidOption,
    MissingSource,
    UnreadableSource,
)
from bpeline.tokenizer_core.remote_files import RangeReader, TooMuch, describe, receiving
from bpeline.tokenizer_core.tokenizer import Tokenizer

fsspec = pytest.importorskip("fsspec")
aiohttp = pytest.importorskip("aiohttp")

Put = Callable[[str, bytes], str]

TEXT = "".join(f"line {k} of some text, ä and 漢字 and 🙂\n" for k in range(3000)).encode()


@pytest.fixture(params=["memory", "s3"])
def put(request: pytest.FixtureRequest) -> Iterator[Put]:
    """Store a file; its URL. In a place of its own, of each kind of store."""
    place = request.node.name.encode().hex()[:40]
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        yield lambda key, content: server.put(f"{place}/{key}", content)
        return
    memory = fsspec.filesystem("memory")

    def store(key: str, content: bytes) -> str:
        memory.pipe_file(f"/{place}/{key}", content)
        return f"memory://{place}/{key}"

    yield store
    memory.rm(f"/{place}", recursive=True)


def found(*patterns: str) -> list[SourceFile]:
    return find_source_files([Source(pattern) for pattern in patterns])


def names(*patterns: str) -> list[str]:
    return [file.path.split("/", 4)[-1] for file in found(*patterns)]


@pytest.mark.night
def test_a_url_names_a_file_a_folder_or_a_glob(put: Put) -> None:
    for key in ("a.txt", "b.jsonl.gz", "deep/er/c.txt", "d.csv", ".hidden.txt", ".git/e.txt"):
        one = put(key, b"x")
    place = one.removesuffix("/.git/e.txt")
    assert names(f"{place}/d.csv") == names(f"{place}/*.csv")
    assert len(names(f"{place}/d.csv")) == 1
    everything = found(place)
    assert [file.path.removeprefix(everything[0].path[:-5]) for file in everything] == [
        "a.txt", "b.jsonl.gz", "deep/er/c.txt",
    ]  # fmt: skip
    assert found(f"{place}/") == [
        SourceFile(**{**vars_of(file), "source": f"{place}/"}) for file in everything
    ]
    assert [(file.format, file.compression) for file in everything] == [
        ("text", None), ("jsonl", "gz"), ("text", None),
    ]  # fmt: skip
    assert len(found(f"{place}/**/*.txt")) >= 2
    assert len(found(f"{place}/a.txt", f"{place}/*.txt", place)) <= 4  # each file once
    with pytest.raises(MissingSource, match=r"nothing\*"):
        found(f"{place}/nothing*.txt")
    with pytest.raises(MissingSource):
        found(f"{place}/nothing.txt")


def test_source_code_in_a_store_begins_as_text(put: Put) -> None:
    for key in ("a.c", "b.RS", "page.html"):
        one = put(key, b"x")
    put("film.ts", b"G@\0\x10\0")
    place = one.removesuffix("/page.html")
    for pattern in (place, f"{place}/*"):
        search = search_sources([Source(pattern)])
        assert [file.path.rsplit("/", 1)[1] for file in search.files] == ["a.c", "b.RS"]
        assert search.skipped.kinds == {".html": 1, ".ts (binary)": 1}


def test_a_store_is_looked_at_as_directories_are(put: Put) -> None:
    lines = put("a.ndjson", b'{"text": "low"}\n')
    dump = put("dump", b'{"text": "low"}\n')
    put("tokens/shard-00000-0123456789ab.sources.jsonl", b"{}\n")
    put("tokens/shard-00000-0123456789ab.json", b'{"name": "shard-00000-0123456789ab", "key": "0"}')
    put("home/standard-input/0.txt", b"low")
    put("home/workspace.json", b'{"format":1,"id":"0","kind":"bpeline workspace"}')
    put("other/a.txt", b"version https://git-lfs.github.com/spec/v1\nsize 9\n")
    place = lines.removesuffix("/a.ndjson")
    search = search_sources([Source(place)])
    assert [file.path.rsplit("/", 1)[1] for file in search.files] == ["a.ndjson", "a.txt"]
    assert search.skipped.kinds["workspace of bpeline"] == 1
    assert search.skipped.kinds["token shards of bpeline"] == 2
    assert count_words([lines, dump]).to_mapping() == {b"low": 2}
    with pytest.raises(UnreadableSource, match="Git LFS") as refusal:
        count_words(place)
    assert "`git lfs pull`" in refusal.value.next_step


def vars_of(file: SourceFile) -> dict[str, object]:
    return {name: getattr(file, name) for name in SourceFile.__slots__}


@pytest.mark.night
@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "txt.zst"])
def test_counts_are_those_of_the_local_file(put: Put, tmp_path: Path, suffix: str) -> None:
    content = {
        "txt": lambda: TEXT,
        "txt.gz": lambda: gzip.compress(TEXT),
        "txt.zst": lambda: zstandard.ZstdCompressor().compress(TEXT),
    }[suffix]()
    (tmp_path / f"a.{suffix}").write_bytes(content)
    url = put(f"a.{suffix}", content)
    for chunk_bytes in (1000, 1 << 20):
        here = count_words(tmp_path / f"a.{suffix}", "gpt2", workers=2, chunk_bytes=chunk_bytes)
        there = count_words(url, "gpt2", workers=2, chunk_bytes=chunk_bytes)
        assert there.digest == here.digest
        assert (there.first_positions == here.first_positions).all()


def test_files_are_encoded_as_local_ones(put: Put, tmp_path: Path) -> None:
    tokenizer = Tokenizer({n: bytes([n]) for n in range(256)}, [])
    (tmp_path / "a.txt").write_bytes(TEXT)
    url = put("a.txt", TEXT)
    tokenizer.encode_files([tmp_path / "a.txt"], tmp_path / "here")
    tokenizer.encode_files([url], tmp_path / "there")
    shards = [sorted((tmp_path / place).glob("*.bin")) for place in ("here", "there")]
    assert [one.read_bytes() for one in shards[0]] == [one.read_bytes() for one in shards[1]]


def test_a_file_url_is_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(TEXT)
    (here,) = found(str(tmp_path / "a b.txt"))
    (there,) = found(f"file://{tmp_path}/*.txt")
    assert (there.path, there.inode, there.mtime_ns) == (here.path, here.inode, here.mtime_ns)


# ---- identity ------------------------------------------------------------------------------------


@pytest.mark.night
def test_the_identity_follows_the_content(put: Put) -> None:
    url = put("a.txt", b"one")
    place = url.removesuffix("/a.txt")
    first = found(url)[0]
    assert found(f"{place}/*.txt")[0].inode == first.inode
    assert found(place)[0].inode == first.inode
    put("a.txt", b"two")  # as long
    assert found(url)[0].inode != first.inode


def test_an_etag_is_believed_and_not_the_time(s3: S3Server) -> None:
    first = found(s3.put("identity/a.txt", b"one"))[0]
    assert found(s3.put("identity/a.txt", b"one"))[0].inode == first.inode
    assert first.mtime_ns == first.ctime_ns == 0


def test_where_nothing_tells_a_file_counts_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/silent/a.txt", b"text")
    plain = memory.info
    monkeypatch.setattr(type(memory), "info", lambda self, path: {**plain(path), "created": None})
    assert found("memory://silent/a.txt") != found("memory://silent/a.txt")
    assert len(count_words("memory://silent/a.txt")) == 1


# ---- what can go wrong ---------------------------------------------------------------------------


def test_a_file_that_changes_while_it_is_read_is_refused(put: Put) -> None:
    (file,) = found(put("a.txt", TEXT))
    source = open_source(file, 16)
    assert source.take(0, 100).bytes() == TEXT[:100]
    put("a.txt", TEXT[::-1])
    with pytest.raises(CorpusChanged, match=r"a\.txt"):
        source.take(100, 200)
    with pytest.raises(CorpusChanged, match=r"a\.txt"):
        open_source(file, 16)
    put("a.txt", TEXT + b"x")
    with pytest.raises(CorpusChanged, match=str(len(TEXT))):
        open_source(file, 16)


def test_a_file_that_goes_away_is_named(s3: S3Server) -> None:
    (file,) = found(s3.put("gone/a.txt", TEXT))
    s3.client().delete_object(Bucket=s3.bucket, Key="gone/a.txt")
    with pytest.raises(CorpusChanged, match=r"s3://corpora/gone/a\.txt"):
        open_source(file, 16)


def test_a_truncated_remote_file_is_broken(put: Put) -> None:
    url = put("a.txt.zst", zstandard.ZstdCompressor().compress(TEXT)[:-5])
    with pytest.raises(UnreadableSource, match=r"a\.txt\.zst"):
        count_words(url)


class Failing:
    """A store that raises some errors before it answers."""

    def __init__(self, files: Any, errors: list[Exception]) -> None:
        self._files = files
        self._errors = errors

    def __getattr__(self, name: str) -> Any:
        if name in {"info", "cat_file"} and self._errors:
            raise self._errors.pop()
        return getattr(self._files, name)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Errors that stores raise from now on, the last first."""
    errors: list[Exception] = []
    plain = remote_files._store_of

    def broken(url: str) -> tuple[Any, str]:
        files, path = plain(url)
        return Failing(files, errors), path

    monkeypatch.setattr(remote_files, "_store_of", broken)
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.01)
    return errors


def test_a_store_that_is_forbidden_says_so(put: Put, failing: list[Exception]) -> None:
    (file,) = found(put("a.txt", TEXT))
    for ask in (lambda: found(file.path), lambda: open_source(file, 16)):
        failing.append(PermissionError(13, "Access Denied"))
        with pytest.raises(UnreadableSource, match="Access Denied") as refused:
            ask()
        assert file.path in str(refused.value)


def test_a_request_that_fails_is_asked_again(put: Put, failing: list[Exception]) -> None:
    (file,) = found(put("a.txt", TEXT))
    source = open_source(file, 16)
    failing.extend([ConnectionResetError("reset by peer"), TimeoutError("too slow")])
    assert source.take(0, 50).bytes() == TEXT[:50]
    assert failing == []
    failing.extend([ConnectionResetError("hunter2://x:hunter2@y")] * 3)
    with pytest.raises(UnreadableSource) as refused:
        open_source(file, 16)
    assert "hunter2" not in str(refused.value).replace("hunter2://", "")


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """A web server that knows no ranges, over the folder of the test."""
    handler = functools.partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass

    def send_head(self) -> Any:
        if self.path[1:].isdigit():  # /503 is answered with this status
            return self.send_error(int(self.path[1:]))
        return super().send_head()


@pytest.mark.parametrize(
    ("place", "error", "expected"),
    [
        ("http://127.0.0.1:9/a.txt", UnreadableSource, "127.0.0.1:9"),
        ("{web}/503", UnreadableSource, "Service Unavailable"),
        ("{web}/403", UnreadableSource, "Forbidden"),
        ("{web}/404", MissingSource, "/404"),
        ("{web}/410", MissingSource, "/410"),
    ],
)
def test_a_web_server_that_fails_has_no_missing_files(
    web: str, monkeypatch: pytest.MonkeyPatch, place: str, error: type[Exception], expected: str
) -> None:
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.01)
    with pytest.raises(error, match=expected):
        found(place.format(web=web))


@pytest.mark.night
def test_a_web_server_that_knows_no_ranges_gives_no_wrong_bytes(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.01)
    (tmp_path / "small.txt").write_bytes(TEXT)
    assert count_words(f"{web}/small.txt").digest == count_words(tmp_path / "small.txt").digest
    (tmp_path / "large.txt").write_bytes(TEXT * 12)  # more than one range
    with pytest.raises(UnreadableSource, match="1,114,112"):
        count_words(f"{web}/large.txt", chunk_bytes=200_000)
    with pytest.raises(MissingSource):
        found(f"{web}/nothing.txt")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ftp://user:hunter2@host/a.txt", r"\*\*\*@host"),
        ("https://host/a.txt?X-Amz-Signature=hunter2", r"=\*\*\*"),
        ("nonsense://host/a.txt", "nonsense"),
        ("zip://a.txt::file:///x.zip", "`::`"),
        ("http://[::1]:9/a.txt", "`::`"),
        ("s3://bucket/secret", "s3fs"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_three_parts(
    url: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(InvalidOption, match=expected) as refused:
        found(url)
    assert refused.value.accepted
    assert refused.value.next_step
    assert "hunter2" not in str(refused.value)


def test_no_credentials_are_told(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "_PAUSE_SECONDS", 0.01)
    with pytest.raises((UnreadableSource, MissingSource)) as refused:
        found("s3://a-bucket-that-is-not-there/a.txt")
    assert SECRET not in str(refused.value)


@pytest.mark.night
@pytest.mark.parametrize("mode", ["no answer", "a dripped status line", "a dripped body"])
def test_an_answer_that_does_not_end_is_not_waited_for(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_files, "ANSWER_SECONDS", 1.0)
    with nonsense(mode) as server:
        begin = time.monotonic()
        with pytest.raises(OSError, match="1 seconds"):
            remote_files.read_range(f"{server.url}/a.txt", 0, 100)
        assert time.monotonic() - begin < 60  # all that drips would take a day


class Endless(QuietHandler):
    """Tells how long every file is, and sends it without end."""

    told = 1000
    sent = 0

    def do_HEAD(self) -> None:
        self._begin(200, ("Content-Length", str(self.told)))

    def do_GET(self) -> None:
        self._begin(206, ("Content-Range", f"bytes 0-{self.told - 1}/{self.told}"))
        content = b"some words " * 6000
        try:
            while True:
                self.wfile.write(content)
                Endless.sent += len(content)
        except OSError:
            self.close_connection = True  # nobody listens any more

    def _begin(self, status: int, length: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header(*length)
        for header in (("ETag", '"1"'), ("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")):
            self.send_header(*header)
        self.end_headers()


@pytest.mark.night
@pytest.mark.parametrize("place", ["http", "s3"])
def test_a_file_that_never_ends_is_read_as_far_as_it_may_go(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(Endless, "sent", 0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        if place == "s3":
            request.getfixturevalue("s3")
            monkeypatch.setenv("AWS_ENDPOINT_URL", url)
            fsspec.get_filesystem_class("s3").clear_instance_cache()
            url = "s3://bucket"
        try:
            with pytest.raises(UnreadableSource, match="66,536"):
                count_words(f"{url}/a.txt")
            with pytest.raises(OSError, match="66,536"):
                remote_files.read_range(f"{url}/a.txt", 0, 1000)
            with pytest.raises(OSError, match="66,536"):
                remote_files.read_file(f"{url}/a.txt", tmp_path / "target")
        finally:
            server.shutdown()
            if place == "s3":
                fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert Endless.sent < 64 << 20, "what is buffered, and what may come beside content"
    assert (tmp_path / "target").stat().st_size < 1 << 20


@pytest.mark.night
def test_a_file_of_another_length_than_told_is_no_copy(
    web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    about = remote_files.describe(f"{web}/a.txt")
    short = dataclasses.replace(about, size=about.size + 1)
    monkeypatch.setattr(remote_files, "describe", lambda _: short)
    with pytest.raises(OSError, match=f"{len(TEXT):,} .*{short.size:,}"):
        remote_files.read_file(f"{web}/a.txt", tmp_path / "copy")


def test_who_asks_by_aiohttp_beside_us_is_not_counted() -> None:
    async def ask(url: str) -> int:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return len(await answer.read())

    with nonsense("deeply nested JSON") as server:
        with receiving(100), pytest.raises(TooMuch, match="100 bytes"):
            asyncio.run(ask(server.url))
        assert asyncio.run(ask(server.url)) == 600_001


# ---- how it is read ------------------------------------------------------------------------------


def test_ranges_are_asked_for_once_and_bounded(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    url = put("a.txt", TEXT)
    asked: list[tuple[int, int]] = []
    plain = remote_files.read_range

    def noted(url: str, begin: int, end: int) -> bytes:
        asked.append((begin, end))
        return plain(url, begin, end)

    monkeypatch.setattr(remote_files, "read_range", noted)
    monkeypatch.setattr(remote_files, "_MOST_AT_ONCE", 4000)
    monkeypatch.setattr(source_bytes, "_REMOTE_AHEAD", (1000, 1000))
    (file,) = found(url)
    source = open_source(file, 16)
    assert source.take(0, len(TEXT)).bytes() == TEXT
    assert max(end - begin for begin, end in asked) == 4000
    assert sum(end - begin for begin, end in asked) == len(TEXT)
    reader = RangeReader(url, describe(url).size, 1000)
    assert reader.read(10) == TEXT[:10]
    reader.seek(-10, 2)
    assert reader.read(100) == TEXT[-10:]
    assert reader.read(1) == b""


def test_local_files_import_no_fsspec(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    program = (
        "import sys; from bpeline.tokenizer_core.corpus.sources import *; "
        "from bpeline.tokenizer_core.corpus.source_bytes import open_source; "
        "open_source(find_source_files([Source(sys.argv[1])])[0], 1).take(0, 10); "
        "print('fsspec' in sys.modules)"
    )
    assert output_of(program, tmp_path / "a.txt").strip() == "False"


@pytest.mark.parametrize("name", ["table.parquet", "data-00000-of-00001.arrow"])
def test_a_table_in_a_store_is_counted_like_the_local_one(
    name: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunking, "PART_BYTES", 1 << 10)
    documents = [random.Random(number).randbytes(30).hex() + " ä漢🙂" for number in range(60)]
    documents += ["", "end"]
    write = as_parquet if name.endswith("parquet") else as_arrow_stream
    local = write(tmp_path, documents)
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    place = f"tables-{name}"
    urls = [s3.put(f"{place}/{name}", local.read_bytes()), f"s3://{s3.bucket}/{place}"]
    s3.put(f"{place}/state.json", b"{}")
    expected = list(count_words(local, special_tokens=["<|end|>"]).items())
    for url in (*urls, f"s3://{s3.bucket}/{place}/*{local.suffix}"):
        for workers, chunk_bytes in ((1, 4 << 20), (2, 500)):
            found = count_words(
                url, special_tokens=["<|end|>"], workers=workers, chunk_bytes=chunk_bytes
            )
            assert list(found.items()) == expected
    search = search_sources([Source(urls[1])])
    assert len(search.files) == 1
    assert search.skipped.about_datasets == 1
    search.skipped.refuse()
    with pytest.raises(UnreadableSource, match=f"{place}/{name}.*'body'") as refusal:
        count_words(urls[0], text_field="body")
    assert "`--text-field " in refusal.value.next_step
    broken = s3.put(f"{place}-broken/{name}", local.read_bytes()[:300])
    with pytest.raises(UnreadableSource, match=f"{place}-broken/{name}"):
        count_words(broken)
    assert not list((tmp_path / "copies").iterdir()), "no copy stays"
