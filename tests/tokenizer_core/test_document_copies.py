"""Copies of documents: found wherever chunks begin, whoever counts, and counted once."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from bpeline.tokenizer_core.corpus import ReadOptions, Source, find_source_files
from bpeline.tokenizer_core.counting import count_words, digest_documents, find_copies
from bpeline.tokenizer_core.splitting import SplitPattern

END = "<|end|>"
WORDS = (
    "",
    " ",
    "\n",
    "a",
    "a\n",
    "Nüsse und Kerne",
    " a b c",
    "a b c",
    "x" * 700,
    "one two " * 60,
)


def written(folder: Path, seed: int) -> tuple[Path, list[str]]:
    """A corpus full of copies, and its documents in order."""
    random_ = random.Random(seed)
    documents: list[str] = []
    folder.mkdir()
    for number in range(5):
        some = [random_.choice(WORDS) for _ in range(random_.randint(1, 40))]
        if number == 2:
            some = documents[:7]  # a file that begins as another one does
        documents += some
        if number % 2:
            lines = "".join(json.dumps({"text": one}) + "\n" for one in some)
            (folder / f"{number}.jsonl").write_text(lines)
        elif number == 4:
            (folder / f"{number}.txt.gz").write_bytes(gzip.compress(END.join(some).encode()))
        else:
            (folder / f"{number}.txt").write_text(END.join(some))
    return folder, documents


@pytest.mark.night
@pytest.mark.parametrize("seed", range(4))
def test_documents_are_counted_once_as_a_set_would(seed: int, tmp_path: Path) -> None:
    corpus, documents = written(tmp_path / "corpus", seed)
    once = [*dict.fromkeys(filter(None, documents))]
    plain = tmp_path / "once.txt"
    plain.write_text(END.join(once))
    expected = count_words(plain, special_tokens=[END]).to_mapping()
    for workers, chunk_bytes in ((1, 4 << 20), (2, 4 << 20), (1, 100), (2, 64)):
        found = count_words(
            corpus, special_tokens=[END], workers=workers, chunk_bytes=chunk_bytes, deduplicate=True
        )
        assert found.to_mapping() == expected
        assert list(found.to_mapping()) == list(expected), "in order of their first occurrence"
    assert count_words(corpus, special_tokens=[END]).to_mapping() != expected


@pytest.mark.parametrize("chunk_bytes", [10, 64, 1 << 20])
def test_what_is_copied_is_told_in_documents_and_bytes(chunk_bytes: int, tmp_path: Path) -> None:
    corpus, documents = written(tmp_path / "corpus", 7)
    documents = [*filter(None, documents)]
    reading = ReadOptions(SplitPattern.named("gpt2"), special_tokens=(END,))
    files = find_source_files([Source(str(corpus))])
    copies = find_copies([(one.path, digest_documents(one, reading, chunk_bytes)) for one in files])
    sizes = [len(one.encode()) for one in documents]
    kept = sum(len(one.encode()) for one in set(documents))
    assert (copies.of_documents, copies.of_bytes) == (len(documents), sum(sizes))
    assert copies.documents == len(documents) - len(set(documents))
    assert copies.text_bytes == sum(sizes) - kept


def test_a_document_across_chunks_is_a_copy_only_as_a_whole(tmp_path: Path) -> None:
    """Its first chunks are those of another one; only its end differs."""
    text = "some words of prose " * 50
    for name, content in (("a", text + "A"), ("b", text + "B"), ("c", text + "A"), ("d", "")):
        (tmp_path / f"{name}.txt").write_text(content)
    found = count_words(tmp_path, chunk_bytes=64, deduplicate=True).to_mapping()
    a_and_b = count_words([tmp_path / "a.txt", tmp_path / "b.txt"]).to_mapping()
    assert found == a_and_b
