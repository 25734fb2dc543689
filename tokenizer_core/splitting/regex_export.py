r"""A split regex respelled so that other engines read it as the `regex` package does, or refused.

The engines are Oniguruma (``tokenizers``) and fancy-regex (``tiktoken``). What all three spell and
read alike stays as it is, what they read differently is respelled, and everything else is refused
by name: an engine that misreads a regex does not complain. That the classes of characters agree
was compared on all code points; engines of another Unicode version classify characters that are
assigned in only one of the two differently, and no spelling helps.
"""

from __future__ import annotations

import functools
from typing import NoReturn

import regex

from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.splitting.regex_syntax import NotRegular, can_be_empty, parsed

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
