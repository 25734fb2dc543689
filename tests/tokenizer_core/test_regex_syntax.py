"""Trees of regexes, and by which name each thing an automaton cannot run is refused."""

from __future__ import annotations

import pytest
import regex
from tokenizers import Regex, pre_tokenizers

from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting.regex_spellings import respelled_for_export
from bpeline.tokenizer_core.splitting.regex_syntax import (
    Characters,
    Choice,
    Next,
    Node,
    NotRegular,
    Parts,
    Repeat,
    can_be_empty,
    parsed,
)

A, B, C = Characters("a"), Characters("b"), Characters("c")


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ("a", A),
        ("ab", Parts((A, B))),
        ("", Parts(())),
        ("a|b|", Choice((A, B, Parts(())))),
        ("a|bc", Choice((A, Parts((B, C))))),
        ("(a)(?:b)(?P<n>c)", Parts((A, B, C))),
        ("(?<n>a|b)?", Repeat(Choice((A, B)), 0, 1, "greedy")),
        ("a*b+?c?+", Parts((Repeat(A, 0, None, "greedy"), Repeat(B, 1, None, "lazy"),
                            Repeat(C, 0, 1, "possessive")))),
        ("a{2}", Repeat(A, 2, 2, "greedy")),
        ("a{2,}?", Repeat(A, 2, None, "lazy")),
        ("a{,3}+", Repeat(A, 0, 3, "possessive")),
        ("a{0,3}", Repeat(A, 0, 3, "greedy")),
        ("(?>a)", Repeat(A, 1, 1, "possessive")),
        ("(?>a{2,3})", Repeat(A, 2, 3, "possessive")),
        ("(?>a+?)", Repeat(Repeat(A, 1, None, "lazy"), 1, 1, "possessive")),
        (r"[]a\]]", Characters(r"[]a\]]")),
        (r"[^]a[:alpha:]]", Characters("[^]a[:alpha:]]")),
        (r"[[:a]", Characters("[[:a]")),
        (r"\p{Lu}\PL\s", Parts((Characters(r"\p{Lu}"), Characters(r"\PL"), Characters(r"\s")))),
        (r"\n\x41\u00e9\U0001F600", Parts(tuple(map(Characters, "\nAé😀")))),
        (r"\.\-\é\}", Parts(tuple(map(Characters, ".-é}")))),
        ("}]", Parts((Characters("}"), Characters("]")))),
        (".", Characters("(?:.)")),
        ("(?s:.)", Characters("(?s:.)")),
        ("(?i:a[b])c", Parts((Parts((Characters("(?i:a)"), Characters("(?i:[b])"))), C))),
        ("(?i)a", Characters("(?i:a)")),
        ("(?i:a(?-i:b))", Parts((Characters("(?i:a)"), B))),
        ("(?is:.)", Characters("(?s:.)")),
        ("$", Next((), at_end=True, at_last_line_feed=True)),
        (r"\Z", Next((), at_end=True)),
        ("(?=a)", Next(("a",))),
        (r"(?!\S)", Next((r"\S",), negated=True)),
        (r"(?=[ab]|c|$)", Next(("[ab]", "c"), at_end=True, at_last_line_feed=True)),
        (r"(?!a|\Z)", Next(("a",), at_end=True, negated=True)),
    ],
)  # fmt: skip
def test_a_regex_becomes_its_tree(pattern: str, tree: Node) -> None:
    regex.compile(pattern)
    assert parsed(pattern) == tree


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "a back-reference or an octal escape at position 3"),
        (r"\0", "a back-reference or an octal escape at position 0"),
        (r"(?P<n>a)(?P=n)", "a back-reference at position 8"),
        (r"(?<n>a)\g<n>", "a back-reference at position 7"),
        (r"(?R)?a", "recursion at position 0"),
        (r"(a)(?1)", "recursion at position 3"),
        (r"(?<n>a)(?&n)", "recursion at position 7"),
        (r"(?<=a)b", "look-behind at position 0"),
        (r"(?<!a)b", "look-behind at position 0"),
        (r"a\b", "a word boundary at position 1"),
        (r"\Ba", "a word boundary at position 0"),
        (r"\ma", "a word boundary at position 0"),
        (r"^a", "an anchor at the start at position 0"),
        (r"\Aa", "an anchor at the start at position 0"),
        (r"\Ga", r"the anchor \G at position 0"),
        (r"a\Kb", r"\K at position 1"),
        (r"\X", r"a grapheme (\X) at position 0"),
        (r"\R", r"\R at position 0"),
        (r"\N{SPACE}", "a character by name at position 0"),
        (r"\h", r"the escape \h at position 0"),
        (r"(?:ab){e<=1}", "a brace that is no count at position 6"),
        (r"a{", "a brace that is no count at position 1"),
        (r"(?m)a$", "an inline flag at position 0"),
        (r"(?x)a b", "an inline flag at position 0"),
        (r"(?V1)[a--b]", "an inline flag at position 0"),
        (r"a(?i)b", "an inline flag at position 1"),
        (r"(?m:a$)", "an inline flag at position 0"),
        (r"(?a:\w)", "an inline flag at position 0"),
        (r"(?#note)a", "a comment at position 0"),
        (r"(?|a|b)", "a branch reset at position 0"),
        (r"(a)?(?(1)b|c)", "a conditional at position 4"),
        (r"(*FAIL)", "a verb at position 0"),
        (r"a(?=bc)", "look-ahead of anything but one character at position 1"),
        (r"a(?!b*)", "look-ahead of anything but one character at position 1"),
        (r"a(?=b|cd)", "look-ahead of anything but one character at position 1"),
        (r"a(?=(?!b))", "look-ahead of anything but one character at position 1"),
        (r"a(?=)", "look-ahead of anything but one character at position 1"),
        ("(" * 51 + "a" + ")" * 51, "groups nested more than 50 deep at position 51"),
    ],
)  # fmt: skip
def test_what_no_automaton_runs_is_refused_by_name(pattern: str, reason: str) -> None:
    regex.compile(pattern)
    with pytest.raises(NotRegular) as caught:
        parsed(pattern)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("pattern", "empty"),
    [("a", False), ("a*", True), ("a?b", False), ("a?b*", True), ("a|", True), ("a|bc", False),
     ("$", True), ("(?=a)", True), ("a{2}", False), ("(?:a?){2}", True), ("", True)],
)  # fmt: skip
def test_what_can_match_nothing_is_known(pattern: str, empty: bool) -> None:
    assert can_be_empty(parsed(pattern)) == empty
    assert (regex.fullmatch(pattern, "") is not None) == (empty and pattern != "(?=a)")


# Export


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
