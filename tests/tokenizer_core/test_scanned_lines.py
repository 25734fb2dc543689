"""Lines of JSON as the scanner reads them against `json.loads`, and errors against a plain loop."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from corpus_files import READING
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core.corpus import documents
from bpeline.tokenizer_core.corpus.documents import ChunkText, read_documents
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.corpus.text_records import ScannedLines
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.kernels.memory.addresses import PADDING
from bpeline.tokenizer_core.kernels.scanning.json_lines import DEEPEST, LONGEST_NUMBER
from bpeline.tokenizer_core.text import Text, invalid_utf8_at

EDGES = (0x0, 0x1F, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0xD7FF, 0xD800, 0xDBFF, 0xDC00, 0xE000, 0xFFFF)
FILE = SourceFile("a.jsonl", "given", "jsonl", None, 0, 0, 0, 0)
MENDED = replace(READING, invalid_utf8="replace")


def scanned(content: bytes, field: str = "text", id_field: str = "") -> ScannedLines:
    raw = Text.of(content)
    valid = invalid_utf8_at(raw)
    valid = raw.size if valid < 0 else valid
    return ScannedLines.of(raw, field, id_field, valid, documents.MOST_PARTS)


def scanned_document(line: bytes, field: str = "text") -> bytes | None:
    """The document of a line; None where the line is left to Python."""
    one = scanned(line, field)
    assert len(one.lines) == 1
    if len(one.left):
        return None
    text, spans = one.with_documents({})
    assert spans.tolist() == [[0, text.size]]
    assert text.data[text.size :].tolist() == [0] * PADDING
    return text.bytes()


@contextmanager
def all_left_to_python() -> Iterator[None]:
    def leave_all(raw: Text, text_field: str, id_field: str, valid: int, parts: int) -> Any:
        return ScannedLines.of(raw, text_field, id_field, valid, -1)

    with mock.patch.object(documents, "ScannedLines", mock.Mock(of=leave_all)):
        yield


def outcome(content: bytes, begin: int, reading: ReadOptions, id_field: str) -> Any:
    """All that is read of a chunk, or all that its error says."""
    try:
        read = read_documents(Text.of(content), FILE, begin, reading, id_field)
    except BpelineError as error:
        return type(error), error.happened, error.accepted, error.next_step
    assert read.text.data[read.text.size :].tolist() == [0] * PADDING
    return plain(read)


def plain(read: ChunkText) -> Any:
    assert read.rows is not None
    arrays = read.documents, read.anchors, read.rows
    assert all(one.dtype == np.int64 and one.flags.c_contiguous for one in arrays)
    return (read.text.bytes(), *(one.tolist() for one in arrays), read.replaced, read.row_ids)


def loaded(content: bytes, id_field: str = "") -> Any:
    """What is read of a chunk of valid lines, by `json.loads` and nothing of ours."""
    pieces, spans, anchors, rows, ids = [], [], [], [], []
    position = place = 0
    for line in content.split(b"\n"):
        if line.strip():
            record = json.loads(line.decode())
            document = record["text"].encode()
            pieces.append(document)
            spans.append([place, place + len(document)])
            anchors.append([place, position])
            rows.append([position, position + len(line)])
            place += len(document) + 1
            named = record.get(id_field)
            is_name = isinstance(named, str | int | float)
            ids.append(json.dumps(named).encode() if is_name else b"")
        position += len(line) + 1
    text = b"\n".join(pieces)
    return text, spans, anchors or [[0, 0]], rows, 0, tuple(ids) if id_field else ()


def assert_read_as_python_does(content: bytes, field: str = "text") -> None:
    for reading in (READING, MENDED):
        reading = replace(reading, text_field=field)
        for begin, id_field in ((0, "id"), (7, "")):
            with all_left_to_python():
                expected = outcome(content, begin, reading, id_field)
            assert outcome(content, begin, reading, id_field) == expected


# Each is read by the scanner, not left.
READ = [
    '{"text": "a"}',
    ' \t\r{ \t\r"text"\t: \r"a" \t} \t\r',
    '{"text":""}',
    '{"text":"é日😀\x7f\u2028\ufeff\ufffd"}',
    r'{"text":"\"\\\/\b\f\n\r\t"}',
    r'{"text":"\u0000\u001f\u0041\u00e9\u07FF\u0800\uffff\uFEFF\ufffd"}',
    r'{"text":"\ud83d\ude00\uDBFF\uDFFF\ud800\udc00"}',
    r'{"text":"\\ud800 \\\\"}',
    '{"a":{"text":"b"},"text":"a"}',
    '{"text":"a","a":[{"text":"b"},["text",{}],[]]}',
    '{"a":"text","text":"a","b":"text"}',
    r'{"\u0074e\u0078t":"escaped key"}',
    r'{"t\u00e9xt":"b","text":"a"}',
    r'{"a\"text":"b","text":"a","tex":1,"texts":2,"":3}',
    '{"a":1,"a":2,"text":"a","a":3}',
    '{"a":[0,-0,10,-12,0.5,1e5,1E+5,1.25e-30,1e999,-1e999,1.0],"text":"a"}',
    '{"a":[NaN,Infinity,-Infinity,null,true,false],"text":"a","b":NaN}',
    '{"a":[ ] ,"b":{ } , "text" : "a" , "c" : [ 1 , { "d" : [ ] } ] }',
    r'{"a":"\ud800","text":"a","b":["\udc00\ud83d"]}',
    '{"text":"' + "x" * 300 + r"\n" + "y" * 63 + r"\u00e9" + '"}',
    '{"a":' + "[" * (DEEPEST - 2) + "]" * (DEEPEST - 2) + ',"text":"a"}',
    '{"a":' + "9" * LONGEST_NUMBER + ',"text":"a"}',
    '{"text":"a","id":"b"}',
    '{"id":"\x7fé","text":"a"}',
    r'{"id":"\u0041\/","text":"a"}',
    '{"id":-0,"text":"a"}',
    '{"id":1e2,"text":"a"}',
    '{"id":NaN,"text":"a"}',
    '{"id":true,"text":"a"}',
    '{"id":[1],"text":"a"}',
    '{"id":null,"text":"a"}',
    r'{"id":"\ud800","text":"a"}',
    '{"id":12345678901234567890123,"text":"a"}',
]
# These are Python's to read, or to refuse.
LEFT = [
    '{"text":"a","text":"b"}',
    r'{"text":"a","te\u0078t":"b"}',
    '{"text":1,"text":"b"}',
    '{"text":"a","text":1}',
    r'{"text":"\ud800"}',
    r'{"text":"\udc00"}',
    r'{"text":"\ud83d\ud83d\ude00"}',
    r'{"text":"\ud83dA"}',
    r'{"text":"\ud83d\n"}',
    r'{"text":"\ud83d\u0041"}',
    r'{"text":"\ud83d\u00"}',
    r'{"\ud800":1,"text":"a"}',
    '{"a":' + "[" * DEEPEST + "]" * DEEPEST + ',"text":"a"}',
    '{"a":' + "[" * 100_000 + "]" * 100_000 + ',"text":"a"}',
    '{"a":' + "9" * (LONGEST_NUMBER + 1) + ',"text":"a"}',
    '{"a":' + "9" * 5000 + ',"text":"a"}',
    '\ufeff{"text":"a"}',
    "{}",
    "[]",
    "null",
    "1",
    '"text"',
    "{",
    "nul",
    "\x00",
    "\x1c",
    "\xa0",
    "\u3000",
    '{"a":1}',
    '{"text":1}',
    '{"text":null}',
    '{"text":["a"]}',
    '{"text":{"text":"a"}}',
    '{"text":"a"} x',
    '{"text":"a"}}',
    '{"text":"a"}{"text":"a"}',
    '{"text":"a"},',
    '{"text":"a"}\x0b',
    '{"text":"a",}',
    '{"text":"a","b"}',
    '{"text":"a","b":}',
    '{"text" "a"}',
    '{"text":"a" "b":1}',
    "{'text':'a'}",
    '{text:"a"}',
    '{"text":"a\tb"}',
    '{"text":"a\x00b"}',
    '{"text":"a\x1f"}',
    '{"a\x01":1,"text":"a"}',
    r'{"text":"\x41"}',
    r'{"text":"\u12g4"}',
    r'{"text":"\u 123"}',
    r'{"text":"\u+123"}',
    r'{"text":"\U0041"}',
    r'{"text":"\'"}',
    r'{"a":"\u12g4","text":"a"}',
    r'{"a":"\x","text":"a"}',
    '{"a":"\t","text":"a"}',
    '{"a":01,"text":"a"}',
    '{"a":1.,"text":"a"}',
    '{"a":.5,"text":"a"}',
    '{"a":+1,"text":"a"}',
    '{"a":-,"text":"a"}',
    '{"a":1e,"text":"a"}',
    '{"a":1e+,"text":"a"}',
    '{"a":1_0,"text":"a"}',
    '{"a":0x1,"text":"a"}',
    '{"a":--1,"text":"a"}',
    '{"a":１,"text":"a"}',
    '{"a":-NaN,"text":"a"}',
    '{"a":nan,"text":"a"}',
    '{"a":Infinit,"text":"a"}',
    '{"a":+Infinity,"text":"a"}',
    '{"a":-Infinit,"text":"a"}',
    '{"a":True,"text":"a"}',
    '{"a":tru,"text":"a"}',
    '{"a":falsey,"text":"a"}',
    '{"a":nulll,"text":"a"}',
    '{"a":fals,"text":"a"}',
    '{"a":[1,],"text":"a"}',
    '{"a":[,1],"text":"a"}',
    '{"a":[1 2],"text":"a"}',
    '{"a":[1},"text":"a"}',
    '{"a":{"b":1],"text":"a"}',
    '{"a":{"b":1,},"text":"a"}',
    '{"a":{"b"},"text":"a"}',
    '{"a":{1:1},"text":"a"}',
    '{"a":{,},"text":"a"}',
    '{"a":[[1]],],"text":"a"}',
    '{"a":1,\x0b"text":"a"}',
    '{"a":1,\xa0"text":"a"}',
    '\x0b{"text":"a"}',
    '{"text":"a"}\x00',
    "\x0c\x1f",
]


@pytest.mark.parametrize("line", READ, ids=lambda line: line[:40])
def test_what_is_json_is_read_by_the_scanner(line: str) -> None:
    assert scanned_document(line.encode()) == json.loads(line)["text"].encode()
    for content in (line, f"{line}\n", f"\n{line}\r\n \n{line}", f'{{"text":"b"}}\n{line}\n'):
        assert outcome(content.encode(), 0, READING, "id") == loaded(content.encode(), "id")
    assert_read_as_python_does(line.encode())


@pytest.mark.parametrize("line", LEFT, ids=lambda line: repr(line[:40]))
def test_what_is_odd_is_left_to_python(line: str) -> None:
    assert scanned_document(line.encode()) is None
    good = '{"id":7,"text":"good \\u00e9"}\n'
    for content in (line, f"{good}{line}\n{good}", f"{line}\r\n{good}{good}{line}"):
        assert_read_as_python_does(content.encode())


def test_lines_of_white_space_are_no_lines() -> None:
    blank = b" \n\t\n\r\n\x0b\n\x0c \t\r\n\n   "
    assert len(scanned(blank).lines) == 0
    assert outcome(blank, 0, READING, "id") == loaded(blank, "id")
    content = blank + b'\n{"text":"a"}' + blank
    assert outcome(content, 0, READING, "id") == loaded(content, "id")
    assert outcome(b"", 0, READING, "") == loaded(b"")


RICH = (
    r'{"a":[1.5e-3,-Infinity,{"text":"\ud83d"}],"text":"a\ud83d\ude00é\u00e9\n\"",'
    r'"id":"\\x","b":{"c":[],"d":{}},"n":null,"t":true}'
).encode()


def test_a_line_cut_anywhere_is_refused_as_python_refuses_it() -> None:
    for size in range(len(RICH)):
        if size and RICH[:size].strip():
            assert scanned_document(RICH[:size]) is None
        assert_read_as_python_does(RICH[:size])
        assert_read_as_python_does(RICH[:size] + b"\n" + RICH)
        assert_read_as_python_does(RICH[size:])


def agrees_with_json(line: bytes) -> bool:
    """Whether a line is read; that it is read as `json.loads` reads it is asserted."""
    document = scanned_document(line)
    if document is not None:
        assert json.loads(line.decode())["text"].encode() == document
    return document is not None


def test_any_byte_in_place_of_another_is_read_as_json_reads_it_or_left() -> None:
    read = 0
    for at in range(len(RICH)):
        for byte in range(256):
            line = RICH[:at] + bytes([byte]) + RICH[at + 1 :]
            if byte != ord("\n"):
                read += agrees_with_json(line)
    assert read > 2000


def test_all_escapes_of_four_digits() -> None:
    for form in ('"text":"\\u%04x"', '"text":"a\\u%04Xb"'):
        lines = [f"{{{form % point}}}" for point in range(0x10000)]
        content = "\n".join(lines).encode()
        one = scanned(content)
        assert one.left.tolist() == list(range(0xD800, 0xE000))
        text, _ = one.with_documents(dict.fromkeys(one.left.tolist(), b""))
        assert text.bytes() == b"\n".join(
            b"" if 0xD800 <= point < 0xE000 else json.loads(line)["text"].encode()
            for point, line in enumerate(lines)
        )


def test_what_is_no_digit_is_none() -> None:
    digits = set(b"0123456789abcdefABCDEF")
    for at in range(4):
        for byte in set(range(0x20, 0x7F)) - set(b'"\\'):
            four = bytearray(b"0000")
            four[at] = byte
            line = b'{"text":"\\u' + bytes(four) + b'"}'
            assert agrees_with_json(line) == (byte in digits)
            inside = b'{"a":"\\u' + bytes(four) + b'","text":""}'
            assert agrees_with_json(inside) == (byte in digits)


def test_pairs_of_surrogates() -> None:
    edges = (0xD7FF, 0xD800, 0xD801, 0xDBFF, 0xDC00, 0xDC01, 0xDFFF, 0xE000, 0x41)
    for first in edges:
        for second in edges:
            line = rf'{{"text":"\u{first:04x}\u{second:04X}"}}'
            halves = any(0xD800 <= ord(one) < 0xE000 for one in json.loads(line)["text"])
            assert agrees_with_json(line.encode()) == (not halves)
            assert_read_as_python_does(line.encode())


# The edges of one, two and three bytes, pairs, and what is no escape of four digits.
SPELT = (
    *(rf"\u{point:04{form}}" for point in EDGES for form in "xX"),
    *(r"\ud83d\ude00", r"\n", r"\u00g9", r"\u0x41", r"\u041", r"\U0041", "a", " é", "\t", '"'),
)


def test_runs_of_escapes_of_all_sizes() -> None:
    """Eight escapes are looked at together, and written together as far as they are of one size."""
    source = random.Random(7)
    lines = [
        "".join([one * count, *two, "c" * (count % 70)])
        for one in (r"\u0430", r"\u65e5", r"\uD7ff", r"\u00E9")
        for count in range(20)
        for two in [("",), *((odd, one * 9) for odd in SPELT), source.choices(SPELT, k=9)]
    ]
    read = sum(agrees_with_json(f'{{"text":"{line}"}}'.encode()) for line in lines)
    assert len(lines) // 2 < read < len(lines)


def test_a_run_of_escapes_cut_anywhere() -> None:
    line = b'{"text":"' + rb"\u0430\u0431 \u65e5\u672c" * 5 + b'"}'
    assert all(scanned_document(line[:size]) is None for size in range(1, len(line)))
    assert agrees_with_json(line)


@pytest.mark.parametrize("middle", ["", '"', "\n", "é", "\U0001f600", "\\", "\u07ff\uffff"])
def test_strings_of_any_length_over_any_border(middle: str) -> None:
    for ascii_only in (True, False):
        lines = [
            json.dumps({"k" * size: "v" * size, "text": "a" * size + middle + "b" * (size % 7)},
                       ensure_ascii=ascii_only)
            for size in range(200)
        ]  # fmt: skip
        content = "\n".join(lines).encode()
        assert len(scanned(content).left) == 0
        assert outcome(content, 0, READING, "") == loaded(content)


def test_more_lines_than_were_expected() -> None:
    content = b'{"text":"a"}\n{"text":""}\n\n' * 1000
    assert len(scanned(content).left) == 0
    assert outcome(content, 0, READING, "") == loaded(content)


def test_bytes_that_are_not_utf8_are_left_line_by_line() -> None:
    lines = [b'{"text":"\xc3\xa9%d"}' % number for number in range(9)]
    lines[2] = b'{"text":"\xff"}'
    lines[5] = b'{"text":"ok","a":"\xed\xa0\x80"}'
    lines[8] = b'{"text":"\xf0\x9f\x98'
    content = b"\n".join(lines[:8])
    assert scanned(content).left.tolist() == [2, 5]
    for ending in (b"", b"\n", b"\n" + lines[8]):
        assert_read_as_python_does(content + ending)
    read = read_documents(Text.of(content), FILE, 0, MENDED)
    assert read.replaced == 1 + 3


def test_a_field_of_any_name() -> None:
    for field in ("", "a b", "té\U0001f600", 'q"uo\\te', "\n", "x" * 200):
        for ascii_only in (True, False):
            record = {"before": 1, field: "this", "after": [{field: "not this"}]}
            line = json.dumps(record, ensure_ascii=ascii_only).encode()
            assert scanned_document(line, field) == b"this"
            assert_read_as_python_does(line, field)
    line = b'{"text":"a","\\ud800":"b"}'
    assert scanned_document(line, "\ud800") is None
    assert scanned_document(b'{"text":"a"}', "\ud800") is None


def test_a_document_can_be_its_own_id() -> None:
    line = b'{"text":"a\\u00e9"}'
    read = read_documents(Text.of(line), FILE, 0, READING, "text")
    assert (read.text.bytes(), read.row_ids) == ("aé".encode(), (b'"a\\u00e9"',))


def test_too_many_parts_are_refused_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_PARTS", 40)
    for number in range(30, 50):
        for parts in ("[" + ",".join("1" * number) + "]", json.dumps("[,{" * number)):
            line = f'{{"a":{parts},"text":"[,{{"}}'.encode()
            assert_read_as_python_does(line)
    assert scanned_document(b'{"text":"a","b":' + b"[" * 19 + b"{},1" + b"]" * 19 + b"}") == b"a"


# ---- anything -------------------------------------------------------------------------------

CHARACTERS = st.one_of(
    st.sampled_from('"\\/\b\f\n\r\t\x00\x1f \x7f{}[],:é\u07ff\u0800\ufeff\ufffd\uffff😀u0n'),
    st.characters(exclude_categories=["Cs"]),
)
SPACES = st.text(" \t\r", max_size=2)
KEYS = st.sampled_from(["text", "id", "te", "a", ""]) | st.text(CHARACTERS, max_size=5)


@st.composite
def strings(draw: st.DrawFn, content: str) -> str:
    """A string as JSON can spell it."""
    spelt = []
    for character in content:
        units = character.encode("utf-16-be", "surrogatepass")
        escapes = "".join(rf"\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
        if character in '"\\' or character < " ":
            spelt.append(draw(st.sampled_from([json.dumps(character)[1:-1], escapes])))
        elif draw(st.integers(0, 3)) == 0:
            spelt.append(escapes.upper().replace("U", "u") if draw(st.booleans()) else escapes)
        else:
            spelt.append(r"\/" if character == "/" and draw(st.booleans()) else character)
    return f'"{"".join(spelt)}"'


SCALARS = st.one_of(
    st.sampled_from(["null", "true", "false", "NaN", "Infinity", "-Infinity", "-0", "1E+2"]),
    st.just('"\\ud800"'),
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.text(CHARACTERS, max_size=6).flatmap(strings),
)  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(inner, max_size=3))
    return "[" + ",".join(f"{draw(SPACES)}{one}{draw(SPACES)}" for one in items) + "]"


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(st.tuples(KEYS.flatmap(strings), inner), max_size=4))
    members = (f"{draw(SPACES)}{key}{draw(SPACES)}:{draw(SPACES)}{one}" for key, one in items)
    return "{" + ",".join(members) + draw(SPACES) + "}"


VALUES: st.SearchStrategy[str] = st.recursive(
    SCALARS, lambda inner: arrays(inner) | objects(inner), max_leaves=8
)


@st.composite
def records(draw: st.DrawFn) -> str:
    """A line that is an object, nearly always with a document."""
    members = draw(st.lists(st.tuples(KEYS.flatmap(strings), VALUES), max_size=4))
    document = draw(st.text(CHARACTERS, max_size=100).flatmap(strings))
    members.insert(draw(st.integers(0, len(members))), (draw(strings("text")), document))
    inside = ",".join(f"{draw(SPACES)}{key}{draw(SPACES)}:{one}" for key, one in members)
    return f"{draw(SPACES)}{{{inside}{draw(SPACES)}}}{draw(SPACES)}"


@given(records())
def test_any_object_is_read_as_json_reads_it(line: str) -> None:
    pairs = json.loads(line, object_pairs_hook=lambda pairs: pairs)
    if Counter(key for key, _ in pairs)["text"] == 1:
        assert scanned_document(line.encode()) == json.loads(line)["text"].encode()
    assert_read_as_python_does(line.encode())


FAULTS = st.one_of(
    st.sampled_from([bytes([one]) for one in b'\n"\\,:{}[]0-e. \x00\x0b\x1f\xff\xc3']),
    st.sampled_from([b"", b"\\u", b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf", b'"text":"x",']),
)


@settings(max_examples=100)
@given(
    st.lists(records() | SPACES, max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.integers(-1, 3), FAULTS), max_size=3),
)
@example(["", '{"text":"a"}'], [])
def test_any_lines_with_faults_are_read_or_refused_as_before(
    lines: list[str], faults: list[tuple[float, int, bytes]]
) -> None:
    content = "\n".join(lines).encode()
    for place, size, instead in faults:  # -1: the line is cut here
        at = int(place * len(content))
        content = content[:at] + instead + (content[at + size :] if size >= 0 else b"")
    assert_read_as_python_does(content)


def test_many_lines_of_all_kinds_in_one_chunk() -> None:
    source = random.Random(5)
    kinds = [*READ, '{"text":"x","text":"y"}', '{"text":"p\\ud800"}', "", " \r"]
    for _ in range(20):
        content = "\n".join(source.choices(kinds, k=50)).encode()
        assert_read_as_python_does(content)
