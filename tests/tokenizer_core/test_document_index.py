"""Every document of a shard decodes back to its row: bytes, file and id."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from record_files import WRITERS

from bpeline.tokenizer_core import WordCounts, train_char_bpe
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files
from bpeline.tokenizer_core.digests import sealed
from bpeline.tokenizer_core.errors import CorpusChanged, CorruptFile, InvalidOption, MissingSource
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.shard_formats import BIN
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "<|endoftext|>"
OTHER = "<|a|>"
SHARD = 1_000
PIECES = (37, 300, 1 << 22)


@pytest.fixture(scope="module")
def texts(fuzz_texts: list[str]) -> list[str]:
    short = [re.sub(r"<\|endoftext\|>|<\|a\|>|\r", "", text) for text in fuzz_texts[:250]]
    return ["", *short[:120], "a long document " * 250, "", *short[120:], ""]


def packed(content: bytes, ending: str) -> bytes:
    if ending.endswith(".gz"):
        return gzip.compress(content)
    return zstandard.compress(content) if ending.endswith(".zst") else content


def written(
    tokenizer: Tokenizer, folder: Path, out: Path, piece_bytes: int, **options: Any
) -> TokenShards:
    encoding = file_encoding_of(tokenizer, (END, OTHER), END, **options)
    encoding = replace(encoding, piece_bytes=piece_bytes)
    files = find_source_files([Source(str(folder), name="two kinds")])
    return ShardJob(encoding, files, shard_place(out), BIN, SHARD).run(2)


def decoded(tokenizer: Tokenizer, ids: Any) -> str:
    assert ids[-1] == tokenizer.special_tokens[END]
    return tokenizer.decode(ids[:-1])


@pytest.mark.parametrize("piece_bytes", PIECES)
@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_a_document_of_text_is_found_byte_by_byte(
    tokenizer: Tokenizer, texts: list[str], ending: str, piece_bytes: int, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    expected: list[tuple[str, int, int]] = []  # by a slow reading of each file
    for name, one in (("a", texts), ("b", ["small"]), ("c", texts[::-1]), ("d", [""])):
        content = b""
        path = folder / f"{name}{ending}"
        for number, text in enumerate(one):
            separator = (END if number % 3 else OTHER).encode() if number else b""
            content += separator
            if text:
                expected.append((str(path), len(content), len(content) + len(text.encode())))
            content += text.encode()
        path.write_bytes(packed(content, ending))
    shards = written(tokenizer, folder, tmp_path / "out", piece_bytes)
    places = [shards.place(number) for number in range(len(shards))]
    assert [(one.path, one.begin, one.end) for one in places] == expected
    assert {one.source for one in places} == {"two kinds"}
    assert {(one.format, one.compression, one.id) for one in places} == {
        ("text", "gz" if ending.endswith("gz") else None, None)
    }
    for ids, place in [*zip(shards, places, strict=True)][::17]:
        assert place.read().decode() == decoded(tokenizer, ids)
    assert len(shards.records) > 8


@pytest.mark.parametrize("piece_bytes", PIECES)
@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.zst"])
def test_a_json_line_is_found_and_named(
    tokenizer: Tokenizer, texts: list[str], ending: str, piece_bytes: int, tmp_path: Path
) -> None:
    ids: list[Any] = ["", "a", "ü\n\ud800", 0, -7, 1 << 70, 2.5, True, None, ["no"], {"id": 1}]
    rows = []
    for number, text in enumerate(texts):
        row: dict[str, Any] = {"text": text, "n": number}
        if number % 12 < len(ids):
            row = {"id": ids[number % 12], **row}
        rows.append(json.dumps(row, ensure_ascii="\ud800" in str(row.get("id"))))
        if number % 5 == 0:
            rows.append("  \t" if number % 2 else "")
    content = ("\ufeff" + "\r\n".join(rows)).encode()
    (tmp_path / "in").mkdir()
    (tmp_path / f"in/a{ending}").write_bytes(packed(content, ending))
    (tmp_path / f"in/b{ending}").write_bytes(packed(b'{"text": "x", "id": "of b"}', ending))
    shards = written(tokenizer, tmp_path / "in", tmp_path / "out", piece_bytes)
    places = [shards.place(number) for number in range(len(shards))]
    assert (places[-1].id, Path(places[-1].path).name) == ("of b", f"b{ending}")
    filled = [row for row in rows if row.strip() and json.loads(row)["text"]]
    assert len(places) == len(filled) + 1
    for row, ids_, place in zip(filled, shards, places, strict=False):
        said = json.loads(row)
        assert decoded(tokenizer, ids_) == said["text"]
        expected = said.get("id")
        expected = None if isinstance(expected, list | dict) else expected
        assert (place.id, type(place.id)) == (expected, type(expected))
        assert json.loads(content[place.begin : place.end]) == said
    assert json.loads(places[40].read()) == json.loads(filled[40])


@pytest.mark.parametrize("piece_bytes", [*PIECES, 5])
def test_places_are_those_of_the_file_where_bytes_were_replaced(
    tokenizer: Tokenizer, piece_bytes: int, tmp_path: Path
) -> None:
    documents = [b"a\xff", b"\xff\xfe", b"\xf0\x9f", "ü\xffé".encode("latin-1"), b"x", b"\xe2\x82y"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_bytes(END.encode().join(documents * 3))
    shards = written(
        tokenizer, tmp_path / "in", tmp_path / "out", piece_bytes, invalid_utf8="replace"
    )
    assert [shards.place(number).read() for number in range(len(shards))] == documents * 3
    assert [decoded(tokenizer, ids) for ids in shards] == [
        document.decode("utf-8", "replace") for document in documents * 3
    ]


def test_documents_without_a_token_have_no_place(tmp_path: Path) -> None:
    counts = WordCounts.from_mapping(
        dict.fromkeys((b"one", b"two", b"three", b"four"), 9), "whitespace"
    )
    tokenizer = train_char_bpe(counts, 12, special_tokens=[END])
    (tmp_path / "in").mkdir()
    content = END.join([" ", "one", " ", " two", "  ", "   "])
    (tmp_path / "in/a.txt").write_text(content)
    rows = [json.dumps({"text": text, "id": text}) for text in ("three", " ", "", "four")]
    (tmp_path / "in/b.jsonl").write_text("\n".join(rows))
    for piece_bytes in PIECES:
        encoding = replace(file_encoding_of(tokenizer, END, END), piece_bytes=piece_bytes)
        files = find_source_files([Source(str(tmp_path / "in"))])
        shards = ShardJob(encoding, files, shard_place(tmp_path / f"{piece_bytes}"), BIN).run(1)
        places = [shards.place(number) for number in range(len(shards))]
        assert [one.read() for one in places] == [
            b"one",
            b" two",
            rows[0].encode(),
            rows[3].encode(),
        ]
        assert [one.id for one in places] == [None, None, "three", "four"]


def test_the_id_field_is_chosen_and_belongs_to_the_content(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "some", "id": 1, "url": "here"}\n')
    out = tmp_path / "out"
    by_default = tokenizer.encode_files(path, out)
    assert (by_default.place(0).id, by_default.manifest["id_field"]) == (1, "id")
    by_url = tokenizer.encode_files(path, out, id_field="url")
    assert (by_url.place(0).id, by_url.manifest["id_field"]) == ("here", "url")
    assert by_url.records[0].name != by_default.records[0].name
    without = tokenizer.encode_files(path, out, id_field="")
    assert (without.place(0).id, without.manifest["id_field"]) == (None, None)


def test_a_name_that_is_no_text_is_found_again(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "not \udcff\n*.txt"
    path.write_bytes(b"some text")
    shards = tokenizer.encode_files(path, tmp_path / "out")
    assert shards.place(0).path == str(path)
    assert shards.place(0).read() == b"some text"


def test_a_file_that_changed_is_not_taken_for_what_it_was(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text")
    shards = tokenizer.encode_files(path, tmp_path / "out")
    path.write_text("some other text")
    with pytest.raises(CorpusChanged, match=r"\b15\b.*\b9\b"):
        shards.place(0).read()
    path.unlink()
    with pytest.raises(MissingSource):
        shards.place(0).read()
    for number in (-1, 1):
        with pytest.raises(IndexError):
            shards.place(number)


@pytest.mark.parametrize("suffix", [".docs.npy", ".sources.jsonl", ".ids.jsonl"])
def test_a_damaged_index_is_named_and_made_again(
    tokenizer: Tokenizer, suffix: str, tmp_path: Path
) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "out"
    path.write_text('{"text": "some", "id": "first"}\n{"text": "text", "id": "second"}\n')
    tokenizer.encode_files(path, out)
    (file,) = out.glob(f"*{suffix}")
    content = file.read_bytes()
    file.write_bytes(b"\xff" * len(content))
    damaged = TokenShards(out)
    assert tokenizer.decode(damaged[1]) == "text"  # ids do not depend on it
    with pytest.raises(CorruptFile, match=file.name.partition(".")[0]):
        damaged.place(1)
    with pytest.raises(CorruptFile, match=file.name):
        damaged.verify()
    file.write_bytes(content[:-1])
    with pytest.raises(CorruptFile, match="size"):
        TokenShards(out)
    assert tokenizer.encode_files(path, out).place(1).id == "second"
    assert file.read_bytes() == content


def test_records_that_lead_nowhere_are_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path, out = tmp_path / "a.txt", tmp_path / "out"
    path.write_text("some text")
    tokenizer.encode_files(path, out)
    (file,) = out.glob("*.docs.npy")
    content = file.read_bytes()
    for name, value in (("source", 1), ("source", -1), ("begin", 10), ("end", -1), ("id_end", -1)):
        file.write_bytes(content)
        places = np.load(file, mmap_mode="r+")
        places[name] = value
        places.flush()
        with pytest.raises(CorruptFile, match=file.name):
            TokenShards(out).place(0)


# What an earlier version wrote: one shard of two documents, without an index.
EARLIER = {
    "format": "bpeline-tokens",
    "format_version": 1,
    "tokenizer": "918908bb0e5e52f0f5ceb5d4779536aad5efd053a0a813ac469578c8c89103b3",
    "shard_format": "bin",
    "dtype": "uint16",
    "end_of_text": 257,
    "separator": "<|end|>",
    "invalid_utf8": "strict",
    "text_field": "text",
    "files": 1,
    "shard_bytes": 268435456,
    "documents": 2,
    "tokens": 12,
    "bytes": 11,
    "shards": [
        {
            "name": "shard-00000-b23440865618",
            "key": "b2344086561827571d21a08f4df36084a2e37620b3b8f880b4facbb0ec2e18d4",
            "end": 0,
            "tokens": 12,
            "documents": 2,
            "bytes": 11,
            "files": [
                {
                    "name": "shard-00000-b23440865618.bin",
                    "bytes": 24,
                    "sha256": "73f1e58dd6f0460f3d11b3d8620f4b245fd280d44c3715223866ef008615cc38",
                },
                {
                    "name": "shard-00000-b23440865618.idx",
                    "bytes": 24,
                    "sha256": "044804765b2f981c01d15922282d1609d19130234f3b43403974029934e22d03",
                },
            ],
        }
    ],
}


def test_shards_of_an_earlier_version_are_read_and_written_anew(tmp_path: Path) -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" t", 257: b"<|end|>"}
    tokenizer = Tokenizer(vocab, [(b" ", b"t")], ["<|end|>"])
    documents = [[*tokenizer.encode(text), 257] for text in ("to the", "point")]
    out = tmp_path / "out"
    out.mkdir()
    (out / "shard-00000-b23440865618.bin").write_bytes(
        np.array([*documents[0], *documents[1]], "<u2").tobytes()
    )
    (out / "shard-00000-b23440865618.idx").write_bytes(np.array([0, 6, 12], "<u8").tobytes())
    seal = "d6562a2feccd6218acd2a837e93c4e06c02c51c8d20d3da2e1c953840e0b5f7e"
    (out / "manifest.json").write_text(json.dumps({**EARLIER, "seal": seal}))
    assert sealed(EARLIER)["seal"] == seal
    shards = TokenShards(out)
    shards.verify()
    assert [ids.tolist() for ids in shards] == documents
    with pytest.raises(InvalidOption, match="index"):
        shards.place(0)
    (tmp_path / "a.txt").write_text("to the<|end|>point")
    again = tokenizer.encode_files(
        tmp_path / "a.txt", out, separator="<|end|>", end_of_text="<|end|>"
    )
    assert [again.place(number).read() for number in (0, 1)] == [b"to the", b"point"]
    assert len(list(out.iterdir())) == 2 + 3 + 1 + 1


@pytest.mark.night
# One of each reader; that each format holds the same documents is tested in `test_record_files`.
@pytest.mark.parametrize("kind", ["parquet", "arrow_stream", "tsv", "json_objects"])
def test_documents_of_files_of_records_lead_back_to_themselves(
    tokenizer: Tokenizer, tmp_path: Path, kind: str
) -> None:
    """However records are stored, among them empty ones, and one that is longer than a shard."""
    documents = ["one", "", "deux, cafe\u0301\nlignes", "三", "x" * 9_000, 'a "quoted" one', "z"]
    path = WRITERS[kind](tmp_path, documents)
    given = [document for document in documents if document]
    shards = tokenizer.encode_files(path, tmp_path / "out", shard_bytes=4_000)
    places = [shards.place(number) for number in range(len(shards))]
    assert [place.read().decode() for place in places] == given
    assert {(place.path, place.field) for place in places} == {(str(path), "text")}
    assert [tokenizer.decode(shards[number]) for number in range(len(shards))] == given
