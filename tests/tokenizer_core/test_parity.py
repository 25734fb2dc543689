"""Parity-aware BPE: the published example, the reference, an independent library, refusals."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from bpeline.tokenizer_core import (
    ParityRule,
    SplitPattern,
    WordCounts,
    count_texts,
    reference,
    train_bpe,
    train_parity_bpe,
)
from bpeline.tokenizer_core.errors import CorpusError, EmptyCorpus, InvalidOption
from bpeline.tokenizer_core.merging import (
    ParityEngine,
    SymbolWords,
    byte_words,
    load_checkpoint,
    merge_engine,
)
from bpeline.tokenizer_core.training import learn_parity_merges

# Words apart, white space none of them: what `Whitespace` of tokenizers leaves of such texts.
WORDS = SplitPattern(regex=r"\w+")
TRAINING = {
    "A": "low " * 5 + "lower " * 2 + "newest " * 2,
    "B": "haus " * 3 + "maus " * 2,
    "C": "qz " * 3 + "qzv",
}
DEVELOPMENT = {"A": "low newest lower", "B": "haus maus haus", "C": "qzv qz qzv"}


def words_of(texts: dict[str, str]) -> dict[str, Counter[bytes]]:
    return {name: Counter(text.encode().split()) for name, text in texts.items()}


def counts_of(words: dict[str, Counter[bytes]]) -> dict[str, WordCounts]:
    return {name: WordCounts.from_pairs(some.items(), WORDS) for name, some in words.items()}


def learned(
    words: dict[str, Counter[bytes]],
    merges: int,
    rule: ParityRule,
    development: dict[str, Counter[bytes]] | None,
    **options: Any,
) -> list[tuple[bytes, bytes]]:
    made = learn_parity_merges(
        counts_of(words),
        merges,
        rule,
        development=None if development is None else counts_of(development),
        **options,
    )
    order = range(256)
    if options.get("tie_break", "smallest-ids") == "smallest-ids":
        order = reference.printable_order()
    tokens = [bytes([byte]) for byte in order]
    for left, right in made.pairs():
        tokens.append(tokens[left] + tokens[right])
    return [(tokens[left], tokens[right]) for left, right in made.pairs()]


def expected(
    words: dict[str, Counter[bytes]],
    merges: int,
    rule: ParityRule,
    development: dict[str, Counter[bytes]] | None,
    **options: Any,
) -> list[tuple[bytes, bytes]]:
    found = reference.train_parity(
        list(words.values()),
        merges,
        development=None if development is None else list(development.values()),
        window=rule.window,
        alpha=rule.alpha,
        global_merges=rule.global_merges,
        ratios=rule.ratios,
        **options,
    )
    return [pair for pair, _ in found]


def by_tokenizers(
    words: dict[str, Counter[bytes]],
    merges: int,
    rule: ParityRule,
    development: dict[str, Counter[bytes]] | None,
    min_count: int = 2,
) -> list[tuple[bytes, bytes]]:
    """Merges of the trainer of `tokenizers`, over characters, here all ASCII."""

    def texts(some: dict[str, Counter[bytes]]) -> list[list[str]]:
        return [[word.decode() for word in one.elements()] for one in some.values()]

    trainer = trainers.ParityBpeTrainer(
        num_merges=merges,
        variant="window" if rule.window else "base",
        min_frequency=min_count,
        ratio=None if development else list(rule.ratios or [1.0] * len(words)),
        global_merges=rule.global_merges,
        window_size=rule.window or 100,
        alpha=rule.alpha,
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer.train_from_iterator(
        tokenizer, texts(words), None if development is None else texts(development)
    )
    merges_of = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(left.encode(), right.encode()) for left, right in merges_of]


def random_words(random: Random, languages: int) -> dict[str, Counter[bytes]]:
    found: dict[str, Counter[bytes]] = {}
    for number in range(languages):
        letters = random.choice(["ab", "abc", "aabcd", "cdef"])
        words = ["".join(random.choices(letters, k=random.randint(1, 7))) for _ in range(12)]
        found[f"L{number}"] = Counter(
            word.encode() for word in random.choices(words, k=random.randint(2, 60))
        )
    return found


def random_rule(random: Random, languages: int, has_development: bool) -> ParityRule:
    ratios = [random.choice([1.0, 0.5, 2.0, 1.3]) for _ in range(languages)]
    return ParityRule(
        window=random.choice([0, 0, 1, 2, 5, 100]),
        alpha=random.choice([1.0, 1.5, 2.0]),
        global_merges=random.choice([0, 0, 3]),
        ratios=() if has_development or random.random() < 0.5 else tuple(ratios),
    )


@pytest.mark.parametrize(
    ("rule", "development", "merges"),
    [
        (ParityRule(), DEVELOPMENT, "o w,l ow,u s,w e,we s,a us,wes t,q z"),
        (ParityRule(window=2, alpha=1.0), DEVELOPMENT, "o w,u s,q z,l ow,a us,qz v,w e,h aus"),
        (ParityRule(ratios=(1, 1, 1)), None, "o w,u s,q z,l ow,a us,w e,we s,qz v"),
    ],
)
def test_the_published_example(
    rule: ParityRule, development: dict[str, str] | None, merges: str
) -> None:
    words = words_of(TRAINING)
    given = None if development is None else words_of(development)
    options: dict[str, Any] = {"tie_break": "greatest-bytes", "min_count": 1}
    pairs = [tuple(pair.encode().split()) for pair in merges.split(",")]
    assert expected(words, 8, rule, given, **options) == pairs
    assert learned(words, 8, rule, given, **options) == pairs
    assert by_tokenizers(words, 8, rule, given, min_count=1) == pairs


def test_merges_are_those_of_the_reference(seed: int) -> None:
    random = Random(seed)
    longest = 0
    for _ in range(60):
        languages = random.randint(2, 4)
        words = random_words(random, languages)
        development = random_words(random, languages) if random.random() < 0.5 else None
        rule = random_rule(random, languages, development is not None)
        options: dict[str, Any] = {
            "tie_break": random.choice(["smallest-ids", "greatest-bytes"]),
            "min_count": random.choice([1, 2, 3]),
        }
        oracle = expected(words, 40, rule, development, **options)
        assert learned(words, 40, rule, development, **options) == oracle
        longest = max(longest, len(oracle))
    assert longest > 20


def test_merges_are_those_of_tokenizers(seed: int) -> None:
    random = Random(seed)
    compared = 0
    for _ in range(60):
        languages = random.randint(2, 4)
        words = random_words(random, languages)
        development = random_words(random, languages) if random.random() < 0.5 else None
        rule = random_rule(random, languages, development is not None)
        goal = len(expected(words, 40, rule, development, tie_break="greatest-bytes"))
        # Where a language is exhausted and the others are over their share, it never ends there.
        merges = goal - 1 if rule.window else 40
        if merges < 1 or (rule.window and exhausts(words, merges, rule, development)):
            continue
        ours = learned(words, merges, rule, development, tie_break="greatest-bytes")
        assert by_tokenizers(words, merges, rule, development) == ours
        compared += 1
    assert compared > 10


def exhausts(
    words: dict[str, Counter[bytes]],
    merges: int,
    rule: ParityRule,
    development: dict[str, Counter[bytes]] | None,
) -> bool:
    """Whether a language has no pair left when so many merges are made, or soon after."""
    tokenized = [
        {tuple(bytes([b]) for b in word): n for word, n in some.items()} for some in words.values()
    ]
    for pair in expected(words, merges, rule, development, tie_break="greatest-bytes"):
        tokenized = [
            {reference.merge_pair(word, pair): n for word, n in some.items()} for some in tokenized
        ]
        for some in tokenized:
            if max(reference.count_pairs(some).values(), default=0) < 2:
                return True
    return False


def test_the_one_that_is_worst_off_comes_where_all_others_had_their_share() -> None:
    """The defaults of tokenizers 0.23.3 never end here."""
    words = words_of({"A": "ab ab " + "cdefgh " * 9, "B": "xy xy", "C": "zw zw"})
    rule = ParityRule(window=100, alpha=2.0)
    merges = learned(words, 300, rule, None)
    assert merges == expected(words, 300, rule, None)
    assert b"cdefgh" in [left + right for left, right in merges]


def engine_over(
    words: dict[str, Counter[bytes]],
    rule: ParityRule,
    development: dict[str, Counter[bytes]] | None,
    **options: Any,
) -> ParityEngine:
    tie_break = options.pop("tie_break", "smallest-ids")

    def symbols(some: dict[str, Counter[bytes]]) -> list[SymbolWords]:
        return [byte_words(counts, tie_break) for counts in counts_of(some).values()]

    return ParityEngine(
        symbols(words),
        rule,
        development=None if development is None else symbols(development),
        tie_break=tie_break,
        **{"min_count": 2, **options},
    )


def counts_when_merged(
    words: dict[str, Counter[bytes]], merges: list[tuple[bytes, bytes]]
) -> list[int]:
    """How often each pair occurred in all languages when it was merged."""
    together: Counter[tuple[bytes, ...]] = Counter()
    for some in words.values():
        for word, count in some.items():
            together[tuple(bytes([byte]) for byte in word)] += count
    found = []
    for pair in merges:
        found.append(reference.count_pairs(together)[pair])
        merged: Counter[tuple[bytes, ...]] = Counter()
        for symbols, count in together.items():
            merged[reference.merge_pair(symbols, pair)] += count
        together = merged
    return found


def test_whom_merges_serve_and_how_often_pairs_occurred(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        languages = random.randint(2, 4)
        words = random_words(random, languages)
        development = random_words(random, languages) if random.random() < 0.5 else None
        rule = random_rule(random, languages, development is not None)
        engine = engine_over(words, rule, development)
        engine.learn(40)
        oracle = reference.train_parity(
            list(words.values()),
            40,
            development=None if development is None else list(development.values()),
            window=rule.window,
            alpha=rule.alpha,
            global_merges=rule.global_merges,
            ratios=rule.ratios,
        )
        assert engine.chosen.tolist() == [language for _, language in oracle]
        merges = [pair for pair, _ in oracle]
        assert engine.learned[:, 2].tolist() == counts_when_merged(words, merges)


@pytest.mark.parametrize("tie_break", ["smallest-ids", "greatest-bytes"])
@pytest.mark.parametrize("rule", [ParityRule(window=3), ParityRule(global_merges=60)])
def test_growing_one_step_at_a_time_changes_nothing(
    tie_break: str, rule: ParityRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_engine, "_FIRST_TOKENS", 256)
    monkeypatch.setattr(merge_engine, "_FIRST_PAIRS", 1)
    random = Random(3)
    words = random_words(random, 3)
    development = random_words(random, 3)
    engine = engine_over(words, rule, development, tie_break=tie_break)
    for goal in range(1, 200):
        if not engine.learn(goal):
            break
    made = [(engine.token(left), engine.token(right)) for left, right, _ in engine.learned.tolist()]
    assert made == expected(words, 200, rule, development, tie_break=tie_break)
    assert len(made) > 20


def test_more_languages_than_a_number_has_bits(seed: int) -> None:
    random = Random(seed)
    words = random_words(random, 70)
    development = random_words(random, 70)
    for rule in (ParityRule(), ParityRule(window=20, alpha=1.0, global_merges=20)):
        oracle = expected(words, 60, rule, development)
        assert learned(words, 60, rule, development) == oracle
        assert len(oracle) == 60


def test_words_left_out_of_each_language_choose_no_merge_of_all_together() -> None:
    words = {name: Counter({b"qz": 1, b"low": 3}) for name in "ABC"}
    made = learn_parity_merges(
        counts_of(words), 9, ParityRule(global_merges=9), min_word_count=2, min_count=1
    )
    assert len(made) == 2
    assert made.counts.tolist() == [9, 9]


def test_counts_beyond_32_bits_and_runs(seed: int) -> None:
    random = Random(seed)
    for _ in range(20):
        words = {
            name: Counter({b"a" * random.randint(1, 9) + b"b" * random.randint(0, 3): 1 << 33,
                           b"aaab": random.randint(1, 9), b"bab": 3})
            for name in "AB"
        }  # fmt: skip
        rule = ParityRule(window=random.choice([0, 3]))
        assert learned(words, 12, rule, None) == expected(words, 12, rule, None)


def test_an_interrupted_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    random = Random(5)
    words = random_words(random, 3)
    development = random_words(random, 3)
    for rule in (
        ParityRule(),
        ParityRule(window=4, alpha=1.0),
        ParityRule(global_merges=5),
        ParityRule(window=4, global_merges=15),
    ):
        whole = learned(words, 25, rule, development)
        place = tmp_path / f"{rule.window}-{rule.global_merges}.npz"
        assert learned(words, 9, rule, development, checkpoint=place) == whole[:9]
        assert len(load_checkpoint(place)) == 9
        again = learned(words, 25, rule, development, checkpoint=place, resume_from=place)
        assert again == whole
        with pytest.raises(InvalidOption):
            learned(words, 25, ParityRule(window=9), development, resume_from=place)


def test_given_merges_come_first() -> None:
    words = words_of(TRAINING)
    order = reference.printable_order()
    given = np.array([[order.index(ord("t")), order.index(ord("x"))]], np.int32)
    made = learned(words, 6, ParityRule(), None, given=given)
    assert made == [(b"t", b"x"), *learned(words, 5, ParityRule(), None)]
    rule = ParityRule(window=2, alpha=1.0, global_merges=3)
    made = learned(words, 9, rule, None, given=given)
    assert made == [(b"t", b"x"), *learned(words, 8, rule, None)]


def test_the_dearest_language_becomes_cheaper(seed: int) -> None:
    random = Random(seed)
    small = ["".join(random.choices("xyz", k=5)) for _ in range(40)]
    large = ["".join(random.choices("abcde", k=4)) for _ in range(80)]
    texts = {
        "large": " ".join(random.choices(large, k=4_000)),
        "small": " ".join(random.choices(small, k=200)),
    }
    words = {name: count_texts([text], "gpt2") for name, text in texts.items()}
    both = count_texts(texts.values(), "gpt2")
    ordinary, fair = train_bpe(both, 330), train_parity_bpe(words, 330)
    assert fair.vocab_size == ordinary.vocab_size == 330

    def cost(tokenizer: Any, name: str) -> float:
        return len(tokenizer.encode(texts[name])) / len(texts[name])

    assert cost(fair, "small") < cost(ordinary, "small")
    assert cost(fair, "large") > cost(ordinary, "large")
    spread = abs(cost(ordinary, "small") - cost(ordinary, "large"))
    assert abs(cost(fair, "small") - cost(fair, "large")) < spread / 2


def test_what_cannot_be_served_is_refused() -> None:
    counts = counts_of(words_of(TRAINING))
    development = counts_of(words_of(DEVELOPMENT))
    refused: list[tuple[dict[str, WordCounts], ParityRule, dict[str, Any], str]] = [
        ({"A": counts["A"]}, ParityRule(), {}, "1 language"),
        (counts, ParityRule(alpha=0.5), {}, r"alpha=0\.5"),
        (counts, ParityRule(ratios=(1.0,)), {}, r"1\.0,\)"),
        (counts, ParityRule(ratios=(1.0, 1.0, 0.0)), {}, r"0\.0\)"),
        (counts, ParityRule(ratios=(1.0, 1.0, 1.0)), {"development": development}, "ratios"),
        (counts, ParityRule(), {"development": {"A": counts["A"]}}, "'B', 'C'"),
        (counts, ParityRule(), {"tie_break": "first-seen"}, "smallest-ids, greatest-bytes"),
    ]
    for languages, rule, options, said in refused:
        with pytest.raises(InvalidOption, match=said):
            learn_parity_merges(languages, 5, rule, **options)
    with pytest.raises(InvalidOption, match="window is -1"):
        ParityRule(window=-1)
    other = {**counts, "C": count_texts(["kot"], "gpt2")}
    with pytest.raises(InvalidOption, match="pattern"):
        learn_parity_merges(other, 5)
    with pytest.raises(EmptyCorpus, match=r"\bC\b"):
        learn_parity_merges({**counts, "C": WordCounts.from_pairs([], WORDS)}, 5)


def test_counts_that_64_bits_cannot_add_up_are_refused() -> None:
    huge = WordCounts.from_mapping({b"a": 2**62, b"b": 2**62 - 9, b"c": 2**62, b"cd": 5})
    with pytest.raises(CorpusError, match=str(2**63 - 1)):
        train_parity_bpe({"a": huge, "b": WordCounts.from_mapping({b"ef": 3})}, 258)
