"""JSON lines and compressed files that were made to fill the memory or to be misread.

What is no record is refused at its byte; what is one is counted, however it looks; nothing takes
more memory than a few times the line.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from corpus_files import words_by_reference, words_in
from fresh_python import output_of

from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.corpus import documents
from bpeline.tokenizer_core.errors import InvalidUtf8, UnreadableSource

ROOT = Path(__file__).parents[2]


# ---- JSON lines -----------------------------------------------------------------------------

WRONG = {
    "deep": (b'{"x": ' + b"[" * 200_000, "recursion|nested"),
    "deep and closed": (b'{"x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "recursion|nested"),
    "a text of 10,000 digits": (b'{"text": ' + b"9" * 10_000 + b"}", "'text'"),
    "not a number": (b'{"text": NaN}', "'text'"),
    "no text": (b'{"body": "b"}', "'text'.*'body'"),
    "null": (b'{"text": null}', "'text'"),
    "a list": (b'["text"]', "JSON"),
    "NUL behind": (b'{"text": "a"}\0', "JSON"),
    "two on a line": (b'{"text": "a"} {"text": "b"}', "JSON"),
    "a carriage return between two": (b'{"text": "a"}\r{"text": "b"}', "JSON"),
    "a line separator between two": ('{"text": "a"}\u2028{"text": "b"}'.encode(), "JSON"),
    "a mark in the middle": (b'\xef\xbb\xbf{"text": "b"}', "BOM"),
    "half a pair": (b'{"text": "\\udc00"}', "surrogate"),
    "a bare control": (b'{"text": "a\tb"}', "JSON"),
    "a trailing comma": (b'{"text": "a",}', "JSON"),
    "single quotes": (b"{'text': 'a'}", "JSON"),
    "an unknown escape": (b'{"text": "\\x41"}', "JSON"),
    "cut off": (b'{"text": "a', "JSON"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_line_that_is_no_record_is_refused_at_its_byte(tmp_path: Path, kind: str) -> None:
    line, message = WRONG[kind]
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "good"}\n' + line + b"\n")
    begin = time.process_time()
    with pytest.raises(UnreadableSource) as refusal:
        words_in(tmp_path / "a.jsonl")
    assert re.search(rf"byte 17\b.*({message})", refusal.value.happened)
    assert time.process_time() - begin < 5


def test_what_other_fields_say_is_no_matter_and_of_two_texts_the_last_counts(
    tmp_path: Path,
) -> None:
    lines = [b'{"id": NaN, "x": -Infinity, "text": "a"}', b'{"id": 1e999999, "text": "b"}',
             b'{"text": "c", "text": "d"}', b'{"\\ud800": 1, "text": "\\ud83d\\ude00"}',
             b'{"' + b"k" * 1_000_000 + b'": 1, "text": "e"}',
             b'{"id": ' + b"9" * 5_000 + b', "x": -' + b"1" * 999 + b', "text": "f"}']  # fmt: skip
    words = words_by_reference("a", "b", "d", "\N{GRINNING FACE}", "e", "f")
    (tmp_path / "a.jsonl").write_bytes(b"\r\n".join(lines))
    assert words_in(tmp_path / "a.jsonl") == words
    (tmp_path / "a.json").write_bytes(b"[" + b",\n".join(lines) + b"]")
    assert words_in(tmp_path / "a.json") == words


COUNTS = """
import resource, sys
from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.errors import BpelineError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    count_words([sys.argv[1]], pattern="gpt2")
    said = "counted"
except BpelineError as error:
    said = error.happened
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10, said)
"""


def counted_elsewhere(path: Path) -> tuple[int, str]:
    """MiB taken by counting a file in a fresh process, and what it said."""
    megabytes, said = output_of(COUNTS, path, seconds=120).split(" ", 1)
    return int(megabytes), said.strip()


@pytest.mark.night
@pytest.mark.parametrize("piece", [b"[],", b'"",'])
def test_a_line_of_a_hundred_megabytes_of_structure_is_refused(
    tmp_path: Path, piece: bytes
) -> None:
    number = (100 << 20) // len(piece)
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a", "x": [' + piece * number + b"0]}")
    megabytes, said = counted_elsewhere(tmp_path / "a.jsonl")
    assert f"{documents.MOST_PARTS:,}" in said
    assert megabytes < 900


@pytest.mark.night
def test_a_line_of_a_hundred_megabytes_of_text_is_counted_however_it_looks(tmp_path: Path) -> None:
    text = '[{,"\\ ' * (14 << 20)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    megabytes, said = counted_elsewhere(tmp_path / "a.jsonl")
    assert said == "counted"
    assert megabytes < 1_000


def test_parts_are_counted_outside_of_strings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MOST_PARTS", 20)
    texts = [",[{" * 30, '\\"[,' * 30, "\\", '"', "\\\\" * 9 + '"[[,,{{' * 9]
    lines = [json.dumps({"x": [text, text], "text": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert words_in(tmp_path / "a.jsonl") == words_by_reference(*texts)
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": list(range(21)), "text": "a"}))
    with pytest.raises(UnreadableSource, match=r"\b20\b"):
        words_in(tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").write_text('{"text": "' + ",[{" * 30)  # a string without an end
    with pytest.raises(UnreadableSource):
        words_in(tmp_path / "a.jsonl")


# ---- compressed -----------------------------------------------------------------------------


@pytest.mark.night
@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.txt.zst"])
def test_bombs_are_refused_in_bounded_memory(tmp_path: Path, name: str) -> None:
    pack = gzip.compress if name.endswith("gz") else zstandard.compress
    (tmp_path / name).write_bytes(pack(b" " * (300 << 20)))
    megabytes, said = counted_elsewhere(tmp_path / name)
    assert "decompression bomb" in said
    assert megabytes < 500


def test_what_is_compressed_twice_or_followed_by_something_else_is_refused(tmp_path: Path) -> None:
    once = gzip.compress(b"hello words")
    for content in (gzip.compress(once), once + b"garbage", once[:-1], once[5:], b"\x1f\x8b"):
        (tmp_path / "a.txt.gz").write_bytes(content)
        with pytest.raises((UnreadableSource, InvalidUtf8), match=r"a\.txt\.gz"):
            words_in(tmp_path / "a.txt.gz")
    (tmp_path / "a.txt.gz").write_bytes(once + bytes(100) + once)
    assert words_in(tmp_path / "a.txt.gz") == words_by_reference("hello wordshello words")


@pytest.mark.night
def test_a_damaged_footer_loses_no_row_in_silence(tmp_path: Path) -> None:
    """Of any byte of it changed: the reader leaves rows out where numbers of rows or values are."""
    path = tmp_path / "whole.parquet"
    table = pa.table({"text": [f"low {number}" for number in range(90)]})
    pq.write_table(table, path, row_group_size=30, use_dictionary=False, store_schema=False)
    whole, content = count_words(path, workers=1), path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    refused = []
    for at in range(footer, len(content) - 8):
        for change in (1, 255, 192):
            damaged = bytearray(content)
            damaged[at] = (damaged[at] + change) % 256
            path.write_bytes(damaged)
            try:
                assert count_words(path, workers=1).digest == whole.digest
            except UnreadableSource as refusal:
                refused.append(refusal.happened)
    assert any("metadata" in one for one in refused)
