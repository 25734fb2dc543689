"""Files into token shards, or into memory, and back to documents: the ids of encode."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.frequency_bpe import train_frequency_bpe
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import Source, find_source_files, sources_of
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    InvalidSpecialToken,
    InvalidTokenizer,
    InvalidUtf8,
    MissingSource,
)
from bpeline.tokenizer_core.shards.file_encoding import FileEncoding, file_encoding_of
from bpeline.tokenizer_core.shards.ids_in_memory import count_files, gather_files
from bpeline.tokenizer_core.shards.shard_formats import BIN
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.tokenizer_spec import Sentences
from tests.tokenizer_core.test_shard_job import written

MakeTokenizer = Callable[..., Tokenizer]
END = "<|endoftext|>"


@pytest.fixture
def documents(fuzz_texts: list[str]) -> list[str]:
    joined = [" and ".join(fuzz_texts[i : i + 4]) for i in range(0, 1_200, 4)]
    return [text.replace(END, "").replace("\r", "") for text in joined]


@pytest.mark.parametrize("chunk_bytes", [50, 1_000, 1 << 22])
@pytest.mark.parametrize("pattern", ["gpt2", r"\p{L}+|[^\p{L}]{1,3}"])
def test_documents_between_separators_come_back(
    trained: MakeTokenizer,
    documents: list[str],
    pattern: str,
    chunk_bytes: int,
    tmp_path: Path,
) -> None:
    tokenizer = trained(pattern)
    texts = [*documents[:100], "", "", *documents[100:], ""]
    written(tmp_path / "in/a.txt", END.join(texts).encode())
    written(tmp_path / "in/b.txt", (END + END.join(documents[::-1])).encode())
    written(tmp_path / "in/empty.txt", b"")
    end = tokenizer.special_tokens[END]
    reading = ReadOptions(tokenizer.pattern, (END,))
    encoding = FileEncoding(
        tokenizer.encoder, tokenizer.digest, reading, end, "uint16", chunk_bytes
    )
    files = find_source_files([Source(os.fspath(tmp_path / "in"))])
    shards = ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN).run(threads=2)
    by_method = tokenizer.encode_files(
        tmp_path / "in", tmp_path / "out", separator=END, end_of_text=END
    )
    assert by_method.records == shards.records
    filled = [text for text in documents if text]
    expected = [[*tokenizer.encode(text), end] for text in [*filled, *filled[::-1]]]
    assert [ids.tolist() for ids in shards] == expected
    assert len(shards) == len(expected)
    assert shards[len(shards) - 1].tolist() == expected[-1]
    assert shards.manifest["tokens"] == sum(map(len, expected))
    assert shards.manifest["bytes"] == sum(len(text.encode()) for text in filled) * 2
    assert shards.tokenizer_digest == tokenizer.digest
    with pytest.raises(IndexError):
        shards[len(shards)]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_each_json_line_is_a_document(
    tokenizer: Tokenizer, documents: list[str], ending: str, tmp_path: Path
) -> None:
    lines = "\n".join(json.dumps({"body": text}) for text in ["", *documents, ""]).encode()
    content = gzip.compress(lines) if ending.endswith("gz") else lines
    path = written(tmp_path / f"in{ending}", content)
    shards = tokenizer.encode_files([path], tmp_path / "out", text_field="body")
    expected = [tokenizer.encode(text) for text in documents if text]
    assert [ids.tolist() for ids in shards] == expected
    assert shards[3].dtype == np.uint16


def test_a_file_without_separator_is_one_document(
    tokenizer: Tokenizer, mixed_text: str, tmp_path: Path
) -> None:
    wide = Tokenizer(
        {**tokenizer.vocab, 70_000: b"\xff\xff\xff\xff"}, tokenizer.merges, (), tokenizer.pattern
    )
    path = written(tmp_path / "a.txt", mixed_text.encode())
    shards = wide.encode_files(os.fspath(path), tmp_path / "out", shard_bytes=1_000)
    assert len(shards) == len(shards.records) == 1
    assert shards[0].tolist() == wide.encode(mixed_text)
    assert shards[0].dtype == np.uint32


def test_other_settings_make_other_shards(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"text")
    plain = tokenizer.encode_files([path], tmp_path / "out")
    closed = tokenizer.encode_files([path], tmp_path / "out", end_of_text=END)
    assert plain.records != closed.records
    assert closed[0].tolist() == [*tokenizer.encode("text"), tokenizer.special_tokens[END]]


def test_another_separator_makes_other_documents_of_the_same_files(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.txt", b"one--two==three--four")
    for separator, texts in (
        (None, ["one--two==three--four"]),
        ("--", ["one", "two==three", "four"]),
        ("==", ["one--two", "three--four"]),
        (["--", "=="], ["one", "two", "three", "four"]),
    ):
        shards = tokenizer.encode_files([path], tmp_path / "out", separator=separator)
        assert [ids.tolist() for ids in shards] == [tokenizer.encode(text) for text in texts]
        assert shards.manifest["separator"] == separator


def test_damage_is_found(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"some text")
    out = tmp_path / "out"
    tokenizer.encode_files([path], out)
    (ids,) = out.glob("*.bin")
    ids.write_bytes(ids.read_bytes()[:-1])
    with pytest.raises(CorruptFile, match="size"):
        TokenShards(out)
    repaired = tokenizer.encode_files([path], out)
    assert repaired[0].tolist() == tokenizer.encode("some text")
    repaired.verify()
    ids.write_bytes(bytes([ids.read_bytes()[0] ^ 1]) + ids.read_bytes()[1:])
    damaged = TokenShards(out)
    with pytest.raises(CorruptFile, match=ids.name):
        damaged.verify()
    tokenizer.encode_files([path], out).verify()
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["seal"]
    for change, error in (
        ({"format": "x"}, CorruptFile),
        ({"format_version": 3}, InvalidTokenizer),
        ({"document_index": 2}, InvalidTokenizer),
        ({"document_index": None}, InvalidTokenizer),
        ({"format_version": 1, "document_index": None}, CorruptFile),
        ({"dtype": "float"}, CorruptFile),
        ({"shards": [{"name": "a"}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "name": "../a"}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "tokens": -1}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "files": []}]}, CorruptFile),
        ({"shards": [{**manifest["shards"][0], "files": [{"name": "../a"}]}]}, CorruptFile),
        ({"shards": None}, CorruptFile),
        ({"shard_format": "parquet"}, CorruptFile),
        ({"shard_format": "odd"}, InvalidOption),
    ):
        (out / "manifest.json").write_text(json.dumps({**manifest, **change}))
        with pytest.raises(error):
            TokenShards(out)


def test_what_cannot_be_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", b"text")
    out = tmp_path / "out"
    with pytest.raises(InvalidSpecialToken):
        tokenizer.encode_files([path], out, end_of_text="<no>")
    for wrong in ({"threads": 0}, {"shard_bytes": 0}):
        with pytest.raises(InvalidOption):
            tokenizer.encode_files([path], out, **wrong)  # type: ignore[arg-type]
    with pytest.raises(MissingSource):
        tokenizer.encode_files([tmp_path / "none"], out)
    invalid = written(tmp_path / "b.txt", b"a\xff")
    with pytest.raises(InvalidUtf8):
        tokenizer.encode_files([invalid], out)
    assert not list(out.glob("*"))
    replaced = tokenizer.encode_files([invalid], out, invalid_utf8="replace")
    assert tokenizer.decode(replaced[0]) == "a\ufffd"
    other = Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])
    with pytest.raises(InvalidOption, match=tokenizer.digest[:12]):
        other.encode_files([path], out)
    assert tokenizer.decode(TokenShards(out)[0]) == "a\ufffd"


# Into memory


END = "<|endoftext|>"


@pytest.fixture(scope="module")
def files(fuzz_texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    texts = [text.replace(END, "").replace("\r", "") for text in fuzz_texts[:200]]
    (folder / "a.txt").write_bytes(END.join(texts).encode())
    (folder / "b.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    (folder / "c.txt").write_bytes(b"")
    (folder / "d.txt").write_bytes(b"one document " * 3000)
    return folder


@pytest.mark.parametrize("end_of_text", [None, END])
def test_ids_are_those_of_shards(
    tokenizer: Tokenizer, files: Path, end_of_text: str | None, tmp_path: Path
) -> None:
    shards = tokenizer.encode_files(
        files, tmp_path / "out", separator=END, end_of_text=end_of_text, shard_bytes=2000
    )
    said: list[int] = []
    ids = tokenizer.encode_files_to_numpy(
        files, separator=END, end_of_text=end_of_text, on_progress=said.append
    )
    assert [one.tolist() for one in ids] == [one.tolist() for one in shards]
    assert ids.ids.dtype == np.uint16
    assert np.array_equal(ids.ids, np.concatenate([ids[place] for place in range(len(ids))]))
    assert sum(said) == sum(path.stat().st_size for path in files.iterdir())


def test_compressed_files_hold_more_ids_than_bytes(tokenizer: Tokenizer, tmp_path: Path) -> None:
    text = b"one document, and another. " * 20_000
    (tmp_path / "plain.txt").write_bytes(text)
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(text))
    expected = tokenizer.encode_files_to_numpy(tmp_path / "plain.txt", separator=END)
    assert len(expected.ids) > 10 * packed.stat().st_size
    found = find_source_files(sources_of(packed))
    encoding = replace(file_encoding_of(tokenizer, END), piece_bytes=10_000)
    ids = gather_files(encoding, found, 2)
    assert np.array_equal(ids.ids, expected.ids)
    ids.ids[0] = 7  # it is the caller's alone
    nothing = tokenizer.encode_files_to_numpy(_empty(tmp_path), separator=END)
    assert (len(nothing), len(nothing.ids)) == (0, 0)


@pytest.mark.parametrize("separators", [(END,), (END, "<|pad|>"), ("<|pad|>",)])
def test_added_tokens_are_found_between_separators(
    separators: tuple[str, ...], tmp_path: Path
) -> None:
    """As its library does; where all of them are separators, none is left to be found."""
    counts = WordCounts.from_mapping({b"end": 9, b"of": 9, b"text": 9, b"pad": 9})
    made = train_bpe(counts, 270, special_tokens=[END, "<|pad|>"])
    made.save(tmp_path / "tokenizer.json", "hf")
    imported = Tokenizer.load(tmp_path / "tokenizer.json")
    parts = ["a<|pad|>b", "<|endof<|pad|>text|>", "<|pad|><|pad|>", "<|endoftext", "|>", "", "c"]
    text = "x <|pa" + END.join(parts)
    (tmp_path / "text.txt").write_text(text)
    documents = re.split("|".join(map(re.escape, separators)), text)
    ids = imported.encode_files_to_numpy(tmp_path / "text.txt", separator=separators)
    assert [one.tolist() for one in ids] == [imported.encode(one) for one in documents if one]


def _empty(folder: Path) -> Path:
    (folder / "empty.txt").write_bytes(b"")
    return folder / "empty.txt"


def test_ids_do_not_depend_on_threads_and_pieces(tokenizer: Tokenizer, files: Path) -> None:
    found = find_source_files(sources_of(files))
    whole = gather_files(file_encoding_of(tokenizer, END), found, 1)
    for threads, piece_bytes in ((2, 100), (3, 37)):
        encoding = replace(file_encoding_of(tokenizer, END), piece_bytes=piece_bytes)
        parted = gather_files(encoding, found, threads)
        assert np.array_equal(parted.ids, whole.ids)
        assert np.array_equal(parted.edges, whole.edges)


def test_it_is_a_sequence_of_documents(tokenizer: Tokenizer, files: Path) -> None:
    ids = tokenizer.encode_files_to_numpy(files / "d.txt")
    assert len(ids) == 1
    assert ids[-1].tolist() == ids[0].tolist() == tokenizer.encode("one document " * 3000)
    assert [one.tolist() for one in ids[:1]] == [ids[0].tolist()]
    with pytest.raises(IndexError):
        ids[1]


def test_an_empty_file_has_no_documents(tokenizer: Tokenizer, files: Path) -> None:
    ids = tokenizer.encode_files_to_numpy(files / "c.txt", end_of_text=END)
    assert (len(ids), len(ids.ids), list(ids)) == (0, 0, [])


def test_what_cannot_be_read_is_refused(tokenizer: Tokenizer, files: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"fine \xff not")
    with pytest.raises(InvalidUtf8):
        tokenizer.encode_files_to_numpy(broken)
    replaced = tokenizer.encode_files_to_numpy(broken, invalid_utf8="replace")
    assert tokenizer.decode(replaced[0]) == "fine \ufffd not"
    with pytest.raises(MissingSource):
        tokenizer.encode_files_to_numpy(tmp_path / "none.txt")
    with pytest.raises(InvalidOption):
        tokenizer.encode_files_to_numpy(files, threads=0)


# Sentence by sentence


SEPARATOR = "\n<|end|>\n"
WORDS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, b".": 9, "é".encode(): 2}
KINDS: list[Sentences] = ["lines", "punkt"]


def trained(kind: Sentences) -> Tokenizer:
    counts = WordCounts.from_mapping(WORDS, "wordpunct")
    return train_frequency_bpe(counts, 12, sentences=kind, word_sentences="text")


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    random_ = random.Random(6)
    pieces = ["low", "lower", "newest.", " ", " ", "\n", ". ", "? ", "Dr. ", "é", "\n\n", "\ufeff"]
    made = ["".join(random_.choices(pieces, k=random_.randint(1, 60))) for _ in range(200)]
    return ["\ufefflow", "   ", "\n", *made, "low\n\ufefflower\n", " "]


@pytest.mark.night
@pytest.mark.parametrize("piece_bytes", [1, 40, 700, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_have_the_ids_of_their_own_encoding(
    kind: Sentences, piece_bytes: int, sentences: list[str], tmp_path: Path
) -> None:
    tokenizer = trained(kind)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_bytes(SEPARATOR.join(sentences).encode())
    (tmp_path / "in/b.txt").write_bytes("\n".join(sentences[:40]).encode())
    lines = "".join(json.dumps({"text": text}) + "\n" for text in sentences)
    (tmp_path / "in/c.jsonl").write_text(lines)
    texts = [*sentences, "\n".join(sentences[:40]), *sentences]
    expected = [ids for ids in map(tokenizer.encode, texts) if ids]
    encoding = dataclasses.replace(
        file_encoding_of(tokenizer, separator=SEPARATOR), piece_bytes=piece_bytes
    )
    files = find_source_files(sources_of([tmp_path / "in"]))
    shards = ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN, shard_bytes=900).run(
        threads=2
    )
    assert [ids.tolist() for ids in shards] == expected
    begin, end = (tokenizer.token_to_id(mark) for mark in ("<line/>", "</line>"))
    for ids in expected:
        assert ids[0] == begin
        assert ids[-1] == end
        assert ids.count(begin) == ids.count(end)
    counted = list(count_files(encoding, files))
    assert sum(one.tokens for one in counted) == sum(map(len, expected))
    assert sum(one.documents for one in counted) == len(expected)


def test_the_public_function_does_the_same(sentences: list[str], tmp_path: Path) -> None:
    tokenizer = trained("lines")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbflow lower\n\n  \nnewest widest.")
    (ids,) = tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "out")
    shown = [tokenizer.vocab[id_].decode() for id_ in ids.tolist()]
    assert [shown.count(mark) for mark in ("<line/>", "</line>", "<unk>")] == [2, 2, 0]
    assert tokenizer.decode(ids) == "low lower\nnewest widest ."


@pytest.mark.parametrize("piece_bytes", [1, 30, 1 << 20])
@pytest.mark.parametrize("end_of_text", [None, "<|end|>"])
def test_documents_without_words_are_left_out_wherever_they_are_cut(
    piece_bytes: int, end_of_text: str | None, sentences: list[str], tmp_path: Path
) -> None:
    counts = WordCounts.from_mapping(WORDS, "whitespace")
    tokenizer = train_char_bpe(counts, 8, special_tokens=["<|end|>"])
    (tmp_path / "a.txt").write_bytes("<|end|>".join(sentences).encode())
    encoding = dataclasses.replace(
        file_encoding_of(tokenizer, separator="<|end|>", end_of_text=end_of_text),
        piece_bytes=piece_bytes,
    )
    files = find_source_files(sources_of([tmp_path / "a.txt"]))
    shards = ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN).run(threads=2)
    behind = [] if end_of_text is None else [tokenizer.special_tokens[end_of_text]]
    # The mark that the file begins with is no text.
    texts = [sentences[0].removeprefix("\ufeff"), *sentences[1:]]
    expected = [ids + behind for ids in map(tokenizer.encode, texts) if ids]
    assert len(expected) < len(sentences)
    assert [ids.tolist() for ids in shards] == expected
