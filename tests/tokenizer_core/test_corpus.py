"""Finding files: what is taken, what is refused, and that a refusal helps."""

from __future__ import annotations

import inspect
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from bpeline.tokenizer_core.corpus.file_kinds import SOURCE_CODE
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files, search_sources
from bpeline.tokenizer_core.errors import (
    CorpusError,
    InvalidOption,
    MissingSource,
    UnreadableSource,
)
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.urls import is_url


def make(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def names_of(directory: Path, *patterns: str) -> list[str]:
    files = find_source_files([Source(str(directory / pattern)) for pattern in patterns])
    return [os.path.relpath(file.path, directory) for file in files]


def test_a_directory_gives_its_text_files_sorted(tmp_path: Path) -> None:
    make(tmp_path, "b.txt", "a.text", "sub/c.md", "sub/d.py", "e.jsonl", "f.TXT.gz", "g.jsonl.zst")
    make(tmp_path, "picture.png", "noext", ".hidden.txt", ".git/config.txt", "h.gz")
    assert names_of(tmp_path, ".") == [
        "a.text",
        "b.txt",
        "e.jsonl",
        "f.TXT.gz",
        "g.jsonl.zst",
        "sub/c.md",
        "sub/d.py",
    ]


def test_the_order_is_that_of_the_sources_then_of_the_paths(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt", "z/1.txt", "z/2.txt")
    assert names_of(tmp_path, "z", "*.txt") == ["z/1.txt", "z/2.txt", "a.txt", "b.txt"]


def test_format_and_compression_follow_from_the_name(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.jsonl", "c.jsonl.gz", "d.log.zst", "e.rst")
    mixed = Source(str(tmp_path / "*"), name="mixed", include=("*.rst", "*.log.*"))
    files = find_source_files([mixed])
    assert [(file.format, file.compression, file.source) for file in files] == [
        ("text", None, "mixed"),
        ("jsonl", None, "mixed"),
        ("jsonl", "gz", "mixed"),
        ("text", "zst", "mixed"),
        ("text", None, "mixed"),
    ]
    status = os.stat(tmp_path / "a.txt")
    assert (files[0].size, files[0].mtime_ns, files[0].inode) == (
        status.st_size,
        status.st_mtime_ns,
        status.st_ino,
    )


def test_what_a_directory_holds_beside_is_counted_by_kind(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.png", "sub/c.PNG", "d.pdf", "e.bin.gz", "noext", ".hidden", ".g/x")
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    found = search_sources([Source(str(tmp_path))])
    assert [os.path.basename(file.path) for file in found.files] == ["a.txt"]
    assert found.skipped.kinds == {
        ".png": 2, ".pdf": 1, ".bin": 1, "without an extension": 1, "links to directories": 1,
    }  # fmt: skip
    assert "2 .png" in found.skipped.remark
    assert (found.skipped.as_dict()["files"], found.skipped.as_dict()["hidden"]) == (6, 2)
    with pytest.raises(UnreadableSource, match=r"\b6\b.*2 \.png") as refusal:
        found.skipped.refuse()
    assert "--strict" in refusal.value.next_step


def test_hidden_names_alone_are_told_and_no_error(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", ".cache/b.txt")
    skipped = search_sources([Source(str(tmp_path))]).skipped
    skipped.refuse()
    assert "1 hidden" in skipped.remark
    assert search_sources([Source(str(tmp_path / "a.txt"))]).skipped.remark == ""


def test_what_one_source_skips_and_another_reads_is_not_skipped(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.rst")
    sources = [Source(str(tmp_path)), Source(str(tmp_path / "b.rst"))]
    assert search_sources(sources).skipped.number == 0


def test_files_that_an_earlier_source_names_are_counted_for_both(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt", "c.txt")
    os.link(tmp_path / "b.txt", tmp_path / "b again.txt")
    paths = [str(tmp_path / name) for name in ("a.txt", "b.txt", "*.txt")]
    first, second = Source(paths[0], "first"), Source(paths[1], "second")
    all_twice = [Source(paths[2], "all"), Source(paths[2], "all")]
    found = search_sources([first, second, *all_twice, second])
    assert [file.source for file in found.files] == ["first", "second", "all"]
    assert found.shared == {("all", "first"): 1, ("all", "second"): 1}
    assert search_sources([first, second, first]).shared == {}


def test_more_kinds_are_read_as_text_where_they_are_included(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.rst", "src/c.log", "doc/d.log", "e.bin.log", "f.zip")
    (tmp_path / "e.bin.log").write_bytes(b"\x7fELF\0\0")
    found = search_sources([Source(str(tmp_path), include=("*.rst", "src/*.log", "e*", "*.zip"))])
    names = [os.path.relpath(file.path, tmp_path) for file in found.files]
    assert names == ["a.txt", "b.rst", "src/c.log"]
    assert found.skipped.kinds == {".log": 1, ".log (a program)": 1, ".zip": 1}


def test_source_code_is_read_where_it_begins_as_text(tmp_path: Path) -> None:
    make(tmp_path, "a.c", "b.RS", "c/d.d.ts", "e.R.gz", "page.html", "s.css", "w.xml", "t.s", "m.d")
    (tmp_path / "film.ts").write_bytes(b"G@\0\x10\0\0\xb0\r" * 100)
    for pattern in (tmp_path, tmp_path / "*"):
        found = search_sources([Source(str(pattern))])
        names = [os.path.relpath(file.path, tmp_path) for file in found.files]
        assert names == ["a.c", "b.RS", "c/d.d.ts", "e.R.gz"]
        assert {(file.format, file.compression) for file in found.files} == {
            ("text", None), ("text", "gz"),
        }  # fmt: skip
        assert found.skipped.kinds == {
            ".html": 1, ".css": 1, ".xml": 1, ".s": 1, ".d": 1, ".ts (binary)": 1,
        }  # fmt: skip
    with pytest.raises(MissingSource, match=r"1 \.ts \(binary\)"):
        names_of(tmp_path, "*.ts")


def test_the_list_of_source_code_is_that_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "sources.md"
    (listed,) = re.findall(r"```text\n(\..*?)```", page.read_text(), re.DOTALL)
    assert tuple(listed.split()) == SOURCE_CODE == tuple(sorted(SOURCE_CODE))


def test_a_glob_that_says_no_extension_takes_what_a_directory_gives(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.jsonl", "page.html", "part-00000", "x.zip")
    (tmp_path / "blob").write_bytes(b"a\0b")
    found = search_sources([Source(str(tmp_path / "*"))])
    names = [os.path.relpath(file.path, tmp_path) for file in found.files]
    assert names == ["a.txt", "b.jsonl", "part-00000"]
    assert found.skipped.kinds == {".html": 1, ".zip": 1, "without an extension (binary)": 1}
    assert names_of(tmp_path, "*.html") == ["page.html"], "named by its extension"
    with pytest.raises(MissingSource, match=r"1 \.html"):
        names_of(tmp_path, "pag*")


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("picture.img", b"\x89PNG\r\n", "PNG"),
        ("data", b"PAR1\x15", "Parquet"),
        ("corpus.dump", b"BZh91AY", "bzip2"),
        ("a.dat", b"some text\0and more", "binary"),
    ],
)
def test_a_named_file_that_cannot_be_text_is_refused(
    tmp_path: Path, name: str, head: bytes, kind: str
) -> None:
    (tmp_path / name).write_bytes(head)
    with pytest.raises(UnreadableSource, match=kind) as refusal:
        names_of(tmp_path, name)
    assert ".jsonl" in refusal.value.accepted


def test_a_named_file_of_text_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    make(tmp_path, "enwik8", "server.log")
    (tmp_path / "utf16").write_bytes("\ufeffa".encode("utf-16-le"))  # refused when it is read
    assert names_of(tmp_path, "enwik8", "server.log", "utf16") == ["enwik8", "server.log", "utf16"]


def test_what_bpeline_wrote_is_skipped_where_it_is_not_named(tmp_path: Path) -> None:
    others = ["a.txt", "b.txt", "other/merges.txt", "other/shard-00000-0123456789ab.jsonl"]
    make(tmp_path, *others, "b.txt.certificate.json", "other/manifest.json")
    make(tmp_path, "other/shard-00000-0123456789ab.json")
    tokenizer = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
    tokenizer.save(tmp_path / "data" / "made", format="bpeline")
    bpeline.save_for_readers(tokenizer, tmp_path / "data" / "made")
    for folder, format in (("data/tokens", "bin"), ("data/rows", "parquet"), (".", "bin")):
        tokenizer.encode_files(tmp_path / "a.txt", tmp_path / folder, format=format)
    for pattern in (".", "**/*", "*"):
        found = search_sources([Source(str(tmp_path / pattern))])
        assert {os.path.relpath(file.path, tmp_path) for file in found.files} == {*others}
        kinds = {kind: n for kind, n in found.skipped.kinds.items() if kind.endswith("of bpeline")}
        assert kinds.pop("tokenizer of bpeline") == 1
        assert kinds["token shards of bpeline"] >= 14
    (rows,) = (tmp_path / "data" / "rows").glob("*.parquet")
    assert names_of(tmp_path, "data/made/merges.txt", str(rows)) == [
        "data/made/merges.txt", f"data/rows/{rows.name}",
    ]  # fmt: skip
    with pytest.raises(MissingSource, match="token shards"):
        names_of(tmp_path, "data/rows")


def test_each_file_is_taken_once_whatever_its_names(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.txt")
    os.link(tmp_path / "a.txt", tmp_path / "hard.txt")
    (tmp_path / "soft.txt").symlink_to(tmp_path / "b.txt")
    assert names_of(tmp_path, "*.txt", ".", "b.txt") == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("name", "depth", "pattern"), [("d" * 250, 20, ""), ("d", 400, "/**/*.txt")]
)
def test_a_tree_that_is_too_deep_is_no_question_of_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, depth: int, pattern: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(depth):  # step by step: the system does not take the whole path
        os.mkdir(name)
        os.chdir(name)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 300)
    try:
        with pytest.raises(UnreadableSource) as refusal:
            find_source_files([Source(f"{tmp_path}{pattern}")])
    finally:
        sys.setrecursionlimit(limit)
    assert f"`find {tmp_path} -mindepth 15 -maxdepth 15`" in refusal.value.next_step


def test_links_to_directories_are_not_followed_into_loops(tmp_path: Path) -> None:
    make(tmp_path, "data/a.txt")
    (tmp_path / "data" / "loop").symlink_to(tmp_path / "data")
    assert names_of(tmp_path, "data") == ["data/a.txt"]


def test_names_with_glob_letters_and_newlines_are_found(tmp_path: Path) -> None:
    make(tmp_path, "part[1].txt", "-rf.txt", "two\nlines.txt")
    assert names_of(tmp_path, "part[1].txt") == ["part[1].txt"]
    assert names_of(tmp_path, ".") == ["-rf.txt", "part[1].txt", "two\nlines.txt"]


def test_a_missing_path_is_named_and_a_similar_one_suggested(tmp_path: Path) -> None:
    make(tmp_path, "english.txt")
    with pytest.raises(MissingSource) as refusal:
        names_of(tmp_path, "englsh.txt")
    assert str(tmp_path / "englsh.txt") in refusal.value.happened
    assert "english.txt" in refusal.value.next_step


@pytest.mark.parametrize("pattern", ["*.txt", "no/such/place/*.txt", "empty"])
def test_a_pattern_without_any_file_is_an_error(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingSource) as refusal:
        names_of(tmp_path, pattern)
    assert refusal.value.accepted
    assert refusal.value.next_step


def test_no_source_at_all_is_an_error() -> None:
    with pytest.raises(InvalidOption):
        find_source_files([])


def test_pipes_sockets_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UnreadableSource, match=r"pipe\.txt"):
        names_of(tmp_path, "pipe.txt")
    with pytest.raises(UnreadableSource, match=r"pipe\.txt"):
        names_of(tmp_path, ".")
    with pytest.raises(UnreadableSource, match="/dev/null"):
        find_source_files([Source("/dev/null")])
    with pytest.raises(UnreadableSource, match="/proc/self/status"):
        find_source_files([Source("/proc/self/status")])
    address = os.path.relpath(tmp_path / "socket.txt")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        with pytest.raises(UnreadableSource, match=r"socket\.txt"):
            names_of(tmp_path, "socket.txt")


def test_a_dangling_link_is_refused_by_name(tmp_path: Path) -> None:
    gone = tmp_path / "it is gone.txt"
    gone.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UnreadableSource, match=r"it is gone\.txt") as refusal:
        names_of(tmp_path, gone.name)
    assert refusal.value.next_step == f"ls -l '{gone}'", "what can be typed as it stands"


@pytest.mark.parametrize(
    "name", ["a.parquet.gz", "A.ORC", "a.orc", "a.zip", "a.tar.gz", "a.tar.xz"]
)
def test_files_that_cannot_be_text_are_refused_with_a_way_out(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    with pytest.raises(CorpusError) as refusal:
        names_of(tmp_path, name)
    assert name in refusal.value.happened
    assert refusal.value.next_step


def test_standard_input_is_refused_saying_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for spelt in ("-", str(tmp_path / "-")):  # requests make paths absolute
        with pytest.raises(MissingSource) as refusal:
            search_sources([Source(spelt)])
        assert "> corpus.txt`" in refusal.value.next_step
        assert "> corpus.jsonl`" in refusal.value.next_step
    (tmp_path / "-").write_text("a file of this name is that file")
    assert len(search_sources([Source("-")]).files) == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s3://bucket/a*.txt", True),
        ("memory://a", True),
        ("file:///a/b", True),
        ("postgresql+psycopg://u@h/d", True),
        ("/a/b", False),
        ("a:b", False),
        ("C://x", False),
        ("dir/s3://x", False),
        ("english=s3://x", False),
        ("", False),
    ],
)
def test_a_url_has_a_scheme(name: str, expected: bool) -> None:
    assert is_url(name) is expected
