"""Chunks: whatever the grid, the same words; a file that grows keeps its chunks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from corpus_files import GPT2, READING, SPECIALS, counted, first_positions, words_of, write

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.corpus.chunking import (
    Chunk,
    ChunkGroup,
    cut_chunks,
    plan_chunk_groups,
    read_chunks,
)
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.corpus.source_bytes import PlainBytes
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

ANY = SplitPattern(regex=r"\w+ ?|\W")  # a user's regex: nothing is known of its spaces


def tempting_text(seed: int, pieces: int) -> str:
    source = random.Random(seed)
    alphabet = [
        "word ",
        "a b",
        " ",
        "  ",
        "\n",
        "日本",
        "é",
        "<|endof",
        "text|>",
        "'ll",
        "1",
        *SPECIALS,
    ]
    return "".join(source.choices(alphabet, k=pieces))


@pytest.mark.night
@pytest.mark.parametrize(
    ("pattern", "suffix", "texts"),
    [(GPT2, "", 3), (GPT2, ".gz", 1), (GPT2, ".zst", 1), (ANY, "", 3), (ANY, ".gz", 1)],
    ids=str,
)
def test_counts_do_not_depend_on_the_grid(
    tmp_path: Path, pattern: SplitPattern, suffix: str, texts: int
) -> None:
    reading = ReadOptions(pattern, SPECIALS)
    for seed in range(texts):
        content = tempting_text(seed, 150)
        file = write(tmp_path / f"a.txt{suffix}", content)
        expected = reference.count_words([content], pattern.regex, SPECIALS)
        (whole,) = counted(file, 1 << 20, reading)
        most = 0
        for chunk_bytes in [*range(1, 40), 63, 64, 65, 127, 200, 500]:
            chunks = counted(file, chunk_bytes, reading)
            assert words_of(chunks) == expected
            assert first_positions(chunks) == first_positions([whole])
            most = max(most, len(chunks))
        assert most > 10  # the grid really cut somewhere


def test_chunks_tile_a_file_and_are_named_by_their_bytes(tmp_path: Path) -> None:
    content = tempting_text(1, 300).encode()
    for name in ("a.txt", "a.txt.gz", "a.txt.zst"):
        chunks = [result.chunk for result in counted(write(tmp_path / name, content), 50)]
        assert len(chunks) > 5
        assert chunks[0].begin == 0
        assert chunks[-1].end == len(content)
        assert [chunk.begin for chunk in chunks[1:]] == [chunk.end for chunk in chunks[:-1]]
        ordinals = [chunk.ordinal for chunk in chunks]
        assert ordinals == sorted(set(ordinals))
        for chunk in chunks:
            assert chunk.digest == sha256(content[chunk.begin : chunk.end]).hexdigest()
            content[chunk.begin : chunk.end].decode()  # no character is ever split


def test_groups_find_the_same_chunks_as_one_reader(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", tempting_text(7, 2000))
    alone = [result.chunk for result in counted(file, 100, max_groups=1)]
    for groups in (2, 3, 7, 64, 1000):
        assert [result.chunk for result in counted(file, 100, max_groups=groups)] == alone


@pytest.mark.parametrize("chunk_bytes", [1_000, 9_000, 40_000])
@pytest.mark.parametrize("seed", range(4))
def test_groups_with_any_legal_cuts_tile_a_file_too(
    tmp_path: Path, chunk_bytes: int, seed: int
) -> None:
    source = random.Random(seed)
    kinds = [
        "words of text ",
        "noCutHere",
        "一二三。\n",
        "a1b2",
    ]  # the last two without lone spaces
    stretches = (source.choice(kinds) * source.randint(1, 12_000) for _ in range(12))
    file = write(tmp_path / "a.txt", "".join(stretches))
    reached = 0
    for group in plan_chunk_groups([file], chunk_bytes):
        for chunk, text in read_chunks(group, READING, chunk_bytes, with_digests=False, quick=True):
            assert (chunk.begin, chunk.size) == (reached, text.text.size)
            reached = chunk.end
    assert reached == file.size


def borders(file: SourceFile, chunk_bytes: int, reading: ReadOptions, step: int) -> list[int]:
    """Where a group would begin that was planned to begin at each of these positions."""
    found = []
    for position in range(0, file.size, step):
        group = ChunkGroup(file, position)
        first = next(cut_chunks(group, reading, chunk_bytes, with_digests=False, quick=True), None)
        found.append(file.size if first is None else first[0].begin)
    return found


@pytest.mark.parametrize("chunk_bytes", [3_000, 1 << 19])
@pytest.mark.parametrize("seed", range(4))
def test_a_group_planned_to_begin_later_does_not_begin_earlier(
    tmp_path: Path, seed: int, chunk_bytes: int
) -> None:
    source = random.Random(seed)
    longest = 6 * min(chunk_bytes, 1 << 16)
    between = [",", "some words ", "two  ", "漢", "<s>", " and"]
    content = "".join(
        source.choice("ab1") * source.randint(1, longest)
        + source.choice(between) * source.randint(1, 30)
        for _ in range(9)
    )
    file = write(tmp_path / "a.txt", content)
    found = borders(file, chunk_bytes, ReadOptions(GPT2, ("<s>",)), len(content) // 150)
    assert found == sorted(found)
    assert len({*found}) > 5


@pytest.mark.parametrize(
    ("has_pairs", "unlike"),
    [(False, b""), (True, b"\xe0\x80\x80")],  # no character: no pair parts it from a space
)
def test_spaces_that_no_pair_knows_are_borders_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_pairs: bool, unlike: bytes
) -> None:
    if not has_pairs:
        monkeypatch.setattr(SplitPattern, "cut_pairs", property(lambda _: None))
    content = b"one " * 50 + b"a" * 9_000 + unlike + b" two" * 50 + b"b" * 9_000 + b" c d"
    file = write(tmp_path / "a.txt", content)
    found = borders(file, 3_000, ReadOptions(GPT2, (), "replace"), 100)
    assert found == sorted(found)
    assert content.index(b" two") in found


def test_what_is_cut_in_one_way_only_is_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    peek = PlainBytes.peek

    def counting(self: PlainBytes, begin: int, size: int) -> bytes:
        looked_at.append(begin)
        return peek(self, begin, size)

    monkeypatch.setattr(PlainBytes, "peek", counting)
    line = b'{"text": "' + b"a word " * 10_000 + b'"}\n'
    group = ChunkGroup(write(tmp_path / "a.jsonl", line * 2))
    assert len(list(cut_chunks(group, READING, 1_000, quick=True))) == 2
    assert len({*looked_at}) == len(looked_at)


def test_bytes_counted_and_special_tokens_are_all_bytes(tmp_path: Path) -> None:
    content = "<|endoftext|>".join(tempting_text(seed, 40) for seed in range(20))
    reading = ReadOptions(GPT2, ("<|endoftext|>",))
    chunks = counted(write(tmp_path / "a.txt", content), 128, reading)
    seen = sum(chunk.special_tokens_seen for chunk in chunks)
    assert seen == content.count("<|endoftext|>")
    assert sum(chunk.bytes_counted for chunk in chunks) + seen * len("<|endoftext|>") == len(
        content.encode()
    )
    assert all(chunk.counts.total_bytes == chunk.bytes_counted for chunk in chunks)


def test_appending_leaves_every_chunk_but_the_last_unchanged(tmp_path: Path) -> None:
    content = tempting_text(2, 400).encode()
    for size in [*range(300, 360), len(content)]:
        before = counted(write(tmp_path / "a.txt", content[:size].decode(errors="ignore")), 64)
        after = counted(write(tmp_path / "b.txt", content), 64)
        kept = len(before) - 1
        assert kept > 2
        assert [(c.chunk.digest, c.chunk.begin, c.chunk.end) for c in before[:kept]] == [
            (c.chunk.digest, c.chunk.begin, c.chunk.end) for c in after[:kept]
        ]


@pytest.mark.parametrize("content", ["", "a", " ", "\n\n", "<|endoftext|>", "no line feed at end"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_the_smallest_files(tmp_path: Path, name: str, content: str) -> None:
    chunks = counted(write(tmp_path / name, content), 16)
    assert words_of(chunks) == reference.count_words([content], GPT2.regex, SPECIALS)
    assert bool(chunks) == bool(content)


def test_a_file_without_any_cut_is_one_chunk(tmp_path: Path) -> None:
    for suffix in ("", ".gz"):
        file = write(tmp_path / f"a.txt{suffix}", "日" * 50_000)
        (only,) = counted(file, 1000)
        assert only.counts.to_mapping() == {("日" * 50_000).encode(): 1}


def test_settings_below_one_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "a")
    with pytest.raises(InvalidOption, match="chunk_bytes"):
        plan_chunk_groups([file], 0)
    with pytest.raises(InvalidOption, match="chunk_bytes"):
        next(read_chunks(ChunkGroup(file), READING, 0))


def test_a_plan_covers_each_file_in_order(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{number}.txt", "word " * 1000) for number in range(3)]
    files.append(write(tmp_path / "z.txt.gz", "word " * 1000))
    groups = plan_chunk_groups(files, 100, max_groups=10)
    assert len(groups) <= 10 + len(files)
    assert [group.file for group in groups if group.begin == 0] == files
    for file in files[:3]:
        parts = [group for group in groups if group.file == file]
        assert [part.end for part in parts] == [part.begin for part in parts[1:]] + [None]
        assert all(part.begin % 100 == 0 for part in parts)
    assert groups[-1] == ChunkGroup(files[-1])


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"text": "' + b"a word " * 40_000 + b'"}\n{"text": "and another"}\n' * 9),
        ("a.txt", b"some words, " * 4_000 + b"a" * 300_000 + b" and others" * 4_000),
        ("b.txt", b"a" * 300_000),
    ],
)
def test_what_cannot_be_cut_is_read_for_one_group_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, quick: bool
) -> None:
    """All groups that begin in such a stretch would look for its end, each from its own begin."""
    looked_at: list[int] = []
    peek = PlainBytes.peek

    def counting(self: PlainBytes, begin: int, size: int) -> bytes:
        found = peek(self, begin, size)
        looked_at.append(len(found))
        return found

    monkeypatch.setattr(PlainBytes, "peek", counting)
    file = write(tmp_path / name, content)
    groups = plan_chunk_groups([file], 4_000, max_groups=50)
    assert len(groups) > 30

    def chunks_of(groups: Sequence[ChunkGroup]) -> list[Chunk]:
        cut = (cut_chunks(one, READING, 4_000, quick=quick) for one in groups)
        return [chunk for chunks in cut for chunk, _ in chunks]

    known = chunks_of(groups)
    assert sum(looked_at) < 3 * len(content)
    alone = [ChunkGroup(one.file, one.begin, one.end) for one in groups]
    assert chunks_of(alone) == known
    together = plan_chunk_groups([file], 4_000, max_groups=50)
    random.Random(name).shuffle(together)
    in_any_order = chunks_of(together)
    assert sorted(in_any_order, key=lambda chunk: chunk.begin) == known
    assert [chunk.begin for chunk in known] == [0, *(chunk.end for chunk in known)][:-1]
    assert known[-1].end == len(content)
