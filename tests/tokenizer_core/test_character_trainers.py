"""Training over characters: the papers' values, the reference, and subword-nmt's own codes."""

from __future__ import annotations

import io
import itertools
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpeline.tokenizer_core.algorithms import reference, wordpiece
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.algorithms.character_bpe_text import (
    SubwordText,
    read_vocabulary,
)
from bpeline.tokenizer_core.algorithms.frequency_bpe import FrequencyBpe, train_frequency_bpe
from bpeline.tokenizer_core.algorithms.wordpiece import (
    Score,
    ScoringEngine,
    train_wordpiece,
    wordpiece_base,
)
from bpeline.tokenizer_core.counting import WordCounts, count_texts, count_words
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, InvalidSpecialToken
from bpeline.tokenizer_core.merging import merge_engine
from bpeline.tokenizer_core.merging.checkpoint import TrainingProgress
from bpeline.tokenizer_core.merging.learning import words_that_go_on
from bpeline.tokenizer_core.splitting import pre_tokens
from bpeline.tokenizer_core.tokenizer import Tokenizer

TOY = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
# Few letters, so that counts tie and runs overlap; characters of every length in UTF-8.
WORDS = st.dictionaries(
    st.text("abé中🀄", min_size=1, max_size=7), st.integers(1, 3), min_size=1, max_size=9
)
SCORES = {"ratio": reference.ratio, "gain": reference.gain}


def counted(words: dict[str, int], pattern: str = "whitespace") -> WordCounts:
    return WordCounts.from_mapping({word.encode(): n for word, n in words.items()}, pattern)


def merges_of(tokenizer: Tokenizer) -> list[str]:
    return [f"{left.decode()} {right.decode()}" for left, right in tokenizer.merges]


def test_the_papers_example_merge_by_merge() -> None:
    tokenizer = train_char_bpe(counted(TOY), 10, end_of_word="_")
    expected = ["e s", "es t", "est _", "l o", "lo w", "n e", "ne w", "new est_", "low _", "w i"]
    assert merges_of(tokenizer) == expected
    texts = [tokenizer.vocab[id_].decode() for id_ in tokenizer.encode("low lower newest widest")]
    assert texts == ["low_", "low", "e", "r", "_", "newest_", "wi", "d", "est_"]


def test_other_tie_breaks_begin_otherwise() -> None:
    own = train_char_bpe(counted(TOY), 1, tie_break="greatest-bytes")
    joined = train_char_bpe(counted(TOY), 1, tie_break="greatest-bytes", joined=True)
    assert merges_of(own) == ["t </w>"]
    assert merges_of(joined) == ["s t</w>"]


@pytest.mark.night
@settings(max_examples=200, deadline=None)
@given(WORDS, st.booleans(), st.sampled_from(["first-seen", "greatest-bytes"]), st.integers(1, 2))
def test_character_bpe_equals_the_reference(
    words: dict[str, int], joined: bool, tie_break: str, min_count: int
) -> None:
    options = {"joined": joined, "tie_break": tie_break, "min_count": min_count}
    tokenizer = train_char_bpe(counted(words), 12, **options)  # type: ignore[arg-type]
    expected = reference.train_characters(words, 12, "</w>", **options)  # type: ignore[arg-type]
    assert merges_of(tokenizer) == [f"{left} {right}" for left, right, _ in expected]
    text = " ".join(words)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_subword_nmt_learns_the_same_codes() -> None:
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")
    random_ = random.Random(12)
    letters = "".join(chr(c) for c in range(33, 127) if chr(c) not in "</>") + "éßж中語"
    words = {
        "".join(random_.choices(letters, weights=range(len(letters), 0, -1), k=length)): count
        for length, count in ((random_.randint(1, 8), random_.randint(1, 9)) for _ in range(1_500))
    }
    learned = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its progress bar and its old spellings
        lines = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
        learn_bpe.learn_bpe(lines, learned, 400, is_dict=True)
    ours = train_char_bpe(counted(words), 400, joined=True, tie_break="greatest-bytes")
    assert merges_of(ours) == learned.getvalue().split("\n")[1:-1]


def test_subword_nmt_learns_the_same_codes_from_text_with_any_white_space(
    english_and_code: str, tmp_path: Path
) -> None:
    """Only U+0020 and line ends part words there."""
    learn_bpe = pytest.importorskip("subword_nmt.learn_bpe")
    odd = ["\t", "\u00a0", "\u2003", "\u3000", "\x1c", "\x0b", "\u2028", "\x85", "  ", "\r\n"]
    words = english_and_code[:60_000].replace("</w>", "").split(" ")
    text = "".join(f"{word}{odd[at % 10] if at % 7 == 0 else ' '}" for at, word in enumerate(words))
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    learned = io.StringIO()
    with warnings.catch_warnings(), path.open(encoding="utf-8") as lines:
        warnings.simplefilter("ignore")
        learn_bpe.learn_bpe(lines, learned, 300)
    options = {"joined": True, "tie_break": "greatest-bytes"}
    ours = train_char_bpe(count_words([path], "spaces"), 300, **options)  # type: ignore[arg-type]
    assert merges_of(ours) == learned.getvalue().split("\n")[1:-1]
    other = train_char_bpe(count_words([path], "whitespace"), 300, **options)  # type: ignore[arg-type]
    assert merges_of(other) != merges_of(ours)
    # And with these codes the text, its vocabulary, and the text cut by a threshold.
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    get_vocab = pytest.importorskip("subword_nmt.get_vocab")
    theirs = apply_bpe.BPE(io.StringIO(learned.getvalue()))
    lines_of_text = [line + "\n" for line in text.split("\n")[:-1]]
    printed = "".join(map(theirs.process_line, lines_of_text))
    cutter = SubwordText(ours)
    assert cutter.apply("".join(lines_of_text)) == printed
    listed = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        get_vocab.get_vocab(io.StringIO(printed, newline="\n"), listed)
    whole = tmp_path / "b.txt"
    whole.write_bytes("".join(lines_of_text).encode())
    counted_subwords = cutter.vocabulary(count_words([whole], "spaces"))
    rows = [f"{subword} {count}" for subword, count in counted_subwords]
    assert sorted(rows) == sorted(filter(None, listed.getvalue().split("\n")))
    frequent = apply_bpe.read_vocabulary(io.StringIO(listed.getvalue(), newline="\n"), 20)
    assert read_vocabulary("\n".join(rows), 20) == frequent
    restricted = apply_bpe.BPE(io.StringIO(learned.getvalue()), vocab=frequent)
    expected = "".join(map(restricted.process_line, lines_of_text))
    assert SubwordText(ours, vocabulary=frequent).apply("".join(lines_of_text)) == expected
    assert expected != printed


def test_words_are_those_of_str_split() -> None:
    white = [chr(point) for point in range(0x110000) if not chr(point).strip() and chr(point) != ""]
    text = "".join(f"a{one}b{one}{one}" for one in white) + "\u200b c\ufeff"
    assert pre_tokens(text, "str-split") == text.split()
    assert pre_tokens(text, "whitespace") != text.split()


@pytest.mark.parametrize("score", ["ratio", "gain", "likelihood"])
def test_wordpiece_equals_the_reference_on_text(score: str, english_and_code: str) -> None:
    words = Counter(english_and_code[:12_000].split())
    learned = reference.train_wordpiece(words, 60, "##", score, min_count=3)
    alphabet = {word[0] for word in words} | {"##" + c for word in words for c in word[1:]}
    tokenizer = train_wordpiece(
        counted(words),
        1 + len(alphabet) + 60,
        score=score,
        min_count=3,  # type: ignore[arg-type]
    )
    tokens = [tokenizer.vocab[id_].decode() for id_ in range(tokenizer.vocab_size)]
    assert tokens[-60:] == learned
    assert tokens[0] == "[UNK]"
    assert set(tokens[1:-60]) == alphabet


def test_the_two_scores_are_two() -> None:
    words = {"ab": 100, "ac": 90, "xq": 2, "bc": 80}
    ratio = train_wordpiece(counted(words), 8, score="ratio")
    gain = train_wordpiece(counted(words), 8, score="gain")
    assert ratio.vocab[7] == b"xq"  # rare, and never apart
    assert gain.vocab[7] == b"ab"


def test_frequency_bpe_numbers_tokens_by_frequency_and_loses_none() -> None:
    words = {"Hello": 1, "World": 1, ",": 1, "Hey": 1, "Wow": 1, "wow": 4}
    tokenizer = train_frequency_bpe(counted(words, "wordpunct"), 6, sentences="lines")
    learned = reference.train_characters(words, 6, "</w>", min_count=1)
    algorithm = tokenizer.algorithm
    assert isinstance(algorithm, FrequencyBpe)
    assert algorithm.merged_frequencies == {left + right: n for left, right, n in learned}
    tokens = [tokenizer.vocab[id_].decode() for id_ in range(tokenizer.vocab_size)]
    assert {left + right for left, right, _ in learned} < set(tokens)
    assert {"<line/>", "</line>", "<pad>", "<unk>", "</w>", *"HeloWrd,ywW"} < set(tokens)
    merges = [(left, right) for left, right, _ in learned]
    final = [one for word in words for one in reference.merge_characters(word, merges, "</w>")]
    standing = [final.count(token) for token in tokens if token in final]
    assert standing == sorted(standing, reverse=True)
    text = "Hello World , Hey Wow"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.token_to_id("<unk>") not in tokenizer.encode(text)


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"\b5\b"):
        train_wordpiece(counted(TOY), 5)
    with pytest.raises(InvalidOption, match="score"):
        train_wordpiece(counted(TOY), 50, score="unigram")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption):
        train_char_bpe(counted(TOY), -1)
    by_frequency = partial(train_frequency_bpe, sentences="none")
    for train in (train_char_bpe, train_wordpiece, by_frequency):
        with pytest.raises(EmptyCorpus):
            train(counted({}), 100)


@settings(max_examples=200, deadline=None)
@given(WORDS, st.sampled_from(["ratio", "gain", "likelihood"]), st.integers(1, 3))
def test_wordpiece_equals_the_reference_until_no_pair_is_left(
    words: dict[str, int], score: str, min_count: int
) -> None:
    learned = reference.train_wordpiece(words, 99, "##", score, min_count)
    tokenizer = train_wordpiece(counted(words), 999, score=score, min_count=min_count)  # type: ignore[arg-type]
    alphabet = {word[0] for word in words} | {"##" + c for word in words for c in word[1:]}
    tokens = [tokenizer.vocab[id_].decode() for id_ in range(tokenizer.vocab_size)]
    assert tokens[1 + len(alphabet) :] == list(dict.fromkeys(learned))


@pytest.mark.parametrize("score", ["ratio", "gain", "likelihood"])
@pytest.mark.parametrize("min_count", [1, 4])
def test_growing_and_grouping_anew_change_nothing(
    score: Score, min_count: int, english_and_code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = Counter(english_and_code[:30_000].split())
    rows = words_that_go_on(counted(words), "##").words

    def learned(at_once: int) -> list[list[int]]:
        engine = ScoringEngine(rows, score=score, min_count=min_count)
        goal = 0
        while engine.learn(goal):
            goal += at_once
        return engine.learned.tolist()

    whole = learned(10_000)
    assert len(whole) > 500
    for name, small in (("_FIRST_TOKENS", 8), ("_FIRST_PAIRS", 8)):
        monkeypatch.setattr(merge_engine, name, small)
    monkeypatch.setattr(wordpiece, "_MORE_GROUPS", 8)
    assert learned(97) == whole


def log_likelihood(words: list[tuple[list[str], int]]) -> float:
    """Of words under a unigram model of their tokens, estimated from these words."""
    counts: dict[str, int] = {}
    for symbols, count in words:
        for symbol in symbols:
            counts[symbol] = counts.get(symbol, 0) + count
    total = sum(counts.values())
    return sum(count * math.log(count / total) for count in counts.values())


@settings(max_examples=60, deadline=None)
@given(WORDS)
def test_each_merge_leaves_the_likeliest_words_of_all_merges(words: dict[str, int]) -> None:
    """Against a model that is estimated anew for every candidate, after really merging it."""
    alphabet = {word[0] for word in words} | {"##" + c for word in words for c in word[1:]}
    tokenizer = train_wordpiece(counted(words), 999, score="likelihood", min_count=1)
    tokens = [tokenizer.vocab[id_].decode() for id_ in range(tokenizer.vocab_size)]
    learned = tokens[1 + len(alphabet) :]
    standing = [([w[0], *("##" + c for c in w[1:])], n) for w, n in words.items()]
    for made in learned:
        pairs = {pair for symbols, _ in standing for pair in itertools.pairwise(symbols)}
        after = {
            pair: [(_merged_text(symbols, pair), count) for symbols, count in standing]
            for pair in pairs
        }
        chosen = next(pair for pair in pairs if pair[0] + pair[1][2:] == made)
        best = max(map(log_likelihood, after.values()))
        assert log_likelihood(after[chosen]) == pytest.approx(best, rel=1e-12, abs=1e-9)
        standing = after[chosen]


def _merged_text(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair and not merged[-1].startswith("\0"):
            merged[-1] = "\0" + pair[0] + pair[1][2:]  # not to be merged on at once
        else:
            merged.append(symbol)
    return [symbol.removeprefix("\0") for symbol in merged]


@pytest.mark.parametrize("score", ["ratio", "gain"])
def test_the_next_merge_is_the_best_of_all_pairs_present(score: str, english_and_code: str) -> None:
    """Against a look at every pair, counted anew from the words as they stand, to the end."""
    words = Counter(english_and_code[:20_000].split())
    rows = words_that_go_on(counted(words), "##").words
    engine = ScoringEngine(rows, score=score, min_count=2)  # type: ignore[arg-type]
    while engine.learn(engine.merges_done + 1):
        pass
    learned = engine.learned.tolist()
    assert len(learned) > 400
    base = len(rows.base_tokens)
    offsets = rows.offsets.tolist()
    content = rows.ids[rows.content].tolist()
    standing = [content[a:b] for a, b in itertools.pairwise(offsets)]
    counts = rows.counts.tolist()
    for made, (left, right, count) in enumerate(learned, base):
        if (made - base) % 40 == 0:
            tokens: dict[int, int] = {}
            pairs: dict[tuple[int, int], int] = {}
            for symbols, times in zip(standing, counts, strict=True):
                for symbol in symbols:
                    tokens[symbol] = tokens.get(symbol, 0) + times
                for pair in itertools.pairwise(symbols):
                    pairs[pair] = pairs.get(pair, 0) + times
            total = sum(tokens.values())
            best = max(
                (SCORES[score](n, tokens[a], tokens[b], total), n, -tokens[a] * tokens[b], -a, -b)
                for (a, b), n in pairs.items()
                if n >= 2
            )
            assert (count, left, right) == (best[1], -best[3], -best[4])
        standing = [
            _with(symbols, left, right, made) if left in symbols else symbols
            for symbols in standing
        ]


def _with(symbols: list[int], left: int, right: int, made: int) -> list[int]:
    merged: list[int] = []
    for symbol in symbols:
        if merged and merged[-1] == left and symbol == right:
            merged[-1] = made
        else:
            merged.append(symbol)
    return merged


TRAINERS: dict[str, Callable[..., Tokenizer]] = {
    "char-bpe": train_char_bpe,
    "char-bpe, joined": partial(train_char_bpe, joined=True, tie_break="greatest-bytes"),
    "frequency-bpe": partial(train_frequency_bpe, sentences="none"),
    "wordpiece by ratio": train_wordpiece,
    "wordpiece by gain": partial(train_wordpiece, score="gain"),
    "wordpiece by likelihood": partial(train_wordpiece, score="likelihood"),
}


@pytest.mark.parametrize("name", TRAINERS)
def test_resumed_behind_any_merge_training_ends_as_if_it_had_gone_through(
    name: str, english_and_code: str, tmp_path: Path
) -> None:
    words = Counter(english_and_code[:6_000].split())
    counts, train = counted(words), TRAINERS[name]
    base = train(counts, 0).vocab_size if "wordpiece" not in name else len(wordpiece_base(counts))
    begin = base if "wordpiece" in name else 0  # WordPiece is told the size of its vocabulary
    whole = train(counts, begin + 150, checkpoint=tmp_path / "whole")
    for merges in (0, 1, 2, 3, 50, 149, 150):
        path = tmp_path / f"after {merges}"
        train(counts, begin + merges, checkpoint=path)
        if merges:
            resumed = train(counts, begin + 150, resume_from=path, checkpoint=path)
            assert resumed.digest == whole.digest
            assert path.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    train_char_bpe(counted(TOY), 5, checkpoint=path)
    for train in (
        partial(train_char_bpe, joined=True),
        partial(train_char_bpe, end_of_word="_"),
        partial(train_char_bpe, min_count=3),
        partial(train_frequency_bpe, min_word_count=3, sentences="none"),
        train_wordpiece,
    ):
        with pytest.raises(InvalidOption, match="settings"):
            train(counted(TOY), 99, resume_from=path)
    with pytest.raises(InvalidOption, match="word counts"):
        train_char_bpe(counted({**TOY, "new": 1}), 5, resume_from=path)


@pytest.mark.night
def test_frequency_bpe_continues_the_merges_of_character_bpe(tmp_path: Path) -> None:
    train_char_bpe(counted(TOY), 5, min_count=1, checkpoint=tmp_path / "merges")
    train = partial(train_frequency_bpe, counted(TOY), 9, sentences="none")
    whole = train()
    resumed = train(resume_from=tmp_path / "merges")
    assert resumed.digest == whole.digest


def test_progress_is_told_to_the_end() -> None:
    seen: list[TrainingProgress] = []
    train_wordpiece(counted(TOY), 20, on_progress=seen.append)
    assert (seen[-1].merges_done, seen[-1].merges_total) == (8, 8)


@pytest.mark.parametrize("train", [train_char_bpe, train_wordpiece])
def test_special_tokens_that_occur_in_the_words_are_refused(train: Any) -> None:
    counts = count_texts(["low lower lowest"] * 3, pattern="whitespace")
    with pytest.raises(InvalidSpecialToken, match="'low'"):
        train(counts, 40, special_tokens=["<a>", "low"])
    assert train(counts, 40, special_tokens=["<a>"]).special_tokens.keys() == {"<a>"}
