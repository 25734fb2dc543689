"""Files encoded sentence by sentence: the marks of each document's own encoding, however cut."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest

from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.frequency_bpe import train_frequency_bpe
from bpeline.tokenizer_core.corpus.sources import find_source_files, sources_of
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.ids_in_memory import count_files
from bpeline.tokenizer_core.shards.shard_formats import BIN
from bpeline.tokenizer_core.shards.shard_job import ShardJob
from bpeline.tokenizer_core.shards.shard_places import shard_place
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import Sentences

SEPARATOR = "\n<|end|>\n"
WORDS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3, b".": 9, "é".encode(): 2}
KINDS: list[Sentences] = ["lines", "punkt"]


def trained(kind: Sentences) -> Tokenizer:
    counts = WordCounts.from_mapping(WORDS, "wordpunct")
    return train_frequency_bpe(counts, 12, sentences=kind, word_sentences="text")


@pytest.fixture(scope="module")
def documents() -> list[str]:
    random_ = random.Random(6)
    pieces = ["low", "lower", "newest.", " ", " ", "\n", ". ", "? ", "Dr. ", "é", "\n\n", "\ufeff"]
    made = ["".join(random_.choices(pieces, k=random_.randint(1, 60))) for _ in range(200)]
    return ["\ufefflow", "   ", "\n", *made, "low\n\ufefflower\n", " "]


@pytest.mark.night
@pytest.mark.parametrize("piece_bytes", [1, 40, 700, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_have_the_ids_of_their_own_encoding(
    kind: Sentences, piece_bytes: int, documents: list[str], tmp_path: Path
) -> None:
    tokenizer = trained(kind)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_bytes(SEPARATOR.join(documents).encode())
    (tmp_path / "in/b.txt").write_bytes("\n".join(documents[:40]).encode())
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (tmp_path / "in/c.jsonl").write_text(lines)
    texts = [*documents, "\n".join(documents[:40]), *documents]
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


def test_the_public_function_does_the_same(documents: list[str], tmp_path: Path) -> None:
    tokenizer = trained("lines")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbflow lower\n\n  \nnewest widest.")
    (ids,) = tokenizer.encode_files(tmp_path / "a.txt", tmp_path / "out")
    shown = [tokenizer.vocab[id_].decode() for id_ in ids.tolist()]
    assert [shown.count(mark) for mark in ("<line/>", "</line>", "<unk>")] == [2, 2, 0]
    assert tokenizer.decode(ids) == "low lower\nnewest widest ."


@pytest.mark.parametrize("piece_bytes", [1, 30, 1 << 20])
@pytest.mark.parametrize("end_of_text", [None, "<|end|>"])
def test_documents_without_words_are_left_out_wherever_they_are_cut(
    piece_bytes: int, end_of_text: str | None, documents: list[str], tmp_path: Path
) -> None:
    counts = WordCounts.from_mapping(WORDS, "whitespace")
    tokenizer = train_char_bpe(counts, 8, special_tokens=["<|end|>"])
    (tmp_path / "a.txt").write_bytes("<|end|>".join(documents).encode())
    encoding = dataclasses.replace(
        file_encoding_of(tokenizer, separator="<|end|>", end_of_text=end_of_text),
        piece_bytes=piece_bytes,
    )
    files = find_source_files(sources_of([tmp_path / "a.txt"]))
    shards = ShardJob(encoding, files, shard_place(tmp_path / "out"), BIN).run(threads=2)
    behind = [] if end_of_text is None else [tokenizer.special_tokens[end_of_text]]
    # The mark that the file begins with is no text.
    texts = [documents[0].removeprefix("\ufeff"), *documents[1:]]
    expected = [ids + behind for ids in map(tokenizer.encode, texts) if ids]
    assert len(expected) < len(documents)
    assert [ids.tolist() for ids in shards] == expected
