"""Words that hold the text of the mark of the end of a word: learned and encoded as is written."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from bpeline.tokenizer_core.algorithms import greedy_longest, train_char_bpe, train_frequency_bpe
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.word_encoding import explain_words


def words_of(random: Random, letters: str, mark: str) -> dict[str, int]:
    """Words of few letters, many of which hold the mark, in any place."""
    parts = [*letters, *letters, mark]
    words = ["".join(random.choices(parts, k=random.randint(1, 8))) for _ in range(60)]
    return dict(Counter(random.choices(words, k=400)))


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode(text)]


def as_the_papers_program(
    words: dict[str, int], mark: str, merges: int
) -> tuple[list[str], dict[str, list[str]]]:
    """What is learned, and each word as it is cut then; symbols are strings between spaces."""
    spelled = {" ".join(word) + " " + mark: count for word, count in words.items()}
    learned = []
    for _ in range(merges):
        pairs: Counter[tuple[str, str]] = Counter()
        for word, count in spelled.items():
            symbols = word.split(" ")
            for left, right in pairwise(symbols):
                pairs[left, right] += count
        if not pairs or max(pairs.values()) < 2:
            break
        best = max(pairs, key=pairs.__getitem__)
        learned.append("".join(best))
        merged = {}
        for word, count in spelled.items():
            symbols, out = word.split(" "), []
            while symbols:
                size = 2 if tuple(symbols[:2]) == best else 1
                out.append("".join(symbols[:size]))
                symbols = symbols[size:]
            merged[" ".join(out)] = count
        spelled = merged
    return learned, {"".join(word.split(" "))[:-1]: word.split(" ") for word in spelled}


@pytest.mark.parametrize("mark", ["_", "·"])
def test_a_mark_of_one_character_is_that_character(mark: str, seed: int) -> None:
    random = Random(seed)
    for _ in range(25):
        words = words_of(random, "abn", mark)
        learned, cut = as_the_papers_program(words, mark, 25)
        counts = WordCounts.from_mapping({w.encode(): n for w, n in words.items()}, "whitespace")
        trained = train_char_bpe(counts, 25, end_of_word=mark)
        assert [(left + right).decode() for left, right in trained.merges] == learned
        for word, symbols in cut.items():
            assert tokens_of(trained, word) == symbols
            assert list(explain_words(trained, word)[0].tokens) == symbols
        # A token that ends in the mark is read as the end of a word.
        for word, symbols in cut.items():
            ends = ["".join(one[:-1] + " " if one.endswith(mark) else one for one in symbols)]
            assert trained.decode(trained.encode(word)).split() == ends[0].split()


@pytest.mark.parametrize(("mark", "joined"), [("</w>", False), ("</w>", True), ("_", True)])
def test_other_marks_are_told_apart_and_text_comes_back(mark: str, joined: bool, seed: int) -> None:
    random = Random(seed)
    for _ in range(25):
        words = words_of(random, "a<w", mark)
        counts = WordCounts.from_mapping({w.encode(): n for w, n in words.items()}, "whitespace")
        trained = train_char_bpe(counts, 40, end_of_word=mark, joined=joined)
        unknown = trained.token_to_id("<unk>")
        for word in words:
            found = trained.encode(word)
            tokens = tokens_of(trained, word)
            assert trained.decode(found) == word or unknown in found
            # What ends in the mark ends a word, but for the character itself.
            assert tokens[-1].endswith(mark)
            assert not any(one.endswith(mark) and one != mark for one in tokens[:-1])
            assert (mark not in tokens[:-1]) or joined


def test_the_longest_token_and_the_most_frequent_one_find_marks_in_words() -> None:
    counts = WordCounts.from_mapping({b"o_o": 5, b"a_o": 4, b"oo": 7}, "whitespace")
    trained = train_char_bpe(counts, 3, end_of_word="_")
    assert [(left + right).decode() for left, right in trained.merges] == ["o_", "oo_", "o_o_"]
    greedy = greedy_longest(trained, counts)
    assert tokens_of(greedy, "o_o o_a") == ["o_o_", "o_", "a", "_"]
    by_frequency = train_frequency_bpe(counts, 3, end_of_word="_", sentences="none")
    assert tokens_of(by_frequency, "o_a") == ["o_", "a", "_"]


def test_an_empty_mark_is_refused() -> None:
    with pytest.raises(InvalidOption, match="'</w>'"):
        train_char_bpe(WordCounts.from_mapping({b"a": 1}, "whitespace"), 1, end_of_word="")
