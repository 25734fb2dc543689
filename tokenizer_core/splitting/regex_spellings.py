"""The regexes of named patterns, validation of regexes, and their export.

Named patterns are spelled so that ``regex``, Oniguruma (``tokenizers``) and fancy-regex
(``tiktoken``) split alike. In other regexes, what these engines read differently is respelled or
refused. Engines with another Unicode version classify newly assigned characters differently.
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

# tiktoken's cl100k_base with two changes, so that all engines read it alike: `\p{N}{1,3}+` without
# its plus, which Oniguruma reads as a repetition (possessive or not is the same here); and `\s++$`
# as `\s++(?!\S)`, because `$` differs between engines.
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
# and with single digits.
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WHITE_SPACE = r"|\s*[\r\n]+|\s+(?!\S)|\s+"

# bigcode/starcoder tokenizer.json (SmolLM, Command R and CodeShell have the same): splits off each
# digit, then gpt2 on the rest, which therefore sees the end of its text before a digit.
_STARCODER = r"\p{N}|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"

# moonshotai/Kimi-K2 tokenization_kimi.py: o200k with runs of Han as pre-tokens, and without the
# slash after symbols. Published with `[…&&[^\p{Han}]]`, which only some engines support.
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

# meta-llama/Meta-Llama-3-8B tokenizer.json and llama3/tokenizer.py. Like cl100k, but splits after a
# line break in white space at the end of a text.
_LLAMA3 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE
)

# transformers, tokenization_qwen2.py, PRETOKENIZE_REGEX of Qwen2, Qwen2.5 and Qwen3: Llama 3's with
# single digits.
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _WHITE_SPACE

# Qwen/Qwen3.5 tokenizer.json: combining marks are letters.
_QWEN35 = (
    _CONTRACTIONS
    + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + _WHITE_SPACE
)

# deepseek-ai/DeepSeek-V3 tokenizer.json splits in three steps:
#   \p{N}{1,3}    then    [一-龥぀-ゟ゠-ヿ]+    then
#   [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
#   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
# As one regex: numbers stay whole. Pieces of the second step hold letters and marks, four symbols,
# and three unassigned characters, which the third step splits. Elsewhere the third step must not
# match or look at numbers and characters of the second step: its sets exclude them, and they count
# as the end of the text in `\s+(?!\S)`. The last alternative matches the rest, such as control
# characters, because `tiktoken` drops text between matches.
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

# Matches in SuperBPE's program; the text between them is also a pre-token.
SUPERWORDS = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]{2,}[\r\n/]*| +(?!\S)"
# Published SuperBPE models and `superbpe` of llama.cpp: numbers, in groups of three digits from the
# right. No automaton can run it, because the length of a number decides its first cut.
DIGITS_FROM_RIGHT = r"\p{N}+?(?=(?:[0-9]{3})+(?![0-9])|(?!\p{N}))"
LINES_AND_DIGITS = rf"[^\n\p{{N}}]*\n|[^\n\p{{N}}]+|{DIGITS_FROM_RIGHT}"
# Regex → a regular one with fewer cuts, for finding legal cuts.
CUTTING_LESS = {
    DIGITS_FROM_RIGHT: r"\p{N}+",
    LINES_AND_DIGITS: r"[^\n\p{N}]*\n|[^\n\p{N}]+|\p{N}+",
}

# These cover all text.
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
# These drop text between matches: white space of Unicode, of Python's `str.split`, of subword-nmt;
# and as NLTK's `wordpunct_tokenize`.
DROPPING_PATTERNS = {
    "whitespace": r"\S+",
    "str-split": r"[^\s\x1c-\x1f]+",
    "spaces": r"[^ \r\n]+",
    "wordpunct": r"\w+|[^\w\s]+",
}
# Aliases.
SAME_PATTERNS = {"qwen2.5": "qwen2", "qwen3": "qwen2", "llama4": "o200k", "glm4": "llama3"}

OTHER_SPELLINGS = {
    _KIMI_AS_PUBLISHED: "kimi",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s": "cl100k",
}
# Name or regex → kernel and its arguments. cl100k: digits per pre-token, trailing white space is
# one pre-token, marks are letters. o200k: digits per pre-token, contractions join the word.
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
# Anchors for the edges of the text; other engines read Python's differently.
_EDGES = {
    "^": r"(?<![\s\S])",
    "$": r"(?!\n[\s\S]|[^\n])",  # the end, or before a line feed that is the last character
    r"\Z": r"(?![\s\S])",
}
# \w in Oniguruma includes superscripts and fractions of Latin-1, and excludes joiners.
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
_OPENINGS = ("(", "(?:", "(?i:", "(?-i:", "(?=", "(?!", "(?>", "(?<=", "(?<!")
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_SAME_ESCAPES = frozenset("sSdDnrtfv")
_SAME_ESCAPED = frozenset("\\^$.|?*+()[]{}-/'\"#&~!%,:;<=>@_` ")
# Without i: engines fold its dotted and dotless forms differently.
_SAME_IN_BOTH_CASES = frozenset("abcdefghjklmnopqrstuvwxyzABCDEFGHJKLMNOPQRSTUVWXYZ")

MAX_REGEX_BYTES = 4096
NAMES = (*NAMED_PATTERNS, *SAME_PATTERNS, *DROPPING_PATTERNS, *SEGMENTERS)


def size_written_out(pattern: str) -> int | None:
    """Size of a regex when `regex` expands its repetitions; approximate upper bound.

    None for comments with free spacing, which cannot be parsed.
    """
    if _SPACED.search(pattern):
        if "#" in pattern:
            return None
        pattern = _SPACE.sub(r"\1", pattern)
    outer: list[int] = []  # for each open group, the size before it
    size = part = 0  # since the group opened; of the part that a count would repeat
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
    """Number of additional copies of a repeated part."""
    if token["plus"]:
        return 1
    least = int((token["least"] or "0")[:10])
    once = least == 1 and (not token["comma"] or token["most"] == "1")
    return 0 if once else least


def set_operator(pattern: str) -> str | None:
    """The first set with an operator that ``regex`` reads as a literal, or None.

    None, too, for a regex with ``(?V0)`` or ``(?V1)``, which sets the meaning.
    """
    if _VERSION.search(pattern):
        return None
    for token in _PARTS.finditer(pattern):
        set_: str | None = token["set"]
        if set_ is None:
            continue
        if _OPERATOR.match(set_[:-1], 2 if set_.startswith("[^") else 1):
            return set_
        nested = set_.startswith(("[[", "[^[")) and not set_.startswith(("[[:", "[^[:"))
        if nested and pattern.startswith(("&&", "||", "--", "~~"), token.end()):
            return f"{set_}{pattern[token.end() : token.end() + 2]}"
    return None


@functools.lru_cache(maxsize=64)
def respelled_for_export(pattern: str) -> str:
    r"""``pattern`` for Oniguruma (``tokenizers``) and fancy-regex (``tiktoken``).

    - ``x{m,n}+`` becomes ``(?>x{m,n})``, since Oniguruma reads the plus as a second repetition;
      ``{,n}`` becomes ``{0,n}``;
    - ``^``, ``$`` and ``\Z`` become look-arounds for the edges of the text;
    - ``\w`` and ``\W`` become properties; ``\pL`` becomes ``\p{L}``;
    - in sets, ``[``, ``&`` and ``~`` are escaped.

    Raises:
        InvalidPattern: the regex has a construct that engines read differently, such as ``\b``,
            back-references, ``(?x)`` or POSIX classes; or it can match an empty string.
    """
    return _Respelling(pattern).result()


def with_gaps_matched(pattern: str) -> str:
    """An exported regex that also matches the text between its matches.

    For ``tiktoken``, which drops that text.
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
        self._seen: list[str] = []  # the pattern without look-arounds
        # For each open group: its start in ``out``, case-insensitivity around it, is a look-around.
        self._groups: list[tuple[int, bool, bool]] = []
        self._repeatable = 0  # start in ``out`` of what a quantifier would repeat
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
            self._refuse("an empty match")
        return "".join(self._out)

    def _is_looking(self) -> bool:
        return any(looks for _, _, looks in self._groups)

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidPattern(
            f"the split pattern {self._pattern!r} cannot be exported to other engines because of "
            f"{what}",
            "expected a regex that Oniguruma (tokenizers) and fancy-regex (tiktoken) read like "
            "Python's `regex`",
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
                if not self._groups:  # as in BLOOM, which nests sets
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
        f"expected a regex or one of {', '.join(NAMES)}",
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
            f"expected up to {MAX_REGEX_BYTES} bytes of UTF-8",
            "use Unicode properties such as \\p{Han} instead of listing characters",
        )
    _refuse_what_is_not_meant(pattern)
    try:
        compiled = regex_package.compile(pattern)
    except (regex_package.error, ValueError, RecursionError, OverflowError) as error:
        raise InvalidPattern(
            f"the split pattern {pattern!r} does not compile: {error}",
            f"expected a regex of Python's `regex` package, or one of {', '.join(NAMES)}",
            "write 'gpt2', or correct the regex at that position",
        ) from error
    if compiled.flags & regex_package.REVERSE:
        raise InvalidPattern(
            f"the split pattern {pattern!r} searches backwards",
            "expected a regex that searches forwards",
            "remove (?r) from the regex",
        )
    return compiled


def _refuse_what_is_not_meant(pattern: str) -> None:
    """Refuse what `regex` would misread or expand too much."""
    if (operator := set_operator(pattern)) is not None:
        raise InvalidPattern(
            f"the split pattern has a set with an operator: {operator[:200]!r}",
            "Python's `regex` reads &&, --, || and ~~ in sets as literals",
            "write [a-z&&[^aeiou]] and [a-z--[aeiou]] as (?:(?![aeiou])[a-z]), [\\w&&\\p{Greek}] "
            "as (?:(?=\\p{Greek})\\w), [a||b] as [ab]; or, for the literals, \\&, \\- and \\|",
        )
    size = size_written_out(pattern)
    if size is None or size > MOST_WRITTEN_OUT:
        raise PatternExceedsLimit(
            f"the split pattern {pattern[:200]!r} is too large when its repetitions are expanded"
            if size is not None
            else f"the split pattern {pattern[:200]!r} has comments in free spacing",
            f"expected at most {MOST_WRITTEN_OUT} parts, and no comments with (?x)",
            "write (?:a+)+ as a+, use smaller counts, remove the comments",
        )
