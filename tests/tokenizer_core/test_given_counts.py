"""Word counts of other programs: rows as they come, and every kind that is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpeline.tokenizer_core import WordCounts, count_texts
from bpeline.tokenizer_core.corpus import ReadOptions, Source, cut_chunks, find_source_files
from bpeline.tokenizer_core.corpus.chunking import plan_chunk_groups
from bpeline.tokenizer_core.counting import counts_given
from bpeline.tokenizer_core.errors import CorpusError, UnreadableSource
from bpeline.tokenizer_core.splitting import SplitPattern

GPT2 = SplitPattern.named("gpt2")


def written(path: Path, *, rows: int | None = None, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def read(path: Path, reading: ReadOptions | None = None) -> dict[bytes, int]:
    """All words of a file, whatever its chunks."""
    how = reading or ReadOptions(GPT2)
    found: dict[bytes, int] = {}
    for file in find_source_files([Source(str(path), of_counts=True)]):
        for group in plan_chunk_groups([file]):
            for chunk, raw in cut_chunks(group, how, 1 << 12):
                counts = counts_given(chunk, raw, how)
                assert len(set(counts.counts.words())) == len(counts.counts)
                assert counts.bytes_counted == sum(
                    len(word) * count for word, count in counts.counts.items()
                )
                for word, count in counts.counts.items():
                    found[word] = found.get(word, 0) + count
    return found


@pytest.mark.parametrize("type_", [pa.string(), pa.large_binary(), pa.binary(), pa.large_string()])
def test_words_come_back_whatever_their_type_and_their_row_groups(
    tmp_path: Path, type_: Any, seed: int
) -> None:
    random = Random(seed)
    text = "".join(random.choices(["the ", "naïve ", "漢字", "12 ", "\n\n", "\0 ", "  x"], k=4_000))
    counts = count_texts([text], "gpt2")
    words = [bytes(word) for word in counts.words()]
    column = pa.array(words, pa.binary()).cast(type_)
    path = written(
        tmp_path / "a.parquet", rows=random.randint(1, 500), word=column, count=counts.counts
    )
    assert read(path) == dict(counts.items())


def test_equal_words_add_up_and_columns_have_any_name(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.parquet",
        n=pa.array([3, 4, (1 << 40)], pa.uint64()),
        token=pa.array(["low", "low", " low"]).dictionary_encode(),
        other=[1.5, None, 2.5],
    )
    reading = ReadOptions(GPT2, count_columns=("token", "n"))
    assert read(path, reading) == {b"low": 7, b" low": 1 << 40}
    assert reading.digest != ReadOptions(GPT2).digest


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"word": ["a"], "count": [0]}, "row 0 "),
        ({"word": ["a", "b"], "count": [1, -3]}, "row 1 .*'count'"),
        ({"word": ["a", ""], "count": [1, 1]}, "row 1 .*'word'"),
        ({"word": ["a", None], "count": [1, 1]}, "row 1 .*'word'"),
        ({"word": ["a", "b"], "count": [1, None]}, "row 1 .*'count'"),
        ({"word": ["a"], "count": [1.0]}, "double.*'count'"),
        ({"word": [1], "count": [1]}, "int64.*'word'"),
        ({"token": ["a"], "count": [1]}, "'word'"),
        ({"word": ["a"], "count": pa.array([1 << 63], pa.uint64())}, "row 0 .*'count'"),
        ({"word": pa.array([b"a\xff"]), "count": [1]}, "UTF-8 .*'word'"),
        ({"word": pa.array([b"a\x80"]), "count": [1]}, r"b'a\\x80'"),
        ({"word": ["two words"], "count": [1]}, "'two words'"),
        ({"word": ["a", "don't", "x y"], "count": [1, 2, 3]}, r"\b2\b.*\b3\b.*'x y'"),
        ({"word": ["a<end>"], "count": [1]}, "a<end>"),
        ({"word": ["aENDb"], "count": [1]}, "aENDb"),
        ({"word": ["a" * 9], "count": [1 << 60]}, r"\b64\b"),
    ],
)
def test_what_is_no_word_count_is_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], said: str
) -> None:
    path = written(tmp_path / "a.parquet", **columns)
    with pytest.raises(CorpusError, match=said) as refused:
        read(path, ReadOptions(GPT2, ("<end>", "END")))
    assert "a.parquet" in str(refused.value)


def test_a_pattern_that_drops_text_refuses_words_that_it_drops(tmp_path: Path) -> None:
    reading = ReadOptions(SplitPattern.named("whitespace"))
    assert read(written(tmp_path / "a.parquet", word=["low"], count=[2]), reading) == {b"low": 2}
    with pytest.raises(UnreadableSource, match="b' '"):
        read(written(tmp_path / "b.parquet", word=["low", " "], count=[2, 9]), reading)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text("word,count\na,1\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing PAR1")
    for name in ("words.csv", "broken.parquet"):
        with pytest.raises(UnreadableSource, match=name):
            read(tmp_path / name)


def test_counts_of_the_same_text_are_those_of_from_arrow(tmp_path: Path) -> None:
    counts = count_texts(["low lower lowest " * 9], "gpt2")
    pq.write_table(counts.to_arrow(), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == dict(WordCounts.from_arrow(counts.to_arrow()).items())
