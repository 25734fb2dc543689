"""Copies of documents: found wherever chunks begin, whoever counts, and counted once."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from bpeline.tokenizer_core.corpus import ReadOptions, Source, find_source_files
from bpeline.tokenizer_core.counting import (
    CopiedSections,
    SectionSample,
    count_words,
    digest_documents,
    find_copies,
)
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


# Copies among sections


def some_sections(seed: int) -> list[bytes]:
    random_ = random.Random(seed)
    texts = [random_.randbytes(random_.randint(0, 90)) for _ in range(400)]
    return random_.choices(texts, k=1000)


def looked_at(sections: list[bytes], most: int, together: int) -> CopiedSections:
    sample = SectionSample(most)
    for at in range(0, len(sections), together):
        sample.add(sections[at : at + together])
    return sample.result()


@pytest.mark.parametrize("together", [1, 7, 1000])
def test_every_copy_is_found(together: int) -> None:
    sections = some_sections(together)
    times = Counter(sections)
    found = looked_at(sections, 1000, together)
    assert (found.sections, found.bytes) == (1000, sum(map(len, sections)))
    assert found.copies == 1000 - len(times)
    assert found.copied_bytes == sum(map(len, sections)) - sum(map(len, times))
    assert found.share == found.copied_bytes / found.bytes


def test_of_too_many_the_same_are_kept_in_any_order_with_all_their_copies() -> None:
    sections = some_sections(5)
    found = looked_at(sections, 50, 13)
    random.Random(6).shuffle(sections)
    assert found == looked_at(sections, 50, 100) != looked_at(sections, 51, 13)
    assert found.sections - found.copies == 50
    whole = looked_at(sections, 1000, 100)
    assert found.share == pytest.approx(whole.share, abs=0.15)


def test_nothing_is_no_copy() -> None:
    assert looked_at([], 10, 1) == CopiedSections()
    assert CopiedSections().share == 0.0
    once = looked_at([b"a", b"b", b""], 10, 3)
    assert (once.sections, once.copies) == (3, 0)
