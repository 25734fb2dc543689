"""Passages of an evaluation set: found wherever they occur, and not trained on."""

from __future__ import annotations

import gzip
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import regex

from bpeline.tokenizer_core.corpus import (
    LEFT_OUT_RULE,
    SECTIONS_RULE,
    Chunk,
    ChunkText,
    DecontaminationSet,
    ReadOptions,
    Source,
    SourceFile,
    find_source_files,
    in_parts,
    new_documents,
    plan_chunk_groups,
    read_chunks,
)
from bpeline.tokenizer_core.corpus.documents import (
    count_special_looking,
    look_for_special,
    without_special_looking,
)
from bpeline.tokenizer_core.corpus.reading import without
from bpeline.tokenizer_core.counting import ChunkCounts, count_chunk
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text

GPT2, CL100K = SplitPattern.named("gpt2"), SplitPattern.named("cl100k")
FILE = SourceFile("a.txt", "a.txt", "text", None, 0, 0, 0, 0)
WINDOW = 32


def occurrences(data: bytes, documents: list[bytes]) -> list[tuple[int, int]]:
    """As `find_passages` promises, place by place."""
    found = []
    for document in set(documents):
        again = 0
        for begin in range(len(data) - len(document) + 1) if len(document) >= WINDOW else ():
            if begin >= again and data[begin : begin + len(document)] == document:
                found.append((begin, begin + len(document)))
                again = begin + len(document) // 8 + 1
    return sorted(found)


@pytest.mark.parametrize("alphabet", [b"a", b"ab", bytes(range(256))])
def test_passages_are_found_wherever_they_occur(alphabet: bytes) -> None:
    random_ = random.Random(len(alphabet))
    for _ in range(150):
        data = bytes(random_.choices(alphabet, k=random_.randint(0, 400)))
        documents = [bytes(random_.choices(alphabet, k=40))]
        for _ in range(random_.randint(0, 5)):
            begin = random_.randrange(len(data) + 1)
            documents.append(data[begin : begin + random_.randint(0, 90)])
        found = DecontaminationSet.of(documents).spans_in(Text.of(data))
        assert sorted(map(tuple, found.tolist())) == occurrences(data, documents)
        assert np.all(np.diff(found[:, 0]) >= 0)
        edges = sorted(random_.sample(range(len(data) + 1), k=min(len(data), 20) // 2 * 2))
        spans = np.array(edges, np.int64).reshape(-1, 2)
        kept = [s for s in spans.tolist() if not any(a < s[1] and b > s[0] for a, b in found)]
        assert without(Text.of(data), spans, found, None).tolist() == kept


def chunk_counts(data: bytes, reading: ReadOptions) -> ChunkCounts:
    return count_chunk(Chunk(FILE, 0, 0, len(data), ""), ChunkText.of(Text.of(data)), reading)


def counted(data: bytes, reading: ReadOptions) -> dict[bytes, int]:
    counts = chunk_counts(data, reading).counts
    return counts.to_mapping()


def prose(seed: int, size: int) -> bytes:
    random_ = random.Random(seed)
    words = [random_.choice("abcdefg") * random_.randint(1, 9) for _ in range(size // 5)]
    return " ".join(words).encode()[:size]


def test_a_training_with_another_pattern_does_not_read_the_set() -> None:
    secret = b" zebra quagga" * 40
    data = prose(1, 50_000) + secret + prose(2, 50_000)
    sections = chunk_counts(data, ReadOptions(GPT2, held_out=0.3)).held_out
    left_out = DecontaminationSet.of([*sections, secret])
    assert b" zebra" in counted(data, ReadOptions(CL100K))
    words = counted(data, ReadOptions(CL100K, left_out=left_out))
    assert words
    assert not {b" zebra", b" quagga"} & words.keys()
    training = sum(len(word) * count for word, count in words.items())
    assert training > len(data) // 4, "only what touches the set is left out with it"


def test_former_sets_are_not_looked_for_by_the_first_rule_where_they_are_held_out() -> None:
    data = prose(3, 100_000)
    reading = ReadOptions(GPT2, held_out=0.1)
    cut_by = digest_of([GPT2.digest, []])
    made = DecontaminationSet.of(chunk_counts(data, reading).held_out)
    former = replace(made, held_out_below=reading.held_out_below, cut_by=cut_by, rule=SECTIONS_RULE)
    again = ReadOptions(GPT2, held_out=0.1, left_out=former)
    assert (again.leaves_out, again.digest) == (False, reading.digest)
    assert counted(data, again) == counted(data, reading)
    for other in (
        ReadOptions(GPT2, held_out=0.05, left_out=former),
        ReadOptions(GPT2, special_tokens=("<|end|>",), held_out=0.1, left_out=former),
        ReadOptions(CL100K, held_out=0.1, left_out=former),
        ReadOptions(GPT2, held_out=0.1, left_out=replace(former, rule=LEFT_OUT_RULE)),
    ):
        assert other.leaves_out
        assert other.digest != replace(other, left_out=None).digest


def test_nothing_is_left_out_where_there_is_nothing_to_leave_out() -> None:
    assert not ReadOptions(
        GPT2, left_out=DecontaminationSet.of([b"too short to be looked for"])
    ).leaves_out


def test_text_with_64_known_bytes_in_a_row_is_not_new() -> None:
    random_ = random.Random(8)
    for alphabet in (b"a", b"ab", bytes(range(97, 123))):
        known = [bytes(random_.choices(alphabet, k=random_.randint(0, 400))) for _ in range(3)]
        documents = [bytes(random_.choices(alphabet, k=100))]
        for size in (20, 63, 64, 65, 100):
            begin = random_.randrange(300)
            documents.append(b"%d" % size * 20 + known[0][begin : begin + size] + b"--" * 20)
        runs = {one[at : at + 64] for one in known for at in range(len(one) - 63)}
        expected = [
            one for one in documents
            if not any(one[at : at + 64] in runs for at in range(len(one) - 63))
        ]  # fmt: skip
        assert new_documents(documents, known) == expected
    assert new_documents([b"short"], []) == []


@pytest.mark.parametrize("between", [b"\n", b" ", b"", "\N{GRINNING FACE}".encode()])
def test_long_documents_are_cut_alike_for_all_patterns(between: bytes) -> None:
    document = between.join([b"x" * 3_000] * 50)
    parts = in_parts(document)
    assert b"".join(parts) == document
    assert all(4_000 < len(part) < 6_100 for part in parts[:-1])
    assert all(part.decode() and in_parts(part) == [part] for part in parts)
    assert in_parts(document[:60_000]) == [document[:60_000]]


def kept_words(
    data: bytes, known: list[bytes], reading: ReadOptions
) -> tuple[dict[bytes, int], int]:
    """The words of a text without some passages, and the bytes left out, place by place."""
    edges, pairs = [0], reading.pattern.cut_pairs
    for token in re.finditer(b"|".join(map(re.escape, reading.special_bytes)) or b"$^", data):
        edges += token.span()
    words: Counter[bytes] = Counter()
    left_out = 0
    for begin, end in zip(edges[::2], [*edges[1::2], len(data)], strict=True):
        text = data[begin:end].decode()
        ends = [begin, *itertools.accumulate(map(len, map(str.encode, text)), initial=begin), end]
        legal = [begin, end]
        if pairs is not None:
            classes = [pairs.class_of_point[ord(one)] for one in text]
            legal += [
                at for at, two in zip(ends[2:], itertools.pairwise(classes), strict=False)
                if pairs.legal[two]
            ]  # fmt: skip
        keep = np.ones(end - begin, np.bool_)
        for first, last in occurrences(data, known):
            if first < end and last > begin:
                widened = [one for one in legal if one <= max(first, begin)]
                behind = [one for one in legal if one >= min(last, end)]
                keep[max(widened) - begin : min(behind) - begin] = False
        left_out += int((~keep).sum())
        for stretch in re.finditer(b"\1+", keep.tobytes()):
            part = data[begin:end][slice(*stretch.span())].decode()
            words.update(map(str.encode, regex.findall(reading.pattern.regex, part)))
    return words, left_out


def corpora(random_: random.Random) -> Iterator[str]:
    words = ["".join(random_.choices("abcdé漢 \n'", k=random_.randint(1, 7))) for _ in range(60)]
    for between in (" ", "", "\n\n", "\r\n", "    ", " <|end|> ", "🙂 "):
        yield between.join(random_.choices(words, k=250))
    for alphabet in ("abcdefgh", "12 ab\n", "漢字かな。 "):
        yield "".join(random_.choices(alphabet, k=900))


def chunks_of(
    path: Path, chunk_bytes: int, reading: ReadOptions
) -> Iterator[tuple[Chunk, ChunkText]]:
    for group in plan_chunk_groups(find_source_files([Source(str(path))]), chunk_bytes):
        yield from read_chunks(group, reading, chunk_bytes)


def words_of(path: Path, chunk_bytes: int, reading: ReadOptions) -> tuple[dict[bytes, int], int]:
    """The words of a file, and the bytes left out."""
    words: Counter[bytes] = Counter()
    left_out = 0
    for chunk, text in chunks_of(path, chunk_bytes, reading):
        counts = count_chunk(chunk, text, reading)
        words.update(counts.counts.to_mapping())
        left_out += counts.left_out_bytes
    return words, left_out


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W", r"\b\w+|\W"])
def test_left_out_are_the_passages_wherever_chunks_end(pattern: str, tmp_path: Path) -> None:
    random_ = random.Random(46)
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    for text in corpora(random_):
        begins = [random_.randrange(len(text)) for _ in range(4)]
        sizes = 40, 80, 300, 700
        known = [text[at : at + size].encode() for at, size in zip(begins, sizes, strict=True)]
        plain.write_text(text, newline="")
        packed.write_bytes(gzip.compress(text.encode()))
        for special in ((), ("<|end|>",), ("\n\n", "\n")):
            reading = ReadOptions(
                SplitPattern.parse(pattern), special, left_out=DecontaminationSet.of(known)
            )
            expected = kept_words(text.encode(), known, reading)
            assert expected[1] > 0
            for path, chunk_bytes in itertools.product((plain, packed), (64, 500, 1 << 20)):
                assert words_of(path, chunk_bytes, reading) == expected


def test_left_out_is_text_as_it_is_read(tmp_path: Path) -> None:
    """In its Unicode form, and with U+FFFD for what is not UTF-8."""
    text = prose(10, 3_000).decode()
    known = [text[at : at + 300].encode() for at in (100, 900, 1_800)]
    wide = text.translate({ord("a"): "ａ", ord("b"): "𝐛"}).encode() + b"\xff"
    path = tmp_path / "a.txt"
    path.write_bytes(wide)
    reading = ReadOptions(
        GPT2, (), "replace", left_out=DecontaminationSet.of(known), text_form="NFKC"
    )
    expected = words_of(path, 1 << 20, reading)
    assert expected[1] >= 900
    assert words_of(path, 64, reading) == words_of(path, 500, reading) == expected


def test_a_chunk_with_a_passage_across_its_end_is_another_chunk(tmp_path: Path) -> None:
    """Text that is appended may complete a passage: the chunk before it is counted anew."""
    text, path = prose(9, 3_000), tmp_path / "a.txt"
    reading = ReadOptions(GPT2, left_out=DecontaminationSet.of([text[1_980:2_400]]))
    path.write_bytes(text[:2_200])
    before = [chunk.digest for chunk, _ in chunks_of(path, 1_000, reading)]
    path.write_bytes(text)
    after, plain = (
        [chunk.digest for chunk, _ in chunks_of(path, 1_000, one)]
        for one in (reading, ReadOptions(GPT2))
    )
    assert before[0] == after[0] == plain[0]
    assert before[1] == plain[1] != after[1]
    assert after[2] != plain[2]


def test_what_looks_like_a_special_token_is_counted_and_taken_out() -> None:
    text = b"<s>one<|endoftext|>two</s>[INST]three[/INST]<|im_start|>four <b>bold</b> [a] <|>"
    assert count_special_looking(text) == {
        "<s>": 1, "<|endoftext|>": 1, "</s>": 1, "[INST]": 1, "[/INST]": 1, "<|im_start|>": 1,
    }  # fmt: skip
    pieces = [b"one", b"two", b"three", b"four <b>bold</b> [a] <|>"]
    assert without_special_looking(text) == pieces


def test_special_tokens_nobody_registered_are_looked_for_where_files_begin(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02}.txt").write_text("a</s>b<|endoftext|>c")
    (tmp_path / "00.txt").write_bytes(b"x" * (1 << 20) + b"</s>" * 1000)
    (tmp_path / "39.txt.gz").write_bytes(gzip.compress(b"<s>" * 50))
    files = find_source_files([Source(str(tmp_path))])
    (tmp_path / "03.txt").unlink()
    found = look_for_special(files, ["<|endoftext|>"])
    assert found.counts == {"</s>": 12}  # of 14 looked into, one is gone, and one begins otherwise
    assert (found.files, found.bytes) == (13, (1 << 20) + 12 * 20)
    assert look_for_special(files[:9], []).counts == {}
    assert look_for_special([], []).files == 0
    assert look_for_special(files[-1:], []).counts == {"<s>": 50}
