"""Files encoded into memory: the same ids and documents as token shards hold."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core import Tokenizer, WordCounts, train_bpe
from bpeline.tokenizer_core.corpus.sources import find_source_files, sources_of
from bpeline.tokenizer_core.errors import InvalidOption, InvalidUtf8, MissingSource
from bpeline.tokenizer_core.shards.file_encoding import file_encoding_of
from bpeline.tokenizer_core.shards.ids_in_memory import gather_files

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
