"""Superwords of SuperBPE: the published example, the reference, sizes that are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest
import regex
import tokenizers
from tempting_texts import odd_texts, tempting_texts

from bpeline.tokenizer_core import Tokenizer, WordCounts, count_texts, reference, train_bpe
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.splitting import (
    DIGITS_FROM_RIGHT,
    SUPERWORDS,
    SplitPattern,
    pre_tokens,
)
from bpeline.tokenizer_core.training.extension import (
    may_be_superword,
    superword_lines,
    train_superbpe,
)

Merges = list[tuple[bytes, bytes]]
Cut = Callable[[str], list[str]]
PHRASES = ["of the cat"] * 3 + ["of the dog"] * 2


def lines_of(texts: list[str], **options: list[str]) -> WordCounts:
    return count_texts(texts, superword_lines(), **options)


def made(tokenizer: Tokenizer) -> list[bytes]:
    return [left + right for left, right in tokenizer.merges]


def test_merges_go_on_across_spaces() -> None:
    """By hand: pairs that occur five times, four of them within words, then three times."""
    base = train_bpe(count_texts(PHRASES, "gpt2"), 256 + 4)
    assert made(base) == [b"he", b"of", b"the", b" the"]
    tokenizer = train_superbpe(base, lines_of(PHRASES), 256 + 9, transition_size=256 + 4)
    assert made(tokenizer)[4:] == [b"of the", b"of the ", b"at", b"cat", b"of the cat"]
    assert tokenizer.pattern.regex == SUPERWORDS
    text = "of the cat of the dog"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("of the cat")) == 1


def test_what_the_published_rules_refuse() -> None:
    assert may_be_superword(b" a b c d")
    assert may_be_superword(b"a b  c d ")
    assert not may_be_superword(b"a b c d e")
    assert not may_be_superword(b"Note: ")
    assert may_be_superword(b"Note:\n")
    texts = ["is: it is: it is: one two three four five six"] * 9
    base = train_bpe(count_texts(texts, "gpt2"), 300)
    tokenizer = train_superbpe(base, lines_of(texts), 400, transition_size=base.vocab_size)
    inherited = set(made(base))
    assert all(may_be_superword(token) for token in made(tokenizer) if token not in inherited)
    assert any(token.count(b" ") >= 3 for token in made(tokenizer))


def random_text(random: Random) -> str:
    words = ["".join(random.choices("aab:", k=random.randint(1, 4))) for _ in range(5)]
    parts = random.choices([*words, "12345", "--", "é", "\n", "  "], k=random.randint(20, 120))
    return " ".join(parts)


def at_superwords(text: str) -> list[str]:
    return reference.split(text, SUPERWORDS)


def by_reference(
    texts: list[str], kept: Merges, number: int, cut: Cut = at_superwords, min_count: int = 2
) -> Merges:
    """The merges that are learned behind those that are kept, from the words of each line."""
    counts = Counter[bytes]()
    for text in texts:
        for line in regex.findall(r"[^\n]*\n|[^\n]+$", text):
            counts.update(word.encode() for word in cut(line))
    return reference.train_superwords(
        counts,
        kept,
        number,
        min_count=min_count,
        forbidden=lambda token: not may_be_superword(token),
    )


def assert_encodes_as_reference(
    tokenizer: Tokenizer, texts: list[str], cut: Cut, folder: Path
) -> None:
    """And as `tokenizers` does."""
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    tokenizer.save(folder / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in texts:
        merged = [one for word in cut(text) for one in reference.merge_word(word.encode(), ranks)]
        ids = tokenizer.encode(text)
        assert [tokenizer.vocab[id_] for id_ in ids] == merged, repr(text)
        assert peer.encode(text).ids == ids, repr(text)
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("case", range(40))
def test_merges_are_those_of_the_reference(case: int, seed: int) -> None:
    random = Random(seed + case)
    words, texts = random_text(random), [random_text(random) for _ in range(3)]
    base = train_bpe(count_texts([words, *texts[:1]], "gpt2"), 256 + random.randint(0, 40))
    kept = random.randint(0, len(base.merges))
    least = random.randint(1, 3)
    tokenizer = train_superbpe(
        base, lines_of(texts), 256 + 80, transition_size=256 + kept, min_count=least
    )
    assert tokenizer.merges == by_reference(texts, base.merges[:kept], 80, min_count=least)


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", "o200k", "tekken", "llama3", "qwen2"])
def test_odd_texts_are_learned_from_and_encoded_as_by_the_reference(
    pattern: str, seed: int, tmp_path: Path
) -> None:
    """Whose ids `tokenizers` has, too: every script, NULs, white space alone, CRLF, long words."""
    texts = list(islice(odd_texts(seed), 40))
    learned, unseen = texts[:16], texts[16:]
    base = train_bpe(count_texts(texts[:24], pattern), 256 + 70)
    tokenizer = train_superbpe(base, lines_of(learned), 256 + 120, transition_size=256 + 50)
    assert tokenizer.merges == by_reference(learned, base.merges[:50], 120)
    assert_encodes_as_reference(tokenizer, unseen, at_superwords, tmp_path)


def cut_at_digits(text: str) -> list[str]:
    """The two regexes of llama.cpp, the second of ASCII digits as its engine reads ``\\d``."""
    runs = [one for one in regex.split(r"(\p{N}+)", text) if one]
    return [
        part
        for run in runs
        for part in (
            regex.split(r"(?=(?:[0-9]{3})+(?![0-9]))", run) if regex.match(r"\p{N}", run) else [run]
        )
        if part
    ]


@pytest.mark.night
def test_numbers_are_cut_by_three_from_the_right(seed: int) -> None:
    assert cut_at_digits("in 1234567, ²123 12345²6 ١٢٣٤") == [
        "in ", "1", "234", "567", ", ", "²", "123", " ", "12", "345²6", " ", "١٢٣٤",
    ]  # fmt: skip
    random, pattern = Random(seed), SplitPattern(DIGITS_FROM_RIGHT)
    texts = [*islice(odd_texts(seed), 300), *islice(tempting_texts(seed), 1_000)]
    texts += ["".join(random.choices("0123456789²½٣Ⅷ a.\n", k=30)) for _ in range(1_000)]
    for text in texts:
        expected = cut_at_digits(text)
        assert pre_tokens(text, pattern) == expected, repr(text)
        lines = regex.findall(r"[^\n]*\n|[^\n]+$", text)
        expected = [part for line in lines for part in cut_at_digits(line)]
        assert pre_tokens(text, superword_lines("digits")) == expected, repr(text)


@pytest.mark.night
@pytest.mark.parametrize("pattern", [SplitPattern(DIGITS_FROM_RIGHT), superword_lines("digits")])
def test_text_is_cut_for_threads_where_numbers_and_lines_end(
    pattern: SplitPattern, seed: int
) -> None:
    """Parts between legal cuts have the pre-tokens of the whole."""
    pairs, random, cuts = pattern.cut_pairs, Random(seed), 0
    assert pairs is not None
    for text in islice(odd_texts(seed), 200):
        text = text[:60] + "".join(random.choices("019²٣a \n,", k=30))
        whole = pre_tokens(text, pattern)
        for at in range(1, len(text)):
            before, behind = (pairs.class_of_point[ord(text[i])] for i in (at - 1, at))
            if pairs.legal[before, behind]:
                cuts += 1
                parts = pre_tokens(text[:at], pattern) + pre_tokens(text[at:], pattern)
                assert parts == whole, repr((text[:at], text[at:]))
    assert cuts > 1_000


@pytest.mark.night
def test_superwords_cut_at_digits_alone_are_those_of_the_reference(
    seed: int, tmp_path: Path
) -> None:
    """And `tokenizers` has their ids; that llama.cpp has them, too, the tests of exports say."""
    texts = [*islice(odd_texts(seed), 30), *["it is 1234567 -- of the 2024, said: so\n"] * 5]
    base = train_bpe(count_texts(texts, "gpt2"), 256 + 70)
    lines = count_texts(texts, superword_lines("digits"))
    tokenizer = train_superbpe(base, lines, 256 + 120, transition_size=256 + 50)
    assert tokenizer.merges == by_reference(texts, base.merges[:50], 120, cut_at_digits)
    assert tokenizer.pattern.regex == DIGITS_FROM_RIGHT
    unseen = [*texts, *islice(odd_texts(seed + 1), 30)]
    assert_encodes_as_reference(tokenizer, unseen, cut_at_digits, tmp_path)


def test_superwords_cut_at_punctuation_are_refused_by_gguf_and_told_how(tmp_path: Path) -> None:
    base = train_bpe(count_texts(PHRASES, "gpt2"), 260)
    at_digits = count_texts(PHRASES, superword_lines("digits"))
    made = train_superbpe(base, at_digits, 264, transition_size=260)
    made.save(tmp_path / "x.gguf", "gguf")
    assert Tokenizer.load(tmp_path / "x.gguf").digest == made.digest
    other = train_superbpe(base, lines_of(PHRASES), 264, transition_size=260)
    with pytest.raises(InvalidOption, match=r"llama\.cpp") as refused:
        other.save(tmp_path / "y.gguf", "gguf")
    assert "--cuts digits" in refused.value.next_step
    with pytest.raises(InvalidOption, match="'punctuation', 'digits'"):
        superword_lines("words")  # type: ignore[arg-type]


def test_a_merge_that_lines_do_not_know_is_left_out() -> None:
    base = train_bpe(count_texts(["xyz " * 9, *PHRASES], "gpt2"), 256 + 8)
    assert b"xyz" in made(base)
    tokenizer = train_superbpe(base, lines_of(PHRASES), 256 + 9, transition_size=256 + 8)
    assert not any(b"x" in token for token in made(tokenizer))
    assert len(tokenizer.merges) == 9


def test_tokenizers_gives_the_same_ids(tmp_path: Path, english_and_code: str) -> None:
    texts = [english_and_code[:60_000]]
    base = train_bpe(count_texts(texts, "gpt2"), 900)
    tokenizer = train_superbpe(base, lines_of(texts), 1_200, transition_size=600)
    tokenizer.save(tmp_path / "tokenizer.json", "hf")
    peer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in (english_and_code[50_000:90_000], "漢字 of the  12345 -- the\n\n of the"):
        assert tokenizer.encode(text) == peer.encode(text).ids
    assert sum(b" " in token[1:] for token in made(tokenizer)) > 50


def test_learning_goes_on_from_a_checkpoint(tmp_path: Path, english_and_code: str) -> None:
    texts = [english_and_code[:60_000]]
    base, lines = train_bpe(count_texts(texts, "gpt2"), 500), lines_of(texts)
    whole = train_superbpe(base, lines, 700, transition_size=450)
    saved = tmp_path / "saved"
    train_superbpe(base, lines, 600, transition_size=450, checkpoint=saved)
    resumed = train_superbpe(base, lines, 700, transition_size=450, resume_from=saved)
    assert resumed.digest == whole.digest
    with pytest.raises(InvalidOption):
        train_superbpe(base, lines, 700, transition_size=451, resume_from=saved)


def test_special_tokens_stay_and_what_cannot_be_is_refused() -> None:
    end = "<end>"
    texts = [phrase + end for phrase in PHRASES]
    base = train_bpe(count_texts(texts, "gpt2", special_tokens=[end]), 262, special_tokens=[end])
    lines = lines_of(texts, special_tokens=[end])
    tokenizer = train_superbpe(base, lines, 266, transition_size=261)
    assert tokenizer.special_tokens == {end: 0}
    with pytest.raises(InvalidSpecialToken):
        train_superbpe(base, lines_of(texts), 266, transition_size=261)
    with pytest.raises(InvalidOption, match="pattern"):
        train_superbpe(base, count_texts(texts, "gpt2"), 266, transition_size=261)
    for size, transition in ((266, 256), (266, 263), (259, 261)):
        with pytest.raises(InvalidOption):
            train_superbpe(base, lines, size, transition_size=transition)
    twice = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")]
    vocab = [bytes([byte]) for byte in range(256)] + [b"ab", b"bc", b"abc"]
    with pytest.raises(InvalidOption, match="259"):
        train_superbpe(
            Tokenizer(dict(enumerate(vocab)), twice), lines_of(texts), 300, transition_size=260
        )
