"""Respelled regexes: what changes, what stays, and that Oniguruma then cuts like `regex`."""

from __future__ import annotations

import pytest
import regex
from tokenizers import Regex, pre_tokenizers

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting.regex_spellings import respelled_for_export

WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
TEXTS = [
    "",
    "aaaa a aa",
    "ab12345\n",
    "line\nline\n\n",
    "AAAA]]a}}",
    "ababdabd\n x",
    "$$$$ ((( é漢é",
]


def cut_by_oniguruma(text: str, pattern: str) -> list[str]:
    pieces = pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)
    return [piece for piece, _ in pieces]


@pytest.mark.parametrize(
    ("pattern", "exported"),
    [
        (r"a{1,3}+b", r"(?>a{1,3})b"),
        (r"\p{N}{1,3}+|x", r"(?>\p{N}{1,3})|x"),
        (r"x(?:ab[c}\]]{2}+d){1,}+e", r"x(?>(?:ab(?>[c}\]]{2})d){1,})e"),
        (r"[]a]{2}+|[^]a\]]{2}+", r"(?>[]a]{2})|(?>[^]a\]]{2})"),
        (r"\x41{2}+", r"(?>\x41{2})"),
        (r"(?<n>a(?=b)b){2}+", r"(?>(?<n>a(?=b)b){2})"),
        (r"\(\({2}+", r"\((?>\({2})"),
        (r"(a)(?#{2}+)b", r"(a)b"),
        (r"a{,2}b", r"a{0,2}b"),
        (r"[[a]|[&~][^&&]", r"[\[a]|[\&\~][^\&\&]"),
        (r"\pL+|\PL", r"\p{L}+|\P{L}"),
        (r"(?P<n>a)b|(?i:'s|d)", r"(?<n>a)b|(?i:'s|d)"),
        (r"\U0001F600|\u4e00|\x41", "😀|\\u4e00|\\x41"),
        (r"[\w-]+|[a-z-]", rf"[{WORD}\-]+|[a-z\-]"),
        (r"[^\W\d]+|[^\W]", rf"(?:(?![\d])[{WORD}])+|[{WORD}]"),
        (r"[\W_]++|[\W]", rf"(?:[_]|[^{WORD}])++|[^{WORD}]"),
        (r"\w+|[^\w\s]+|\W", rf"[{WORD}]+|[^{WORD}\s]+|[^{WORD}]"),
        (r"^a|b\Z", r"(?<![\s\S])a|b(?![\s\S])"),
        (r"b$", r"b(?!\n[\s\S]|[^\n])"),
        (r"a\{1,3}+", r"a\{1,3}+"),
        (r"[{1,3}+$^]\$\^", r"[{1,3}+$^]\$\^"),
        (r"a{2}?a{2,}b++c?+", r"a{2}?a{2,}b++c?+"),
    ],
)
def test_only_what_other_engines_misread_is_respelled(pattern: str, exported: str) -> None:
    assert respelled_for_export(pattern) == exported
    for text in TEXTS:
        assert reference.split(text, exported) == reference.split(text, pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"a{1,3}+",
        r"\p{N}{1,3}+",
        r"(?:ab){1,2}+d?",
        r"[]a]{2}+",
        r"\w+$",
        r"^\w+",
        r"\s+\Z",
        r"\n$",
    ],
)
def test_oniguruma_cuts_the_respelled_regex_like_regex(pattern: str) -> None:
    for text in TEXTS:
        expected = reference.split(text, pattern)
        assert cut_by_oniguruma(text, respelled_for_export(pattern)) == expected


@pytest.mark.parametrize("pattern", [r"a{1,3}+", r"^\w+"])
def test_oniguruma_would_indeed_misread_the_original(pattern: str) -> None:
    misread = [t for t in TEXTS if cut_by_oniguruma(t, pattern) != reference.split(t, pattern)]
    assert misread


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?x) a {2}+ $", r"(?V1)[a--[b]]{2}+", r"\bab", r"a\B", r"(a)\1", r"(?<n>a)(?P=n)",
        r"a(?R)?b", r"(a)(?1)", r"\X", r"\R", r"a\Kb", r"\h+", r"[[:alpha:]]+", r"[^[:punct:]]",
        r"\Aa", r"\G.", r"(?i:i)", r"(?i:é)", r"(?i)[a-z]+", r"(?i:\p{Lu})", r"(?s).", r"(?m)a.",
        r"a|(?s:.)", r"(?|a|b)", r"(?(?=a)a|b)", r"\N{DIGIT ONE}", r"(?:abc){e<=1}",
        r"a*", r"a|", r"(?=a)", r"(?<=a)b?", r"$|a", r"\m\w+", r"(?<!a)(?:b*|c)",
    ],
)  # fmt: skip
def test_what_others_read_differently_is_refused(pattern: str) -> None:
    regex.compile(pattern)
    with pytest.raises(InvalidPattern, match="Oniguruma"):
        respelled_for_export(pattern)


def test_lines_stay_lines_when_the_pattern_asks_for_them() -> None:
    assert respelled_for_export(r"(?m)^a$") == r"(?m)^a$"
