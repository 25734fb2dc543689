"""The regexes behind names, which regexes are refused, and how other engines are told them.

Regexes with a name are spelled so that ``regex``, Oniguruma (``tokenizers``) and fancy-regex
(``tiktoken``) cut alike, and otherwise as published. Of another regex, what all three spell and
read alike stays as it is, what they read differently is respelled, and everything else is refused
by name: an engine that misreads a regex does not complain. That the classes of characters agree was
compared on all code points; engines of another Unicode version classify characters that are
assigned in only one of the two differently, and no spelling helps.

The ``regex`` package writes repetitions out when it compiles: ``(?:a+b)+`` holds the part for its
first time and once more for all others, so nested ones double, and ``a{1000000}`` takes 270 MB. And
it reads set operators as literals: ``[a-z&&[^aeiou]]`` is a set with ``&`` and ``[`` in it and then
a bracket. Both are refused.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import regex
import regex as regex_package

from bpeline.tokenizer_core.errors import (
    InvalidPattern,
    PatternExceedsLimit,
)
from bpeline.tokenizer_core.splitting.regex_syntax import (
    NotRegular,
    can_be_empty,
    parsed,
)
from bpeline.tokenizer_core.splitting.segmenters import SEGMENTERS

# openai/gpt-2 src/encoder.py; tiktoken's r50k_base and p50k_base; ByteLevel of `tokenizers`.
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# tiktoken's cl100k_base in two respects spelled otherwise, so that every engine reads the same:
# `\p{N}{1,3}+` without its plus (nothing follows, so giving back cannot help; Oniguruma reads the
# plus as a repetition), and `\s++$` as `\s++(?!\S)` (behind a possessive run stands no white
# space, so both mean the end of the text; `$` means three different things to three engines).
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++(?!\S)|\s*[\r\n]|\s+(?!\S)|\s"
)

# tiktoken_ext/openai_public.py, o200k_base; o200k_harmony and gpt-oss use the same.
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Mistral's tekken.json (v3, v7, v11) and tokenizer.json of Mistral Nemo: o200k without contractions
# and with one number to a pre-token.
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WHITE_SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"

# bigcode/starcoder tokenizer.json (SmolLM, Command R and CodeShell have the same): each number is
# cut off first, then gpt2 cuts what lies between. So a text may end before a number.
_STARCODER = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

# moonshotai/Kimi-K2 tokenization_kimi.py: o200k, but runs of Han are pre-tokens of their own, and
# no slash follows a line break. It says `[…&&[^\p{Han}]]`, which only some engines understand.
_CAPITALS = r"(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
_SMALL = r"(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])"
_KIMI = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_SMALL}+{_CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_SMALL}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE
)
_KIMI_AS_PUBLISHED = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# meta-llama/Meta-Llama-3-8B tokenizer.json and llama3/tokenizer.py. Where a text ends in white
# space with a line break in it, this cuts behind the break and cl100k does not; else they agree.
_LLAMA3 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE
)

# transformers, tokenization_qwen2.py, PRETOKENIZE_REGEX: Qwen2, Qwen2.5 and Qwen3 share it. One
# digit is one pre-token; else it is Llama 3's.
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE

# Qwen/Qwen3.5 tokenizer.json: combining marks are letters.
_QWEN35 = (
    _CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + _WHITE_SPACE
)

# deepseek-ai/DeepSeek-V3 tokenizer.json cuts three times, each time the pieces of the time before:
#   \p{N}{1,3}    then    [一-龥぀-ゟ゠-ヿ]+    then
#   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
#   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
# Pieces of the first cut are numbers, which the third leaves alone. Pieces of the second are cut
# by the third, which finds among their characters letters and marks, four that are punctuation or
# symbols, and three that are not assigned (and stand before letters, or match nothing). All else
# is cut by the third between them, so a match of it may neither hold nor look at a number or one
# of theirs: both are excluded from its sets, and end a text as far as `\s+(?!\S)` is concerned.
# What it leaves unmatched (control characters and the like) is matched at last, so that nothing
# is lost where an engine forgets what lies between matches (`tiktoken`), and no stretch of it
# goes on from one piece into the next.
_KANA_AND_HAN = "一-龥\u3040-\u30ff"
_THEIR_LETTERS = "[一-龥\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff]"
_THEIR_SYMBOLS = "[\u309b\u309c\u30a0\u30fb]"
_THEIR_OTHERS = "[\u3040\u3097\u3098]"
_LETTERS = rf"[^\p{{N}}\p{{P}}\p{{S}}\p{{Z}}\p{{C}}{_KANA_AND_HAN}]"  # letters and marks
_SYMBOLS = rf"[^\p{{L}}\p{{M}}\p{{N}}\p{{Z}}\p{{C}}{_KANA_AND_HAN}]"
_DEEPSEEK_V3 = (
    r"\p{N}{1,3}"
    rf"|{_THEIR_OTHERS}?{_THEIR_LETTERS}+|{_THEIR_SYMBOLS}+|{_THEIR_OTHERS}+(?!{_THEIR_LETTERS})"
    r"|[!-/:-@\[-`{-~][A-Za-z]+"
    rf"|[^\r\n\p{{L}}\p{{P}}\p{{S}}\p{{N}}{_KANA_AND_HAN}]?{_LETTERS}+"
    rf"| ?{_SYMBOLS}+[\r\n]*"
    rf"|\s*[\r\n]+|\s+(?![^\s\p{{N}}{_KANA_AND_HAN}])|\s+"
    rf"|[^\s\p{{L}}\p{{M}}\p{{N}}\p{{P}}\p{{S}}{_KANA_AND_HAN}]+(?!{_LETTERS})"
)

# What SuperBPE's program cuts at where tokens may hold several words; what lies between is kept.
SUPERWORDS = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
# What its published models cut at, and llama.cpp under the name superbpe: `\p{N}+`, and in it
# before so many of 0 to 9 as three divide, to the last of them. What lies between is kept whole.
# How far digits go decides where the first are cut, which no automaton knows in time.
DIGITS_FROM_RIGHT = r"\p{N}+?(?=(?:[0-9]{3})+(?![0-9])|(?!\p{N}))"
LINES_AND_DIGITS = rf"[^\n\p{{N}}]*\n|[^\n\p{{N}}]+|{DIGITS_FROM_RIGHT}"
# Numbers are cut within alone, so text may be cut wherever it may without that: regex → another.
CUTTING_LESS = {
    DIGITS_FROM_RIGHT: r"\p{N}+",
    LINES_AND_DIGITS: r"[^\n\p{N}]*\n|[^\n\p{N}]+|\p{N}+",
}

# Every character of a text is in a pre-token.
NAMED_PATTERNS = {
    "gpt2": _GPT2,
    "cl100k": _CL100K,
    "o200k": _O200K,
    "tekken": _TEKKEN,
    "llama3": _LLAMA3,
    "qwen2": _QWEN2,
    "qwen3.5": _QWEN35,
    "deepseek-v3": _DEEPSEEK_V3,
    "kimi": _KIMI,
    "starcoder": _STARCODER,
}
# What lies between pre-tokens is dropped: white space (as Unicode has it; as `str.split` of Python
# has it; as subword-nmt has it, which cuts lines at U+0020 alone). NLTK's `wordpunct_tokenize`.
DROPPING_PATTERNS = {
    "whitespace": r"\S+",
    "str-split": r"[^\s\x1c-\x1f]+",
    "spaces": r"[^ \r\n]+",
    "wordpunct": r"\w+|[^\w\s]+",
}
# Several published tokenizers, one pattern.
SAME_PATTERNS = {"qwen2.5": "qwen2", "qwen3": "qwen2", "llama4": "o200k", "glm4": "llama3"}

OTHER_SPELLINGS = {
    _KIMI_AS_PUBLISHED: "kimi",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s": "cl100k",
}
# By name of the pattern, or by regex where it has none: the kernel written for it, and what that is
# told. Of cl100k's: how many numbers make a pre-token; whether white space at the end of a span is
# one pre-token; whether combining marks are letters. Of o200k's: how many numbers; whether
# contractions belong to the word before.
KERNELS: dict[str, tuple[str, tuple[int | bool, ...]]] = {
    "gpt2": ("gpt2", ()),
    "cl100k": ("cl100k", (3, True, False)),
    "llama3": ("cl100k", (3, False, False)),
    "qwen2": ("cl100k", (1, False, False)),
    "qwen3.5": ("cl100k", (1, False, True)),
    "o200k": ("o200k", (3, True)),
    "tekken": ("o200k", (1, False)),
    SUPERWORDS: ("superwords", ()),
}

MOST_WRITTEN_OUT = 1 << 16  # up to 40 MB and a tenth of a second to compile
_PARTS = regex.compile(
    r"""(?<set>\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*+\])
    |(?<comment>\(\?\#[^)]*\))
    |(?<flags>\(\?[A-Za-z0-9-]+\))
    |(?<open>\()
    |(?<close>\))
    |(?<braces>\{(?<least>[0-9]*)(?<comma>,?)(?<most>[0-9]*)\}[+?]?)
    |(?<plus>\+[+?]?)
    |(?<optional>[*?][+?]?)
    |(?<other>\\.|.)""",
    regex.VERBOSE | regex.DOTALL,
)
_SPACED = regex.compile(r"\(\?[A-Za-z0-9]*x")
_SPACE = regex.compile(r"(\\.)|\s", regex.DOTALL)
_VERSION = regex.compile(r"\(\?[A-Za-z]*V[01]")
_OPERATOR = regex.compile(r"(?:\\.|[^\\])+?(&&|\|\||--|~~).", regex.DOTALL)

_TOKEN = regex.compile(
    r"""(?<set>\[\^?\]?(?:\[:[^\]]*:\]|\\.|[^\]\\])*+\])
    |(?<atom>\\(?:[pPN]\{[^}]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[gL]<[^>]*>
        |[0-9]{1,3}|[pP][A-Za-z]|.)
      |\(\?(?:R|[0-9]+|&\w+|P[=>]\w+)\))
    |(?<comment>\(\?\#[^)]*\))
    |(?<flags>\(\?[A-Za-z0-9-]+\))
    |(?<open>\((?:\?(?:P?<[^=!>][^>]*>|<[=!]|[A-Za-z0-9-]*:|[>=!|]|\([^)]*\)))?)
    |(?<close>\))
    |(?<braces>\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]+)\}[?+]?)
    |(?<repeat>[*+?][?+]?)
    |(?<or>\|)
    |(?<other>.)""",
    regex.VERBOSE | regex.DOTALL,
)
_IN_SET = regex.compile(
    r"\[:[^\]]*:\]|\\(?:[pP]\{[^}]*\}|[pP][A-Za-z]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
    r"|U[0-9A-Fa-f]{8}|[0-7]{1,3}|.)|.",
    regex.DOTALL,
)
# What Python reads as the edge of the text is the edge of a line, or something else, elsewhere.
_EDGES = {
    "^": r"(?<![\s\S])",
    "$": r"(?!\n[\s\S]|[^\n])",  # the end, or before a line feed that is the last character
    r"\Z": r"(?![\s\S])",
}
# Oniguruma counts superscripts and fractions of Latin-1 among \w, and no joiners.
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
_OPENINGS = ("(", "(?:", "(?i:", "(?-i:", "(?=", "(?!", "(?>", "(?<=", "(?<!")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_SAME_ESCAPES = frozenset("sSdDnrtfv")
_SAME_ESCAPED = frozenset("\\^$.|?*+()[]{}-/'\"#&~!%,:;<=>@_` ")
# Small letters with dotted or dotless companions, on which engines do not agree.
_SAME_IN_BOTH_CASES = frozenset("abcdefghjklmnopqrstuvwxyzABCDEFGHJKLMNOPQRSTUVWXYZ")

MAX_REGEX_BYTES = 4096
NAMES = (*NAMED_PATTERNS, *SAME_PATTERNS, *DROPPING_PATTERNS, *SEGMENTERS)


def size_written_out(pattern: str) -> int | None:
    """Parts of a regex after each repetition is written out as often as it must match, and once.

    An upper bound, up to a factor, of what ``regex`` makes of it; None where it cannot be told,
    for free spacing hides comments.
    """
    if _SPACED.search(pattern):
        if "#" in pattern:
            return None
        pattern = _SPACE.sub(r"\1", pattern)  # it may stand before counts, and in them
    outer: list[int] = []  # of each open group: the size of what stands before it
    size = part = 0  # all since the group opened; the last part of that, which a count repeats
    for token in _PARTS.finditer(pattern):
        match "braces" if token["braces"] else token.lastgroup:
            case "open":
                outer.append(size)
                size = part = 0
            case "close":
                part = size + 1
                size = part + (outer.pop() if outer else 0)
            case "plus" | "braces":
                more = part * _times(token)
                size += more
                part += more
                if size > MOST_WRITTEN_OUT:
                    return size
            case "comment" | "flags" | "optional":
                pass
            case _:
                part = 1
                size += part
    return size + sum(outer)


def _times(token: regex.Match[str]) -> int:
    """How often a part that must match is written out beside its first time."""
    if token["plus"]:
        return 1
    least = int((token["least"] or "0")[:10])
    once = least == 1 and (not token["comma"] or token["most"] == "1")
    return 0 if once else least


def set_operator(pattern: str) -> str | None:
    """The first set that reads as if with an operator, where ``regex`` sees none; or None.

    A regex that says which version of sets it means, ``(?V0)`` or ``(?V1)``, is taken at its word.
    """
    if _VERSION.search(pattern):
        return None
    for token in _PARTS.finditer(pattern):
        found: str | None = token["set"]
        if found is None:
            continue
        if _OPERATOR.match(found[:-1], 2 if found.startswith("[^") else 1):
            return found
        nested = found.startswith(("[[", "[^[")) and not found.startswith(("[[:", "[^[:"))
        if nested and pattern.startswith(("&&", "||", "--", "~~"), token.end()):
            return f"{found}{pattern[token.end() : token.end() + 2]}"
    return None


@functools.lru_cache(maxsize=64)
def respelled_for_export(pattern: str) -> str:
    r"""``pattern`` for Oniguruma (``tokenizers``) and fancy-regex (``tiktoken``).

    - ``x{m,n}+`` becomes ``(?>x{m,n})``, since Oniguruma reads the plus as a second repetition;
      ``{,n}`` becomes ``{0,n}``;
    - ``^``, ``$`` and ``\Z`` become look-arounds that mean the edge of the text everywhere;
    - ``\w`` and ``\W`` become the properties they stand for; ``\pL`` becomes ``\p{L}``;
    - in sets, ``[``, ``&`` and ``~`` are escaped, which elsewhere are operators.

    Raises:
        InvalidPattern: the regex holds what others read differently, such as ``\b``,
            back-references, free spacing (``(?x)``) or POSIX classes; or it can match nothing at
            all, which is a cut for other engines and none here.
    """
    return _Respelling(pattern).result()


def with_gaps_matched(pattern: str) -> str:
    """An exported regex that also matches the stretches it leaves between its matches.

    For engines that forget what lies between (``tiktoken``): such a stretch is one pre-token.
    """
    unnamed = "".join(
        "(?:" if token.lastgroup == "open" and _is_named(token.group()) else token.group()
        for token in _TOKEN.finditer(pattern)
    )
    return rf"(?:{unnamed})|(?:(?!{unnamed})[\s\S])+"


def _is_named(opening: str) -> bool:
    return opening.startswith(("(?<", "(?P<")) and opening not in _OPENINGS


class _Respelling:
    """One pass over the tokens of a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._out: list[str] = []
        self._seen: list[str] = []  # the pattern without what looks and takes nothing
        # Of each open group: where in ``out`` it begins, whether case is ignored around it, and
        # whether it only looks.
        self._groups: list[tuple[int, bool, bool]] = []
        self._repeatable = 0  # where in ``out`` the thing begins that a quantifier would repeat
        self._any_case = False
        self._lines = False

    def result(self) -> str:
        for match in _TOKEN.finditer(self._pattern):
            token, kind = match.group(), match.lastgroup
            looking = self._is_looking()
            spelled = self._spelled(str(kind), token, match.start())
            if kind in ("set", "atom", "flags", "or", "other"):
                self._repeatable = len(self._out)
            self._out.append(spelled)
            takes_nothing = token in _EDGES or kind in ("flags", "comment")
            if not (takes_nothing or looking or self._is_looking()):
                self._seen.append(token)
        try:
            empty = can_be_empty(parsed("".join(self._seen)))
        except NotRegular as reason:
            self._refuse(str(reason))
        if empty:
            self._refuse("a match of nothing at all")
        return "".join(self._out)

    def _is_looking(self) -> bool:
        return any(looks for _, _, looks in self._groups)

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidPattern(
            f"the split pattern {self._pattern!r} cannot be written for other engines because of "
            f"{what}",
            "regexes that Oniguruma (tokenizers) and fancy-regex (tiktoken) read as Python's "
            "`regex` does",
            "keep the tokenizer as 'bpeline', or train with a regex without it",
        )

    def _spelled(self, kind: str, token: str, at: int) -> str:
        if token in _EDGES and not self._lines:
            return _EDGES[token]
        match kind:
            case "set":
                return self._set(token, at)
            case "atom":
                return self._atom(token, at)
            case "comment":
                return ""
            case "flags":
                return self._flags(token, at)
            case "open":
                return self._open(token, at)
            case "close":
                if not self._groups:  # as in BLOOM's, of a set in a set
                    self._refuse(f"a bracket that closes no group at position {at}")
                self._repeatable, self._any_case, _ = self._groups.pop()
            case "braces":
                token = token.replace("{,", "{0,")
                if token.endswith("+"):
                    self._out.insert(self._repeatable, "(?>")
                    return token[:-1] + ")"
            case "other":
                if token == "." and self._lines:
                    self._refuse(f"a dot together with (?m) at position {at}")
                self._check_case(token, at)
        return token

    def _set(self, token: str, at: int) -> str:
        negated = token.startswith("[^")
        inside = token[2 if negated else 1 : -1]
        spelled = []
        not_a_word = after_class = False
        items = _IN_SET.findall(inside)
        for place, item in enumerate(items):
            if item in ("[", "&", "~"):
                spelled.append("\\" + item)
            elif item.startswith("[:"):
                self._refuse(f"the POSIX class {item} at position {at}")
            elif item == r"\w":
                spelled.append(_WORD)
            elif item == r"\W":
                not_a_word = True
            elif item[1:].isdigit() or item == r"\b":
                self._refuse(f"{item} in a set at position {at}")
            elif item == "-" and (after_class or (place and items[place - 1] == "-")):
                spelled.append(r"\-")
            elif item == "-" and 0 < place < len(items) - 1 and self._any_case:
                self._refuse(f"a range regardless of case at position {at}")
            elif item.startswith("\\"):
                spelled.append(self._escape(item, at))
            else:
                self._check_case(item, at)
                spelled.append(item)
            is_range_end = place > 1 and items[place - 1] == "-" and not after_class
            after_class = (len(item) > 1 and item[1] in "pPwsSdD") or is_range_end
        rest = "".join(spelled)
        if not not_a_word:
            return f"[{'^' if negated else ''}{rest}]"
        if negated:
            return f"(?:(?![{rest}])[{_WORD}])" if rest else f"[{_WORD}]"
        return f"(?:[{rest}]|[^{_WORD}])" if rest else f"[^{_WORD}]"

    def _atom(self, token: str, at: int) -> str:
        if token == r"\w":
            return f"[{_WORD}]"
        if token == r"\W":
            return f"[^{_WORD}]"
        if token.startswith("("):
            self._refuse(f"recursion or a back-reference ({token}) at position {at}")
        return self._escape(token, at)

    def _escape(self, token: str, at: int) -> str:
        letter = token[1]
        if letter in "pP":
            if self._any_case:
                self._refuse(f"{token} regardless of case at position {at}")
            name = token[2:].strip("{}")
            return rf"\{letter}{{{name}}}"
        if letter in "xuU" and len(token) > 2:
            character = chr(int(token[2:], 16))
            self._check_case(character, at)
            return character if letter == "U" else token
        if letter not in _SAME_ESCAPES | _SAME_ESCAPED:
            self._refuse(f"{token} at position {at}")
        return token

    def _flags(self, token: str, at: int) -> str:
        letters = set(token[2:-1])
        if at or not letters <= {"i", "m"}:
            self._refuse(f"the flags {token} at position {at}")
        self._any_case, self._lines = "i" in letters, "m" in letters
        return token

    def _open(self, token: str, at: int) -> str:
        if token not in _OPENINGS and not _is_named(token):
            self._refuse(f"{token} at position {at}")
        self._groups.append((len(self._out), self._any_case, token in _LOOKS))
        if "i" in token and not _is_named(token):
            self._any_case = token == "(?i:"
        return token.replace("(?P<", "(?<")

    def _check_case(self, character: str, at: int) -> None:
        has_case = character.lower() != character.upper()
        if self._any_case and has_case and character not in _SAME_IN_BOTH_CASES:
            self._refuse(f"{character!r} regardless of case at position {at}")


def no_pattern(pattern: object) -> InvalidPattern:
    return InvalidPattern(
        f"the split pattern is {pattern!r}",
        f"names are {', '.join(NAMES)}; anything else must be a regex",
        "write 'gpt2'",
    )


@functools.lru_cache(maxsize=64)
def compile_regex(pattern: str) -> Any:
    if not isinstance(pattern, str) or not pattern:
        raise no_pattern(pattern)
    try:
        size = len(pattern.encode())
    except UnicodeEncodeError:
        size = MAX_REGEX_BYTES + 1
    if size > MAX_REGEX_BYTES:
        raise InvalidPattern(
            f"the split pattern of {len(pattern)} characters is too long or not UTF-8",
            f"a regex may take up to {MAX_REGEX_BYTES} bytes of UTF-8",
            "use Unicode properties such as \\p{Han} instead of listing characters",
        )
    _refuse_what_is_not_meant(pattern)
    try:
        compiled = regex_package.compile(pattern)
    except (regex_package.error, ValueError, RecursionError, OverflowError) as error:
        raise InvalidPattern(
            f"the split pattern {pattern!r} does not compile: {error}",
            f"names are {', '.join(NAMES)}; anything else must be a regex in the syntax "
            "of Python's `regex` package",
            "write 'gpt2', or mend the regex at the position named",
        ) from error
    if compiled.flags & regex_package.REVERSE:
        raise InvalidPattern(
            f"the split pattern {pattern!r} searches backwards",
            "pre-tokens are found from the left",
            "remove (?r) from the regex",
        )
    return compiled


def _refuse_what_is_not_meant(pattern: str) -> None:
    """Refuse what `regex` would compile to something else, or for minutes."""
    if (operator := set_operator(pattern)) is not None:
        raise InvalidPattern(
            f"the split pattern has a set with an operator: {operator[:200]!r}",
            "sets of characters, ranges and classes; Python's `regex` reads &&, --, || and ~~ in "
            "them as literals",
            "write [a-z&&[^aeiou]] and [a-z--[aeiou]] as (?:(?![aeiou])[a-z]), [\\w&&\\p{Greek}] "
            "as (?:(?=\\p{Greek})\\w), [a||b] as [ab]; or, for the literals, \\&, \\- and \\|",
        )
    size = size_written_out(pattern)
    if size is None or size > MOST_WRITTEN_OUT:
        raise PatternExceedsLimit(
            f"the split pattern {pattern[:200]!r} is too large when its repetitions are written out"
            if size is not None
            else f"the split pattern {pattern[:200]!r} has comments in free spacing",
            f"repetitions that come to at most {MOST_WRITTEN_OUT} parts, and no comments with (?x)",
            "write (?:a+)+ as a+, use smaller counts, remove the comments",
        )
