"""What sources are taken for, by their names and by how they begin, and what is advised."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import shlex
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from bpeline.tokenizer_core.corpus import (
    HEAD,
    Source,
    extension_for,
    find_source_files,
    search_sources,
)
from bpeline.tokenizer_core.counting import count_texts, count_words
from bpeline.tokenizer_core.errors import CorpusError, InvalidUtf8, UnreadableSource

RECORD = '{"id": 1, "text": "one"}'
TABLE = pa.table({"text": ["one", "two"], "id": [1, 2]})
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
TEXTS = [
    ("Some text.\nMore of it.\n", ".txt"),
    ("\ufeff" + RECORD + "\n", ".jsonl"),
    (RECORD, ".jsonl"),
    ("\n" + RECORD + "\n" + RECORD, ".jsonl"),
    (json.dumps({"text": "x" * 2 * HEAD}), ".jsonl"),
    ('{"text": "' + "字" * HEAD + '"}', ".jsonl"),  # fewer characters than bytes
    (json.dumps({"text": "x " * HEAD}, indent=1), ".json"),
    (f'{{"text": "one", "n": {"9" * 5_000}}}\n', ".jsonl"),
    ('{"text": null}\n', ".jsonl"),  # an error of its row, not raw text
    (json.dumps([json.loads(RECORD)]), ".json"),
    (json.dumps([json.loads(RECORD)], indent=1), ".json"),
    (json.dumps(json.loads(RECORD), indent=1), ".json"),
    (json.dumps([{"text": "x" * 2 * HEAD}]), ".json"),
    ("id,text\n1,one\n", ".csv"),
    ('"id","text"\r\n1,"o,ne"\r\n', ".csv"),
    ("id\ttext\n1\tone\n", ".tsv"),
    ("", ".txt"),
    ("text\n", ".txt"),  # one word is no table
    ("a text, of course, but no table\n", ".txt"),
    ("text, and more\n" * 9, ".txt"),
    ("\n\ntext, and more, and\nother things\n", ".txt"),
    ("more\t text of it\ttext\n", ".txt"),
    ("[1] In the beginning\n", ".txt"),
    ("[{x}] is a set\n", ".txt"),
    ("{x} is a set\n", ".txt"),
    ("{" * 200_000, ".txt"),
    ("def f(x):\n    return {x: [x]}\n", ".txt"),
    ("one, two and " * 20_000, ".txt"),  # beyond what csv takes for a field
    ("a bar of progress\ris drawn, again\n", ".txt"),
]


@pytest.mark.parametrize(("text", "extension"), TEXTS)
def test_text_and_records_are_known_by_their_first_line(text: str, extension: str) -> None:
    assert extension_for(text.encode()[:HEAD], "text") == extension


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("text", "extension"), TEXTS)
def test_so_they_are_when_compressed(text: str, extension: str, compression: str) -> None:
    compressed = COMPRESSIONS[compression](text.encode())
    assert extension_for(compressed[:HEAD], "text") == extension + compression


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("padding", [b"", bytes(5_000)])
def test_members_are_one_text(compression: str, padding: bytes) -> None:
    compress = COMPRESSIONS[compression]
    line = json.dumps({"text": "words " * 30_000}).encode()
    parts = [b"", line[:65_000], line[65_000:]]
    if compression == ".zst":  # its reader takes no padding
        padding = b""
    members = padding.join(map(compress, parts))
    assert extension_for(members[:HEAD], "text") == ".jsonl" + compression


def test_files_of_columns_are_known() -> None:
    parquet, stream, file = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pq.write_table(TABLE, parquet)
    with pa.ipc.new_stream(stream, TABLE.schema) as writer:
        writer.write_table(TABLE)
    with pa.ipc.new_file(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    seen = [extension_for(one.getvalue(), "text") for one in (parquet, stream, file)]
    assert seen == [".parquet", ".arrow", ".arrow"]


def test_damaged_compression_is_left_to_whoever_reads_it() -> None:
    for extension, compress in COMPRESSIONS.items():
        damaged = compress(RECORD.encode())[:6] + b"\xff" * 50
        assert extension_for(damaged, "text") == ".txt" + extension


def test_a_bomb_is_not_set_off() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    with pytest.raises(UnreadableSource, match="Zstandard"):
        extension_for(bomb[:HEAD], "text")


@pytest.mark.parametrize("text", ['{"id": 1, "body": "one"}\n', '[{"id": 1, "body": "one"}]'])
def test_objects_without_the_member_are_refused_naming_theirs(text: str) -> None:
    with pytest.raises(UnreadableSource, match="'text'") as refusal:
        extension_for(text.encode(), "text")
    assert "'id', 'body'" in refusal.value.accepted
    assert extension_for(text.encode(), "body") == extension_for(text.encode(), None) != ".txt"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\0b", "binary"),
        (b"%PDF-1.7", "PDF"),
        (gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "gzip"),
    ],
)
def test_what_is_no_corpus_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(UnreadableSource, match=said):
        extension_for(content, "text")


# ---- files -----------------------------------------------------------------------------------


def tar_of(text: bytes, format: int = tarfile.GNU_FORMAT) -> bytes:
    packed, member = io.BytesIO(), tarfile.TarInfo("inner.txt")
    member.size = len(text)
    with tarfile.open(fileobj=packed, mode="w", format=format) as archive:
        archive.addfile(member, io.BytesIO(text))
    return packed.getvalue()


def parquet_of(text: str, column: str = "text") -> bytes:
    packed = io.BytesIO()
    pq.write_table(pa.table({"id": ["1"], column: [text]}), packed)
    return packed.getvalue()


WORDS = "a naïve text of words, twice: words\n"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
# Name → content, what is said of it, and the file that its advice makes.
WRONG: dict[str, tuple[bytes, str, str]] = {
    "tar.txt.gz": (gzip.compress(tar_of(WORDS.encode())), "tar.*gzip", "*.d/*"),
    "tar.md": (tar_of(WORDS.encode(), tarfile.USTAR_FORMAT), "tar archive", "*.d/*"),
    "pointer.txt": (LFS, "Git LFS", ""),
    "pointer.bz2": (LFS, "Git LFS", ""),
    "pointer.jsonl": (LFS, "Git LFS", ""),
    "pointer.parquet": (LFS, "Git LFS", ""),
    "annex.csv": (b"/annex/objects/SHA256E-s9--4d7a.csv\n", "git-annex", ""),
    "16.txt": (WORDS.encode("utf-16-le"), "UTF-16LE", "16.utf8.txt"),
    "16.csv.gz": (
        gzip.compress(f'text\n"{WORDS}"\n'.encode("utf-16-be")),
        "UTF-16BE.*gzip",
        "*.utf8.csv",
    ),
    "32.jsonl": (json.dumps({"text": WORDS}).encode("utf-32-le"), "UTF-32LE", "32.utf8.jsonl"),
    "mark.txt": (WORDS.encode("utf-16"), "UTF-16", "mark.utf8.txt"),
    "packed.txt": (gzip.compress(WORDS.encode()), "gzip", "packed.txt.gz"),
    "plain.txt.zst": (WORDS.encode(), "text", "plain.txt.zst.txt"),
    "table.txt": (parquet_of(WORDS), "Parquet", "table.txt.parquet"),
    "text.arrow": (WORDS.encode(), "text", "text.arrow.txt"),
}


def typed(error: CorpusError, folder: Path) -> None:
    """Type what an error advises."""
    (command,) = re.findall(r"type `(.*?)`", error.next_step, re.DOTALL)
    subprocess.run(["bash", "-ec", command], cwd=folder, check=True)


SAYS = {
    ".bz2": "bzip2", ".jsonl": "JSON lines", ".parquet": "Parquet", ".csv": "CSV",
    ".zst": "Zstandard", ".arrow": "Arrow",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_name_that_contradicts_its_content_is_an_error_that_says_both(
    name: str, tmp_path: Path
) -> None:
    content, said, new = WRONG[name]
    (tmp_path / name).write_bytes(content)
    for policy in ("strict", "replace"):
        for path in (tmp_path, tmp_path / name, tmp_path / f"*{Path(name).suffix}"):
            if path != tmp_path or not name.endswith((".csv", ".bz2", ".csv.gz")):
                with pytest.raises(CorpusError, match=f"{name}.*{said}") as refusal:
                    count_words(path, invalid_utf8=policy)
    if "UTF" not in said:
        assert SAYS.get(Path(name).suffix, "text") in refusal.value.happened
    if said not in ("text", "Parquet", "gzip"):
        with pytest.raises(UnreadableSource, match=said):
            extension_for(content, "text")
    if said != "text":
        (tmp_path / "no extension").write_bytes(content)
        with pytest.raises(CorpusError, match=said.split(".*")[-1]):
            count_words(tmp_path / "no extension")
    if new:
        typed(refusal.value, tmp_path)
        (made,) = tmp_path.glob(new)
        assert count_words(made).to_mapping() == count_texts([WORDS]).to_mapping()


@pytest.mark.parametrize("name", ["a.ndjson", "a.jl", "a.jsonlines", "a.NDJSON", "a", "a.dump"])
@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
def test_json_lines_are_read_as_such_whatever_they_are_called(
    name: str, compression: str, tmp_path: Path
) -> None:
    lines = f"{RECORD}\n{RECORD}\n".encode()
    path = tmp_path / f"{name}{compression}"
    path.write_bytes(COMPRESSIONS[compression](lines) if compression else lines)
    for pattern in {path, path if "." not in name or "dump" in name else tmp_path}:
        assert count_words(pattern).to_mapping() == {b"one": 2}
    (file,) = find_source_files([Source(str(path))])
    assert file.was_text_once, "nothing that was counted of it before is of use"


def test_julia_and_what_is_included_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.jl").write_text("module A\nend\n")
    (tmp_path / "b.log").write_text(RECORD)
    found = search_sources([Source(str(tmp_path), include=("*.log",))]).files
    assert [(file.format, file.was_text_once) for file in found] == [("text", False)] * 2


ENCODED = {
    "CP1252": "Le café était fermé à l’été, où êtes-vous allés déjà ? ",
    "CP1250": "Dziękuję bardzo, proszę państwa, będę jutro w domu, może później. ",
    "CP1251": "Привет, как дела? Мы идём домой и поём. ",
    "KOI8-R": "Привет, как дела? Мы идём домой и поём. ",
    "CP1253": "Καλημέρα κόσμε, τι κάνετε σήμερα εδώ; ",
    "CP932": "これは日本語の文章です。今日は天気がいいですね。",
    "EUC-JP": "これは日本語の文章です。今日は天気がいいですね。",
    "CP949": "안녕하세요. 오늘은 날씨가 좋습니다. ",
    "GB18030": "今天天气很好，我们一起去公园，他说这是不错的主意。我在中国有很多朋友。",
    "BIG5": "今天天氣很好，我們一起去公園，他說這是不錯的主意。我在中國有很多朋友。",
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_the_likely_encoding_is_said_and_how_sure_that_is(encoding: str, tmp_path: Path) -> None:
    text = ENCODED[encoding] * 3
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    with pytest.raises(InvalidUtf8, match=encoding) as refusal:
        count_words(tmp_path)
    assert "perhaps" not in refusal.value.happened
    typed(refusal.value, tmp_path)
    assert (tmp_path / "a.utf8.txt").read_text() == text
    (tmp_path / "a.txt").write_bytes(text[:9].encode(encoding))
    with pytest.raises(InvalidUtf8, match="perhaps"):
        count_words(tmp_path / "a.txt")


@pytest.mark.parametrize("content", [WORDS.encode() * 9 + b"\xff\xfe", b"\x80\x81\x98\x9d" * 99])
def test_what_no_program_converts_is_advised_to_be_replaced(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InvalidUtf8) as refusal:
        count_words(tmp_path)
    assert "`--invalid-utf8 replace`" in refusal.value.next_step
    count_words(tmp_path, invalid_utf8="replace")


# Tables whose column `text` is not there, each with what their advice makes of them.
TABLES: dict[str, tuple[bytes, str]] = {
    "semicolons.csv": (b'id;text\n1;"one; two"\n', "one; two"),
    "bars.tsv": (b"id|text\n1|one\n", "one"),
    "tabs.csv": (b"id\ttext\n1\tone\n", "one"),
    "no-names.csv": (b"1,one two three\n2,four\n", "one two threefour"),
    "no-names.tsv.gz": (gzip.compress(b"0.5\tone two\n1\tsix\n"), "one twosix"),
    "twice.csv": (b"id,text,text\n1,one,two\n", "one"),
    "thrice.tsv": (b"text\ttext\ttext\none\ttwo\tthree\n", "one"),
    "blank.csv": (b"id, text\n1,one\n", "one"),
    "capital.csv": (b"id,Text,more\n1,one,longer than that\n", "one"),
    "long.csv": (b"id,body\n1,one two\n", "one two"),
    "member.jsonl": (b'{"id": "1", "body": "one two", "n": 5}\n', "one two"),
    "member.json": (b'[{"id": "1", "body": "one two"}]', "one two"),
    "blank.parquet": (parquet_of("one", " text"), "one"),
    "usual.parquet": (parquet_of("one", "content"), "one"),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_advice_about_a_missing_column_works_when_it_is_typed(
    name: str, tmp_path: Path
) -> None:
    content, text = TABLES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableSource, match=r"column|field") as refusal:
        count_words(tmp_path / name)
    field, made = "text", tmp_path / name
    if option := re.fullmatch(r"type `--text-field (.*)`", refusal.value.next_step):
        (field,) = shlex.split(option[1])
    else:
        typed(refusal.value, tmp_path)
        (made,) = tmp_path.glob("*.new.*")
    found = count_words(made, text_field=field).to_mapping()
    assert sum(len(word) * count for word, count in found.items()) == len(text)
