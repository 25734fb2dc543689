"""Merges read apart from the JSON around them: as a parser reads all of it, or refused alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.formats import printable
from bpeline.tokenizer_core.formats.printable import cut_out_merges, printable_tokens

BYTES = printable_tokens(bytes([byte]) for byte in range(256))
SPACE, LINE, HIGH = BYTES[0x20], BYTES[0x0A], BYTES[0xFF]
PAIRS = [("a", "b"), (SPACE, "ab"), ('"', "\\"), ("/", "/"), (LINE, LINE), ("#", "!"), (HIGH, "é")]
LISTED = json.dumps(PAIRS, ensure_ascii=False)
JOINED = json.dumps([" ".join(pair) for pair in PAIRS], ensure_ascii=False)


def file_of(merges: str, more: str = "", before: str = "", kind: str = "BPE") -> bytes:
    """A tokenizer.json with these merges, and perhaps other parts."""
    names = [*BYTES, *(left + right for left, right in PAIRS), "merges", "model"]
    vocab = json.dumps({name: id_ for id_, name in enumerate(dict.fromkeys(names))})
    return (
        f'{{{before}"version": "1.0", "pre_tokenizer": {{"type": "ByteLevel", '
        '"add_prefix_space": false}, "decoder": {"type": "ByteLevel"}, '
        f'"model": {{"type": "{kind}", "vocab": {vocab}, "merges": {merges}{more}}}}}'
    ).encode()


def outcome(content: bytes, path: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What loading gives when only files of some size have their merges read apart."""
    monkeypatch.setattr(printable, "_SMALL", small)
    path.write_bytes(content)
    try:
        loaded = Tokenizer.load(path, format="hf")
    except BpelineError as error:
        return type(error), str(error)
    return loaded.digest, list(loaded.merges)


@pytest.mark.parametrize("merges", [LISTED, JOINED], ids=["pairs", "strings"])
@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), (",", " ,\r\n\t"), ("/", "\\/"), ("]", " ]"), ("[", "[\n")],
    ids=["as it is", "white space", "slashes", "before the end", "behind the begin"],
)
def test_usual_merges_are_read_apart(
    merges: str, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file_of(merges.replace(old, new) if old else merges)
    found = outcome(content, tmp_path / "tokenizer.json", 0, monkeypatch)
    cut = cut_out_merges(content)
    assert cut is not None
    rest, spelled = cut
    assert json.loads(rest) == json.loads(content) | {
        "model": json.loads(content)["model"] | {"merges": []}
    }
    expected = [tuple(part.encode() for part in pair) for pair in PAIRS[:1]]
    assert found[1][:1] == expected
    assert len(found[1]) == len(PAIRS)
    assert spelled.lengths.tolist() == [len(part) for pair in PAIRS for part in pair]
    whole = outcome(content, tmp_path / "tokenizer.json", len(content) + 1, monkeypatch)
    assert cut_out_merges(content) is None
    assert found == whole


UNUSUAL = {
    "escaped": file_of(json.dumps(PAIRS)),
    "a version": file_of(json.dumps(["#version: 0.2", "a b"])),
    "a version as a merge": file_of(json.dumps(["#version: b", "a b"])),
    "a version later": file_of(json.dumps(["a b", "#version: b"])),
    "none": file_of("[]"),
    "three parts": file_of('[["a", "b", "c"]]'),
    "one part": file_of('[["a"]]'),
    "three names": file_of('["a b c"]'),
    "one name": file_of('["a"]'),
    "no name": file_of('["a "]'),
    "an empty name": file_of('[["a", ""]]'),
    "a space in a name": file_of('[["a b", "c"]]'),
    "both kinds": file_of('["a b", ["a", "b"]]'),
    "both kinds, pairs first": file_of('[["a", "b"], "a b"]'),
    "a number": file_of('[["a", 1]]'),
    "no byte": file_of('[["a", "Ж"]]'),
    "three bytes": file_of('[["a", "中"]]'),
    "unknown": file_of('[["a", "b"], ["ab", "xx"]]'),
    "unknown result": file_of(f'[["{HIGH}", "{SPACE}"]]'),
    "an unknown escape": file_of('[["a", "\\x"]]'),
    "a control character": file_of('[["a", "\n"]]'),
    "a comma too many": file_of('[["a", "b"],]'),
    "a comma too few": file_of('[["a", "b"] ["a", "b"]]'),
    "no colon": file_of(LISTED).replace(b'"merges": [[', b'"merges" [['),
    "not closed": file_of(LISTED)[:-9],
    "twice": file_of(LISTED, f', "merges": {JOINED}'),
    "two models": file_of(LISTED, before='"model": {"merges": [["a", "b"]]}, '),
    "merges elsewhere": file_of(LISTED, before='"added_tokens": [], "merges": [["b", "a"]], '),
    "deeper": file_of(LISTED, before='"padding": {"model": {"merges": [["b", "a"]]}}, '),
    "in a string": file_of(LISTED, before='"truncation": "\\"model\\": {\\"merges\\": [", '),
    "a backslash before a quote": file_of(LISTED, before='"truncation": "\\\\", '),
    "no object": b"[" + file_of(LISTED) + b"]",
    "another model": file_of(LISTED, kind="WordPiece"),
    "another pre-tokenizer": file_of(LISTED).replace(b'"ByteLevel", "add', b'"Digits", "add'),
    "no UTF-8": file_of('[["a", "?"]]').replace(b"?", b"\xc3("),
    "no UTF-8 before": file_of(LISTED, before='"truncation": "?", ').replace(b"?", b"\xff"),
    "a mark": b"\xef\xbb\xbf" + file_of(LISTED),
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_all_else_is_read_or_refused_by_the_parser(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = UNUSUAL[kind]
    apart = outcome(content, tmp_path / "tokenizer.json", 0, monkeypatch)
    whole = outcome(content, tmp_path / "tokenizer.json", len(content) + 1, monkeypatch)
    assert apart == whole
    # What is written otherwise than usual is read as well.
    assert isinstance(whole[0], str) == (
        kind in ("escaped", "a version", "a version as a merge", "a version later", "none")
        or kind in ("deeper", "in a string", "a backslash before a quote")
    )


def test_a_file_cut_off_anywhere_is_refused_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = file_of(LISTED)
    begin = content.index(b'"merges": [')
    for end in range(begin, len(content)):
        short = content[:end]
        apart = outcome(short, tmp_path / "tokenizer.json", 0, monkeypatch)
        assert apart == outcome(short, tmp_path / "tokenizer.json", 1 << 30, monkeypatch)
        assert not isinstance(apart[0], str)
