"""Character BPE on a whole book: words it knows and words it does not, by merges and greedily."""

from __future__ import annotations

import pydoc_data.topics
import re
from collections import Counter
from pathlib import Path

import pytest

from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.algorithms import reference
from bpeline.tokenizer_core.algorithms.character_bpe import CharacterBpe, train_char_bpe
from bpeline.tokenizer_core.algorithms.greedy import GreedyLongest, greedy_longest
from bpeline.tokenizer_core.counting.word_counts import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training.bpe import train_bpe

END = "</w>"
MERGES = 1500


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reference manual of the Python that runs this: some 600 kB of English."""
    path = tmp_path_factory.mktemp("book") / "topics.txt"
    topics = sorted(pydoc_data.topics.topics.items())
    path.write_text("\n\n".join(text for _, text in topics), encoding="utf-8")
    assert path.stat().st_size > 300_000
    return path


@pytest.fixture(scope="module")
def trained(book: Path) -> tuple[WordCounts, Tokenizer, Tokenizer]:
    counts = count_words(book, "whitespace")
    by_merges = train_char_bpe(counts, MERGES)
    return counts, by_merges, greedy_longest(by_merges, counts)


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode(text)]


def longest_first(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary by length, the end of a word being one character, then by id."""
    tokens = [tokenizer.vocab[id_].decode() for id_ in sorted(tokenizer.vocab) if id_]
    return sorted(tokens, key=lambda token: -len(token.replace(END, "_")))


def test_a_known_word_of_a_book_is_one_token(
    book: Path, trained: tuple[WordCounts, Tokenizer, Tokenizer]
) -> None:
    _, by_merges, greedy = trained
    words = Counter(re.findall(r"\S+", book.read_text(encoding="utf-8")))
    known = [word for word, _ in words.most_common(50)]
    assert {"statement", "function"} & {word for word, _ in words.most_common(300)}
    for tokenizer in (by_merges, greedy):
        for word in known:
            assert tokens_of(tokenizer, word) == [word + END]


@pytest.mark.parametrize("word", ["mountains", "Ilikeeatingapples!", "statement", "⿰中"])
def test_a_word_the_book_lacks_falls_into_parts_it_has(
    word: str, trained: tuple[WordCounts, Tokenizer, Tokenizer]
) -> None:
    _, by_merges, greedy = trained
    merges = [(left.decode(), right.decode()) for left, right in by_merges.merges]
    vocab = {token.decode() for token in by_merges.vocab.values()}
    expected = reference.merge_characters(word, merges, END)
    assert tokens_of(by_merges, word) == [one if one in vocab else "<unk>" for one in expected]
    found = tokens_of(greedy, word)
    assert found == reference.longest_anywhere(word, longest_first(greedy), END, "</u>")
    if word.isascii():
        assert "".join(found) == word + END
        assert greedy.decode(greedy.encode(word)) == word
        assert 1 <= len(found) < len(word)
    else:
        assert found == ["</u>", END]


def test_equally_long_tokens_are_found_by_their_frequency(
    trained: tuple[WordCounts, Tokenizer, Tokenizer],
) -> None:
    counts, by_merges, greedy = trained
    text_tokens = Counter[str]()
    for word, count in counts.items():
        for token in tokens_of(by_merges, word.decode()):
            text_tokens[token] += count
    ordered = [greedy.vocab[id_].decode() for id_ in sorted(greedy.vocab)]
    assert ordered[0] == "</u>"
    frequencies = [text_tokens[token] for token in ordered[1:]]
    assert frequencies == sorted(frequencies, reverse=True)
    assert {*ordered[1:], "<unk>"} == {token.decode() for token in by_merges.vocab.values()}
    # `ab` and `bc` are equally long; in `abc` the one that occurs more often is taken.
    tokens = ["<unk>", *"abcd", END, "ab", "bc"]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    merges = [(b"a", b"b"), (b"b", b"c")]
    by_hand = Tokenizer(vocab, merges, algorithm=CharacterBpe())
    for often, expected in ((b"abd", ["ab", "c", END]), (b"bcd", ["a", "bc", END])):
        words = WordCounts.from_mapping({b"abd": 4, b"bcd": 4, often: 9}, "whitespace")
        assert tokens_of(greedy_longest(by_hand, words), "abc") == expected


def test_special_tokens_and_marks_stay(tmp_path: Path) -> None:
    counts = WordCounts.from_mapping({b"low": 5, b"lower": 2}, "whitespace")
    made = train_char_bpe(counts, 5, special_tokens=["<s>"], end_of_word="_")
    greedy = greedy_longest(made, counts, unknown="<unk>")
    assert greedy.special_tokens == {"<s>": 1}
    assert greedy.algorithm == GreedyLongest("_", "<unk>")
    assert greedy.decode(greedy.encode("lower <s>low", allowed_special="all")) == "lower <s>low"
    greedy.save(tmp_path / "greedy")
    assert Tokenizer.load(tmp_path / "greedy").digest == greedy.digest
    assert isinstance(made.algorithm, CharacterBpe)
    with pytest.raises(InvalidOption, match="byte-bpe"):
        greedy_longest(train_bpe(WordCounts.from_mapping({b"ab": 3}), 257), counts)


def as_the_program(words: dict[str, int], merges: int) -> tuple[list[str], dict[str, list[str]]]:
    """Tokens of a program that does not separate training from encoding, the longest first, and
    its splits of the words it knows."""
    learned = reference.train_characters(words, merges, END)
    pairs = [(left, right) for left, right, _ in learned]
    splits = {word: reference.merge_characters(word, pairs, END) for word in words}
    frequencies: dict[str, int] = {}
    for word, split in splits.items():
        for token in split:
            frequencies[token] = frequencies.get(token, 0) + words[word]
    ordered = sorted(
        frequencies.items(),
        key=lambda one: (len(one[0].removesuffix(END)) + one[0].endswith(END), one[1]),
        reverse=True,  # which leaves equal ones as they were
    )
    return [token for token, _ in ordered], splits


@pytest.mark.night
def test_as_trained_goes_as_programs_that_do_not_separate_training(
    book: Path, tmp_path: Path
) -> None:
    text = book.read_text(encoding="utf-8")
    words = dict(Counter(re.findall(r"\S+", text)[:20_000]))
    counts = WordCounts.from_mapping({w.encode(): n for w, n in words.items()}, "whitespace")
    ordered, splits = as_the_program(words, 300)
    made = greedy_longest(train_char_bpe(counts, 300), counts, as_trained=True)
    plain = greedy_longest(train_char_bpe(counts, 300), counts)
    assert longest_first(made) == ordered
    assert longest_first(plain) != ordered
    for word, split in splits.items():
        assert tokens_of(made, word) == split
    assert sum(tokens_of(plain, word) != split for word, split in splits.items()) > 20
    for word in ("mountains", "Ilikeeatingapples!", "unstated", "x" * 9):
        assert word not in words
        expected = reference.longest_anywhere(word, ordered, END, "</u>")
        assert tokens_of(made, word) == expected
    # With its list of tokens alone, words that it knows are cut as it cuts unknown ones.
    listed = tmp_path / "tokens.txt"
    listed.write_text("\n".join(ordered), encoding="utf-8")
    bare = Tokenizer.load(listed, "greedy", end_of_word=END)
    for word in splits:
        expected = reference.longest_anywhere(word, ordered, END, "</u>")
        assert tokens_of(bare, word) == expected
    both = " ".join(["statement", "unstated", *list(splits)[:50]])
    assert tokens_of(made, both) == [t for word in both.split() for t in tokens_of(made, word)]
    assert made.decode(made.encode(both)) == both


def by_merges_ids(by_merges: Tokenizer, made: Tokenizer, text: str) -> list[int]:
    return [made.token_to_id(by_merges.vocab[id_]) for id_ in by_merges.encode(text)]


def test_known_words_are_kept_with_the_tokenizer(
    trained: tuple[WordCounts, Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    counts, by_merges, _ = trained
    made = greedy_longest(by_merges, counts, as_trained=True)
    algorithm = made.algorithm
    assert isinstance(algorithm, GreedyLongest)
    assert algorithm.known
    made.save(tmp_path / "kept")
    again = Tokenizer.load(tmp_path / "kept")
    assert again.digest == made.digest
    text = " ".join(word for word, _ in algorithm.known)
    assert again.encode(text) == made.encode(text) == by_merges_ids(by_merges, made, text)
    for known in ((("at", ("a",)),), (("at", ("zz", "at" + END)),)):
        with pytest.raises(InvalidTokenizer, match="'at'"):
            Tokenizer(made.vocab, [], algorithm=GreedyLongest(known=known))
