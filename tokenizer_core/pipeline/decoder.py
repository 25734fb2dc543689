"""Decoders of tokenizer.json: strings of tokens to text.

Most steps look at one string at a time. `DecoderSteps.joining` and `DecoderSteps.by_place` use this
to prepare every token of a vocab once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from bpeline.tokenizer_core.errors import InvalidPattern, PatternExceedsLimit
from bpeline.tokenizer_core.pipeline.pre_tokenizer import PrefixScheme
from bpeline.tokenizer_core.pipeline.stages import (
    OLDER,
    InOrder,
    Part,
    Pattern,
    Stage,
    Unfit,
    leaves,
)
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import from_printable

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")  # Rust also accepts the sign
_BROKEN = "\ufffd"
_SECONDS = 5.0  # for a regex on one string
# Replacements of ``cleanup`` in WordPiece and CTC, in this order.
_CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DecoderStep(Stage):
    """A step from strings to strings."""

    def applied(self, tokens: list[str]) -> list[str]:
        raise NotImplementedError


class Shown(NamedTuple):
    """Bytes of tokens; with ``whole_runs`` also the indices of the single bytes."""

    contents: list[bytes]
    bytes_alone: frozenset[int]


class Joining(NamedTuple):
    """How to decode by joining bytes: ``show`` gives them, ``after`` takes their text.

    With ``whole_runs``, each token in a run of byte tokens that is not UTF-8 becomes U+FFFD.
    """

    show: Callable[[list[str]], Shown]
    whole_runs: bool
    after: DecoderSteps


@dataclass(frozen=True, slots=True)
class ByteLevel(DecoderStep):
    kind = "ByteLevel"
    add_prefix_space: bool = True
    trim_offsets: bool = True
    use_regex: bool = True

    def applied(self, tokens: list[str]) -> list[str]:
        return [b"".join(map(_bytes_of_printable, tokens)).decode(errors="replace")]


@dataclass(frozen=True, slots=True)
class ByteFallback(DecoderStep):
    """Runs of ``<0xE4>`` and the like to the text of these bytes, if they are UTF-8."""

    kind = "ByteFallback"

    def applied(self, tokens: list[str]) -> list[str]:
        strings = list[str]()
        run = bytearray()
        for token in tokens:
            if (byte := _byte_named(token)) is not None:
                run.append(byte)
                continue
            strings += _text_of_run(run)
            run.clear()
            strings.append(token)
        return strings + _text_of_run(run)


@dataclass(frozen=True, slots=True)
class Fuse(DecoderStep):
    """Joins all strings."""

    kind = "Fuse"

    def applied(self, tokens: list[str]) -> list[str]:
        return ["".join(tokens)]


@dataclass(frozen=True, slots=True)
class Strip(DecoderStep):
    """Removes up to ``start`` and ``stop`` characters ``content`` from both ends."""

    kind = "Strip"
    content: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        if len(self.content) != 1 or min(self.start, self.stop) < 0:
            raise Unfit("has several characters as content, or a negative count")

    def applied(self, tokens: list[str]) -> list[str]:
        return [self._stripped(token) for token in tokens]

    def _stripped(self, token: str) -> str:
        begin = min(len(token) - len(token.lstrip(self.content)), self.start)
        at_end = min(len(token) - len(token.rstrip(self.content)), self.stop)
        return token[begin : max(begin, len(token) - at_end)]


@dataclass(frozen=True)
class Replace(DecoderStep):
    """Replaces a string, or the matches of a regex, in each string."""

    kind = "Replace"
    pattern: Pattern
    content: str

    def __post_init__(self) -> None:
        if self.pattern.is_regex:
            _refuse_misread(self.pattern.source)

    def applied(self, tokens: list[str]) -> list[str]:
        source = self.pattern.source
        if not self.pattern.is_regex:
            # Keep empty strings: an empty pattern would match in them.
            return [token and token.replace(source, self.content) for token in tokens]
        try:
            return [
                self._compiled.sub(lambda _: self.content, token, timeout=_SECONDS)
                for token in tokens
            ]
        except TimeoutError:
            raise PatternExceedsLimit(
                f"the regex {source[:80]!r} of a decoder takes more than {_SECONDS:.0f} s",
                "expected a regex without nested repetitions",
                "remove it from the tokenizer.json and load that",
            ) from None

    @cached_property
    def _compiled(self) -> Any:
        return SplitPattern(self.pattern.source).compiled


@dataclass(frozen=True, slots=True)
class Metaspace(DecoderStep):
    """Marks to spaces; removes marks in the first string."""

    kind = "Metaspace"
    replacement: str
    prepend_scheme: PrefixScheme = "always"
    split: bool = True
    add_prefix_space: bool = field(default=True, metadata=OLDER, compare=False)
    str_rep: str = field(default="", metadata=OLDER, compare=False)

    def __post_init__(self) -> None:
        if len(self.replacement) != 1:
            raise Unfit("has a replacement that is not a single character")
        if not self.add_prefix_space and self.prepend_scheme != "never":
            raise Unfit("has add_prefix_space and prepend_scheme that contradict each other")

    def applied(self, tokens: list[str]) -> list[str]:
        is_never = self.prepend_scheme == "never"
        return [
            token.replace(self.replacement, " " if is_never or number else "")
            for number, token in enumerate(tokens)
        ]


@dataclass(frozen=True, slots=True)
class WordPiece(DecoderStep):
    """Removes the prefix of continuations; adds a space before all other strings."""

    kind = "WordPiece"
    prefix: str
    cleanup: bool

    def applied(self, tokens: list[str]) -> list[str]:
        strings = tokens[:1] + [
            token[len(self.prefix) :] if token.startswith(self.prefix) else f" {token}"
            for token in tokens[1:]
        ]
        return list(map(_cleaned, strings)) if self.cleanup else strings


@dataclass(frozen=True, slots=True)
class EndOfWord(DecoderStep):
    """A suffix to a space; removes it in the last string."""

    kind = "BPEDecoder"
    suffix: str

    def applied(self, tokens: list[str]) -> list[str]:
        return [token.replace(self.suffix, " ") for token in tokens[:-1]] + [
            token.replace(self.suffix, "") for token in tokens[-1:]
        ]


@dataclass(frozen=True, slots=True)
class Ctc(DecoderStep):
    """Removes repeated strings and padding."""

    kind = "CTC"
    pad_token: str
    word_delimiter_token: str
    cleanup: bool

    def applied(self, tokens: list[str]) -> list[str]:
        strings = []
        for number, token in enumerate(tokens):
            if number and token == tokens[number - 1]:
                continue
            if self.pad_token:
                token = token.replace(self.pad_token, "")
            if self.cleanup:
                token = _cleaned(token).replace(self.word_delimiter_token, " ")
            if token:
                strings.append(token)
        return strings


DECODERS = Part[DecoderStep](
    "decoder",
    "decoders",
    {
        one.kind: one
        for one in (
            ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, WordPiece, EndOfWord, Ctc
        )
    },
)  # fmt: skip
_BY_PLACE = (Replace, Strip, Metaspace, WordPiece, EndOfWord)


@dataclass(frozen=True)
class DecoderSteps:
    """The decoder of a tokenizer.json; None joins strings by spaces."""

    decoder: DecoderStep | InOrder[DecoderStep] | None

    def described(self) -> dict[str, Any] | None:
        return None if self.decoder is None else self.decoder.described()

    @classmethod
    def of_description(cls, given: Any) -> DecoderSteps:
        return cls(None if given is None else DECODERS.read(given))

    def applied(self, tokens: list[str]) -> list[str]:
        if self.decoder is None:
            return tokens[:1] + [f" {token}" for token in tokens[1:]]
        return _applied(self.steps, tokens)

    def text_of(self, tokens: list[str]) -> str:
        return "".join(self.applied(tokens))

    @cached_property
    def steps(self) -> tuple[DecoderStep, ...]:
        """All steps in order, without nested sequences."""
        return () if self.decoder is None else tuple(leaves(self.decoder))

    @cached_property
    def by_place(self) -> bool:
        """Whether each token's text depends only on it and on being first or last."""
        return all(isinstance(step, _BY_PLACE) for step in self.steps)

    @cached_property
    def ends_differ(self) -> bool:
        """Whether the last token is decoded differently."""
        return any(isinstance(step, EndOfWord) for step in self.steps)

    @cached_property
    def taken_from_the_beginning(self) -> tuple[str, int] | None:
        """Character and count that a sole Strip removes from the beginning, if any."""
        if not self.steps:
            return "", 0
        step = self.steps[0] if len(self.steps) == 1 else None
        return (step.content, step.start) if isinstance(step, Strip) and not step.stop else None

    @cached_property
    def joining(self) -> Joining | None:
        """How to decode by joining bytes; None if the steps do not allow it."""
        if self.decoder is None:
            return None
        count = 0
        while count < len(self.steps) and isinstance(self.steps[count], (Replace, Strip)):
            count += 1
        alone, rest = self.steps[:count], self.steps[count:]
        whole_runs = rest[:1] == (ByteFallback(),)
        if whole_runs:
            rest = rest[1:]
        printable = not whole_runs and bool(rest) and isinstance(rest[0], ByteLevel)
        if rest and not printable and not isinstance(rest[0], Fuse):
            return None

        def show(tokens: list[str]) -> Shown:
            strings = _applied(alone, tokens)
            if printable:
                return Shown(list(map(_bytes_of_printable, strings)), frozenset())
            if not whole_runs:
                return Shown([token.encode() for token in strings], frozenset())
            byte_of = {number: _byte_named(token) for number, token in enumerate(strings)}
            singles = {number: byte for number, byte in byte_of.items() if byte is not None}
            contents = [
                bytes([singles[number]]) if number in singles else token.encode()
                for number, token in enumerate(strings)
            ]
            return Shown(contents, frozenset(singles))

        return Joining(show, whole_runs, DecoderSteps(InOrder(DECODERS.member, rest[1:])))


def _applied(steps: Iterable[DecoderStep], tokens: list[str]) -> list[str]:
    for step in steps:
        tokens = step.applied(tokens)
    return tokens


# A token with a character that stands for no byte is its own UTF-8.
def _bytes_of_printable(token: str) -> bytes:
    try:
        return from_printable(token)
    except KeyError:
        return token.encode()


def _byte_named(token: str) -> int | None:
    match = _BYTE.fullmatch(token)
    return int(match[1], 16) if match else None


def _text_of_run(run: Sequence[int]) -> list[str]:
    if not run:
        return []
    try:
        return [bytes(run).decode()]
    except UnicodeDecodeError:
        return [_BROKEN] * len(run)


def _cleaned(token: str) -> str:
    for old, new in _CLEANED:
        token = token.replace(old, new)
    return token


def _refuse_misread(source: str) -> None:
    """Refuse regexes that engines may read differently or that match empty strings."""
    try:
        pattern = SplitPattern(source)
        is_same = not pattern.drops_gaps and pattern.regex_for_export == source
        is_usable = is_same and pattern.automaton is not None
    except InvalidPattern as refused:
        raise Unfit(f"has a regex that cannot be used: {refused.happened}") from refused
    if not is_usable:
        raise Unfit(f"has the regex {source[:80]!r}, which engines may read differently")
