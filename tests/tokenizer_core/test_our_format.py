"""Our own format trusts nothing it reads, and no format reads without bounds."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from json_files import Change, rewrite

from bpeline.tokenizer_core import bounded_files
from bpeline.tokenizer_core.errors import CorruptFile, InvalidTokenizer, MissingSource
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer


def test_golden_encodings_and_provenance_are_kept(small: Tokenizer, tmp_path: Path) -> None:
    bpeline.save(small, tmp_path, provenance={"corpus": "sha256:abc", "files": [1, 2]})
    manifest = bpeline.read_manifest(tmp_path)
    assert manifest["provenance"] == {"corpus": "sha256:abc", "files": [1, 2]}
    assert manifest["digest"] == small.digest
    assert len(manifest["golden"]) >= 20
    assert all(small.encode(entry["text"]) == entry["ids"] for entry in manifest["golden"])
    assert any("<|fin é|>" in entry["text"] for entry in manifest["golden"])
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "merges.txt", "vocab.json"]


def test_a_golden_encoding_that_differs_is_shown(small: Tokenizer, tmp_path: Path) -> None:
    bpeline.save(small, tmp_path, samples=["the ab of words"])
    assert Tokenizer.load(tmp_path).digest == small.digest
    ids = small.encode("the ab of words")

    def change(manifest: Any) -> None:
        manifest["golden"][-1]["ids"][2:] = [7, "x"]

    rewrite(tmp_path / "manifest.json", change)
    with pytest.raises(CorruptFile, match="'the ab of words'") as caught:
        Tokenizer.load(tmp_path)
    assert str(ids[2:6]) in caught.value.happened
    assert "[7, 'x']" in caught.value.happened


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_a_changed_file_is_corrupt(directory: Path, name: str) -> None:
    path = directory / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(CorruptFile, match=name):
        Tokenizer.load(directory)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(digest="0" * 64),
        lambda m: m["special_tokens"].clear(),
        lambda m: m["special_tokens"].update({"<|fin é|>": True}),
        lambda m: m["golden"][1]["ids"].append(5),
        lambda m: m["golden"].append({"text": "a", "ids": "no"}),
        lambda m: m["golden"].append(5),
        lambda m: m.pop("files"),
        lambda m: m["files"].pop("vocab.json"),
        lambda m: m.update(pattern="gpt2"),
        lambda m: m["pattern"].update(regex=5),
        lambda m: m.update(format="other"),
        lambda m: m.update(ignore_merges="no"),
    ],
)
def test_a_changed_manifest_is_corrupt(directory: Path, change: Change) -> None:
    rewrite(directory / "manifest.json", change)
    with pytest.raises((CorruptFile, InvalidTokenizer)):
        Tokenizer.load(directory)


def test_a_manifest_that_is_no_json_is_corrupt(directory: Path) -> None:
    path = directory / "manifest.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptFile, match=r"manifest\.json"):
        Tokenizer.load(directory)


def test_other_versions_and_other_unicode_tables_are_named(directory: Path) -> None:
    rewrite(directory / "manifest.json", lambda m: m.update(format_version=3))
    with pytest.raises(InvalidTokenizer, match=r"\b3\b"):
        Tokenizer.load(directory)
    rewrite(directory / "manifest.json", lambda m: m.update(format_version=1))
    rewrite(directory / "manifest.json", lambda m: m["pattern"].update(digest="0" * 64))
    with pytest.raises(InvalidTokenizer, match="Unicode"):
        Tokenizer.load(directory)


@pytest.mark.parametrize("name", ["manifest.json", "vocab.json", "merges.txt"])
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(MissingSource, match=name):
        Tokenizer.load(directory, "bpeline")


def test_only_the_fixed_names_are_opened(directory: Path) -> None:
    for extra in ("MLmodel", "python_model.pkl", "conda.yaml", "../outside"):
        (directory / extra).write_bytes(b"\x80\x04cposix\nsystem\n")
    rewrite(directory / "manifest.json", lambda m: m["files"].update({"../outside": "0" * 64}))
    opened: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and str(directory.parent) in str(arguments[0]):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    Tokenizer.load(directory)
    watching = False
    assert sorted(set(opened)) == [
        str(directory / name) for name in ("manifest.json", "merges.txt", "vocab.json")
    ]


# The bounded parser


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1, "a": 2}', "'a'"),
        (b'{"x": {"b": 1, "b": 1}}', "'b'"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b"[" * 200_000, "nested"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "digits"),
        (b"\xff\xfe{\0}\0", "UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        (b'{"a": 1', "JSON"),
        (b"", "JSON"),
    ],
)
def test_json_out_of_bounds_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InvalidTokenizer, match=message):
        Tokenizer.load(path)


def test_large_files_and_pipes_are_refused_unread(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(bounded_files.MAX_FILE_BYTES + 1)
    os.mkfifo(tmp_path / "pipe.json")
    for path in (large, tmp_path / "pipe.json"):
        with pytest.raises(InvalidTokenizer, match="regular file"):
            Tokenizer.load(path)
    with pytest.raises(InvalidTokenizer, match="regular file"):
        bounded_files.read_bounded(tmp_path)
