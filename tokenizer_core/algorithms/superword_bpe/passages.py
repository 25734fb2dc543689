r"""Passages: adjacent pre-tokens of a split pattern that may hold letters, as one piece of text.

A superword never goes past a pre-token without a letter, so a passage is all that its training and
its encoding have to look at. Cutting into passages is a split pattern like any other, which is why
passages are counted, kept and added up as words are. Learns nothing.
"""

from __future__ import annotations

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting import NAMED_PATTERNS, SplitPattern

# How many of the first alternatives of a pattern match what may hold a letter. No later one can
# match a letter, and none of them looks at the text behind its match or could match less than it
# does when something stands behind it: so the repeated alternatives cut a passage, wherever it
# stands, as the pattern cuts the text around it.
_LETTERS_FIRST = {
    "gpt2": 2,
    "cl100k": 2,
    "o200k": 2,
    "tekken": 2,
    "llama3": 2,
    "qwen2": 2,
    "qwen3.5": 2,
}


@checked
def superword_passages(words: str | SplitPattern = "gpt2") -> SplitPattern:
    """The split pattern that cuts a text into the passages of a pattern of words, and the rest.

    Args:
        words: ``gpt2``, ``cl100k``, ``o200k``, ``tekken``, ``llama3``, ``qwen2`` or ``qwen3.5``;
            or the pattern of its passages, which is returned.

    Raises:
        InvalidPattern: any other.

    Example:
        >>> from bpeline.tokenizer_core.splitting import pre_tokens
        >>> pre_tokens("Of the cat, of 2 dogs", superword_passages("gpt2"))
        ['Of the cat', ',', ' of', ' 2', ' dogs']
    """
    given = SplitPattern.parse(words)
    for name in _LETTERS_FIRST:
        made = SplitPattern(_passage_regex(name))
        if given in (made, SplitPattern.named(name)):
            return made
    raise InvalidPattern(
        f"superwords over runs of words are not known of the split pattern {given.title!r}",
        f"accepted: {', '.join(_LETTERS_FIRST)}, whose letters come before all else",
        "leave the pattern out for gpt2",
    )


def words_of(pattern: SplitPattern) -> SplitPattern:
    """The pattern of words that passages consist of.

    Raises:
        InvalidPattern: it cuts no passages.
    """
    for name in _LETTERS_FIRST:
        if pattern == SplitPattern(_passage_regex(name)):
            return SplitPattern.named(name)
    raise InvalidPattern(
        f"the split pattern {pattern.title!r} cuts no passages",
        "passages are runs of adjacent words with letters",
        "count with `superword_passages('gpt2')` as pattern",
    )


def _passage_regex(name: str) -> str:
    alternatives = _alternatives(NAMED_PATTERNS[name])
    first = _LETTERS_FIRST[name]
    return "|".join([f"(?:{'|'.join(alternatives[:first])})+", *alternatives[first:]])


def _alternatives(regex: str) -> list[str]:
    """A regex cut where ``|`` stands outside of groups and sets."""
    found, begin, depth, in_set, at = list[str](), 0, 0, False, 0
    while at < len(regex):
        character = regex[at]
        if character == "\\":
            at += 1
        elif in_set:
            in_set = character != "]"
        elif character == "[":
            in_set = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        elif character == "|" and depth == 0:
            found.append(regex[begin:at])
            begin = at + 1
        at += 1
    return [*found, regex[begin:]]
