"""Trees of regexes, and by which name each thing an automaton cannot run is refused."""

from __future__ import annotations

import pytest
import regex

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
