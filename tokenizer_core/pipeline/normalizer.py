"""Normalizers of tokenizer.json, equal to those of ``tokenizers`` 0.23.3.

`charsmap` holds Precompiled and SentencePiece's own normalization.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bpeline.tokenizer_core.errors import InvalidPattern
from bpeline.tokenizer_core.pipeline import charsmap
from bpeline.tokenizer_core.pipeline import unicode_tables as tables
from bpeline.tokenizer_core.pipeline.stages import (
    MOST_STEPS,
    NormalizerStep,
    Part,
    Pattern,
    Unfit,
)
from bpeline.tokenizer_core.splitting import (
    SplitAutomaton,
    SplitPattern,
    never_tries_twice,
    respelled_for_export,
)
from bpeline.tokenizer_core.text import Text, utf8_of

MOST_CONTENT = 1024  # characters that a step inserts
MOST_GROWTH = 1024  # factor by which a text may grow
_BLOCK = 1 << 20  # bytes that are normalized together
# Local steps do not look across these positions: after a line feed, and between two ASCII
# characters except CR LF.
_CUT = re.compile(rb"\n|[\x00-\x0c\x0e-\x7f](?=[\x00-\x7f])")


@dataclass(frozen=True, slots=True)
class NFC(NormalizerStep):
    """A Unicode normalization form; base of the other three."""

    kind = "NFC"

    def text(self, text: str) -> str:
        return _in_form(self.kind, text)


class NFD(NFC):
    kind = "NFD"


class NFKC(NFC):
    kind = "NFKC"


class NFKD(NFC):
    kind = "NFKD"


@dataclass(frozen=True, slots=True)
class Nmt(NormalizerStep):
    """Drops control characters; other white space and U+FFFD become spaces."""

    kind = "Nmt"

    def text(self, text: str) -> str:
        return _same(text, tables.nmt().text(text))


@dataclass(frozen=True, slots=True)
class Lowercase(NormalizerStep):
    """Lowercases each character by itself, so a final sigma is not special."""

    kind = "Lowercase"

    def text(self, text: str) -> str:
        return _same(text, _lowered(text))


@dataclass(frozen=True, slots=True)
class StripAccents(NormalizerStep):
    """Drops combining marks; does not decompose characters."""

    kind = "StripAccents"

    def text(self, text: str) -> str:
        return text if text.isascii() else _same(text, tables.marks().sub("", text))


@dataclass(frozen=True, slots=True)
class Strip(NormalizerStep):
    kind = "Strip"
    local: ClassVar[bool] = False
    strip_left: bool
    strip_right: bool

    def text(self, text: str) -> str:
        if self.strip_left:
            text = text.lstrip(tables.WHITE_SPACE)
        return text.rstrip(tables.WHITE_SPACE) if self.strip_right else text


@dataclass(frozen=True, slots=True)
class Prepend(NormalizerStep):
    """Adds a string before every text that is not empty."""

    kind = "Prepend"
    local: ClassVar[bool] = False
    prepend: str

    def __post_init__(self) -> None:
        _require_short(self.prepend)

    @property
    def name(self) -> str:
        return f"Prepend({self.prepend!r})"

    def text(self, text: str) -> str:
        return self.prepend + text if text and self.prepend else text

    def utf8(self, content: bytes) -> bytes:
        return self.prepend.encode() + content if content and self.prepend else content


@dataclass(frozen=True)
class Replace(NormalizerStep):
    """Replaces matches of a string or a regex by the literal ``content``.

    A regex must be regular, so that it runs in linear time, and Oniguruma must read it alike.
    """

    kind = "Replace"
    local: ClassVar[bool] = False
    pattern: Pattern
    content: str

    def __post_init__(self) -> None:
        source = self.pattern.source
        _require_short(self.content)
        if not self.pattern.is_regex:
            _require_short(source)
            if not source or utf8_of(source).decode() != source:
                raise Unfit(f"has the pattern {str(self.pattern.described())[:80]}")
            return
        try:
            automaton = SplitPattern(source).automaton
            alike = respelled_for_export(source) == source
        except InvalidPattern as error:
            raise _no_regex(source, error.happened) from error
        if automaton is None:
            raise _no_regex(source, "it is not regular")
        if not alike:
            raise _no_regex(source, "tokenizers reads it differently")

    def __getstate__(self) -> dict[str, Any]:
        return {"pattern": self.pattern, "content": self.content}

    @property
    def name(self) -> str:
        source = self.pattern.source
        pattern = f"/{source}/" if self.pattern.is_regex else repr(source)
        return f"Replace({pattern}, {self.content!r})"

    @property
    def growth(self) -> float:
        shortest = 1 if self.pattern.is_regex else len(self.pattern.source)
        return max(len(self.content) / shortest, 1)

    def text(self, text: str) -> str:
        if not self.pattern.is_regex:
            return _same(text, text.replace(self.pattern.source, self.content))
        if self._in_one_line is not None:
            return _same(text, self._in_one_line(text))
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
        replacement = self.content.encode()
        out: list[bytes] = []
        last = 0
        for begin, end in zip(begins[matched].tolist(), ends[matched].tolist(), strict=True):
            out += (content[last:begin], replacement)
            last = end
        out.append(content[last:])
        return _same(text, b"".join(out).decode())

    def utf8(self, content: bytes) -> bytes:
        # Only for strings: in UTF-8 no character occurs within others.
        changed = content.replace(self.pattern.source.encode(), self.content.encode())
        return content if changed == content else changed

    @cached_property
    def _automaton(self) -> SplitAutomaton:
        automaton = SplitPattern(self.pattern.source).automaton
        assert automaton is not None
        return automaton

    @cached_property
    def _in_one_line(self) -> Callable[[str], str] | None:
        """Replacement by the ``regex`` package, for patterns that never backtrack."""
        if not never_tries_twice(self.pattern.source):
            return None
        matches, content = SplitPattern(self.pattern.source).compiled, self.content
        return lambda text: str(matches.sub(lambda _: content, text))


@dataclass(frozen=True, slots=True)
class BertNormalizer(NormalizerStep):
    """BERT's normalization, in this order.

    Attributes:
        clean_text: drop control characters; other white space becomes a space.
        handle_chinese_chars: add a space before and after each ideograph.
        strip_accents: decompose, then drop nonspacing marks; None: as ``lowercase``.
        lowercase: as `Lowercase`.
    """

    kind = "BertNormalizer"
    clean_text: bool
    handle_chinese_chars: bool
    strip_accents: bool | None = None
    lowercase: bool = field(kw_only=True)

    @property
    def name(self) -> str:
        steps = {
            "clean text": self.clean_text,
            "Chinese characters": self.handle_chinese_chars,
            "strip accents": self._strips_accents,
            "lowercase": self.lowercase,
        }
        return f"BertNormalizer({', '.join(name for name, does in steps.items() if does)})"

    @property
    def growth(self) -> float:
        return 3 if self.handle_chinese_chars else 1

    @property
    def _strips_accents(self) -> bool:
        return self.lowercase if self.strip_accents is None else self.strip_accents

    def text(self, text: str) -> str:
        changed = tables.cleaned().text(text) if self.clean_text else text
        ascii_only = changed.isascii()
        if self.handle_chinese_chars and not ascii_only:
            changed = tables.ideographs().sub(r" \1 ", changed)
        if self._strips_accents and not ascii_only:
            changed = tables.nonspacing().sub("", _in_form("NFD", changed))
        return _same(text, _lowered(changed) if self.lowercase else changed)


NORMALIZERS = Part[NormalizerStep](
    "normalizer",
    "normalizers",
    {
        one.kind: one
        for one in (
            NFC, NFD, NFKC, NFKD, Nmt, Lowercase, StripAccents, Strip, Prepend, Replace,
            BertNormalizer, charsmap.SentencePieceText, charsmap.Precompiled,
        )
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Steps in order; None stands for no normalizer.

    Attributes:
        steps: 1 to `MOST_STEPS`.

    Raises:
        InvalidTokenizer: no steps, too many, or steps that may make a text too long.
    """

    steps: tuple[NormalizerStep, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.steps) <= MOST_STEPS:
            NORMALIZERS.refuse(f"has {len(self.steps)} steps", f"expected 1 to {MOST_STEPS} steps")
        growth = 1.0
        for step in self.steps:
            growth *= step.growth
        if growth > MOST_GROWTH:
            NORMALIZERS.refuse(
                f"may make a text {growth:.0f} times as long",
                f"expected up to {MOST_GROWTH} times",
            )

    @classmethod
    def of_description(cls, part: Any) -> Normalizer | None:
        """Read the ``normalizer`` of a tokenizer.json; nested Sequences are flattened."""
        steps = NORMALIZERS.steps(part)
        return cls(steps) if steps else None

    def described(self) -> dict[str, Any]:
        if len(self.steps) == 1:
            return self.steps[0].described()
        return {"type": "Sequence", "normalizers": [step.described() for step in self.steps]}

    @property
    def name(self) -> str:
        """For display, such as ``NFD, StripAccents``."""
        return ", ".join(step.name for step in self.steps)

    @property
    def replaces_regex(self) -> bool:
        return any(isinstance(step, Replace) and step.pattern.is_regex for step in self.steps)

    def text(self, text: str) -> str:
        """Apply all steps; returns the same string if nothing changes."""
        for step in self.steps:
            text = step.text(text)
        return text

    def content(self, content: bytes) -> bytes:
        """Apply all steps to UTF-8; returns the same object if nothing changes.

        Long texts are normalized in blocks, unless a step is not `local`.
        """
        if all(map(_is_of_bytes, self.steps)):
            for step in self.steps:
                assert isinstance(step, Prepend | Replace)
                content = step.utf8(content)
            return content
        if len(content) <= _BLOCK or not all(step.local for step in self.steps):
            return self._block(content)
        blocks = list(_blocks(content))
        changed = [self._block(block) for block in blocks]
        if all(after is before for after, before in zip(changed, blocks, strict=True)):
            return content
        return b"".join(changed)

    def contents(self, pieces: Sequence[bytes]) -> list[bytes]:
        """`content` of each of several texts.

        Many short texts are joined by a character that all steps keep, and normalized together.
        """
        if len(pieces) > 1 and all(step.local and step.text("\0") == "\0" for step in self.steps):
            whole = b"\0".join(pieces)
            if whole.count(b"\0") == len(pieces) - 1:
                return self.content(whole).split(b"\0")
        return list(map(self.content, pieces))

    def _block(self, content: bytes) -> bytes:
        text = content.decode()
        changed = self.text(text)
        return content if changed is text else utf8_of(changed)


def _is_of_bytes(step: NormalizerStep) -> bool:
    return isinstance(step, Prepend) or (isinstance(step, Replace) and not step.pattern.is_regex)


def _blocks(content: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(content):
        match = _CUT.search(content, begin + _BLOCK)
        end = match.end() if match else len(content)
        yield content[begin:end]
        begin = end


def _in_form(form: Any, text: str) -> str:
    changed = unicodedata.normalize(form, text)
    if changed is text or changed == text:
        return text
    # Keep characters that only newer Unicode versions normalize, and do not reorder across them.
    parts = tables.without_forms().split(text)
    if len(parts) > 1:
        parts[::2] = (unicodedata.normalize(form, part) for part in parts[::2])
        changed = "".join(parts)
    return _same(text, changed)


def _lowered(text: str) -> str:
    if text.isascii():
        return text.lower()
    lowered = text.replace("Σ", "σ").lower()
    if tables.young_capital().search(lowered):
        lowered = lowered.translate(tables.young_capitals())
    return lowered


def _same(text: str, changed: str) -> str:
    return text if changed == text else changed


def _positions(bitmap: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, Any]:
    return np.flatnonzero(np.unpackbits(bitmap.view(np.uint8), bitorder="little"))


def _require_short(content: str) -> None:
    if len(content) > MOST_CONTENT:
        raise Unfit(f"has a text of {len(content)} characters", f"expected up to {MOST_CONTENT}")


def _no_regex(regex: str, why: str) -> Unfit:
    return Unfit(
        f"has the regex {regex[:200]!r}, which cannot be used: {why}",
        "expected a regular regex that tokenizers (Oniguruma) reads alike, such as ' +'",
    )
