"""Every normalizer but Precompiled: one step from text to text each.

Each step has ``text``, which returns the same string where it changes nothing; ``described``, the
part of a tokenizer.json; ``name``, for people; and ``local``, which says that text may be cut where
`normalizers` cuts it, and both sides normalized apart.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer
from bpeline.tokenizer_core.normalization import unicode_tables as tables
from bpeline.tokenizer_core.splitting import (
    SplitAutomaton,
    SplitPattern,
    never_tries_twice,
    respelled_for_export,
)
from bpeline.tokenizer_core.text import Text, utf8_of

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
MOST_CONTENT = 1024  # characters that a step puts in


class NormalizerStep(Protocol):
    """What a normalizer is made of."""

    @property
    def local(self) -> bool: ...

    @property
    def name(self) -> str: ...

    @property
    def growth(self) -> float:
        """How many times as many characters a text may have after the step."""

    def described(self) -> dict[str, Any]: ...

    def text(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class UnicodeForm:
    """NFC, NFD, NFKC or NFKD."""

    form: Form
    local: ClassVar[bool] = True
    growth: ClassVar[float] = 1

    @property
    def name(self) -> str:
        return self.form

    def described(self) -> dict[str, Any]:
        return {"type": self.form}

    def text(self, text: str) -> str:
        changed = unicodedata.normalize(self.form, text)
        if changed is text or changed == text:
            return text
        # Characters that this Python may know better neither change nor let others pass.
        parts = tables.without_forms().split(text)
        if len(parts) > 1:
            parts[::2] = (unicodedata.normalize(self.form, part) for part in parts[::2])
            changed = "".join(parts)
        return text if changed == text else changed


@dataclass(frozen=True, slots=True)
class Nmt:
    """Drops control characters; other white space and U+FFFD become spaces."""

    name: ClassVar[str] = "Nmt"
    local: ClassVar[bool] = True
    growth: ClassVar[float] = 1

    def described(self) -> dict[str, Any]:
        return {"type": "Nmt"}

    def text(self, text: str) -> str:
        return _same(text, tables.nmt().text(text))


@dataclass(frozen=True, slots=True)
class Lowercase:
    """Each character by itself: a sigma that ends a word is any sigma."""

    name: ClassVar[str] = "Lowercase"
    local: ClassVar[bool] = True
    growth: ClassVar[float] = 1

    def described(self) -> dict[str, Any]:
        return {"type": "Lowercase"}

    def text(self, text: str) -> str:
        if text.isascii():
            return _same(text, text.lower())
        lowered = text.replace("Σ", "σ").lower()
        if tables.young_capital().search(lowered):
            lowered = lowered.translate(tables.young_capitals())
        return _same(text, lowered)


@dataclass(frozen=True, slots=True)
class StripAccents:
    """Drops marks of every kind; characters that hold one are decomposed by another step."""

    name: ClassVar[str] = "StripAccents"
    local: ClassVar[bool] = True
    growth: ClassVar[float] = 1

    def described(self) -> dict[str, Any]:
        return {"type": "StripAccents"}

    def text(self, text: str) -> str:
        return text if text.isascii() else _same(text, tables.marks().sub("", text))


@dataclass(frozen=True, slots=True)
class Strip:
    """Drops white space from the ends of a text."""

    left: bool
    right: bool
    name: ClassVar[str] = "Strip"
    local: ClassVar[bool] = False
    growth: ClassVar[float] = 1

    def described(self) -> dict[str, Any]:
        return {"type": "Strip", "strip_left": self.left, "strip_right": self.right}

    def text(self, text: str) -> str:
        if self.left:
            text = text.lstrip(tables.WHITE_SPACE)
        return text.rstrip(tables.WHITE_SPACE) if self.right else text


@dataclass(frozen=True, slots=True)
class Prepend:
    """Puts something before every text that is not empty."""

    content: str
    local: ClassVar[bool] = False
    growth: ClassVar[float] = 1

    @property
    def name(self) -> str:
        return f"Prepend({self.content!r})"

    def described(self) -> dict[str, Any]:
        return {"type": "Prepend", "prepend": self.content}

    def text(self, text: str) -> str:
        return self.content + text if text and self.content else text

    def utf8(self, content: bytes) -> bytes:
        """The same of UTF-8, which need not become a string for it."""
        return self.content.encode() + content if content and self.content else content


@dataclass(frozen=True, slots=True)
class ReplaceString:
    """Puts ``content`` for every occurrence of a string, from left to right."""

    string: str
    content: str
    local: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return f"Replace({self.string!r}, {self.content!r})"

    @property
    def growth(self) -> float:
        return max(len(self.content) / len(self.string), 1)

    def described(self) -> dict[str, Any]:
        return {
            "type": "Replace",
            "pattern": {"String": self.string},
            "content": self.content,
        }

    def text(self, text: str) -> str:
        return _same(text, text.replace(self.string, self.content))

    def utf8(self, content: bytes) -> bytes:
        """The same of UTF-8: no character of several bytes stands within others."""
        changed = content.replace(self.string.encode(), self.content.encode())
        return content if changed == content else changed


@dataclass(frozen=True)
class ReplaceRegex:
    """Puts ``content``, as it stands, for every match of a regex.

    Raises:
        InvalidTokenizer: not a regex that an automaton runs, which takes no more time on one text
            than on another, and that Oniguruma reads alike.
    """

    regex: str
    content: str
    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        try:
            automaton = SplitPattern(self.regex).automaton
            alike = respelled_for_export(self.regex) == self.regex
        except InvalidPattern as error:
            raise _no_replacement(self.regex, error.happened) from error
        if automaton is None or not alike:
            raise _no_replacement(
                self.regex,
                "tokenizers reads it differently" if automaton else "it is beyond an automaton",
            )

    @property
    def name(self) -> str:
        return f"Replace(/{self.regex}/, {self.content!r})"

    @property
    def growth(self) -> float:
        return max(len(self.content), 1)

    def described(self) -> dict[str, Any]:
        return {"type": "Replace", "pattern": {"Regex": self.regex}, "content": self.content}

    @cached_property
    def _automaton(self) -> SplitAutomaton:
        automaton = SplitPattern(self.regex).automaton
        assert automaton is not None
        return automaton

    def __getstate__(self) -> dict[str, str]:
        return {"regex": self.regex, "content": self.content}

    @cached_property
    def _replaced(self) -> Callable[[str], str] | None:
        """What the ``regex`` package does in a line, where it never has to try anything twice."""
        if not never_tries_twice(self.regex):
            return None
        matches, content = SplitPattern(self.regex).compiled, self.content
        return lambda text: str(matches.sub(lambda _: content, text))

    def text(self, text: str) -> str:
        if self._replaced is not None:
            return _same(text, self._replaced(text))
        content = utf8_of(text)
        whole = Text.of(content)
        starts = np.zeros(whole.size // 64 + 2, np.uint64)
        gaps = np.zeros(starts.size, np.uint64)
        self._automaton.mark(whole, np.array([[0, whole.size]], np.int64), starts, gaps)
        begins = _positions(starts)
        matched = ~np.isin(begins, _positions(gaps), assume_unique=True)
        if not matched.any():
            return text
        ends = np.append(begins[1:], whole.size)
        put = self.content.encode()
        out: list[bytes] = []
        last = 0
        for begin, end in zip(begins[matched].tolist(), ends[matched].tolist(), strict=True):
            out += (content[last:begin], put)
            last = end
        out.append(content[last:])
        return _same(text, b"".join(out).decode())


@dataclass(frozen=True, slots=True)
class BertNormalizer:
    """What BERT does, in this order.

    Attributes:
        clean_text: control characters are dropped, other white space becomes a space.
        handle_chinese_chars: a space before and after each ideograph.
        strip_accents: decomposed, then without nonspacing marks; None: if ``lowercase``.
        lowercase: as `Lowercase`.
    """

    clean_text: bool
    handle_chinese_chars: bool
    strip_accents: bool | None
    lowercase: bool
    local: ClassVar[bool] = True

    @property
    def name(self) -> str:
        accents = self.lowercase if self.strip_accents is None else self.strip_accents
        done = {
            "clean text": self.clean_text,
            "Chinese characters": self.handle_chinese_chars,
            "strip accents": accents,
            "lowercase": self.lowercase,
        }
        return f"BertNormalizer({', '.join(name for name, does in done.items() if does)})"

    @property
    def growth(self) -> float:
        return 3 if self.handle_chinese_chars else 1

    def described(self) -> dict[str, Any]:
        return {
            "type": "BertNormalizer",
            "clean_text": self.clean_text,
            "handle_chinese_chars": self.handle_chinese_chars,
            "strip_accents": self.strip_accents,
            "lowercase": self.lowercase,
        }

    def text(self, text: str) -> str:
        changed = text
        if self.clean_text:
            changed = tables.cleaned().text(changed)
        ascii_only = changed.isascii()
        if self.handle_chinese_chars and not ascii_only:
            changed = tables.ideographs().sub(r" \1 ", changed)
        if not ascii_only and (
            self.lowercase if self.strip_accents is None else self.strip_accents
        ):
            changed = tables.nonspacing().sub("", UnicodeForm("NFD").text(changed))
        if self.lowercase:
            changed = Lowercase().text(changed)
        return _same(text, changed)


def _same(text: str, changed: str) -> str:
    return text if changed == text else changed


def _positions(bitmap: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, Any]:
    return np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little"))


def _no_replacement(regex: str, why: str) -> InvalidTokenizer:
    return InvalidTokenizer(
        f"the normalizer Replace has the regex {regex[:200]!r}, which cannot be used: {why}",
        "regexes that an automaton runs and that tokenizers (Oniguruma) reads alike, such as ' +'",
        "ask for a tokenizer.json without it",
    )
