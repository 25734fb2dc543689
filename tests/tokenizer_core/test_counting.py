"""Counting a corpus in one call: independent of threads and grid, equal to the plain reference."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from tokenizer_core import reference
from tokenizer_core.corpus import Source
from tokenizer_core.counting import count_words
from tokenizer_core.errors import (
    EmptyCorpus,
    InvalidOption,
    InvalidPattern,
    InvalidSpecialToken,
    InvalidUtf8,
    MissingSource,
)
from tokenizer_core.split_patterns import SplitPattern
from tokenizer_core.trainers.bpe import train_bpe

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
    with pytest.raises(InvalidUtf8, match=r"latin\.txt is not UTF-8 at byte 3"):
        count_words(tmp_path / "latin.txt")
    assert count_words(tmp_path / "latin.txt", invalid_utf8="replace").total == 4
    with pytest.raises(MissingSource):
        count_words(tmp_path / "nothing.txt")
    with pytest.raises(InvalidOption, match="workers"):
        count_words(tmp_path, workers=0)
    with pytest.raises(InvalidOption, match="guess"):
        count_words(tmp_path, invalid_utf8="guess")  # type: ignore[arg-type]
    with pytest.raises(InvalidSpecialToken):
        count_words(tmp_path, special_tokens="<|endoftext|>")


def test_an_error_in_one_file_ends_the_call(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"bad \xff" if number == 3 else b"good words")
    with pytest.raises(InvalidUtf8, match=r"03\.txt"):
        count_words(tmp_path, workers=3)


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
    with pytest.raises(InvalidPattern, match=f"'{name}' drops the text"):
        train_bpe(counts, 300)
