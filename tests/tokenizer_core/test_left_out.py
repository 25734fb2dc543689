"""Passages of an evaluation set: found wherever they occur, and not trained on."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from bpeline.tokenizer_core.corpus import (
    Chunk,
    ChunkText,
    LeftOut,
    Reading,
    Source,
    SourceFile,
    find_source_files,
)
from bpeline.tokenizer_core.corpus.held_out import without
from bpeline.tokenizer_core.corpus.special_looking import (
    count_special_looking,
    look_for_special,
    without_special_looking,
)
from bpeline.tokenizer_core.counting import ChunkCounts, count_chunk
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
        found = LeftOut.of(documents).spans_in(Text.of(data))
        assert sorted(map(tuple, found.tolist())) == occurrences(data, documents)
        assert np.all(np.diff(found[:, 0]) >= 0)
        edges = sorted(random_.sample(range(len(data) + 1), k=min(len(data), 20) // 2 * 2))
        spans = np.array(edges, np.int64).reshape(-1, 2)
        kept = [s for s in spans.tolist() if not any(a < s[1] and b > s[0] for a, b in found)]
        assert without(spans, found).tolist() == kept


def chunk_counts(data: bytes, reading: Reading) -> ChunkCounts:
    return count_chunk(Chunk(FILE, 0, 0, len(data), ""), ChunkText.of(Text.of(data)), reading)


def counted(data: bytes, reading: Reading) -> dict[bytes, int]:
    counts = chunk_counts(data, reading).counts
    return counts.to_mapping()


def prose(seed: int, size: int) -> bytes:
    random_ = random.Random(seed)
    words = [random_.choice("abcdefg") * random_.randint(1, 9) for _ in range(size // 5)]
    return " ".join(words).encode()[:size]


def test_a_training_with_another_pattern_does_not_read_the_set() -> None:
    secret = b" zebra quagga" * 40
    data = prose(1, 50_000) + secret + prose(2, 50_000)
    sections = chunk_counts(data, Reading(GPT2, held_out=0.3)).held_out
    left_out = LeftOut.of([*sections, secret])
    assert b" zebra" in counted(data, Reading(CL100K))
    words = counted(data, Reading(CL100K, left_out=left_out))
    assert words
    assert not {b" zebra", b" quagga"} & words.keys()
    training = sum(len(word) * count for word, count in words.items())
    assert training > len(data) // 4, "only what touches the set is left out with it"


def test_what_is_held_out_anyway_changes_no_counts_and_no_digest() -> None:
    data = prose(3, 100_000)
    reading = Reading(GPT2, held_out=0.1)
    held_out = chunk_counts(data, reading).held_out
    left_out = LeftOut.of(held_out, sections=True, cut_by=reading.cut_by)
    again = Reading(GPT2, held_out=0.1, left_out=left_out)
    assert (again.leaves_out, again.digest) == (False, reading.digest)
    assert counted(data, again) == counted(data, reading)
    for other in (
        Reading(GPT2, held_out=0.05, left_out=left_out),
        Reading(GPT2, special_tokens=("<|end|>",), held_out=0.1, left_out=left_out),
        Reading(CL100K, held_out=0.1, left_out=left_out),
    ):
        assert other.leaves_out
        assert other.digest != Reading(
            other.pattern, special_tokens=other.special_tokens, held_out=other.held_out
        ).digest  # fmt: skip
        words = set(counted(data, other))
        assert words


def test_nothing_is_left_out_where_there_is_nothing_to_leave_out() -> None:
    assert not Reading(GPT2, left_out=LeftOut.of([b"too short to be looked for"])).leaves_out


def test_a_document_that_is_too_short_to_tell_may_be_one_of_the_set() -> None:
    left_out = LeftOut.of([prose(5, 500)])
    assert left_out.may_hold(b"short")
    assert left_out.may_hold(b"before " + prose(5, 500) + b" after")
    assert not left_out.may_hold(prose(6, 500))


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
