"""Split patterns: named, a user's own, their digests and exports; knows not how they are run."""

from __future__ import annotations

import difflib
import functools
import string
from dataclasses import dataclass
from typing import Any

import regex as regex_package

from tokenizer_core.digests import digest_of
from tokenizer_core.errors import InvalidOption, InvalidPattern
from tokenizer_core.regex_export import respelled_for_export
from tokenizer_core.unicode_classes import unicode_classes_digest

MAX_REGEX_BYTES = 4096

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# tiktoken's cl100k_base in two respects spelled otherwise, so that every engine reads the same:
# `\p{N}{1,3}+` without its plus (nothing follows, so giving back cannot help; Oniguruma reads the
# plus as a repetition), and `\s++$` as `\s++(?!\S)` (behind a possessive run stands no white
# space, so both mean the end of the text; `$` means three different things to three engines).
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++(?!\S)|\s*[\r\n]|\s+(?!\S)|\s"
)
NAMED_PATTERNS = {"gpt2": _GPT2, "cl100k": _CL100K}
_OTHER_SPELLINGS = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s": "cl100k",
}
_NAME_LETTERS = frozenset(string.ascii_letters + string.digits + "-_")


@dataclass(frozen=True, slots=True)
class SplitPattern:
    """How text is cut into pre-tokens: each non-empty match is one, and so is what lies between.

    Attributes:
        regex: the pattern in the syntax of the ``regex`` package. A known spelling of a named
            pattern is replaced by ours, so that equal patterns are equal values.
        name: ``gpt2``, ``cl100k``, or None for a user's own.

    Raises:
        InvalidPattern: the regex does not compile, is longer than 4 KB, or searches backwards.
    """

    regex: str
    name: str | None = None

    def __post_init__(self) -> None:
        known = next((name for name, text in NAMED_PATTERNS.items() if text == self.regex), None)
        known = known or _OTHER_SPELLINGS.get(self.regex)
        if self.name is not None and self.name != known:
            raise InvalidPattern(
                f"the regex given is not that of the split pattern {self.name!r}",
                "a name stands for one regex",
                f"write SplitPattern.named({self.name!r}) or leave the name out",
            )
        if known is not None:
            object.__setattr__(self, "name", known)
            object.__setattr__(self, "regex", NAMED_PATTERNS[known])
        else:
            _compile(self.regex)

    @classmethod
    def named(cls, name: str) -> SplitPattern:
        """A built-in pattern.

        Raises:
            InvalidOption: there is no pattern of this name.
        """
        if name not in NAMED_PATTERNS:
            close = difflib.get_close_matches(name, NAMED_PATTERNS, 1, 0.4) or ["gpt2"]
            raise InvalidOption(
                f"there is no split pattern named {name!r}",
                f"names are {', '.join(NAMED_PATTERNS)}; anything else must be a regex",
                f"write {close[0]!r}",
            )
        return cls(NAMED_PATTERNS[name], name)

    @classmethod
    def parse(cls, pattern: str | SplitPattern) -> SplitPattern:
        """A pattern from a name, a regex or a pattern.

        A string of letters, digits, ``-`` and ``_`` alone is a name: as a regex it would cut at
        one literal word, which nobody means; ``SplitPattern(regex=...)`` takes it nevertheless.

        Raises:
            InvalidOption: an unknown name.
            InvalidPattern: a regex that cannot be used.
        """
        if isinstance(pattern, SplitPattern):
            return pattern
        if _NAME_LETTERS.issuperset(pattern):
            return cls.named(pattern)
        return cls(pattern)

    @property
    def compiled(self) -> Any:
        """The compiled ``regex.Pattern``."""
        return _compile(self.regex)

    @property
    def has_kernel(self) -> bool:
        """Whether machine code of our own runs this pattern."""
        return self.name is not None

    @property
    def cuts_at_spaces(self) -> bool:
        """Whether text may be cut before a single U+0020 between two non-space characters.

        True where no pre-token has a U+0020 inside or behind non-space characters; nothing is
        known of a user's regex.
        """
        return self.name is not None

    @property
    def digest(self) -> str:
        """Digest of the behaviour: the regex and the Unicode tables it looks into."""
        return digest_of({"regex": self.regex, "unicode": unicode_classes_digest()})

    @property
    def regex_for_export(self) -> str:
        """An equal regex for Oniguruma (``tokenizers``) and fancy-regex (``tiktoken``).

        Each engine has its own Unicode version. See `respelled_for_export`.
        """
        return respelled_for_export(self.regex)


@functools.lru_cache(maxsize=64)
def _compile(pattern: str) -> Any:
    if not isinstance(pattern, str) or not pattern:
        raise InvalidPattern(
            f"the split pattern is {pattern!r}",
            f"names are {', '.join(NAMED_PATTERNS)}; anything else must be a regex",
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
            f"names are {', '.join(NAMED_PATTERNS)}; anything else must be a regex in the syntax "
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
