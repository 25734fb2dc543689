"""Texts and counts that a program hands over, instead of files."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pandas
import pyarrow
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bpeline import (
    SplitPattern,
    WordCounts,
    count_texts,
    count_words,
    train_bpe,
    train_from_iterator,
)
from bpeline.tokenizer_core.corpus import ReadOptions, Source, cut_chunks, find_source_files
from bpeline.tokenizer_core.corpus.chunking import plan_chunk_groups
from bpeline.tokenizer_core.counting import counts_given, work_queue
from bpeline.tokenizer_core.errors import (
    CorpusError,
    EmptyCorpus,
    InvalidOption,
    InvalidUtf8,
    MissingSource,
    UnreadableSource,
)

WORDS = ["low", " lower", "newest\n", " naïve", " 中文", "<|end|>", " ", "don't", "3.14", "é", "é"]


def some_texts(number: int, seed: int = 5) -> list[str]:
    choose = random.Random(seed)
    return ["".join(choose.choices(WORDS, k=choose.randint(0, 400))) for _ in range(number)]


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize(
    "options", [{}, {"special_tokens": ["<|end|>"]}, {"text_form": "NFC"}, {"pattern": r"\S+|\s"}]
)
def test_texts_are_counted_as_json_lines_of_them_are(
    tmp_path: Path, workers: int, options: dict[str, Any]
) -> None:
    texts = some_texts(1_500)
    lines = (json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
    expected = count_words(tmp_path / "texts.jsonl", **options)
    found = count_texts(iter(texts), workers=workers, **options)
    assert found.digest == expected.digest
    assert count_texts(({"text": text} for text in texts), **options).digest == expected.digest
    batches = (texts[at : at + 7] for at in range(0, len(texts), 7))
    assert count_texts(batches, **options).digest == expected.digest
    columns = ({"text": texts[at : at + 7], "id": [at]} for at in range(0, len(texts), 7))
    assert count_words(columns, **options).digest == expected.digest
    encoded = (text.encode() for text in texts)
    assert count_words(encoded, workers=workers, **options).digest == expected.digest


def test_positions_are_bytes_of_all_texts() -> None:
    counts = count_texts(["ab", "", "ab cd", " ef"], workers=1)
    assert dict(zip(counts.words(), counts.first_positions.tolist(), strict=True)) == {
        b"ab": 0, b" cd": 4, b" ef": 7,
    }  # fmt: skip


def test_texts_are_taken_as_they_are_needed() -> None:
    """An endless stream ends where the listener says so, and little of it was held."""
    taken = 0

    def stream() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "low lower lowest " * 4_000

    class Enough(Exception):
        pass

    heard = []

    def listen(at: Any) -> None:
        heard.append(at)
        if at.bytes > 20_000_000:
            raise Enough

    with pytest.raises(Enough):
        count_texts(stream(), workers=2, on_progress=listen)
    assert [at.bytes for at in heard] == sorted(at.bytes for at in heard)
    assert heard[-1].texts == taken
    assert taken * 68_000 < 22_000_000
    assert not [one for one in threading.enumerate() if one.name.startswith("count")]


def test_errors_of_the_stream_and_of_items_end_the_counting() -> None:
    def broken() -> Iterator[str]:
        yield from some_texts(50)
        raise OSError("the network is gone")

    with pytest.raises(OSError, match="network"):
        count_texts(broken())
    for items, error, said in (
        (["a", 5], InvalidOption, r"item 1 .*\bint\b"),
        ([{"body": "a"}], InvalidOption, "item 0 .*'text'.*'body'"),
        ([{"text": None}], InvalidOption, "item 0 .*NoneType"),
        (["a", "\ud800"], InvalidUtf8, "item 1 "),
        ([b"\xff"], InvalidUtf8, "item 0 "),
        ([], EmptyCorpus, "words"),
        (["", ""], EmptyCorpus, "words"),
        ("low", InvalidOption, "texts='low'"),
    ):
        with pytest.raises(error, match=said):
            count_texts(items)
    assert count_texts([b"a\xff", "b\ud800"], invalid_utf8="replace").to_mapping() == {
        b"a": 1, "\N{REPLACEMENT CHARACTER}".encode(): 2, b"b": 1,
    }  # fmt: skip


class InterruptedAtTheSecond(ThreadPoolExecutor):
    """Interrupted while a second worker is asked for; it does not wait for the first one."""

    def submit(self, *given: Any, **named: Any) -> Any:
        if self._threads:
            raise KeyboardInterrupt
        return super().submit(*given, **named)

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False)
        for worker in self._threads:
            worker.join(60)
            assert not worker.is_alive(), "it waits for texts"


def test_workers_end_when_starting_them_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "ThreadPoolExecutor", InterruptedAtTheSecond)
    with pytest.raises(KeyboardInterrupt):
        count_texts(["low lower"], workers=2)


def test_what_could_be_names_of_files_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("low lower")
    assert count_words([str(path)]).to_mapping() == {b"low": 1, b" lower": 1}
    assert count_words(path for path in tmp_path.glob("*.txt")).total == 2
    with pytest.raises(InvalidOption, match=r"a\.txt"):
        count_words(str(one) for one in tmp_path.glob("*.txt"))
    assert count_texts(str(one) for one in [path]).total > 2, "whoever says so means texts"
    with pytest.raises(InvalidOption, match="deduplicate"):
        count_words(({"text": "a"} for _ in range(2)), deduplicate=True)


def test_training_from_an_iterator_is_counting_and_training() -> None:
    texts = some_texts(300)
    expected = train_bpe(
        count_texts(texts, "cl100k", ["<|end|>"]), 300, special_tokens=["<|end|>"], min_count=3
    )
    heard: list[Any] = []
    made = train_from_iterator(
        iter(texts), 300, pattern="cl100k", special_tokens=["<|end|>"], min_count=3,
        on_counting=heard.append,
    )  # fmt: skip
    assert made.digest == expected.digest
    assert heard[-1].texts == 300
    with pytest.raises(InvalidOption, match=r"\b100\b.*\b256\b"):
        train_from_iterator(iter(texts), 100)


def test_pairs_are_added_up() -> None:
    counts = WordCounts.from_pairs([("low", 5), (b" lower", np.int64(2)), ("low", 1)], "cl100k")
    assert counts.to_mapping() == {b"low": 6, b" lower": 2}
    assert counts.pattern.name == "cl100k"
    for pair in (("low", 0), ("low", 1.5), ("low", True), ("", 1), ("low", 2**63)):
        with pytest.raises(InvalidOption):
            WordCounts.from_pairs([pair])


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", r"\w+|\W"])
def test_the_pattern_goes_through_arrow_with_the_words(pattern: str) -> None:
    counts = count_texts(["don't 12345 lowest", "low LOWER\n"], pattern)
    table = counts.to_arrow()
    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches())
    for data in (table, table.to_batches()[0], reader):
        assert WordCounts.from_arrow(data).pattern == counts.pattern
    said = WordCounts.from_arrow(table, "o200k").pattern
    assert said == SplitPattern.named("o200k")
    nothing_named = WordCounts.from_arrow(table.replace_schema_metadata(None)).pattern
    assert nothing_named == SplitPattern.named("gpt2")


def test_counts_go_to_arrow_and_come_back() -> None:
    counts = count_texts(some_texts(400))
    table = counts.to_arrow()
    assert table.schema.names == ["word", "count", "first_position"]
    assert table.schema.metadata == {b"bpeline.pattern": b"gpt2"}
    assert WordCounts.from_arrow(table).digest == counts.digest
    assert WordCounts.from_arrow(table.slice(3, 50)).to_mapping() == dict(
        list(counts.items())[3:53]
    )
    halves = pyarrow.concat_tables([table.slice(0, 200), table.slice(100)])
    doubled = {word: 2 if 100 <= row < 200 else 1 for row, word in enumerate(counts.words())}
    added = WordCounts.from_arrow(halves).to_mapping()
    assert added == {word: count * doubled[word] for word, count in counts.items()}


@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "string_view"])
def test_counts_made_by_other_programs_are_read(kind: str) -> None:
    words, counts = [" low", "naïve", "中"], [3, 2, 9]
    table = pyarrow.table({
        "n": [0, 0, 0],
        "word": pyarrow.array(words).cast(getattr(pyarrow, kind)()),
        "count": pyarrow.array(counts, pyarrow.uint16()),
    })  # fmt: skip
    expected = {word.encode(): count for word, count in zip(words, counts, strict=True)}
    assert WordCounts.from_arrow(table).to_mapping() == expected
    assert WordCounts.from_arrow(table.to_batches()[0]).to_mapping() == expected
    database = duckdb.connect()
    database.register("words", table)
    made = database.sql("SELECT word, sum(count)::BIGINT AS count FROM words GROUP BY word")
    assert WordCounts.from_arrow(made).to_mapping() == expected


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"token": ["a"], "count": [1]}, "'word'.*token, count"),
        ({"word": ["a", None], "count": [1, 1]}, r"'word'.*\b1\b"),
        ({"word": ["a"], "count": [1.5]}, "double"),
        ({"word": ["a"], "count": [0]}, "WHERE count > 0"),
        ({"word": ["", "a"], "count": [1, 1]}, "word != ''"),
    ],
)
def test_arrow_data_that_are_no_counts_are_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        WordCounts.from_arrow(pyarrow.table(table))
    with pytest.raises(InvalidOption, match=r"list.*Arrow"):
        WordCounts.from_arrow([("a", 1)])


def test_a_list_of_texts_taken_for_files_is_told_how_texts_are_counted() -> None:
    with pytest.raises(MissingSource, match=r"count_texts\(\["):
        count_words(["low lower", "lowest"])


def test_the_page_says_what_is_taken_for_what(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "sources.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(code, str(page), "exec"), {})
    path = tmp_path / "a.txt"
    path.write_text("low lower")
    name = str(path)
    for files in (
        name,
        path,
        Source(name),
        [name],
        (path,),
        {name},
        frozenset([path]),
        iter([path]),
    ):
        assert count_words(files).to_mapping() == {b"low": 1, b" lower": 1}
    for texts in (
        [{"text": "low lower"}],
        ({"text": "low"}, {"text": " lower"}),
        [["low", " lower"]],
        iter(["low lower"]),
        iter([b"low lower"]),
        np.array(["low lower"]),
    ):
        assert count_words(texts).to_mapping() == {b"low": 1, b" lower": 1}


@pytest.mark.parametrize("take", [count_texts, count_words, train_from_iterator])
def test_the_names_in_a_mapping_or_a_table_are_no_texts(take: Any) -> None:
    """All splits of a data set, one row of it, or a table of pandas."""
    options = {"vocab_size": 300} if take is train_from_iterator else {}
    frame = pandas.DataFrame({"text": ["low lower"]})
    for given in ({"train": [{"text": "low"}], "test": []}, {"text": "low lower"}, frame):
        said = rf"{type(given).__name__} .*\['{next(iter(given))}'"
        with pytest.raises(InvalidOption, match=said):
            take(given, **options)
    assert take(frame["text"], **options) is not None


# Word counts in files


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
