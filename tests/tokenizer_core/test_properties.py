"""Laws that hold for every corpus and every text, on as many random ones as one likes.

What other files have laws for is not repeated: smaller vocabularies, scaling, order, foreign words,
unique tokens and gains in `test_training_differential`, cuts in `test_cuts` and `test_chunking`.
`amounts` says how many, the seed which; a failure prints the line that does it again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from amounts import Amounts, numbers
from corpus_files import counted, words_of, write
from tempting_texts import tempting_texts

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.corpus.reading import ReadOptions
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

SPECIALS = ("<|endoftext|>", "<|a|>", "<|a|><|b|>", "\n\n")
PATTERNS = ("gpt2", "cl100k", "o200k")


@pytest.fixture(scope="module")
def cases(amounts: Amounts, seed: int, point: int) -> range:
    """Their numbers."""
    return numbers(seed, amounts.laws, point)


def again(number: int, said: object) -> str:
    return f"REPRO: --point {number}: {said}"


def random_words(source: random.Random, most: int) -> dict[bytes, int]:
    alphabet = bytes(source.sample(range(256), source.choice((2, 3, 5))))
    words: dict[bytes, int] = {}
    for _ in range(source.randrange(2, 8)):
        word = bytes(source.choices(alphabet, k=source.randrange(1, 9)))
        words[word] = source.randrange(1, most)
    return words


def merges_of(words: WordCounts, number: int) -> list[tuple[bytes, bytes]]:
    return train_bpe(words, 256 + number, tie_break="greatest-bytes", min_count=1).merges


def test_other_bytes_for_the_same_letters_give_the_same_merges(cases: range) -> None:
    """Which byte stands for which letter decides nothing up to where two counts are equal."""
    compared = 0
    for number in cases[: len(cases) // 10 + 1]:
        source = random.Random(number)
        words = random_words(source, 2**40)
        learned = merges_of(WordCounts.from_mapping(words), 6)
        learned = learned[: steps_without_ties(words, learned)]
        mapping = bytes(source.sample(range(256), 256))
        other = {word.translate(mapping): count for word, count in words.items()}
        expected = [(left.translate(mapping), right.translate(mapping)) for left, right in learned]
        found = merges_of(WordCounts.from_mapping(other), 6)[: len(expected)]
        assert found == expected, again(number, words)
        compared += len(expected)
    assert compared > len(cases) // 10


def steps_without_ties(words: dict[bytes, int], learned: list[tuple[bytes, bytes]]) -> int:
    """How many merges there are before two pairs occur equally often, and most often."""
    parted = {tuple(bytes([byte]) for byte in word): count for word, count in words.items()}
    for step, pair in enumerate(learned):
        counts = reference.count_pairs(parted)
        if list(counts.values()).count(max(counts.values())) > 1:
            return step
        parted = {reference.merge_pair(word, pair): n for word, n in parted.items()}
    return len(learned)


def some_texts(cases: range) -> Iterator[tuple[int, str]]:
    for number in cases:
        yield number, "".join(islice(tempting_texts(number), 3))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_byte_is_lost_or_counted_twice(pattern: str, cases: range, tmp_path: Path) -> None:
    """Σ count · length of words and the special tokens are all bytes of a file, however cut."""
    reading = ReadOptions(SplitPattern.named(pattern), SPECIALS)
    for number, text in some_texts(cases[: len(cases) // 20 + 1]):
        source = random.Random(number)
        text += source.choice(SPECIALS) + text[: source.randrange(20)]
        file = write(tmp_path / "a.txt", text)
        grids = (source.randrange(1, 17), 1_000_000)
        small, whole = (words_of(counted(file, chunk_bytes, reading)) for chunk_bytes in grids)
        assert small == whole, again(number, (pattern, text))
        ordinary = reference.cut_at_special_tokens(text, SPECIALS)
        ordinary = [piece for piece in ordinary if piece not in SPECIALS]
        kept = sum(len(word) * count for word, count in whole.items())
        assert kept == sum(len(piece.encode()) for piece in ordinary), again(
            number, (pattern, text)
        )


@pytest.fixture(scope="module", params=PATTERNS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    pattern = SplitPattern.named(request.param)
    texts = list(islice(tempting_texts(99), 3_000))
    words = WordCounts.from_mapping(reference.count_words(texts, pattern.regex, SPECIALS), pattern)
    return train_bpe(words, 1_000, special_tokens=SPECIALS)


def test_special_tokens_part_what_is_around_them(tokenizer: Tokenizer, cases: range) -> None:
    """encode(x + special + y) is encode(x), its id, encode(y), where none lies across the seam."""
    for number, text in some_texts(cases):
        source = random.Random(number)
        at, special = source.randrange(len(text) + 1), source.choice(SPECIALS)
        parts = [text[:at], special, text[at:]]
        cut = [reference.cut_at_special_tokens(part, SPECIALS) for part in parts]
        if reference.cut_at_special_tokens("".join(parts), SPECIALS) != cut[0] + cut[2]:
            continue  # another one begins earlier, or is longer
        ids = tokenizer.encode("".join(parts), allowed_special="all")
        apart = [
            *tokenizer.encode(parts[0], allowed_special="all"),
            tokenizer.token_to_id(special),
            *tokenizer.encode(parts[2], allowed_special="all"),
        ]
        assert ids == apart, again(number, parts)
        assert tokenizer.decode(ids) == "".join(parts), again(number, parts)
        ordinary = tokenizer.encode("".join(parts))
        assert not any(map(tokenizer.is_special, ordinary)), again(number, parts)
        assert tokenizer.decode_bytes(ordinary) == "".join(parts).encode(), again(number, parts)


def test_encoding_is_that_of_its_parts_between_legal_cuts(
    tokenizer: Tokenizer, cases: range
) -> None:
    pairs = tokenizer.pattern.cut_pairs
    assert pairs is not None
    for number, text in some_texts(cases):
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        classes = pairs.class_of_point[points]
        legal = (np.flatnonzero(pairs.legal[classes[:-1], classes[1:]]) + 1).tolist()
        chosen = sorted(random.Random(number).sample(legal, min(3, len(legal))))
        parts = [text[begin:end] for begin, end in pairwise([0, *chosen, len(text)])]
        apart = [id_ for part in parts for id_ in tokenizer.encode(part)]
        assert tokenizer.encode(text) == apart, again(number, parts)
