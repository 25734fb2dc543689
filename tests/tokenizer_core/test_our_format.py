"""Our own format trusts nothing it reads, and no format reads without bounds."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bpeline.tokenizer_core import bounded_files
from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.errors import CorruptFile, InvalidTokenizer, MissingSource
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import MAX_ID

Change = Callable[[dict[str, Any]], object]


def rewrite(path: Path, change: Change) -> None:
    document = json.loads(path.read_text())
    document.pop("seal", None)  # what is behind it is meant
    change(document)
    path.write_text(json.dumps(document))


def test_golden_encodings_and_provenance_are_kept(small: Tokenizer, tmp_path: Path) -> None:
    bpeline.save(small, tmp_path, provenance={"corpus": "sha256:abc", "files": [1, 2]})
    manifest = bpeline.read_manifest(tmp_path)
    assert manifest["provenance"] == {"corpus": "sha256:abc", "files": [1, 2]}
    assert manifest["digest"] == small.digest
    assert len(manifest["golden"]) >= 20
    assert all(small.encode(entry["text"]) == entry["ids"] for entry in manifest["golden"])
    assert any("<|fin é|>" in entry["text"] for entry in manifest["golden"])
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "tokenizer.bin"]
    content = (tmp_path / "tokenizer.bin").read_bytes()
    assert content == b"".join(small.spec.columns)
    assert len(content) == 16 * (small.vocab_size + len(small.merges)) + sum(
        map(len, small.vocab.values())
    )


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


def test_each_changed_byte_is_seen(directory: Path) -> None:
    path = directory / "tokenizer.bin"
    content = path.read_bytes()
    changes = [content + b"\n", content[:-1], content[8:], content[:40], b""]
    for place in range(0, len(content), 97):
        changes.append(content[:place] + bytes([content[place] ^ 0x81]) + content[place + 1 :])
    for change in changes:
        path.write_bytes(change)
        with pytest.raises((CorruptFile, InvalidTokenizer)):
            Tokenizer.load(directory)


WRONG_COLUMNS: dict[str, tuple[int, int]] = {
    "a length beyond the file": (1, 1 << 62),
    "a length below zero": (1, -1),
    "an id too large": (0, MAX_ID + 1),
    "an id below zero": (0, -1),
    "a merge of no token": (2, MAX_ID),
    "a merge that makes no token": (3, 0),
}


@pytest.mark.parametrize("kind", WRONG_COLUMNS)
def test_a_wrong_column_with_a_digest_that_fits_is_refused(
    small: Tokenizer, directory: Path, kind: str
) -> None:
    """The structure is checked before the digest is compared."""
    column, value = WRONG_COLUMNS[kind]
    ids, lengths, joined, left, right = small.spec.columns
    columns = [np.frombuffer(part, "<i8").copy() for part in (ids, lengths, left, right)]
    columns[column][-1] = value
    parts = [part.tobytes() for part in columns]
    parts.insert(2, joined)
    (directory / "tokenizer.bin").write_bytes(b"".join(parts))
    with pytest.raises((CorruptFile, InvalidTokenizer)):
        Tokenizer.load(directory)


def test_what_encode_finds_by_default_is_kept(small: Tokenizer, tmp_path: Path) -> None:
    text = "ab <|fin é|>"
    (special,) = small.special_tokens.values()
    assert small.spec.allowed_special == "none"
    assert special not in small.encode(text)
    every = Tokenizer.of_spec(dataclasses.replace(small.spec, allowed_special="all"))
    every.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.digest, loaded.spec.allowed_special) == (small.digest, "all")
    assert loaded.encode(text) == small.encode(text, "all")
    assert loaded.encode_batch([text]) == [small.encode(text, "all")]
    assert loaded.encode_to_numpy(text).tolist() == small.encode(text, "all")
    assert loaded.encode_ordinary(text) == small.encode(text)
    assert "all found by default" in repr(loaded)
    assert "none found by default" in repr(small)
    rewrite(tmp_path / "manifest.json", lambda m: m.update(allowed_special="some"))
    with pytest.raises(CorruptFile, match="allowed_special"):
        Tokenizer.load(tmp_path)


def as_0_2(tokenizer: Tokenizer, path: Path) -> Path:
    """The directory that bpeline 0.2 wrote of a tokenizer without a pipeline."""
    bpeline.save(tokenizer, path)
    bpeline.save_for_readers(tokenizer, path)
    (path / "tokenizer.bin").unlink()

    def change(manifest: Any) -> None:
        digests = {name: digest_of_bytes((path / name).read_bytes()) for name in OF_0_2}
        manifest.update(format_version=1, files=digests)
        del manifest["merges"], manifest["allowed_special"]

    rewrite(path / "manifest.json", change)
    return path


OF_0_2 = ("vocab.json", "merges.txt")


@pytest.mark.parametrize("name", OF_0_2)
def test_directories_of_0_2_are_read_and_verified(
    small: Tokenizer, tmp_path: Path, name: str
) -> None:
    directory = as_0_2(small, tmp_path)
    loaded = Tokenizer.load(directory)
    assert (loaded.digest, loaded.spec.allowed_special) == (small.digest, "none")
    assert bpeline.files_of(directory) == (*OF_0_2, "manifest.json")
    content = (directory / name).read_bytes()
    (directory / name).write_bytes(content + b"\n")
    with pytest.raises(CorruptFile, match=name):
        Tokenizer.load(directory)
    (directory / name).unlink()
    with pytest.raises(MissingSource, match=name):
        Tokenizer.load(directory)


def test_a_wrong_id_in_a_vocab_of_0_2_is_refused(small: Tokenizer, tmp_path: Path) -> None:
    directory = as_0_2(small, tmp_path)
    vocab = directory / "vocab.json"
    given = json.loads(vocab.read_text(encoding="utf-8"))
    for wrong in (-1, True, "5", None, 2**64, MAX_ID + 1, given["a"]):
        vocab.write_text(json.dumps({**given, "b": wrong}), encoding="utf-8")
        digest = digest_of_bytes(vocab.read_bytes())
        rewrite(directory / "manifest.json", lambda m, d=digest: m["files"].update({vocab.name: d}))
        with pytest.raises((CorruptFile, InvalidTokenizer)):
            Tokenizer.load(directory)


def test_many_long_merges_are_refused_before_they_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"aa", 257: b"aaaa"}
    Tokenizer(vocab, [(b"a", b"a"), (b"aa", b"aa")]).save(tmp_path)
    assert Tokenizer.load(tmp_path).encode("aaaa") == [257]
    monkeypatch.setattr(bpeline, "MAX_FILE_BYTES", 5)
    with pytest.raises(CorruptFile, match="merge"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(digest="0" * 64),
        lambda m: m["special_tokens"].clear(),
        lambda m: m["special_tokens"].update({"<|fin é|>": True}),
        lambda m: m["golden"][1]["ids"].append(5),
        lambda m: m["golden"].append({"text": "a", "ids": "no"}),
        lambda m: m["golden"].append(5),
        lambda m: m.pop("merges"),
        lambda m: m.update(merges=m["merges"] + 1),
        lambda m: m.update(vocab_size=-1),
        lambda m: m.pop("allowed_special"),
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
    rewrite(directory / "manifest.json", lambda m: m.update(format_version=4))
    with pytest.raises(InvalidTokenizer, match=r"\b4\b"):
        Tokenizer.load(directory)
    rewrite(directory / "manifest.json", lambda m: m.update(format_version=3))
    rewrite(directory / "manifest.json", lambda m: m["pattern"].update(digest="0" * 64))
    with pytest.raises(InvalidTokenizer, match="Unicode"):
        Tokenizer.load(directory)


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.bin"])
def test_a_missing_file_is_named(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(MissingSource, match=name):
        Tokenizer.load(directory, "bpeline")


def test_only_the_fixed_names_are_opened(directory: Path) -> None:
    for extra in ("MLmodel", "python_model.pkl", "conda.yaml", "../outside"):
        (directory / extra).write_bytes(b"\x80\x04cposix\nsystem\n")
    rewrite(directory / "manifest.json", lambda m: m.update(files={"../outside": "0" * 64}))
    opened: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and str(directory.parent) in str(arguments[0]):
            opened.append(str(arguments[0]))

    sys.addaudithook(watch)
    Tokenizer.load(directory)
    watching = False
    assert sorted(set(opened)) == [
        str(directory / name) for name in ("manifest.json", "tokenizer.bin")
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
