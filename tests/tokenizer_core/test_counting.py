"""Counting a corpus in one call: independent of threads and grid, equal to the plain reference."""

from __future__ import annotations

import gzip
import json
import random
import string
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from corpus_files import READING
from fresh_python import output_of
from record_files import as_arrow_stream, as_csv, as_jsonl, as_parquet

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    cut_chunks,
    find_source_files,
    plan_chunk_groups,
    sources_of,
)
from bpeline.tokenizer_core.corpus.sources import Source
from bpeline.tokenizer_core.counting import (
    FilesCounted,
    TextsCounted,
    count_corpus,
    count_texts,
    work_queue,
)
from bpeline.tokenizer_core.counting.count_corpus import count_words
from bpeline.tokenizer_core.errors import (
    EmptyCorpus,
    InvalidOption,
    InvalidPattern,
    InvalidUtf8,
    MissingSource,
)
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.training.bpe import train_bpe

GPT2 = SplitPattern.named("gpt2").regex
SPECIALS = ["<|endoftext|>"]


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, list[str]]:
    """A directory of four files, and their documents in the order of counting."""
    source = random.Random(8)
    pieces = ["word ", "one two ", "é", "日本 ", "\n", "  ", "<|endoftext|>", "12", "don't "]
    texts = ["".join(source.choices(pieces, k=700)) for _ in range(4)]
    (tmp_path / "a.txt").write_text(texts[0])
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(texts[1].encode()))
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": texts[2]}) + "\n")
    (tmp_path / "d.txt").write_text(texts[3])
    return tmp_path, texts


def test_words_and_their_order_are_those_of_the_reference(corpus: tuple[Path, list[str]]) -> None:
    directory, texts = corpus
    counts = count_words(directory, special_tokens=SPECIALS)
    expected = reference.count_words(texts, GPT2, SPECIALS)
    assert list(counts.items()) == list(expected.items())
    assert (counts.first_positions[1:] > counts.first_positions[:-1]).all()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_neither_threads_nor_grid_change_the_digest(
    corpus: tuple[Path, list[str]], workers: int
) -> None:
    directory, _ = corpus
    expected = count_words(directory, special_tokens=SPECIALS)
    for chunk_bytes in (37, 400, 100_000):
        counts = count_words(
            [directory], "gpt2", SPECIALS, workers=workers, chunk_bytes=chunk_bytes
        )
        assert counts.digest == expected.digest
        assert counts.words() == expected.words()


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_the_last_groups_are_cut_smaller_and_leave_nothing_out(
    tmp_path: Path, workers: int
) -> None:
    for name, size in (("a.txt", 990), ("b.txt", 10_041), ("c.txt", 30)):
        (tmp_path / name).write_bytes(b"x" * size)
    files = find_source_files([Source(str(tmp_path))])
    groups = list(enumerate(plan_chunk_groups(files, 100, 9)))  # of several chunks
    pieces = count_corpus._with_small_last(list(groups), 100, workers)
    assert len(groups) < len(pieces)
    whole = [(group.file.path, at) for _, group in groups for at in bytes_of(group)]
    assert [(one.file.path, at) for _, one in pieces for at in bytes_of(one)] == whole
    assert max(len(bytes_of(group)) for _, group in pieces[-workers:]) <= 25
    for number, piece in pieces:
        group = groups[number][1]
        assert piece.file is group.file
        assert (piece.end is None) == (max(bytes_of(piece)) == piece.file.size - 1)


# No lone space for longer than the first looks for one, and of other places to cut a single comma.
NO_SPACE = "a" * 300_000 + "," + "b" * 100_000


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("before", [500_000, 1_100_000, 1_575_000, 1_700_000, 2_000_000])
def test_threads_cut_alike_where_spaces_are_far_apart(
    tmp_path: Path, before: int, workers: int
) -> None:
    content = ("some ordinary words " * 130_000)[:before] + NO_SPACE
    content += (" and others behind them" * 130_000)[: max(2_600_000 - len(content), 1_000)]
    (tmp_path / "a.txt").write_text(content)
    expected = count_words(tmp_path / "a.txt", workers=1)
    assert expected.digest == count_texts([content], workers=1).digest
    chunk_bytes = 1 << 19
    found = count_words(tmp_path / "a.txt", workers=workers, chunk_bytes=chunk_bytes)
    assert found.digest == expected.digest


@pytest.mark.parametrize("chunk_bytes", [1 << 12, 1 << 15])
@pytest.mark.parametrize("seed", range(6))
def test_threads_cut_alike_whatever_is_far_apart(
    tmp_path: Path, seed: int, chunk_bytes: int
) -> None:
    source = random.Random(seed)
    kinds = ["a", "b,", "word ", "two  ", "漢。", "\n", "1", "<|end|>x"]
    content = "".join(source.choice(kinds) * source.randint(1, 20_000) for _ in range(10))
    (tmp_path / "a.txt").write_text(content, newline="")
    expected = count_texts([content], "gpt2", ["<|end|>"], workers=1)
    for workers in (1, 2, 3):
        found = count_words(
            tmp_path / "a.txt", "gpt2", ["<|end|>"], workers, chunk_bytes=chunk_bytes
        )
        assert found.digest == expected.digest


def bytes_of(group: ChunkGroup) -> range:
    return range(group.begin, group.file.size if group.end is None else group.end)


@pytest.mark.parametrize("workers", [1, 3])
def test_positions_count_the_decompressed_bytes_of_all_files(tmp_path: Path, workers: int) -> None:
    (tmp_path / "1.txt").write_text("one")
    (tmp_path / "2.txt.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "3.txt.gz").write_bytes(gzip.compress(b"one" + b"\n" * 500 + b" three"))
    (tmp_path / "4.txt").write_text("")
    (tmp_path / "5.jsonl").write_text('{"text": "one"}\n{"text": "five"}\n')
    (tmp_path / "6.txt").write_text("six")
    counts = count_words(tmp_path, workers=workers)
    places = dict(zip(counts.words(), counts.first_positions.tolist(), strict=True))
    assert places == {
        b"one": 0,
        b"\n" * 500: 3 + 3,
        b" three": 3 + 503,
        b"five": 3 + 509 + 16,
        b"six": 3 + 509 + 33,
    }
    assert list(places) == sorted(places, key=places.__getitem__)


def test_a_file_end_is_a_boundary(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("news")
    (tmp_path / "2.txt").write_text("paper")
    assert count_words(tmp_path).to_mapping() == {b"news": 1, b"paper": 1}
    both: list[Path | Source] = [tmp_path / "2.txt", Source(str(tmp_path / "1.txt"))]
    assert list(count_words(both).to_mapping()) == [b"paper", b"news"]


def test_any_regex_can_be_the_pattern(corpus: tuple[Path, list[str]]) -> None:
    directory, texts = corpus
    regex = r"\w+|[^\w\s]+|\s+"
    counts = count_words(directory, regex, SPECIALS, chunk_bytes=100)
    assert counts.to_mapping() == reference.count_words(texts, regex, SPECIALS)
    assert counts.pattern == SplitPattern(regex=regex)


def test_refusals_name_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("<|endoftext|>")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait")
    with pytest.raises(EmptyCorpus, match=r"empty\.txt"):
        count_words(tmp_path / "empty.txt", special_tokens=SPECIALS)
    with pytest.raises(InvalidUtf8, match=r"latin\.txt.*byte 3\b"):
        count_words(tmp_path / "latin.txt")
    assert count_words(tmp_path / "latin.txt", invalid_utf8="replace").total == 4
    with pytest.raises(MissingSource):
        count_words(tmp_path / "nothing.txt")
    with pytest.raises(InvalidOption, match="workers"):
        count_words(tmp_path, workers=0)
    with pytest.raises(InvalidOption, match="guess"):
        count_words(tmp_path, invalid_utf8="guess")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="special_tokens"):
        count_words(tmp_path, special_tokens="<|endoftext|>")


@pytest.mark.parametrize("workers", [1, 2])
def test_tables_that_grow_count_each_word_once(tmp_path: Path, workers: int) -> None:
    source = random.Random(21)
    for number in range(3):
        words = (
            source.choice(["", "long" * 4]) + f"w{source.getrandbits(19)}" for _ in range(60_000)
        )
        (tmp_path / f"{number}.txt").write_text(" ".join(words))
    whole = count_words(tmp_path, workers=1)
    again = count_words(tmp_path, workers=workers, chunk_bytes=100_000)
    assert len(whole) > 100_000
    assert again.digest == whole.digest
    assert again.words() == whole.words()
    assert (again.first_positions == whole.first_positions).all()


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_first_of_several_errors_is_told(tmp_path: Path, workers: int) -> None:
    for number in range(40):
        content = b"good words" * 50 + (b" bad \xff" if number > 11 else b"")
        (tmp_path / f"{number:02}.txt").write_bytes(content)
    with pytest.raises(InvalidUtf8, match=r"12\.txt.*byte 505\b"):
        count_words(tmp_path, workers=workers, chunk_bytes=64)


@pytest.mark.parametrize(
    "line",
    ["a" * 10**7, "漢" * (10**7 // 3), "a-1" * (10**7 // 3), "  \t" * (10**7 // 3)],
    ids=["one word", "one word of Han", "no space", "only white space"],
)
def test_a_line_of_ten_megabytes_is_counted_in_linear_time(tmp_path: Path, line: str) -> None:
    path = tmp_path / "line.txt"
    path.write_text("some words\n" + line)
    counts = count_words(path, workers=2)
    assert counts.total_bytes == path.stat().st_size
    assert counts.to_mapping()[b" words"] == 1


@pytest.mark.night
def test_a_line_of_a_hundred_megabytes_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_bytes(b"a" * 10**8 + b" b " + b"a" * 10**7)
    counts = count_words(path)
    assert counts.lengths.tolist() == [10**8, 2, 10**7 + 1]
    assert counts.counts.tolist() == [1, 1, 1]


COUNT_EVERYTHING = """
import numpy, sys
from importlib import import_module
from pkgutil import walk_packages
from numba.core.dispatcher import Dispatcher
from bpeline.tokenizer_core import kernels
from bpeline.tokenizer_core.counting.count_corpus import compile_counting, count_words
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

names = [one.name for one in walk_packages(kernels.__path__, kernels.__name__ + ".")]
modules = [import_module(name) for name in names]

def compiled():
    found = {}
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher):
                found[value.py_func.__module__, name] = len(value.signatures)
    return found

pattern, corpus = sys.argv[1:]
compile_counting(SplitPattern.parse(pattern))
before = compiled()
assert sum(before.values()) > 10
for workers in (1, 2):
    counts = count_words(
        corpus, pattern, workers=workers, invalid_utf8="replace", chunk_bytes=100_000
    )
    counts.digest
print(len(counts), {key: after for key, after in compiled().items() if after != before[key]})
"""


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", "whitespace", "[a-z]+|[^a-z]+"])
def test_nothing_is_left_to_compile_when_plain_text_is_counted(
    tmp_path: Path, pattern: str
) -> None:
    source = random.Random(3)
    letters = string.ascii_lowercase
    words = ("".join(source.choices(letters, k=n)) for n in range(1, 40) for _ in range(900))
    prose = " ".join(words) + " é "
    (tmp_path / "a.txt").write_bytes(prose.encode() + b"\xff" + prose.encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(prose.encode()))
    number, late = output_of(COUNT_EVERYTHING, pattern, tmp_path).split(maxsplit=1)
    assert int(number) > 25_000  # more than the smaller table holds
    assert late.strip() == "{}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("whitespace", {b"low": 2, b"lower,": 1, "größe!".encode(): 1}),
        ("wordpunct", {b"low": 2, b"lower": 1, b",": 1, "größe".encode(): 1, b"!": 1}),
    ],
)
def test_patterns_that_drop_white_space_count_and_do_not_train_bytes(
    name: str, expected: dict[bytes, int], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("low lower,  größe!\n low\n")
    counts = count_words(tmp_path / "a.txt", name)
    assert counts.to_mapping() == expected
    assert counts.pattern.drops_gaps
    with pytest.raises(InvalidPattern, match=f"'{name}'"):
        train_bpe(counts, 300)


def some_files(directory: Path) -> list[Path]:
    """Of each kind one, of several chunks of 10,000 bytes."""
    words = random.Random(3)
    texts = [" ".join(words.choices(["low", "lower", "newest"], k=500)) for _ in range(40)]
    (directory / "a.txt").write_text("\n".join(texts))
    (directory / "b.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    return [directory / "a.txt", directory / "b.txt.gz", *(
        write(directory, texts) for write in (as_jsonl, as_parquet, as_arrow_stream, as_csv)
    )]  # fmt: skip


def counting_threads() -> list[str]:
    names = (one.name for one in threading.enumerate())
    return [name for name in names if name.startswith(("count", "digest"))]


@pytest.mark.parametrize("deduplicate", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
def test_progress_is_that_of_bytes_on_disk(
    tmp_path: Path, workers: int, deduplicate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_corpus, "_REPORT_SECONDS", 0)
    files = some_files(tmp_path)
    for given in ([one] for one in files) if workers == 1 else [files]:
        heard: list[FilesCounted] = []
        options = {"chunk_bytes": 10_000, "deduplicate": deduplicate}
        told = count_words(given, workers=workers, on_progress=heard.append, **options)
        assert told.digest == count_words(given, **options).digest
        total = sum(one.stat().st_size for one in given) * (1 + deduplicate)
        assert heard[-1] == FilesCounted(total, total)
        done = [one.bytes for one in heard]
        assert done == sorted(done)
        assert all(0 < one.bytes <= one.total_bytes == total for one in heard)


def test_chunks_stand_for_all_bytes_on_disk(tmp_path: Path) -> None:
    """Up to what follows the last document, such as the footer of a Parquet file."""
    for file in find_source_files(sources_of(some_files(tmp_path))):
        groups = plan_chunk_groups([file], 10_000)
        chunks = [chunk for group in groups for chunk, _ in cut_chunks(group, READING, 10_000)]
        assert len(chunks) > 5
        assert all(chunk.spent >= 0 for chunk in chunks)
        assert 0.9 * file.size <= sum(chunk.spent for chunk in chunks) <= file.size


@pytest.mark.parametrize("deduplicate", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_listener_raises_ends_the_counting(
    tmp_path: Path, deduplicate: bool, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_corpus, "_REPORT_SECONDS", 0)
    (tmp_path / "a.txt").write_text("low lower newest\n" * 100_000)
    chunks, told = 0, threading.Event()
    add = count_corpus._FilesProgress.add

    def slow_add(self: count_corpus._FilesProgress, size: int) -> None:
        nonlocal chunks
        chunks += 1
        add(self, size)
        told.wait(60)
        time.sleep(0.005)  # a thousand chunks would take five seconds

    monkeypatch.setattr(count_corpus._FilesProgress, "add", slow_add)

    def listen(at: FilesCounted) -> None:
        assert 0 < at.bytes < at.total_bytes
        told.set()
        raise error("enough")

    with pytest.raises(error, match="enough"):
        count_words(
            tmp_path, workers=2, chunk_bytes=1_700, deduplicate=deduplicate, on_progress=listen
        )
    assert chunks < 500
    assert not counting_threads()


def test_texts_are_told_as_texts(tmp_path: Path) -> None:
    heard: list[TextsCounted] = []
    count_words((f"low {number}" for number in range(9)), on_progress=heard.append)
    assert heard[-1].texts == 9
    with pytest.raises(ZeroDivisionError):
        count_words(iter(["low lower"]), on_progress=lambda at: 1 // 0)
    assert not counting_threads()


@pytest.mark.parametrize(
    ("name", "size", "pattern", "expected"),
    [
        ("short.txt", 2_900, "gpt2", 1),
        ("two.txt", 3_100, "gpt2", 2),
        ("long.txt", 60_000, "gpt2", 4),
        ("short.jsonl", 2_900, "gpt2", 4),  # whose lines cost more than their words
        ("slow.txt", 2_900, r"(?<=a)b|[^b]+|b", 4),  # which no kernel cuts
        ("many.txt", 60_000, "gpt2", 1),
    ],
)
def test_small_files_take_no_more_threads_than_pay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    size: int,
    pattern: str,
    expected: int,
) -> None:
    line = '{"text": "a b"}\n' if name.endswith(".jsonl") else "ab cd\n"
    (tmp_path / name).write_text(line * (size // len(line)))
    for number in range(9 * (name == "many.txt")):
        (tmp_path / f"{number}.txt").write_text(line)
    started = []

    class Counted(ThreadPoolExecutor):
        def __init__(self, workers: int, **options: str) -> None:
            started.append(workers)
            super().__init__(workers, **options)

    monkeypatch.setattr(work_queue, "ThreadPoolExecutor", Counted)
    count_words(tmp_path, pattern, workers=4, chunk_bytes=1_000)
    assert started == [expected + 1]  # and the one that loads kernels, if any


def test_the_thread_that_may_be_interrupted_compiles_nothing_while_others_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted again while it unwinds, it would keep the compiler's lock from them."""
    loading: list[threading.Thread] = []

    def load() -> None:
        loading.append(threading.current_thread())

    monkeypatch.setattr(count_corpus, "load_kernels_of_rows", load)
    (tmp_path / "a.txt").write_text("low lower " * 1_000)
    assert len(count_words(tmp_path / "a.txt", workers=2, chunk_bytes=1_000)) == 4
    assert [one is threading.main_thread() for one in loading] == [False]

    def fail() -> None:
        raise MemoryError

    monkeypatch.setattr(count_corpus, "load_kernels_of_rows", fail)
    with pytest.raises(MemoryError):
        count_words(tmp_path / "a.txt", workers=2, chunk_bytes=1_000)
