"""Decoders of tokenizer.json: how the strings of tokens become text.

Each step takes strings and gives strings, and in the end they are joined. Most of them look at one
string at a time, which is what `DecoderSteps.joining` and `DecoderSteps.by_place` are about: who
decodes much prepares every token of a vocab once.
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

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2}|\+[0-9A-Fa-f])>")  # with a sign Rust reads it, too
_BROKEN = "\ufffd"
_SECONDS = 5.0  # for a regex on one string
# What WordPiece and CTC clean up, in this order.
_CLEANED = (
    (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
    (" 'm", "'m"), (" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DecoderStep(Stage):
    """A step from the strings of tokens to strings."""

    def applied(self, tokens: list[str]) -> list[str]:
        """What becomes of the strings of tokens."""
        raise NotImplementedError


class Shown(NamedTuple):
    """What each of many tokens looks like in text.

    Attributes:
        contents: bytes of each token.
        bytes_alone: which of them (by position) are single bytes, with ``whole_runs``.
    """

    contents: list[bytes]
    bytes_alone: frozenset[int]


class Joining(NamedTuple):
    """Bytes that are joined, made text, and go through the steps that are left.

    Attributes:
        show: the bytes of each of many tokens.
        whole_runs: where a run of tokens of single bytes is not UTF-8, each of them becomes U+FFFD;
            otherwise bytes that are not UTF-8 become U+FFFD as Python's decoder replaces them.
        after: the steps that the joined text goes through.
    """

    show: Callable[[list[str]], Shown]
    whole_runs: bool
    after: DecoderSteps


@dataclass(frozen=True, slots=True)
class ByteLevel(DecoderStep):
    """Printable characters to the bytes they stand for; its flags change nothing here."""

    kind = "ByteLevel"
    add_prefix_space: bool = True
    trim_offsets: bool = True
    use_regex: bool = True

    def applied(self, tokens: list[str]) -> list[str]:
        return [b"".join(map(_bytes_of_printable, tokens)).decode(errors="replace")]


@dataclass(frozen=True, slots=True)
class ByteFallback(DecoderStep):
    """``<0xE4>`` and the like to the bytes they name, where a run of them is UTF-8."""

    kind = "ByteFallback"

    def applied(self, tokens: list[str]) -> list[str]:
        made = list[str]()
        run = bytearray()
        for token in tokens:
            if (byte := _byte_named(token)) is not None:
                run.append(byte)
                continue
            made += _text_of_run(run)
            run.clear()
            made.append(token)
        return made + _text_of_run(run)


@dataclass(frozen=True, slots=True)
class Fuse(DecoderStep):
    """All strings to one."""

    kind = "Fuse"

    def applied(self, tokens: list[str]) -> list[str]:
        return ["".join(tokens)]


@dataclass(frozen=True, slots=True)
class Strip(DecoderStep):
    """Up to so many of one character are taken from both ends of each string."""

    kind = "Strip"
    content: str
    start: int
    stop: int

    def __post_init__(self) -> None:
        if len(self.content) != 1 or min(self.start, self.stop) < 0:
            raise Unfit("takes no single character, or less than none")

    def applied(self, tokens: list[str]) -> list[str]:
        return [self._stripped(token) for token in tokens]

    def _stripped(self, token: str) -> str:
        begin = min(len(token) - len(token.lstrip(self.content)), self.start)
        at_end = min(len(token) - len(token.rstrip(self.content)), self.stop)
        return token[begin : max(begin, len(token) - at_end)]


@dataclass(frozen=True)
class Replace(DecoderStep):
    """A string, or what a regex matches, to another string in each string."""

    kind = "Replace"
    pattern: Pattern
    content: str

    def __post_init__(self) -> None:
        if self.pattern.is_regex:
            _refuse_misread(self.pattern.source)

    def applied(self, tokens: list[str]) -> list[str]:
        source = self.pattern.source
        if not self.pattern.is_regex:
            # Of an empty string not even an empty pattern makes more.
            return [token and token.replace(source, self.content) for token in tokens]
        try:
            return [
                self._compiled.sub(lambda _: self.content, token, timeout=_SECONDS)
                for token in tokens
            ]
        except TimeoutError:
            raise PatternExceedsLimit(
                f"the regex {source[:80]!r} of a decoder takes more than {_SECONDS:.0f} s",
                "regexes that do not try the same characters again and again",
                "remove it from the tokenizer.json, and load that",
            ) from None

    @cached_property
    def _compiled(self) -> Any:
        return SplitPattern(self.pattern.source).compiled


@dataclass(frozen=True, slots=True)
class Metaspace(DecoderStep):
    """Marks to spaces; in the first string they are dropped."""

    kind = "Metaspace"
    replacement: str
    prepend_scheme: PrefixScheme = "always"
    split: bool = True
    add_prefix_space: bool = field(default=True, metadata=OLDER, compare=False)
    str_rep: str = field(default="", metadata=OLDER, compare=False)

    def __post_init__(self) -> None:
        if len(self.replacement) != 1:
            raise Unfit("replaces no single character")
        if not self.add_prefix_space and self.prepend_scheme != "never":
            raise Unfit("has add_prefix_space and prepend_scheme at odds")

    def applied(self, tokens: list[str]) -> list[str]:
        kept = self.prepend_scheme == "never"
        return [
            token.replace(self.replacement, " " if kept or number else "")
            for number, token in enumerate(tokens)
        ]


@dataclass(frozen=True, slots=True)
class WordPiece(DecoderStep):
    """A space before each string but the first, where no prefix says that a word goes on."""

    kind = "WordPiece"
    prefix: str
    cleanup: bool

    def applied(self, tokens: list[str]) -> list[str]:
        made = tokens[:1] + [
            token[len(self.prefix) :] if token.startswith(self.prefix) else f" {token}"
            for token in tokens[1:]
        ]
        return list(map(_cleaned, made)) if self.cleanup else made


@dataclass(frozen=True, slots=True)
class EndOfWord(DecoderStep):
    """A suffix to a space; in the last string it is dropped."""

    kind = "BPEDecoder"
    suffix: str

    def applied(self, tokens: list[str]) -> list[str]:
        return [token.replace(self.suffix, " ") for token in tokens[:-1]] + [
            token.replace(self.suffix, "") for token in tokens[-1:]
        ]


@dataclass(frozen=True, slots=True)
class Ctc(DecoderStep):
    """Of equal strings side by side one, without padding."""

    kind = "CTC"
    pad_token: str
    word_delimiter_token: str
    cleanup: bool

    def applied(self, tokens: list[str]) -> list[str]:
        made = []
        for number, token in enumerate(tokens):
            if number and token == tokens[number - 1]:
                continue
            if self.pad_token:
                token = token.replace(self.pad_token, "")
            if self.cleanup:
                token = _cleaned(token).replace(self.word_delimiter_token, " ")
            if token:
                made.append(token)
        return made


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
    """The decoder of a tokenizer.json; two are equal when their descriptions are.

    Attributes:
        decoder: None: strings are joined by spaces.
    """

    decoder: DecoderStep | InOrder[DecoderStep] | None

    def described(self) -> dict[str, Any] | None:
        """The decoder as in tokenizer.json; None for null."""
        return None if self.decoder is None else self.decoder.described()

    @classmethod
    def of_description(cls, given: Any) -> DecoderSteps:
        """Read the ``decoder`` of tokenizer.json.

        Raises:
            InvalidTokenizer: of another type, a part is missing, or a regex that engines read
                differently.
        """
        return cls(None if given is None else DECODERS.read(given))

    def applied(self, tokens: list[str]) -> list[str]:
        """The strings that are joined to a text."""
        if self.decoder is None:
            return tokens[:1] + [f" {token}" for token in tokens[1:]]
        return _applied(self.steps, tokens)

    def text_of(self, tokens: list[str]) -> str:
        """The text of tokens, exactly as ``tokenizers`` puts it together."""
        return "".join(self.applied(tokens))

    @cached_property
    def steps(self) -> tuple[DecoderStep, ...]:
        """The steps one after the other, those of sequences among them."""
        return () if self.decoder is None else tuple(leaves(self.decoder))

    @cached_property
    def by_place(self) -> bool:
        """Whether what becomes of a token depends on it and on its being first or last alone."""
        return all(isinstance(step, _BY_PLACE) for step in self.steps)

    @cached_property
    def ends_differ(self) -> bool:
        """Whether the last token may become something else than it would among others."""
        return any(isinstance(step, EndOfWord) for step in self.steps)

    @cached_property
    def taken_from_the_beginning(self) -> tuple[str, int] | None:
        """The character, and how many of it, where nothing else happens to one string."""
        if not self.steps:
            return "", 0
        step = self.steps[0] if len(self.steps) == 1 else None
        return (step.content, step.start) if isinstance(step, Strip) and not step.stop else None

    @cached_property
    def joining(self) -> Joining | None:
        """How tokens become bytes that are joined; None where they are not."""
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
            made = _applied(alone, tokens)
            if printable:
                return Shown(list(map(_bytes_of_printable, made)), frozenset())
            if not whole_runs:
                return Shown([token.encode() for token in made], frozenset())
            named = {number: _byte_named(token) for number, token in enumerate(made)}
            singles = {number: byte for number, byte in named.items() if byte is not None}
            contents = [
                bytes([singles[number]]) if number in singles else token.encode()
                for number, token in enumerate(made)
            ]
            return Shown(contents, frozenset(singles))

        return Joining(show, whole_runs, DecoderSteps(InOrder(DECODERS.member, rest[1:])))


def _applied(steps: Iterable[DecoderStep], tokens: list[str]) -> list[str]:
    for step in steps:
        tokens = step.applied(tokens)
    return tokens


def _bytes_of_printable(token: str) -> bytes:
    """A token with a character that stands for no byte is what it reads."""
    try:
        return from_printable(token)
    except KeyError:
        return token.encode()


def _byte_named(token: str) -> int | None:
    named = _BYTE.fullmatch(token)
    return int(named[1], 16) if named else None


def _text_of_run(run: Sequence[int]) -> list[str]:
    if not run:
        return []
    try:
        return [bytes(run).decode()]
    except UnicodeDecodeError:
        return [_BROKEN] * len(run)


def _cleaned(token: str) -> str:
    for found, instead in _CLEANED:
        token = token.replace(found, instead)
    return token


def _refuse_misread(source: str) -> None:
    """Only what all engines read alike, which never matches nothing, and is regular."""
    try:
        pattern = SplitPattern(source)
        same = not pattern.drops_gaps and pattern.regex_for_export == source
        usable = same and pattern.automaton is not None
    except InvalidPattern as refused:
        raise Unfit(f"has a regex that cannot be used: {refused.happened}") from refused
    if not usable:
        raise Unfit(f"has the regex {source[:80]!r}, which engines may read differently")
