"""Bytes become documents: UTF-8 policies equal to Python's decoder, JSON lines never joined."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from corpus_files import GPT2, READING, SPECIALS, counted, first_positions, words_of, write

from bpeline.tokenizer_core import count_texts, reference
from bpeline.tokenizer_core.errors import InvalidUtf8, UnreadableSource


def test_a_byte_order_mark_that_a_text_begins_with_is_no_word(tmp_path: Path) -> None:
    content = "one two three\n\ufefffour " * 40
    marked, plain = (
        write(tmp_path / "a.txt", "\ufeff" + content),
        write(tmp_path / "b.txt", content),
    )
    for size in (10, 1_000, 1 << 20):
        found = [
            sum((Counter(chunk.counts.to_mapping()) for chunk in counted(file, size)), Counter())
            for file in (marked, plain)
        ]
        assert found[0] == found[1]
        assert found[0]["\ufeff".encode()] == 40  # inside of the text it is
    # Its chunk has a name of its own, for it is counted otherwise than the same bytes elsewhere.
    inside = write(tmp_path / "c.jsonl", json.dumps({"text": "\ufeff" + content}))
    (chunk,) = counted(inside, 1 << 20)
    assert chunk.counts.to_mapping()["\ufeff".encode()] == 41
    (only,) = counted(write(tmp_path / "d.txt", "\ufeff"), 100)
    assert len(only.counts) == 0


INVALID = [
    b"\xff",
    b"\xc3",
    b"\xe6\x97",
    b"\xf0\x9f\x98",
    b"\xc0\xaf",
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xf4\x90\x80\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\x80\x80",
    b"\xe6\x97\xe6\x97\xa5",
]


def invalid_texts() -> Iterator[bytes]:
    for bad in INVALID:
        yield b"some words and " + bad + b" some more words"
        yield bad
        yield b"begin" + bad
        yield b"a b c" + bad * 3 + "日".encode() + bad + b" d e"


def test_strict_names_the_file_and_the_byte(tmp_path: Path) -> None:
    for raw in invalid_texts():
        with pytest.raises(UnicodeDecodeError) as expected:
            raw.decode()
        for name in ("a.txt", "a.txt.gz"):
            file = write(tmp_path / name, raw)
            for chunk_bytes in (3, 7, 1000):
                told = rf"{name}.*byte {expected.value.start}\b"
                with pytest.raises(InvalidUtf8, match=told):
                    counted(file, chunk_bytes)


@pytest.mark.parametrize("policy", ["replace", "ignore"])
def test_invalid_bytes_are_read_as_python_reads_them_wherever_the_text_is_cut(
    policy: Literal["replace", "ignore"], tmp_path: Path
) -> None:
    reading = replace(READING, invalid_utf8=policy)
    for raw in invalid_texts():
        content = raw.decode(errors=policy)
        file = write(tmp_path / "a.txt", raw)
        for chunk_bytes in (1, 2, 5, 8, 1000):
            chunks = counted(file, chunk_bytes, reading)
            assert words_of(chunks) == reference.count_words([content], GPT2.regex)
            number = raw.decode(errors="replace").count("\ufffd")
            assert sum(c.replaced_utf8 for c in chunks) == number


def test_what_ignored_bytes_part_is_joined_wherever_the_text_is_cut(tmp_path: Path) -> None:
    reading = replace(READING, invalid_utf8="ignore", special_tokens=("<|end|>",))
    raw = b"on \xff\xff\xffe, <|e\xffnd|> a\xc3, b<|end\xff\xff\xff\xff\xff\xff\xff\xff|>c" * 9
    file = write(tmp_path / "a.txt", raw)
    documents = raw.decode(errors="ignore").split("<|end|>")
    for chunk_bytes in (1, 7, 30, 1000):
        found = words_of(counted(file, chunk_bytes, reading))
        assert found == reference.count_words(documents, GPT2.regex)


def test_positions_behind_replaced_bytes_are_positions_in_the_file(tmp_path: Path) -> None:
    raw = b"ab\xffcd \xe6\x97 ef\x80\x80\x80gh ij"
    reading = replace(READING, invalid_utf8="replace")
    positions = first_positions(counted(write(tmp_path / "a.txt", raw), 1000, reading))
    assert positions["\ufffd".encode()] == 2
    assert positions[b"cd"] == 3
    assert positions[" \ufffd".encode()] == 5
    assert positions[b" ef"] == 8
    assert positions["\ufffd\ufffd\ufffd".encode()] == 11
    assert positions[b"gh"] == 14
    assert positions[b" ij"] == 16


# ---- JSON lines -----------------------------------------------------------------------------

DOCUMENTS = [
    "one two",
    "",
    "don't",
    "'t",
    " <|endof",
    "text|> é\u2028x",
    "日本\n\nnow",
    '"\\\0',
    "z",
]


def as_lines(documents: list[str], field: str = "text") -> str:
    return "".join(
        json.dumps({"id": number, field: document}, ensure_ascii=bool(number % 2)) + "\n"
        for number, document in enumerate(documents)
    )


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_records_are_documents_that_nothing_joins(tmp_path: Path, suffix: str) -> None:
    expected = Counter(reference.count_words(DOCUMENTS * 5, GPT2.regex, SPECIALS))
    joined = Counter(reference.count_words(["".join(DOCUMENTS * 5)], GPT2.regex, SPECIALS))
    assert expected != joined  # the records must tempt
    file = write(tmp_path / f"a.jsonl{suffix}", as_lines(DOCUMENTS * 5))
    for chunk_bytes in [1, 10, 33, 100, 10_000]:
        chunks = counted(file, chunk_bytes)
        assert words_of(chunks) == expected
        assert sum(chunk.documents for chunk in chunks) == 9 * 5  # one is empty, one cut in two


def test_blank_lines_line_ends_and_marks_around_records_are_not_text(tmp_path: Path) -> None:
    content = '\ufeff{"text": "a"}\r\n\n   \n{"text": "b"}'
    chunks = counted(write(tmp_path / "a.jsonl", content), 5)
    assert words_of(chunks) == {b"a": 1, b"b": 1}
    assert words_of(counted(write(tmp_path / "b.jsonl", "\n\n"), 1000)) == {}


def test_another_field_can_be_the_text(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", as_lines(["a b"], field="content"))
    assert words_of(counted(file, 100, replace(READING, text_field="content"))) == {
        b"a": 1,
        b" b": 1,
    }


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '"text"',
        "{}",
        '{"text": 1}',
        '{"text": null}',
        '{"text": "a"} x',
        '{"text": "\\ud800"}',
        "[" * 100_000,
        "1" * 5000,
    ],
    ids=lambda line: line[:20],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str) -> None:
    good = '{"text": "good"}\n'
    file = write(tmp_path / "a.jsonl", good * 3 + line + "\n" + good)
    for chunk_bytes in (1, 20, 1000):
        with pytest.raises(UnreadableSource, match=f"{3 * len(good)} .*{file.path}") as refusal:
            counted(file, chunk_bytes)
        assert "'text'" in refusal.value.accepted
        assert refusal.value.next_step


def test_replace_mends_lines_too(tmp_path: Path) -> None:
    raw = b'{"text": "a\xff\xfe b"}\n{"text": "c\\ud800d"}\n{"text": "\\ud83d\\ude00"}\n'
    file = write(tmp_path / "a.jsonl", raw)
    chunks = counted(file, 1000, replace(READING, invalid_utf8="replace"))
    documents = ["a\ufffd\ufffd b", "c\ufffdd", "\U0001f600"]
    assert words_of(chunks) == reference.count_words(documents, GPT2.regex)
    assert sum(chunk.replaced_utf8 for chunk in chunks) == 3
    chunks = counted(file, 1000, replace(READING, invalid_utf8="ignore"))
    assert words_of(chunks) == reference.count_words(["a b", "cd", "\U0001f600"], GPT2.regex)
    assert sum(chunk.replaced_utf8 for chunk in chunks) == 3
    given = [b"a\xff\xfe b", "c\ud800d", "\U0001f600"]
    assert count_texts(given, invalid_utf8="ignore").to_mapping() == words_of(chunks)
    with pytest.raises(InvalidUtf8, match=r"byte 11\b"):
        counted(file, 1000)


def test_appending_records_leaves_earlier_chunks_unchanged(tmp_path: Path) -> None:
    def digests(number: int) -> list[str]:
        file = write(tmp_path / "a.jsonl", as_lines([f"document {n}" for n in range(number)]))
        return [result.chunk.digest for result in counted(file, 200)]

    before, after = digests(40), digests(60)
    assert len(before) > 5
    assert after[: len(before) - 1] == before[:-1]


def test_the_same_bytes_as_text_and_as_lines_have_different_names(tmp_path: Path) -> None:
    content = as_lines(["a"])
    names = [
        counted(write(tmp_path / name, content), 100)[0].chunk.digest
        for name in ("a.txt", "a.jsonl")
    ]
    assert len(set(names)) == 2
