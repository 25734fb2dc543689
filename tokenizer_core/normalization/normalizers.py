"""Normalizers of tokenizer.json, applied to whole texts and to texts that come in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.normalization.charsmap import Precompiled, SentencePieceText
from bpeline.tokenizer_core.normalization.steps import (
    MOST_CONTENT,
    BertNormalizer,
    Lowercase,
    Nmt,
    NormalizerStep,
    Prepend,
    ReplaceRegex,
    ReplaceString,
    Strip,
    StripAccents,
    UnicodeForm,
)
from bpeline.tokenizer_core.text import utf8_of

MOST_STEPS = 64
MOST_GROWTH = 1024  # times as many characters after all steps as before, at worst
_DEEPEST = 16  # Sequences in Sequences
_BLOCK = 1 << 20  # bytes that are normalized together
# After these bytes every local step may begin anew: a line feed, and what is ASCII on both sides
# but for CR LF.
_CUT = re.compile(rb"\n|[\x00-\x0c\x0e-\x7f](?=[\x00-\x7f])")
_ACCEPTED = (
    "NFC, NFD, NFKC, NFKD, Nmt, Lowercase, StripAccents, Strip, Prepend, Replace, BertNormalizer, "
    "Precompiled and Sequence of these, each with the keys tokenizers 0.23 writes"
)


@dataclass(frozen=True, slots=True)
class Normalizer:
    """Steps that change a text one after the other, as `tokenizers` 0.23.3 does.

    None stands for no normalizer; there is no `Normalizer` without steps.

    Attributes:
        steps: at least one, and at most `MOST_STEPS`.

    Raises:
        InvalidTokenizer: no steps, too many, or such as make too much out of little.
    """

    steps: tuple[NormalizerStep, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.steps) <= MOST_STEPS:
            _refuse(f"has {len(self.steps)} steps", f"1 to {MOST_STEPS} steps; None for no change")
        growth = 1.0
        for step in self.steps:
            growth *= step.growth
        if growth > MOST_GROWTH:
            _refuse(
                f"may make a text {growth:.0f} times as long", f"up to {MOST_GROWTH} times as long"
            )

    @classmethod
    def of_description(cls, part: Any) -> Normalizer | None:
        """The normalizer of a tokenizer.json, or what `described` gave; None for none.

        Sequences in Sequences are one; null and a Sequence without steps are no normalizer.

        Raises:
            InvalidTokenizer: naming the type or key that is not understood.
        """
        steps = tuple(_steps(part, 0))
        return cls(steps) if steps else None

    def described(self) -> dict[str, Any]:
        """JSON values as in a tokenizer.json; equal normalizers have equal ones."""
        if len(self.steps) == 1:
            return self.steps[0].described()
        return {"type": "Sequence", "normalizers": [step.described() for step in self.steps]}

    @property
    def name(self) -> str:
        """For people, such as ``NFC`` or ``NFD, StripAccents``."""
        return ", ".join(step.name for step in self.steps)

    def text(self, text: str) -> str:
        """``text`` after all steps: the same string where nothing changes."""
        for step in self.steps:
            text = step.text(text)
        return text

    def content(self, content: bytes) -> bytes:
        """The UTF-8 of a text after all steps: the same object where nothing changes.

        Long texts are changed block by block, unless a step looks at a whole text (Strip, Prepend,
        Replace).
        """
        if all(isinstance(step, Prepend | ReplaceString) for step in self.steps):
            for step in self.steps:
                assert isinstance(step, Prepend | ReplaceString)
                content = step.utf8(content)
            return content
        if len(content) <= _BLOCK or not all(step.local for step in self.steps):
            return self._block(content)
        blocks = list(_blocks(content))
        changed = [self._block(block) for block in blocks]
        if all(after is before for after, before in zip(changed, blocks, strict=True)):
            return content
        return b"".join(changed)

    def _block(self, content: bytes) -> bytes:
        text = content.decode()
        changed = self.text(text)
        return content if changed is text else utf8_of(changed)


def _blocks(content: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(content):
        found = _CUT.search(content, begin + _BLOCK)
        end = found.end() if found else len(content)
        yield content[begin:end]
        begin = end


def _steps(part: Any, depth: int) -> Iterator[NormalizerStep]:
    if part is None:
        return
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        _refuse("has no type")
    if kind == "Sequence":
        inner = _values(part, normalizers=list)["normalizers"]
        if depth >= _DEEPEST or len(inner) > MOST_STEPS:
            _refuse("has too many Sequences in Sequences, or steps")
        for one in inner:
            if one is None:
                _refuse("has a step without type")
            yield from _steps(one, depth + 1)
    elif kind in _READERS:
        yield _READERS[kind](part)
    else:
        _refuse(f"has the type {kind[:40]!r}, which is not supported")


def _values(part: dict[str, Any], **types: type | tuple[type, ...]) -> dict[str, Any]:
    """The values of a step, once every key is known, and every value of its type."""
    kind = part["type"]
    for key in part:
        if key != "type" and key not in types:
            _refuse(f"sets {str(key)[:40]!r} of {kind}, which is not understood")
    for key, type_ in types.items():
        optional = isinstance(type_, tuple)
        if not (optional and key not in part) and not isinstance(part.get(key), type_):
            _refuse(f"has a {kind} with the {key} {str(part.get(key, 'that is missing'))[:40]!r}")
        value = part.get(key)
        if isinstance(value, str) and key != "precompiled_charsmap" and len(value) > MOST_CONTENT:
            _refuse(f"has a {kind} with a {key} of {len(value)} characters")
        if isinstance(value, str) and utf8_of(value).decode() != value:
            _refuse(f"has a {kind} with a {key} that holds half a character")
    return {key: part.get(key) for key in types}


def _bert(part: dict[str, Any]) -> NormalizerStep:
    return BertNormalizer(
        **_values(
            part,
            clean_text=bool,
            handle_chinese_chars=bool,
            strip_accents=(bool, type(None)),
            lowercase=bool,
        )
    )


def _strip(part: dict[str, Any]) -> NormalizerStep:
    values = _values(part, strip_left=bool, strip_right=bool)
    return Strip(values["strip_left"], values["strip_right"])


def _replace(part: dict[str, Any]) -> NormalizerStep:
    values = _values(part, pattern=dict, content=str)
    pattern, content = values["pattern"], values["content"]
    if list(pattern) == ["String"] and _is_usable(pattern["String"]):
        return ReplaceString(pattern["String"], content)
    if list(pattern) != ["Regex"] or not isinstance(pattern["Regex"], str):
        _refuse(f"has a Replace of the pattern {str(pattern)[:80]}")
    return ReplaceRegex(pattern["Regex"], content)


def _is_usable(string: Any) -> bool:
    if not isinstance(string, str) or not 0 < len(string) <= MOST_CONTENT:
        return False
    return utf8_of(string).decode() == string


def _plain(step: NormalizerStep) -> Callable[[dict[str, Any]], NormalizerStep]:
    def read(part: dict[str, Any]) -> NormalizerStep:
        _values(part)
        return step

    return read


_READERS: dict[str, Callable[[dict[str, Any]], NormalizerStep]] = {
    "NFC": _plain(UnicodeForm("NFC")),
    "NFD": _plain(UnicodeForm("NFD")),
    "NFKC": _plain(UnicodeForm("NFKC")),
    "NFKD": _plain(UnicodeForm("NFKD")),
    "Nmt": _plain(Nmt()),
    "Lowercase": _plain(Lowercase()),
    "StripAccents": _plain(StripAccents()),
    "Strip": _strip,
    "Prepend": lambda part: Prepend(_values(part, prepend=str)["prepend"]),
    "Replace": _replace,
    "BertNormalizer": _bert,
    SentencePieceText.name: SentencePieceText.of_description,
    "Precompiled": lambda part: Precompiled(
        _values(part, precompiled_charsmap=str)["precompiled_charsmap"]
    ),
}


def _refuse(what: str, accepted: str = _ACCEPTED) -> NoReturn:
    raise InvalidTokenizer(
        f"the normalizer {what}", accepted, "ask for a tokenizer.json without it"
    )
