"""Tokens of one chunk and of one document, against every document's words merged one by one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpus_files import write

from bpeline.registry.catalogue import ChunkRecord
from bpeline.registry.tokens import places as token_places
from bpeline.registry.tokens.screening import FEWEST_DOCUMENTS, Screening, TrainedOn, screen
from bpeline.registry.word_counts import ShardRef, WordCountStore
from bpeline.registry.word_counts.corpus_records import RecordedFile
from bpeline.registry.word_counts.shard_records import shard_key
from bpeline.registry.word_counts.shards import ShardFiles
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import SplitPattern, Tokenizer, train_bpe
from bpeline.tokenizer_core.corpus import chunking
from bpeline.tokenizer_core.corpus.chunking import plan_chunk_groups, read_chunks
from bpeline.tokenizer_core.corpus.documents import ChunkText, documents_between
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.counting.chunk_counts import count_chunk
from bpeline.tokenizer_core.evaluation.tokens_in_use import token_use

END = "<|end|>"
PATTERN = SplitPattern.parse(r"\S+|\s+")
READING = ReadOptions(PATTERN, (END,))
# Words that share parts: what is learned of them comes about in several words.
PIECES = ["ab", "cd", "xy", "zz", "ef", "a", "q", "é", "aba", "cdc"]

OTHERS = ["b"] * FEWEST_DOCUMENTS  # documents without a token; of too few nothing is told


class Corpus:
    """A counted corpus of a few files, and what its documents made."""

    def __init__(
        self, folder: Path, files: Mapping[str, bytes], reading: ReadOptions, chunk_bytes: int,
        table_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.workspace = Workspace.open(folder / "workspace")
        self.reading, self.chunk_bytes = reading, chunk_bytes
        self.records: list[RecordedFile] = []
        self.files: dict[str, SourceFile] = {}
        refs, base = [], 0
        store = WordCountStore(self.workspace)
        (folder / "files").mkdir()
        for name, content in files.items():
            file = write(folder / "files" / name, content)
            self.files[file.path] = file
            records = []
            for group in plan_chunk_groups([file], chunk_bytes):
                for chunk, text in read_chunks(group, reading, chunk_bytes):
                    bounds = {} if table_bytes is None else {"table_bytes": table_bytes}
                    counts = count_chunk(chunk, text, reading, **bounds)
                    refs.append(ShardRef(store.put(counts, reading.digest), base + chunk.begin))
                    record = ChunkRecord(chunk.digest, chunk.begin, chunk.end, chunk.ordinal)
                    records.append(record)
            base += records[-1].end
            self.records.append(RecordedFile(file.path, tuple(records)))
        self.words = store.open_table(store.combine(refs))

    def screened(self, tokenizer: Tokenizer, unchanged: bool) -> Screening:
        use = token_use(tokenizer, self.words)
        known = self.files if unchanged else {}
        reading = replace(self.reading, chunk_bytes=self.chunk_bytes)
        trained = TrainedOn(self.words, use, self.records, reading, known)
        return screen(tokenizer, self.workspace, trained)

    def made(self, tokenizer: Tokenizer) -> tuple[set[int], set[int]]:
        """The reference: ids that come about in one chunk, and in one document of the corpus."""
        chunks: Counter[int] = Counter()
        documents: Counter[int] = Counter()
        for file in self.files.values():
            for group in plan_chunk_groups([file], self.chunk_bytes):
                for chunk, text in read_chunks(group, self.reading, self.chunk_bytes):
                    in_chunk: set[int] = set()
                    spans, _ = documents_between(text, self.reading.special_bytes)
                    for span in spans:
                        alone = replace_documents(text, span)
                        words = count_chunk(chunk, alone, self.reading).counts.words()
                        merges = [m for w in words for m in tokenizer.explainer.token(w).merges]
                        ids = {tokenizer.token_to_id(m.left + m.right) for m in merges}
                        documents.update(ids)
                        in_chunk |= ids
                    chunks.update(in_chunk)
        once = {id_ for id_, number in chunks.items() if number == 1}
        return once, {id_ for id_, number in documents.items() if number == 1} & once


def never(*_: object) -> object:
    raise AssertionError("a whole chunk is read")


def replace_documents(text: ChunkText, span: object) -> ChunkText:
    return replace(text, documents=np.array([span], np.int64))


def random_documents(random_: random.Random, number: int) -> list[str]:
    """Documents with words of their own, words of few and words of all; several are empty."""
    texts = []
    for at in range(number):
        own = ["".join(random_.choices(PIECES, k=3)) for _ in range(random_.choice([0, 0, 2]))]
        shared = ["".join(random_.choices(PIECES, k=2)) for _ in range(2)]
        several = [f"n{at // 3}", "".join(PIECES[at % 4 : at % 4 + 3])]
        words = random_.choices(own + shared + several, k=random_.choice([0, 3, 30, 300]))
        texts.append(" ".join(words))
    return texts


def written(name: str, texts: list[str], separator: str = END) -> bytes:
    if ".jsonl" in name:
        return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    return separator.join(texts).encode()


@pytest.mark.parametrize(("seed", "held_out"), [(0, 0.0), (1, 0.0), (2, 0.3), (3, 0.3)])
@pytest.mark.parametrize(
    "names", [["a.txt", "b.txt"], ["a.jsonl", "b.txt"], ["a.txt.gz", "b.jsonl.zst", "c.txt"]]
)
def test_tokens_of_one_place_are_those_whose_merges_fire_there(
    tmp_path: Path, seed: int, held_out: float, names: list[str]
) -> None:
    random_ = random.Random(seed)
    reading = ReadOptions(PATTERN, (END,), held_out=held_out)
    texts = random_documents(random_, 60)
    share = len(texts) // len(names)
    files = {
        name: written(name, texts[at * share : (at + 1) * share]) for at, name in enumerate(names)
    }
    corpus = Corpus(tmp_path, files, reading, random_.choice([900, 4_000, 1 << 20]))
    tokenizer = train_bpe(corpus.words, 420, special_tokens=[END])
    one_chunk, one_document = corpus.made(tokenizer)
    for unchanged in (True, False):
        found = corpus.screened(tokenizer, unchanged)
        assert set(found.one_chunk) == one_chunk
        assert set(found.one_document) == one_document
        assert found.unread == ()
    assert one_document, "nothing to find"
    assert one_chunk - one_document, "nothing to mistake for it"


@pytest.mark.parametrize("look", [1, 3, 1 << 14])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_of_unchanged_files_single_documents_are_read(
    tmp_path: Path, name: str, look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunking, "_FIRST_BYTES", look)
    texts = random_documents(random.Random(9), 60)
    files = {name: written(name, texts), f"b{name}": written(name, [*texts[30:40], "own"])}
    corpus = Corpus(tmp_path, files, ReadOptions(PATTERN, (END,), held_out=0.2), 5_000)
    tokenizer = train_bpe(corpus.words, 420, special_tokens=[END])
    _, one_document = corpus.made(tokenizer)
    monkeypatch.setattr(token_places, "read_again", never)
    assert set(corpus.screened(tokenizer, unchanged=True).one_document) == one_document
    with pytest.raises(AssertionError, match="whole chunk"):
        corpus.screened(tokenizer, unchanged=False)


def test_words_of_two_documents_make_a_token_of_none(tmp_path: Path) -> None:
    """Each word is in one document alone and each document holds other tokens of its own."""
    texts = ["qabz qabz first1 first1", "qabx qabx second2 second2", "else else"]
    files = {"a.txt": written("a.txt", texts), "b.txt": written("b.txt", OTHERS)}
    corpus = Corpus(tmp_path, files, READING, 1 << 20)
    tokenizer = train_bpe(corpus.words, 290, special_tokens=[END])
    for unchanged in (True, False):
        found = corpus.screened(tokenizer, unchanged).one_document
        tokens = {tokenizer.id_to_token(id_) for id_ in found}
        assert {b"qabz", b"qabx", b"first1"} <= tokens
        assert not {b"qab", b"qa"} & tokens
        assert set(found) == corpus.made(tokenizer)[1]


@pytest.mark.parametrize("specials", [("aa",), ("ab", "bab"), ("xyx",), ("zq", "zqz")])
def test_special_tokens_that_overlap(tmp_path: Path, specials: tuple[str, ...]) -> None:
    """From within a text nobody sees which of them count, so these chunks are read whole."""
    random_ = random.Random(3)
    texts = ["".join(random_.choices(["a", "b", "aab", "xyxyx", "zqz", " c", " d"], k=40))
             for _ in range(40)]  # fmt: skip
    files = {"a.txt": " ".join(texts[:20]).encode(), "b.txt": " ".join(texts[20:]).encode()}
    corpus = Corpus(tmp_path, files, ReadOptions(PATTERN, specials), 700)
    tokenizer = train_bpe(corpus.words, 300, special_tokens=specials, min_count=2)
    one_chunk, one_document = corpus.made(tokenizer)
    for unchanged in (True, False):
        found = corpus.screened(tokenizer, unchanged)
        assert (set(found.one_chunk), set(found.one_document)) == (one_chunk, one_document)


def test_text_with_replaced_bytes(tmp_path: Path) -> None:
    """Its positions need not tell a line of JSON from the next."""
    texts = random_documents(random.Random(4), 40)
    lines = written("a.jsonl", texts).replace(b"ab", b"\xff\xfe" * 9)
    files = {"a.jsonl": lines, "b.txt": written("b.txt", texts[:9]).replace(b"cd", b"\xc3")}
    corpus = Corpus(tmp_path, files, ReadOptions(PATTERN, (END,), "replace"), 5_000)
    tokenizer = train_bpe(corpus.words, 420, special_tokens=[END])
    one_chunk, one_document = corpus.made(tokenizer)
    assert one_document
    for unchanged in (True, False):
        found = corpus.screened(tokenizer, unchanged)
        assert (set(found.one_chunk), set(found.one_document)) == (one_chunk, one_document)


@pytest.mark.night
def test_chunks_counted_in_parts_have_several_rows_for_a_word(
    tmp_path: Path, english_and_code: str
) -> None:
    numbers = [f"w{number}ww" for number in range(60_000)]
    often = ["oftqn"] * 900
    texts = [" ".join([*often, *numbers, *often]), english_and_code[:2_000] + " z z z"]
    files = {
        "a.txt": written("a.txt", texts),
        "b.txt": written("b.txt", ["the end", "the", *OTHERS]),
    }
    corpus = Corpus(tmp_path, files, READING, 1 << 20, table_bytes=1)
    parts = [
        ShardFiles(corpus.workspace).read(shard_key(chunk.digest, READING.digest)).parts
        for file in corpus.records
        for chunk in file.chunks
    ]
    assert max(parts) > 1
    tokenizer = train_bpe(corpus.words, 320, special_tokens=[END])
    found = corpus.screened(tokenizer, unchanged=True)
    assert (set(found.one_chunk), set(found.one_document)) == corpus.made(tokenizer)
    assert b"oftqn" in {tokenizer.id_to_token(id_) for id_ in found.one_document}


def test_a_file_that_changed_meanwhile_must_have_its_digest(tmp_path: Path) -> None:
    texts = ["own own own", "two two", "other two"]
    files = {"a.txt": written("a.txt", texts), "b.txt": written("b.txt", OTHERS)}
    corpus = Corpus(tmp_path, files, READING, 1 << 20)
    tokenizer = train_bpe(corpus.words, 264, special_tokens=[END])
    before = corpus.screened(tokenizer, unchanged=True)
    assert b"own" in {tokenizer.id_to_token(id_) for id_ in before.one_document}
    place = tmp_path / "files" / "a.txt"
    place.write_bytes(place.read_bytes())  # written again, with the same content
    assert corpus.screened(tokenizer, unchanged=True) == before
    place.write_bytes(place.read_bytes().replace(b"own", b"new"))
    after = corpus.screened(tokenizer, unchanged=True)
    assert set(before.one_document) <= set(after.unread)
