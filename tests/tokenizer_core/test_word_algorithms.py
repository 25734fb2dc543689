"""Words to pieces: kernels equal the reference on words that tempt them; values of the papers."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core.algorithms import reference
from bpeline.tokenizer_core.algorithms.character_bpe import CharacterBpe
from bpeline.tokenizer_core.algorithms.frequency_bpe import FrequencyBpe
from bpeline.tokenizer_core.algorithms.greedy import GreedyLongest
from bpeline.tokenizer_core.algorithms.wordpiece import WordPiece
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.plugins import PLUGINS, algorithm_of
from bpeline.tokenizer_core.tokenizer import Tokenizer

END = "</w>"
# Few letters, so that merges overlap; one character of each UTF-8 length, and an unknown one.
LETTERS = "abcé中🀄"
WORDS = st.text(LETTERS + "?", min_size=1, max_size=12)
MERGES = st.lists(st.tuples(*[st.text(LETTERS, min_size=1, max_size=3)] * 2), max_size=12)


def tokenizer_of(algorithm: Any, tokens: list[str], merges: Any = (), **more: Any) -> Tokenizer:
    """Ids in the order of the tokens, each once."""
    vocab = {id_: token.encode() for id_, token in enumerate(dict.fromkeys(tokens))}
    encoded = [(left.encode(), right.encode()) for left, right in merges]
    return Tokenizer(vocab, encoded, algorithm=algorithm, **more)


def tokens_of(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode(text)]


def explained(tokenizer: Tokenizer, word: str, untouched: list[str]) -> list[str]:
    """What the explanation, in plain Python, ends with."""
    decide = PLUGINS[tokenizer.algorithm.name].home.explained(tokenizer.spec)
    steps = list(decide(word))
    return list(steps[-1].symbols) if steps else untouched


def character_tokens(joined: bool) -> list[str]:
    ends = [letter + END for letter in LETTERS] if joined else [END]
    return ["<unk>", *LETTERS, *ends]


def known(pieces: list[str], tokens: list[str]) -> list[str]:
    return [piece if piece in tokens else "<unk>" for piece in pieces]


def with_ends(merges: list[tuple[str, str]], random_: random.Random) -> list[tuple[str, str]]:
    return [(left, right + END if random_.random() < 0.4 else right) for left, right in merges]


@pytest.mark.night
@settings(max_examples=400, deadline=None)
@given(MERGES, st.lists(WORDS, min_size=1, max_size=6), st.booleans(), st.randoms())
def test_character_bpe_equals_the_reference(
    merges: list[tuple[str, str]], words: list[str], joined: bool, random_: random.Random
) -> None:
    # Merges may join what others made, so that ranks fall and rise within a word.
    for left, right in list(merges):
        if random_.random() < 0.5:
            merges.append((left + right, random_.choice(LETTERS)))
    random_.shuffle(merges)
    merges = with_ends(merges, random_)
    tokens = character_tokens(joined)
    tokens += [part for left, right in merges for part in (left, right, left + right)]
    tokenizer = tokenizer_of(CharacterBpe(END, joined), tokens, merges)
    for text in (" ".join(words), " ".join(word * 30 for word in words)):
        expected = [
            piece
            for word in text.split()
            for piece in known(reference.merge_characters(word, merges, END, joined), tokens)
        ]
        assert tokens_of(tokenizer, text) == expected


def test_a_merge_is_applied_everywhere_before_ranks_are_looked_at_again() -> None:
    # (abc, abc) has the lower rank but exists only after (ab, c) was applied; one place at a time
    # would find it between the first and the second place.
    merges = [("abc", "ab"), ("a", "b"), ("ab", "c")]
    assert reference.merge_characters("abcabc", merges, END) == ["abc", "abc", END]
    for repeats in (1, 40):
        tokens = [*character_tokens(False), "ab", "abc", "abcab"]
        tokenizer = tokenizer_of(CharacterBpe(END), tokens, merges)
        assert tokens_of(tokenizer, "abcabc" * repeats) == ["abc"] * 2 * repeats + [END]


@pytest.mark.night
@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(st.text(LETTERS, min_size=2, max_size=5), st.integers(1, 4), max_size=12),
    st.lists(WORDS, min_size=1, max_size=6),
    st.randoms(),
)
def test_frequency_bpe_equals_the_reference(
    chosen: dict[str, int], words: list[str], random_: random.Random
) -> None:
    frequencies = {
        token + END if random_.random() < 0.3 else token: count for token, count in chosen.items()
    }
    # Every part of a joined text must be a token, or the text could never come about.
    parts = [token[:cut] for token in frequencies for cut in range(1, len(token))]
    for part in parts:
        if END[0] not in part and len(part) > 1 and random_.random() < 0.7:
            frequencies.setdefault(part, random_.randint(1, 4))
    algorithm = FrequencyBpe(END, sentences="none", frequencies=tuple(frequencies.items()))
    tokens = ["<unk>", "<line/>", "</line>", END, *LETTERS, *frequencies]
    tokenizer = tokenizer_of(algorithm, tokens, pattern="whitespace")
    for text in (" ".join(words), " ".join(word * 30 for word in words)):
        expected = [
            piece
            for word in text.split()
            for piece in known(explained(tokenizer, word, [*word, END]), tokens)
        ]
        assert tokens_of(tokenizer, text) == expected


@pytest.mark.night
@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=12),
    st.lists(WORDS, min_size=1, max_size=6),
    st.randoms(),
)
def test_wordpiece_equals_the_reference(
    chosen: list[str], words: list[str], random_: random.Random
) -> None:
    tokens = ["[UNK]", *(random_.choice(["", "##"]) + token for token in chosen), "##a", "b"]
    tokenizer = tokenizer_of(WordPiece(max_word_characters=9), tokens, pattern="whitespace")
    expected = [piece for word in words for piece in explained(tokenizer, word, [])]
    assert tokens_of(tokenizer, " ".join(words)) == expected


@pytest.mark.night
@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=12, unique=True),
    st.lists(WORDS, min_size=1, max_size=6),
    st.randoms(),
)
def test_greedy_longest_equals_the_reference(
    chosen: list[str], words: list[str], random_: random.Random
) -> None:
    tokens = [token + END if random_.random() < 0.3 else token for token in chosen]
    by_length = sorted(tokens, key=lambda token: -len(token.replace(END, "_")))
    tokenizer = tokenizer_of(GreedyLongest(END), ["</u>", *tokens])
    text = " ".join(words)
    expected = [
        piece
        for word in words
        for piece in reference.longest_anywhere(word, by_length, END, "</u>")
    ]
    assert tokens_of(tokenizer, text) == expected


# The example of the paper's readers: low, lower, newest, widest.

PAPER = "e s,es t,est _,l o,lo w,n e,ne w,new est_,low _,w i"


def test_st_within_a_word_and_at_its_end_are_different_tokens() -> None:
    merges = [("s", "t"), ("st", END)]
    tokens = ["<unk>", *"stea", END, "st", "st</w>"]
    tokenizer = tokenizer_of(CharacterBpe(END), tokens, merges)
    assert tokens_of(tokenizer, "stea east") == ["st", "e", "a", END, "e", "a", "st</w>"]


SORTED = ["errrr</w>", "tain</w>", "moun", "est</w>", "high", "the</w>", "a</w>"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("the", ["the</w>"]),
        ("highest", ["high", "est</w>"]),
        ("mountain", ["moun", "tain</w>"]),
        ("xhighyest", ["</u>", "high", "</u>", "est</w>"]),
        ("zzz", ["</u>"]),
        ("high", ["high", "</u>"]),
    ],
)
def test_greedy_longest_finds_what_the_example_says(word: str, expected: list[str]) -> None:
    tokenizer = tokenizer_of(GreedyLongest(), ["</u>", *SORTED])
    assert tokens_of(tokenizer, word) == expected


def test_greedy_longest_decodes_the_example() -> None:
    tokenizer = tokenizer_of(GreedyLongest(), ["</u>", *SORTED])
    tokens = ["the</w>", "high", "est</w>", "moun", "tain</w>"]
    assert tokenizer.decode(map(tokenizer.token_to_id, tokens)) == "the highest mountain"


def test_greedy_longest_finds_tokens_with_characters_that_regexes_know() -> None:
    tokenizer = tokenizer_of(GreedyLongest(), ["</u>", "a.b", ".</w>", "(x", "*"])
    assert tokens_of(tokenizer, "a.b. aXb (x*") == ["a.b", ".</w>", "</u>", "(x", "*", "</u>"]


def test_wordpiece_makes_a_word_unknown_as_a_whole() -> None:
    tokens = ["[UNK]", "un", "##able", "##aff", "##ord", "cat"]
    tokenizer = tokenizer_of(WordPiece(max_word_characters=10), tokens, pattern="whitespace")
    assert tokens_of(tokenizer, "unaffordable unable cat cats") == [
        "[UNK]", "un", "##able", "cat", "[UNK]"
    ]  # fmt: skip
    assert tokenizer.decode(tokenizer.encode("unable cat")) == "unable cat"


def test_sentences_stand_between_their_marks() -> None:
    tokens = ["<unk>", "<line/>", "</line>", END, *"Helo,d", "He", "lo", "lo</w>", "Hello</w>"]
    frequencies = (("He", 3), ("lo", 3), ("lo</w>", 2))
    algorithm = FrequencyBpe(sentences="lines", frequencies=frequencies)
    tokenizer = tokenizer_of(algorithm, tokens)
    text = "\ufeffHello, old\n\n \t\nHe\n"
    assert tokens_of(tokenizer, text) == [
        *["<line/>", "He", "l", "lo</w>", ",", END, "o", "l", "d", END, "</line>"],
        *["<line/>", "He", END, "</line>"],
    ]
    assert tokenizer.decode(tokenizer.encode(text)) == "Hello , old\nHe"
    assert list(tokenizer.encode_iterable(iter(text))) == tokenizer.encode(text)


@pytest.mark.night
def test_punkt_finds_sentences_without_any_download() -> None:
    pytest.importorskip("nltk")
    tokens = ["<unk>", "<line/>", "</line>", END, *"aBcé.!"]
    tokenizer = tokenizer_of(FrequencyBpe(), tokens)
    assert tokens_of(tokenizer, "aé cc.  Bc a!") == [
        *["<line/>", "a", "é", END, "c", "c", END, ".", END, "</line>"],
        *["<line/>", "B", "c", END, "a", END, "!", END, "</line>"],
    ]


def test_without_nltk_the_error_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "nltk.tokenize.punkt", None)
    with pytest.raises(InvalidOption, match=r"pip install 'bpeline\[nltk\]'"):
        tokenizer_of(FrequencyBpe(), ["<unk>", "<line/>", "</line>"])


@pytest.fixture(scope="module")
def toy() -> Tokenizer:
    merges = [tuple(pair.split()) for pair in PAPER.split(",")]
    tokens = ["<unk>", *"lowernstid_", *("".join(pair) for pair in merges), "<|end|>"]
    vocab = {id_: token.encode() for id_, token in enumerate(tokens)}
    encoded = [(left.encode(), right.encode()) for left, right in merges]
    return Tokenizer(vocab, encoded, ["<|end|>"], algorithm=CharacterBpe("_"))


def test_offsets_show_each_piece_in_the_text(toy: Tokenizer) -> None:
    text = "é lower\n<|end|>  widest"
    encoding = toy.encode_with_offsets(text, allowed_special="all")
    assert encoding.ids == toy.encode(text, allowed_special="all")
    shown = [text[begin:end] for begin, end in encoding.char_offsets.tolist()]
    assert shown == ["é", "", "low", "e", "r", "", "<|end|>", "wi", "d", "est"]
    content = text.encode()
    assert [content[a:b].decode() for a, b in encoding.byte_offsets.tolist()] == shown


def test_truncation_ends_with_a_word(toy: Tokenizer) -> None:
    text = "low lower newest <|end|> low"
    sizes = [toy.truncate(text, n, allowed_special="all") for n in range(9)]
    assert sizes == [
        "", "low", "low", "low", "low", "low lower", "low lower newest",
        "low lower newest <|end|>", text,
    ]  # fmt: skip


def test_streams_and_batches_give_what_whole_texts_give(toy: Tokenizer) -> None:
    random_ = random.Random(3)
    texts = [
        "".join(random_.choices([*"lowernstid_", " ", "\n", "low", "est", "<|end|>"], k=30))
        for _ in range(200)
    ]
    batch = toy.encode_batch(texts, allowed_special="all")
    assert batch == [toy.encode(text, allowed_special="all") for text in texts]
    for text, ids in zip(texts, batch, strict=True):
        stream = toy.decode_stream()
        assert "".join(map(stream.feed, ids)) + stream.flush() == toy.decode(ids)
        pieces = toy.encode_iterable(iter(text), allowed_special="all")
        assert list(pieces) == ids
    long = " ".join(texts)
    assert toy.decode(toy.encode_to_numpy(long)) == toy.decode(toy.encode(long))
    assert toy.decode(toy.encode(" low  lower\nnewest ")) == "low lower newest"


def test_many_words_outgrow_the_first_table(toy: Tokenizer) -> None:
    random_ = random.Random(4)
    words = ["".join(random_.choices("lowernstid", k=random_.randint(1, 9))) for _ in range(60_000)]
    merges = [(left.decode(), right.decode()) for left, right in toy.merges]
    expected = {word: reference.merge_characters(word, merges, "_") for word in set(words[:2_000])}
    ids = toy.encode_to_numpy(" ".join(words))
    counted = iter(ids.tolist())
    for word in words[:2_000]:
        assert [toy.vocab[next(counted)].decode() for _ in expected[word]] == expected[word]


def test_the_algorithm_is_part_of_the_digest_and_of_its_description(toy: Tokenizer) -> None:
    other = Tokenizer(toy.vocab, toy.merges, ["<|end|>"], algorithm=CharacterBpe("</w>"))
    assert other.digest != toy.digest
    for algorithm in (CharacterBpe("_", True), GreedyLongest(), WordPiece(), FrequencyBpe()):
        assert algorithm_of(algorithm.described()) == algorithm
    for wrong in (
        {},
        {"name": "bpe"},
        {"name": "wordpiece"},
        {**toy.algorithm.described(), "joined": 1},
    ):
        with pytest.raises(InvalidTokenizer):
            algorithm_of(wrong)


def test_what_does_not_fit_together_is_refused(toy: Tokenizer) -> None:
    with pytest.raises(InvalidTokenizer, match="<unk>"):
        tokenizer_of(CharacterBpe(), ["a"])
    with pytest.raises(InvalidTokenizer, match="merges"):
        tokenizer_of(WordPiece(), ["[UNK]", "a", "b", "ab"], [("a", "b")])
    with pytest.raises(InvalidTokenizer, match="UTF-8"):
        Tokenizer({0: b"<unk>", 1: b"\xff"}, [], algorithm=CharacterBpe())
    with pytest.raises(InvalidTokenizer, match="'ab'"):
        tokenizer_of(CharacterBpe(), ["<unk>", "a", "b"], [("a", "b")])
    with pytest.raises(InvalidOption, match="ignore_merges"):
        tokenizer_of(CharacterBpe(), ["<unk>"], ignore_merges=True)
    with pytest.raises(InvalidOption, match="char-bpe"):
        toy.explain("low")
    assert toy.encode("") == []
    assert toy.encode(" \n ") == []
    assert np.array_equal(toy.encode_to_numpy("low"), np.array(toy.encode("low"), np.uint32))


@pytest.mark.parametrize("kind", ["char-bpe", "greedy-longest", "wordpiece", "frequency-bpe"])
def test_our_own_format_keeps_every_algorithm(kind: str, toy: Tokenizer, tmp_path: Path) -> None:
    tokens = ["[UNK]", "<line/>", "</line>", END, *"Helo,d é\u2028", "##d", "He", "lo</w>"]
    made = {
        "char-bpe": toy,
        "greedy-longest": tokenizer_of(GreedyLongest(unknown="[UNK]"), tokens),
        "wordpiece": tokenizer_of(WordPiece(), tokens),
        "frequency-bpe": tokenizer_of(
            FrequencyBpe(unknown="[UNK]", sentences="lines", frequencies=(("He", 3),)), tokens
        ),
    }[kind]
    made.save(tmp_path / "saved")
    loaded = Tokenizer.load(tmp_path / "saved")
    assert loaded.digest == made.digest
    assert loaded.algorithm == made.algorithm
    assert loaded.encode("Hello, old low 中") == made.encode("Hello, old low 中")
    assert pickle.loads(pickle.dumps(made)).digest == made.digest
    for foreign in ("gpt2", "tiktoken"):
        with pytest.raises(InvalidOption, match=kind):
            made.save(tmp_path / "foreign.tiktoken", foreign)


@pytest.mark.night
def test_long_texts_decode_as_short_ones_do(toy: Tokenizer) -> None:
    """Marks that text does not show, and tokens that look like marks."""
    tokens = ["[UNK]", "<line/>", "</line>", END, *"Hel,", "##", "##l", "x"]
    wordpiece = tokenizer_of(WordPiece(), tokens, pattern="whitespace")
    lines = tokenizer_of(FrequencyBpe(unknown="[UNK]", sentences="lines"), tokens)
    spaces = tokenizer_of(CharacterBpe(unknown="[UNK]"), [*tokens, " "], pattern="gpt2")
    for tokenizer, text in (
        (wordpiece, "## Hl x"),
        (lines, "Hel , l\nH"),
        (spaces, "Hel  x"),
        (toy, "low newest"),
    ):
        gap = "\n" if tokenizer is lines else " "
        long = gap.join([text] * 200)
        for ids in (tokenizer.encode(long), tokenizer.encode_to_numpy(long)):
            assert tokenizer.decode(ids) == long
        stream = tokenizer.decode_stream()
        assert "".join(map(stream.feed, tokenizer.encode(long))) + stream.flush() == long
