"""Split patterns: named, a user's own, their digests and exports; knows not how they are run."""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import regex as regex_package

from tokenizer_core.cut_pairs import CutPairs, cut_pairs
from tokenizer_core.digests import digest_of, digest_of_bytes
from tokenizer_core.errors import InvalidOption, InvalidPattern
from tokenizer_core.named_patterns import (
    DROPPING_PATTERNS,
    NAMED_PATTERNS,
    OTHER_SPELLINGS,
    SAME_PATTERNS,
)
from tokenizer_core.regex_export import respelled_for_export, with_gaps_matched
from tokenizer_core.split_automaton import SplitAutomaton, split_automaton
from tokenizer_core.unicode_classes import unicode_classes_digest

__all__ = ["MAX_REGEX_BYTES", "NAMED_PATTERNS", "SplitPattern"]

MAX_REGEX_BYTES = 4096
_HAND_WRITTEN = ("gpt2", "cl100k", "llama3", "qwen2", "qwen3.5", "o200k", "tekken")
# These look into no other class than letters, numbers and white space, so that the digest of
# those alone says which characters they mean.
_OF_THREE_CLASSES = ("gpt2", "cl100k", "llama3", "qwen2")

_BETWEEN = {False: "kept", True: "dropped"}  # text between matches
_NAMES = (*NAMED_PATTERNS, *SAME_PATTERNS, *DROPPING_PATTERNS)
_LIKE_A_NAME = re.compile(r"(?:[A-Za-z0-9_-]+(?:\.[0-9]+)?)?")


@dataclass(frozen=True, slots=True)
class SplitPattern:
    """How text is cut into pre-tokens: each non-empty match is one, and so is what lies between.

    Attributes:
        regex: the pattern in the syntax of the ``regex`` package. A known spelling of a named
            pattern is replaced by ours, so that equal patterns are equal values.
        name: ``gpt2``, ``cl100k`` … (`named`), or None for a user's own. With ``whitespace`` and
            ``wordpunct`` what lies between matches is dropped (`drops_gaps`); the same regex
            without the name keeps it.

    Raises:
        InvalidPattern: the regex does not compile, is longer than 4 KB, or searches backwards.
    """

    regex: str
    name: str | None = None

    def __post_init__(self) -> None:
        name = SAME_PATTERNS.get(self.name or "", self.name)
        if name in DROPPING_PATTERNS:
            known = name if DROPPING_PATTERNS[name] == self.regex else None
        else:
            known = next((n for n, text in NAMED_PATTERNS.items() if text == self.regex), None)
            known = known or OTHER_SPELLINGS.get(self.regex)
        if name is not None and name != known:
            raise InvalidPattern(
                f"the regex given is not that of the split pattern {self.name!r}",
                "a name stands for one regex",
                f"write SplitPattern.named({self.name!r}) or leave the name out",
            )
        if known is not None:
            object.__setattr__(self, "name", known)
            object.__setattr__(self, "regex", _regex_of(known))
        else:
            _compile(self.regex)

    @classmethod
    def named(cls, name: str) -> SplitPattern:
        """A built-in pattern: gpt2, cl100k, o200k, llama3, qwen2 (also qwen2.5, qwen3), …

        Raises:
            InvalidOption: there is no pattern of this name.
        """
        if name not in _NAMES:
            close = difflib.get_close_matches(name, _NAMES, 1, 0.4) or ["gpt2"]
            raise InvalidOption(
                f"there is no split pattern named {name!r}",
                f"names are {', '.join(_NAMES)}; anything else must be a regex",
                f"write {close[0]!r}",
            )
        name = SAME_PATTERNS.get(name, name)
        return cls(_regex_of(name), name)

    @classmethod
    def parse(cls, pattern: str | SplitPattern) -> SplitPattern:
        """A pattern from a name, a regex or a pattern.

        A string of letters, digits, ``-`` and ``_`` alone (and a version such as ``3.5`` at its
        end) is a name: as a regex it would cut at one literal word, which nobody means;
        ``SplitPattern(regex=...)`` takes it nevertheless.

        Raises:
            InvalidOption: an unknown name.
            InvalidPattern: a regex that cannot be used.
        """
        if isinstance(pattern, SplitPattern):
            return pattern
        if _LIKE_A_NAME.fullmatch(pattern):
            return cls.named(pattern)
        return cls(pattern)

    def as_record(self) -> dict[str, str | None]:
        """The pattern as JSON values, for files; `from_record` gives an equal one back.

        Beside what makes the pattern it holds ``digest``, which tells the Unicode tables it was
        used with.
        """
        return {
            "name": self.name,
            "regex": self.regex,
            "between": _BETWEEN[self.drops_gaps],
            "digest": self.digest,
        }

    @classmethod
    def from_record(cls, record: Any) -> SplitPattern:
        """The pattern that `as_record` wrote down.

        Raises:
            InvalidPattern: not what `as_record` writes, or made with other Unicode tables.
        """
        if not isinstance(record, dict) or not isinstance(record.get("regex"), str):
            _refuse_record("is no record of one")
        name = record.get("name")
        if not isinstance(name, str | None):
            _refuse_record("has a name that is none")
        pattern = cls(record["regex"], name)
        if record.get("between", _BETWEEN[pattern.drops_gaps]) != _BETWEEN[pattern.drops_gaps]:
            _refuse_record(f"says otherwise than its name what lies between matches: {name!r}")
        if record.get("digest") != pattern.digest:
            _refuse_record(
                "was used with other Unicode tables than those of the installed `regex`",
                "install the version of `regex` it was used with, or train again",
            )
        return pattern

    @property
    def compiled(self) -> Any:
        """The compiled ``regex.Pattern``."""
        return _compile(self.regex)

    @property
    def automaton(self) -> SplitAutomaton | None:
        """The tables that run this pattern natively, where its regex can be made into such."""
        made = split_automaton(self.regex)
        return made if isinstance(made, SplitAutomaton) else None

    @property
    def compiled_by(self) -> str:
        """What runs this pattern.

        ``kernel``: machine code written for it; ``automaton``: tables of its own for a kernel that
        runs them; else ``regex: `` and the reason why it is left to that package (5 to 20 MB/s).
        """
        if self.name in _HAND_WRITTEN:
            return "kernel"
        made = split_automaton(self.regex)
        return "automaton" if isinstance(made, SplitAutomaton) else f"regex: {made}"

    @property
    def has_kernel(self) -> bool:
        """Whether machine code runs this pattern, and not the ``regex`` package."""
        return self.compiled_by in ("kernel", "automaton")

    @property
    def drops_gaps(self) -> bool:
        """Whether text between matches is dropped; otherwise it is a pre-token of its own."""
        return self.name in DROPPING_PATTERNS

    def require_every_byte(self) -> None:
        """Refuse to be used where every byte of a text must belong to a pre-token.

        Raises:
            InvalidPattern: the pattern drops what lies between matches.
        """
        if self.drops_gaps:
            raise InvalidPattern(
                f"the split pattern {self.name!r} drops the text between its pre-tokens",
                "byte-level tokenizers keep every byte: gpt2, cl100k, o200k, llama3, qwen2, "
                "deepseek-v3 or a regex",
                f"use 'gpt2', or the regex {self.regex!r}, which keeps what lies between",
            )

    @property
    def cuts_at_spaces(self) -> bool:
        """Whether text may be cut before a single U+0020 between two non-space characters.

        True where no pre-token has a U+0020 inside or behind non-space characters; nothing is
        known of a user's regex.
        """
        return self.name is not None

    @property
    def cut_pairs(self) -> CutPairs | None:
        """Between which characters text may be cut; None where nothing is known."""
        return cut_pairs(self.regex)

    @property
    def digest(self) -> str:
        """Digest of the behaviour: the regex and the Unicode tables it looks into."""
        behaviour = {"regex": self.regex, "unicode": unicode_classes_digest()}
        if self.name not in _OF_THREE_CLASSES:
            automaton = self.automaton
            behaviour["characters"] = (
                regex_package.__version__ if automaton is None else _characters_digest(self.regex)
            )
        if self.drops_gaps:
            behaviour["between"] = "dropped"
        return digest_of(behaviour)

    @property
    def regex_for_export(self) -> str:
        """An equal regex for Oniguruma (``tokenizers``), where what lies between is kept.

        Each engine has its own Unicode version. See `respelled_for_export`.

        Raises:
            InvalidPattern: the pattern drops text, or holds what other engines read differently.
        """
        self.require_every_byte()
        return self.regex if self.name else respelled_for_export(self.regex)

    @property
    def regex_for_tiktoken(self) -> str:
        """An equal regex for fancy-regex (``tiktoken``), which forgets what lies between matches.

        Raises:
            InvalidPattern: as `regex_for_export`.
        """
        exported = self.regex_for_export
        return exported if self.name else with_gaps_matched(exported)


def _refuse_record(problem: str, next_step: str = "fetch or make the file again") -> NoReturn:
    raise InvalidPattern(
        f"the split pattern in a file {problem}",
        "name, regex, what becomes of text between matches, and a digest of all that with the "
        "Unicode tables",
        next_step,
    )


def _regex_of(name: str) -> str:
    return NAMED_PATTERNS.get(name) or DROPPING_PATTERNS[name]


@functools.lru_cache(maxsize=64)
def _characters_digest(pattern: str) -> str:
    made = split_automaton(pattern)
    assert isinstance(made, SplitAutomaton)
    return digest_of_bytes(made.class_of_point)


@functools.lru_cache(maxsize=64)
def _compile(pattern: str) -> Any:
    if not isinstance(pattern, str) or not pattern:
        raise InvalidPattern(
            f"the split pattern is {pattern!r}",
            f"names are {', '.join(_NAMES)}; anything else must be a regex",
            "write 'gpt2'",
        )
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
    try:
        compiled = regex_package.compile(pattern)
    except (regex_package.error, ValueError, RecursionError, OverflowError) as error:
        raise InvalidPattern(
            f"the split pattern {pattern!r} does not compile: {error}",
            f"names are {', '.join(_NAMES)}; anything else must be a regex in the syntax "
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
