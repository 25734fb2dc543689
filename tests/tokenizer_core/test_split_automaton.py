"""Random regexes as automata against the `regex` package, and texts made to be read often."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import regex

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.splitting import split_automaton
from bpeline.tokenizer_core.splitting.pretokenization import pre_tokens
from bpeline.tokenizer_core.splitting.regex_syntax import all_characters
from bpeline.tokenizer_core.splitting.split_automaton import SplitAutomaton
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern
from bpeline.tokenizer_core.text import Text

ALPHABET = "ab1 \né"
ATOMS = ["a", "b", "1", " ", r"\n", "é", "[ab]", "[^a]", r"[^\s]", r"\s", r"\S", r"\w", r"\d", ".",
         r"\p{L}", r"\P{L}", "[a1]", r"[^a\n]", "(?i:A)", "(?i:[B1])", "(?s:.)"]  # fmt: skip
AHEAD = ["a", "b", r"\s", r"\S", "[ab]", "$", "a|b", r"\s|$", r"\Z", r"\S|\Z", "1|$"]
COUNTS = ["?", "*", "+", "{2}", "{1,2}", "{0,2}", "{2,}", "{1,3}", "{,2}"]


def random_atom(generator: random.Random, depth: int) -> str:
    kind = generator.random()
    if depth <= 0 or kind < 0.55:
        return generator.choice(ATOMS)
    if kind < 0.62:
        return generator.choice(["(?=", "(?!"]) + generator.choice(AHEAD) + ")"
    if kind < 0.66:
        return generator.choice(["$", r"\Z"])
    opening = generator.choice(["(?:", "(", "(?:", "(?:", "(?:", "(?>"])
    return opening + random_regex(generator, depth - 1) + ")"


def random_sequence(generator: random.Random, depth: int) -> str:
    parts = []
    for _ in range(generator.choice([1, 1, 2, 2, 3, 4])):
        part = random_atom(generator, depth)
        if generator.random() < 0.45 and part not in ("$", r"\Z"):
            part += generator.choice(COUNTS) + generator.choice(["", "", "", "?", "?", "+"])
        parts.append(part)
    return "".join(parts)


def random_regex(generator: random.Random, depth: int) -> str:
    options = generator.choice([1, 1, 2, 2, 3])
    return "|".join(random_sequence(generator, depth) for _ in range(options))


def positions(bitmap: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little")).tolist()


def marked(
    texts: list[str], automaton: SplitAutomaton, *, with_gaps: bool = True
) -> tuple[list[int], list[int]]:
    """Starts of pre-tokens, and those of unmatched text, of texts that are spans of one."""
    ends = np.cumsum([len(text.encode()) for text in texts])
    spans = np.stack([np.concatenate(([0], ends[:-1])), ends], axis=1).astype(np.int64)
    whole = Text.of("".join(texts).encode())
    starts = np.zeros(whole.size // 64 + 2, np.uint64)
    gaps = np.zeros(starts.size if with_gaps else 0, np.uint64)
    assert automaton.mark(whole, spans, starts, gaps)
    return positions(starts), positions(gaps)


def matched(texts: list[str], pattern: str) -> tuple[list[int], list[int]]:
    """The same by `regex`."""
    starts, gaps, begin = [], [], 0
    for text in texts:
        bytes_before = np.cumsum([0, *(len(character.encode()) for character in text)]).tolist()
        end = 0
        for match in regex.finditer(pattern, text):
            if match.end() > match.start():
                if match.start() > end:
                    gaps.append(begin + bytes_before[end])
                starts.append(begin + bytes_before[match.start()])
                end = match.end()
        if end < len(text):
            gaps.append(begin + bytes_before[end])
        begin += bytes_before[-1]
    return sorted(starts + gaps), gaps


def assert_alike(pattern: str, automaton: SplitAutomaton, texts: list[str]) -> None:
    expected = matched(texts, pattern)
    if marked(texts, automaton) != expected:
        for text in texts:
            assert marked([text], automaton) == matched([text], pattern), (pattern, text)
    assert marked(texts, automaton, with_gaps=False) == (expected[0], [])


@pytest.mark.night
@pytest.mark.parametrize("seed", range(4))
def test_random_regexes_find_what_regex_finds(seed: int) -> None:
    generator = random.Random(seed)
    outcomes: Counter[str] = Counter()
    while outcomes["alike"] < 300:
        pattern = random_regex(generator, 2)
        automaton = split_automaton.split_automaton(pattern)
        if isinstance(automaton, str):
            outcomes[automaton.split(" at position")[0]] += 1
            continue
        letters = [ALPHABET[: generator.randint(1, 6)] for _ in range(40)]
        texts = ["".join(generator.choices(some, k=generator.randint(0, 9))) for some in letters]
        assert_alike(pattern, automaton, texts)
        outcomes["alike"] += 1
    # Everything else was refused for one of these reasons, and not too much of it.
    assert set(outcomes) <= {
        "alike",
        "a possessive or atomic group with more behind it",
        "a repeated group that can match nothing",
        "an automaton that takes too long to make",
        "an automaton of more than 4096 states",
    }
    assert outcomes["a possessive or atomic group with more behind it"] > 20
    assert outcomes["a repeated group that can match nothing"] > 20
    assert outcomes.total() < 900


@pytest.mark.parametrize(
    "pattern",
    [
        # preferences, not lengths
        "a|ab", "ab|a", "a|ab|abb", "(?:a|ab)(?:c|bcd)?", "(?:a|ab)??b", "a*?b", "a+?", "a{2,4}?",
        "(?:a|b)*?b", "(?:ab?)+?b", "x*", "|a", "a??", "a??|b", "(?:|a)b", "(?:a?b?)", "()|a",
        # possessive runs of one set
        "a++b", "a*+ab", "a?+ab", "a{1,2}+ab", "a{2,}+.", r"\s++(?!\S)", "(?:a|b)++b", "(?>a+)b?",
        r"\w*+\w", r"[^b]?+a", "(?:ab)++", "c|(?>ab|a)", r"\s++$|\s*[\r\n]|\s",
        # the end
        "a$", r"a\Z", r"\n$", r"\n\Z", r"a(?=\n|$)", r"\s+$", r"(?:a|\n)+$", r"a(?!$)", r"a(?!\Z)",
        r"[^\n]*$", r"a\n?$", r"(?:a$|\n)",
        # look-ahead
        "a(?=b)", "a(?!b)", r"\s+(?!\S)|\s", "a(?=a|b)(?!b)", "(?=a)ab?", "(?!a)[ab]", "a(?=b)|ab",
        "(?:a(?!b)|ab)+", r"(?=\w)[^a]+", "(?:(?!b).)+",
        # unmatched text between
        "ab", "aab", "abab|b", "a+b", "a(?:ab)+b", "[ab]+1",
    ],
)  # fmt: skip
def test_what_is_told_apart_only_by_preference(pattern: str) -> None:
    automaton = split_automaton.split_automaton(pattern)
    assert isinstance(automaton, SplitAutomaton), automaton
    generator = random.Random(9)
    texts = ["", "a\n", "\n", "\n\n", "a \n"]
    for letters in ("ab", "abc", "ab \n", "a\n", "ab1 é\n", " \r\nx"):
        texts += ["".join(generator.choices(letters, k=generator.randint(1, 9))) for _ in range(80)]
    assert_alike(pattern, automaton, texts)


def test_long_texts_are_cut_alike_at_every_place_in_a_word_of_marks() -> None:
    for pattern in (r"\w+| ", "漢|a+b", r"(?s:.)", r"a{3}|é", r"\p{L}+\p{M}*| ?\p{P}", r"é+a"):
        automaton = split_automaton.split_automaton(pattern)
        assert isinstance(automaton, SplitAutomaton)
        texts = []
        for size in (0, 1, 31, 61, 62, 63, 64, 65, 127, 128, 129):
            for filler in ("a", "é", "漢", "𝒜", " ", "-"):
                texts += [filler * size + tail for tail in ("", "a b", "éa-漢", "𝒜\u0301.\n")]
        assert_alike(pattern, automaton, texts)


FALLING_BACK = [
    "a*b|a",
    "(?:a{7})*b|a",
    "(?:a{7})*b|(?:a{5})*c|aa",
    "a+b",
    "(?:ab)*c|a|b",
    r"\s*x|\s",
    "(?:aé)*b|a|é",
    r"[ab]*c(?!\S)|a",
    "a+b|é",
]


@pytest.mark.parametrize("pattern", FALLING_BACK)
@pytest.mark.parametrize("memo_bits", [1 << 29, 1 << 14, 1 << 10])
def test_texts_that_make_attempts_fall_back_are_cut_alike(
    pattern: str, memo_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_automaton, "_MEMO_BITS", memo_bits)
    automaton = split_automaton.split_automaton(pattern)
    assert isinstance(automaton, SplitAutomaton)
    texts = [
        "a" * 1500 + "b" + "a" * 1500,
        "ab" * 750 + "c" + "ab" * 900,
        "aé" * 900 + "b" + "aé" * 900,
        " " * 1500 + "x" + " " * 1000,
        "a" * 1200 + "é" + "a" * 1200 + "c a" + "a" * 500,
        "a" * 1500 + "c" + "a" * 1500 + "b ca",
    ]
    assert_alike(pattern, automaton, texts)


@pytest.mark.parametrize("pattern", FALLING_BACK)
def test_falling_back_is_noticed_and_costs_no_square(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a million characters the square would be 5·10¹¹ steps: this would not return."""
    memos = []
    zeros = np.zeros

    def counted(shape: int, dtype: type) -> np.ndarray:
        memos.append(shape)
        return zeros(shape, dtype)

    automaton = split_automaton.split_automaton(pattern)
    assert isinstance(automaton, SplitAutomaton)
    unit = {"(?:ab)*c|a|b": "ab", "(?:aé)*b|a|é": "aé", r"\s*x|\s": " "}.get(pattern, "a")
    text = Text.of((unit * 1_000_000).encode())
    starts, gaps = zeros(text.size // 64 + 2, np.uint64), zeros(0, np.uint64)
    monkeypatch.setattr(split_automaton.np, "zeros", counted)
    assert automaton.mark(text, np.array([[0, text.size]]), starts, gaps)
    assert len(memos) == 2  # what is remembered between calls, and one memo
    pieces = int(np.bitwise_count(starts).sum())
    if pattern.startswith("a+b"):
        assert pieces == 1
    elif "aa" in pattern:
        assert pieces == 500_000
    else:
        assert pieces == 1_000_000 * len(unit)


def test_a_memo_is_for_one_span_alone() -> None:
    pattern = "a*b|a"
    texts = ["a" * 3000, "a" * 10, "a" * 3000 + "b", "b", "a" * 3000 + "c"]
    automaton = split_automaton.split_automaton(pattern)
    assert isinstance(automaton, SplitAutomaton)
    assert_alike(pattern, automaton, texts)


@pytest.mark.night
def test_equal_columns_are_one_and_known_sizes_stay() -> None:
    sizes = {name: SplitPattern.named(name).automaton for name in ("gpt2", "o200k", "deepseek-v3")}
    assert all(automaton is not None for automaton in sizes.values())
    for automaton in sizes.values():
        assert automaton is not None
        assert automaton.states <= 40
        assert automaton.columns <= 24
        assert automaton.moves.flags.c_contiguous
        assert automaton.moves.shape == (automaton.states, automaton.columns, 2)
        assert int(automaton.class_of_point.max()) < automaton.columns


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?:a?)*", "a repeated group that can match nothing"),
        (r"(?:a*|b){2,3}", "a repeated group that can match nothing"),
        (r"(?:ab|a)++b", "a possessive or atomic group with more behind it"),
        (r"(?>ab|a)b", "a possessive or atomic group with more behind it"),
        (r"(?>a??)", "a possessive or atomic group with more behind it"),
        (r"a{5000}", "repetitions that come to more than 4096 steps"),
        (r"(?:a|b)*a(?:a|b){14}", "an automaton of more than 4096 states"),
        (
            "".join(map(chr, range(0x4E00, 0x4E00 + 300))),
            "more kinds of characters than fit a byte",
        ),
    ],
)
def test_what_would_be_wrong_or_too_large_is_left_to_regex(pattern: str, reason: str) -> None:
    assert SplitPattern(pattern).compiled_by == f"regex: {reason}"
    text = "aab ab" + pattern[:50]
    assert pre_tokens(text, SplitPattern(pattern)) == reference.split(text, pattern)


def test_a_pattern_that_takes_too_long_is_left_to_regex(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_automaton, "MOST_STEPS", 1000)
    made = split_automaton.split_automaton.__wrapped__(r"(?:a|b)*a(?:a|b){14}")
    assert made == split_automaton._TOO_LONG


def test_the_longest_regex_is_answered_quickly_or_not_at_all() -> None:
    long = "|".join(f"{a}{b}{c}" for a in "abcde" for b in "abcdefghij" for c in "abcdefghij")
    pattern = SplitPattern(long[:1900])
    assert pattern.compiled_by == "automaton"
    assert pre_tokens("abcxabdabeeja", pattern) == reference.split("abcxabdabeeja", pattern.regex)


WHOLE_HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 2600, 2)))
HOSTILE = {
    "optional": "a?" * 2000, "any optional": ".?" * 2000, "counted": "(a?){1,500}",
    "counted optional": "(a?){2000}b", "counts in counts": "((a?){1,60}){1,60}",
    "deep": "(" * 50 + "a?" + ")?" * 50, "lazy": "(?:(?:(?:a{1,4}?){1,4}?){1,4}?){1,9}?b",
    "empty": "(?:" + "|" * 900 + "){60}b", "empty look": "(?:(?=a){200}){100}b",
    "range": "(?:[a-z]|[0-9])*a" + "(?:[a-z]|[0-9])" * 12, "most": ".{0,2000}b",
    "words": "|".join(f"{a}{b}{c}" for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefghij"),
    "optional words": "(?:" + "|".join(["a?"] * 1300) + ")", "same": "(?:" + "a|" * 1000 + "b){4}",
    "huge set": f"[{WHOLE_HAN}]+x|b", "many sets": "".join(f"[a{c}]" for c in WHOLE_HAN[:500]),
    "classes": "".join(rf"[\p{{L}}{c}]" for c in WHOLE_HAN[:340]), "any case": "(?i)" + WHOLE_HAN,
    "ranges": "[" + "".join(f"{chr(c)}-{chr(c + 2)}" for c in range(0x4E00, 0x5500, 4)) + "]",
    "columns": WHOLE_HAN[:95] + "." * 3700, "long": "." * 4000, "possessive": "a++" * 1300,
    "looks": "(?!a|b|c)" * 400 + "x",
    "impossible": "(?=" + "|".join(WHOLE_HAN[:200]) + ")" + "(?=a|b)" * 90 + "a",
    "nested plus": "(?:" * 10 + "a+b?" + ")+" * 10, "case": "(?i)(?:straße|ﬃ|ss){1,100}",
}  # fmt: skip


def seconds_of(work: Callable[[], object]) -> float:
    """Of this processor's time, which others that share it make longer: compare two of them."""
    before = time.process_time()
    work()
    return time.process_time() - before


@pytest.mark.night
@pytest.mark.parametrize("name", HOSTILE)
def test_every_regex_has_an_automaton_or_a_reason_within_bounds(name: str) -> None:
    pattern = HOSTILE[name]
    assert len(pattern.encode()) <= 4096
    all_characters()  # made once for all
    tracemalloc.start()
    yardstick = seconds_of(lambda: {number: [number] for number in range(200_000)})
    tracemalloc.reset_peak()
    made = []
    seconds = seconds_of(lambda: made.append(split_automaton.split_automaton.__wrapped__(pattern)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 18 * yardstick  # about four seconds, of which half are tracemalloc's
    assert peak < 200_000_000
    [answer] = made
    if isinstance(answer, str):
        assert answer.count("\n") == 0
        assert len(answer) < 80
    else:
        texts = ["", "a", "aab", "ab1\n", pattern[:30], "b" * 20, "strasse"]
        assert_alike(pattern, answer, texts)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("optional", "an automaton that takes too long to make"),
        ("counted optional", "an automaton that takes too long to make"),
        ("empty", "repetitions that come to more than 4096 steps"),
        ("many sets", "sets of characters that take too long to look up"),
        ("huge set", "sets of characters that take too long to look up"),
    ],
)
def test_what_is_refused_says_why(name: str, reason: str) -> None:
    assert split_automaton.split_automaton(HOSTILE[name]) == reason


def test_sweeps_over_long_chains_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_automaton, "MOST_SWEEPS", 10_000)
    made = split_automaton.split_automaton.__wrapped__(r"(?s:.){1,400}\Z")
    assert made == split_automaton._TOO_LONG
