"""Corpora that somebody made to break what reads them: an error of ours, soon, in little memory.

Encodings, names and paths that are none, links, files that change. What is valid is counted as it
stands; the rest is refused with the file and the byte.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from corpus_files import GPT2, words_by_reference, words_in
from fresh_python import output_of

from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.corpus import (
    ReadOptions,
    Source,
    find_source_files,
    open_source,
    source_bytes,
)
from bpeline.tokenizer_core.corpus.chunking import SmallFiles
from bpeline.tokenizer_core.errors import (
    BpelineError,
    CorpusChanged,
    EmptyCorpus,
    InvalidOption,
    InvalidUtf8,
    MissingSource,
    UnreadableSource,
)

ROOT = Path(__file__).parents[2]


# ---- encodings ------------------------------------------------------------------------------

TEXT = "Hello wörld 漢字 \N{GRINNING FACE}\r\n"


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.txt.gz"])
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32", "utf-16-be", "utf-32-be"])
def test_other_unicode_encodings_are_named_by_their_mark(
    tmp_path: Path, name: str, encoding: str
) -> None:
    text = json.dumps({"text": TEXT}, ensure_ascii=False) if "jsonl" in name else TEXT
    marks = {"utf-16-be": codecs.BOM_UTF16_BE, "utf-32-be": codecs.BOM_UTF32_BE}
    raw = marks.get(encoding, b"") + text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
    with pytest.raises(InvalidUtf8) as refusal:
        words_in(tmp_path / name)
    wanted = encoding.upper().removesuffix("-BE")
    if "-be" not in encoding or wanted == "UTF-16":  # UTF-32-BE begins with two valid zeros
        assert f"iconv -f {wanted} -t UTF-8" in refusal.value.next_step


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("latin-1", "wörld"), ("cp1252", "“wörld”"), ("shift_jis", "漢字"),
     ("gb18030", "漢字"), ("koi8-r", "привет"), ("utf-7", "Hé")],
)  # fmt: skip
def test_text_without_a_mark_is_told_by_its_first_byte_that_is_not_utf8(
    tmp_path: Path, encoding: str, text: str
) -> None:
    raw = ("Hello " + text).encode(encoding)
    (tmp_path / "a.txt").write_bytes(raw)
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        at = wrong.start
        with pytest.raises(InvalidUtf8, match=rf"a\.txt.*byte {at}\b"):
            words_in(tmp_path / "a.txt")
    else:
        assert encoding == "utf-7"  # which is ASCII, and counted as it stands
        assert words_in(tmp_path / "a.txt") == words_by_reference(raw.decode())
    found = words_in(tmp_path / "a.txt", invalid_utf8="replace")
    assert found == words_by_reference(raw.decode(errors="replace"))


@pytest.mark.parametrize("between", ["\r\n", "\r", "\n", "\x85", "\u2028", "\u2029", "\0", "\x1a",
                                     "\ufeff", "\x0b", "\u0000\ufffe", "\x7f\x1b[0m"])  # fmt: skip
def test_line_ends_and_controls_are_text_in_plain_files_and_in_records(
    tmp_path: Path, between: str
) -> None:
    text = between.join(["one\ufeff", "two ", " three", ""])
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert words_in(tmp_path / "a.txt") == words_by_reference(text)
    for ascii_ in (True, False):
        record = json.dumps({"text": text}, ensure_ascii=ascii_)
        (tmp_path / "a.jsonl").write_bytes(record.encode())
        assert words_in(tmp_path / "a.jsonl") == words_by_reference(text)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"<|e|><|e|>", b'{"text": ""}\n{"text": ""}'])
def test_a_corpus_without_a_word_is_told_to_be_one(tmp_path: Path, content: bytes) -> None:
    name = "a.jsonl" if content[:1] in (b"{", b"\n") else "a.txt"
    place = tmp_path / "my texts"
    place.mkdir()
    (place / name).write_bytes(content)
    with pytest.raises(EmptyCorpus) as told:
        words_in(place / name, special_tokens=["<|e|>"])
    assert told.value.next_step == f"wc -c '{place / name}'"


# ---- names and places -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a\0b", "\ud800.txt", "x" * 5_000, "", "-", "~root/x", "a" + "/.." * 3_000, b"\xff/x",
             "C:\\x", "..\\..\\x", "%2e%2e/x", "**/" * 300 + "x", "\n", "file:///nowhere/x.txt"],
)  # fmt: skip
def test_a_name_of_nothing_is_refused_in_three_parts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begin = time.process_time()
    with pytest.raises((MissingSource, InvalidOption, UnreadableSource)) as refusal:
        words_in(name)
    assert refusal.value.accepted
    assert refusal.value.next_step
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("wrong", [None, 3, 1.5, [None], [3], object()])
def test_what_is_no_path_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidOption, match="path"):
        count_words(wrong, pattern="gpt2")  # type: ignore[arg-type]


def test_bytes_are_paths_as_they_are_for_python(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9\n-.txt")
    with open(path, "wb") as file:
        file.write(b"one two")
    for paths in (path, [path], [os.fsdecode(path)], [os.fsencode(tmp_path)]):
        counts = count_words(paths, pattern="gpt2")  # type: ignore[arg-type]
        assert Counter(counts.words()) == words_by_reference("one two")


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("outside")
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("inside")
    (folder / "folder").symlink_to(outside)
    (folder / "up").symlink_to("..")
    assert words_in(folder) == words_by_reference("inside")
    (folder / "link.txt").symlink_to(outside / "b.txt")
    assert words_in(folder) == words_by_reference("inside", "outside")
    for target in ("link2.txt", "/dev/zero", "/nowhere"):
        (folder / "link2.txt").unlink(missing_ok=True)
        (folder / "link2.txt").symlink_to(target)
        with pytest.raises(UnreadableSource, match=r"link2\.txt"):
            words_in(folder)


AS_NOBODY = """
import os, sys
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
from bpeline.tokenizer_core.errors import UnreadableSource
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    find_source_files([Source(sys.argv[1])])
except UnreadableSource as error:
    print(error.happened, error.next_step)
"""


def test_what_may_not_be_read_is_refused_before_anything_is_counted() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        (place / "a.txt").write_text("words")
        for name in ("b.txt", "closed"):
            (place / name).mkdir() if name == "closed" else (place / name).write_text("words")
            (place / name).chmod(0)
            said = output_of(AS_NOBODY, folder)
            assert name in said
            assert "ermission denied" in said
            assert "chmod u+r" in said
            (place / name).chmod(0o700)


# ---- files that change ----------------------------------------------------------------------


@pytest.mark.parametrize("change", ["grow", "shrink", "vanish", "replace", "rewrite", "link"])
def test_a_file_that_changes_while_it_is_read_gives_its_words_or_an_error(
    tmp_path: Path, change: str
) -> None:
    """Somebody changes it all the time: never other words than one of its states had."""
    path, other = tmp_path / "a.txt", tmp_path / "other.txt"
    before, after = b"one two " * 60_000, b"six ten " * 60_000
    pauses = random.Random(change)
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            match change:
                case "grow":
                    with path.open("ab") as file:
                        file.write(b"one two ")
                case "shrink":
                    os.truncate(path, max(0, path.stat().st_size - 8))
                case "rewrite":
                    with path.open("r+b") as file:
                        file.write(after)
                        file.seek(0)
                        file.write(before)
                case "vanish":
                    path.unlink()
                    path.write_bytes(before)
                case "replace" | "link":
                    for content in (after, before):
                        other.write_bytes(content)
                        if change == "link":
                            link = tmp_path / "link"
                            link.symlink_to(other)
                            os.replace(link, path)
                        else:
                            os.replace(other, path)
            time.sleep(pauses.choice((0.002, 0.03, 0.06)))

    path.write_bytes(before)
    worker = threading.Thread(target=disturb)
    worker.start()
    ended: Counter[str] = Counter()
    try:
        for _ in range(25):
            try:
                found = words_in(path)
            except (CorpusChanged, MissingSource, UnreadableSource, EmptyCorpus) as error:
                ended[type(error).__name__] += 1
            else:
                words = {word.strip() for word in found} - {b""}
                assert words in ({b"one", b"two"}, {b"six", b"ten"}), (change, words)
                ended["counted"] += 1
    finally:
        stop.set()
        worker.join()
    assert sum(ended.values()) == 25, ended


@pytest.mark.parametrize("small", [True, False])
def test_a_file_is_read_only_when_another_write_would_show_in_its_times(
    tmp_path: Path, small: bool
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one two ")
    [file] = find_source_files([Source(str(path))])
    if small:
        SmallFiles.read([file], ReadOptions(GPT2))
    else:
        open_source(file, 0).close()
    assert time.time_ns() - path.stat().st_ctime_ns >= 20_000_000


def test_where_times_are_whole_seconds_two_of_them_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one two ")
    [file] = find_source_files([Source(str(path))])
    waited = list[float]()
    monkeypatch.setattr(source_bytes.time, "sleep", waited.append)
    monkeypatch.setattr(source_bytes.time, "time_ns", lambda: 7_500_000_000)
    with pytest.raises(CorpusChanged):  # whose times are not those that are given here
        open_source(replace(file, ctime_ns=7_000_000_000), 0)
    assert waited == [1.5]


@pytest.mark.night
def test_every_refusal_is_one_of_ours(tmp_path: Path) -> None:
    """Random bytes under every name that is read, and nothing but words or our errors."""
    random_ = random.Random(5)
    alphabet = [b"{", b"}", b'"text"', b":", b'"', b"\\u", b"\n", b"\xff", b"a", b"\x1f\x8b",
                b"\x28\xb5\x2f\xfd", b"[", b",", b"0", b"\xed\xa0\x80", b"\xc0\x80"]  # fmt: skip
    for name in ("a.txt", "a.jsonl", "a.txt.gz", "a.jsonl.zst"):
        for case in range(60):
            (tmp_path / name).write_bytes(b"".join(random_.choices(alphabet, k=case)))
            try:
                words_in(tmp_path / name)
            except BpelineError:
                continue
            except Exception as error:
                raise AssertionError(f"REPRO: case {case} of {name}") from error
