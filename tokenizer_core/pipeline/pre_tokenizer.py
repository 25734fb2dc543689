"""Pre-tokenizers of tokenizer.json as split patterns; inexact ones are refused.

The space or mark that ByteLevel and Metaspace add to pieces is a `Prefix`, not part of the split
pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NoReturn

from bpeline.tokenizer_core import records
from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer, WrongKind
from bpeline.tokenizer_core.pipeline.stages import OLDER, Part, Pattern, Stage, Unfit
from bpeline.tokenizer_core.splitting import (
    MOST_STEPS,
    NAMED_PATTERNS,
    Behavior,
    SplitPattern,
    SplitStep,
    class_runs,
    regex_syntax,
)

# The three steps of DeepSeek-V3, which equal `deepseek-v3`.
_DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
# Digits with runs, then gpt2: like `starcoder`, but with runs of digits.
_RUNS_OF_DIGITS = r"\p{N}+|'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
# Punctuation in `tokenizers`: ASCII with its symbols, and Unicode 8.
_PUNCTUATION = (
    "!-/:-@\\[-`{-\\~\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u037e\u0387\u055a-\u055f"
    "\u0589\u058a\u05be\u05c0\u05c3\u05c6\u05f3\u05f4\u0609\u060a\u060c\u060d\u061b"
    "\u061e\u061f\u066a-\u066d\u06d4\u0700-\u070d\u07f7-\u07f9\u0830-\u083e\u085e\u0964\u0965"
    "\u0970\u0af0\u0df4\u0e4f\u0e5a\u0e5b\u0f04-\u0f12\u0f14\u0f3a-\u0f3d\u0f85\u0fd0-\u0fd4"
    "\u0fd9\u0fda\u104a-\u104f\u10fb\u1360-\u1368\u1400\u166d\u166e\u169b\u169c\u16eb-\u16ed"
    "\u1735\u1736\u17d4-\u17d6\u17d8-\u17da\u1800-\u180a\u1944\u1945\u1a1e\u1a1f\u1aa0-\u1aa6"
    "\u1aa8-\u1aad\u1b5a-\u1b60\u1bfc-\u1bff\u1c3b-\u1c3f\u1c7e\u1c7f\u1cc0-\u1cc7\u1cd3"
    "\u2010-\u2027\u2030-\u2043\u2045-\u2051\u2053-\u205e\u207d\u207e\u208d\u208e"
    "\u2308-\u230b\u2329\u232a\u2768-\u2775\u27c5\u27c6\u27e6-\u27ef\u2983-\u2998"
    "\u29d8-\u29db\u29fc\u29fd\u2cf9-\u2cfc\u2cfe\u2cff\u2d70\u2e00-\u2e2e\u2e30-\u2e42"
    "\u3001-\u3003\u3008-\u3011\u3014-\u301f\u3030\u303d\u30a0\u30fb\ua4fe\ua4ff\ua60d-\ua60f"
    "\ua673\ua67e\ua6f2-\ua6f7\ua874-\ua877\ua8ce\ua8cf\ua8f8-\ua8fa\ua8fc\ua92e\ua92f\ua95f"
    "\ua9c1-\ua9cd\ua9de\ua9df\uaa5c-\uaa5f\uaade\uaadf\uaaf0\uaaf1\uabeb\ufd3e\ufd3f"
    "\ufe10-\ufe19\ufe30-\ufe52\ufe54-\ufe61\ufe63\ufe68\ufe6a\ufe6b\uff01-\uff03"
    "\uff05-\uff0a\uff0c-\uff0f\uff1a\uff1b\uff1f\uff20\uff3b-\uff3d\uff3f\uff5b\uff5d"
    "\uff5f-\uff65\U00010100-\U00010102\U0001039f\U000103d0\U0001056f\U00010857\U0001091f"
    "\U0001093f\U00010a50-\U00010a58\U00010a7f\U00010af0-\U00010af6\U00010b39-\U00010b3f"
    "\U00010b99-\U00010b9c\U00011047-\U0001104d\U000110bb\U000110bc\U000110be-\U000110c1"
    "\U00011140-\U00011143\U00011174\U00011175\U000111c5-\U000111c9\U000111cd\U000111db"
    "\U000111dd-\U000111df\U00011238-\U0001123d\U000112a9\U000114c6\U000115c1-\U000115d7"
    "\U00011641-\U00011643\U0001173c-\U0001173e\U00012470-\U00012474\U00016a6e\U00016a6f"
    "\U00016af5\U00016b37-\U00016b3b\U00016b44\U0001bc9f\U0001da87-\U0001da8b"
)
# \w of Rust's `regex`.
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d"
_LETTERS_OF_SHORTHANDS = frozenset("sSdD")
_PLUS_AFTER_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}\+")
_SPECIAL = frozenset("\\^$.|?*+()[]{}")
_PRINTABLE_ASCII = (0x21, 0x7F)  # unchanged by ByteLevel


PrefixScheme = Literal["always", "first", "never"]


@dataclass(frozen=True, slots=True)
class Prefix:
    """A mark at the beginning of words, as added by Metaspace and ByteLevel.

    Attributes:
        text: ``▁`` or a space; not added to a piece that already begins with it.
        scheme: ``always``: every piece; ``first``: only the beginning of the text; ``never``.
        replaces_spaces: first replace the spaces of a piece by ``text`` (Metaspace).
    """

    text: str
    scheme: PrefixScheme
    replaces_spaces: bool

    def described(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_description(cls, given: Any) -> Prefix:
        try:
            prefix = records.read(cls, given, "the prefix of pieces")
        except WrongKind as wrong:
            _refuse_prefix(wrong.happened)
        if not prefix.text:
            _refuse_prefix("the prefix of pieces is empty")
        return prefix


def _refuse_prefix(happened: str) -> NoReturn:
    raise InvalidTokenizer(
        happened,
        "expected text, not empty; scheme: always, first or never; replaces_spaces: true or false",
        "save the tokenizer again",
    )


@dataclass(frozen=True, slots=True)
class PreTokenizerStep(Stage):
    """A step that splits pieces."""

    def cuts(self) -> list[SplitStep]:
        """The step as part of a split pattern; [] if it does not split."""
        return []

    @property
    def prefix(self) -> Prefix | None:
        """What the step adds to pieces before it splits them."""
        return None


@dataclass(frozen=True, slots=True)
class Split(PreTokenizerStep):
    """Splits at the matches of a string or a regex."""

    kind = "Split"
    pattern: Pattern
    behavior: Behavior
    invert: bool

    def cuts(self) -> list[SplitStep]:
        source = self.pattern.source
        if not self.pattern.is_regex:
            return [SplitStep(_literally(source), self.behavior, self.invert)]
        if self.behavior == "Isolated":
            return [SplitStep(source, self.behavior)]  # ``invert`` has no effect
        return [SplitStep(source, self.behavior, self.invert)]

    def __post_init__(self) -> None:
        if self.pattern.is_regex:
            SplitPattern(self.pattern.source)  # raises if it does not compile
        elif not self.pattern.source:
            raise Unfit("has an empty pattern", "expected a Regex or a String")


@dataclass(frozen=True, slots=True)
class Digits(PreTokenizerStep):
    """Splits around numbers, or each digit."""

    kind = "Digits"
    individual_digits: bool = False

    def cuts(self) -> list[SplitStep]:
        return [SplitStep(r"\p{N}" if self.individual_digits else r"\p{N}+", "Isolated")]


@dataclass(frozen=True, slots=True)
class Punctuation(PreTokenizerStep):
    """Splits at punctuation."""

    kind = "Punctuation"
    behavior: Behavior = "Isolated"

    def cuts(self) -> list[SplitStep]:
        if self.behavior == "Contiguous":
            return [SplitStep(f"[{_PUNCTUATION}]+", "Isolated")]
        return [SplitStep(f"[{_PUNCTUATION}]", self.behavior)]


@dataclass(frozen=True, slots=True)
class BertPreTokenizer(PreTokenizerStep):
    """Splits at white space and punctuation; keeps punctuation."""

    kind = "BertPreTokenizer"

    def cuts(self) -> list[SplitStep]:
        words = rf"[{_PUNCTUATION}]|[^\s{_PUNCTUATION}]+"
        return [SplitStep(words, "Removed", invert=True)]


@dataclass(frozen=True, slots=True)
class WhitespaceSplit(PreTokenizerStep):
    """Splits at white space."""

    kind = "WhitespaceSplit"

    def cuts(self) -> list[SplitStep]:
        return [SplitStep(r"\S+", "Removed", invert=True)]


@dataclass(frozen=True, slots=True)
class Whitespace(PreTokenizerStep):
    """Words, and runs of other characters but white space."""

    kind = "Whitespace"

    def cuts(self) -> list[SplitStep]:
        return [SplitStep(rf"[{_WORD}]+|[^{_WORD}\s]+", "Removed", invert=True)]


@dataclass(frozen=True, slots=True)
class ByteLevel(PreTokenizerStep):
    """Splits as GPT-2, and converts text to bytes."""

    kind = "ByteLevel"
    add_prefix_space: bool = True
    trim_offsets: bool = True
    use_regex: bool = True

    def cuts(self) -> list[SplitStep]:
        return [SplitStep(SplitPattern.named("gpt2").regex, "Isolated")] if self.use_regex else []

    @property
    def prefix(self) -> Prefix | None:
        return Prefix(" ", "always", replaces_spaces=False) if self.add_prefix_space else None


@dataclass(frozen=True, slots=True)
class Metaspace(PreTokenizerStep):
    """Replaces spaces by marks, and splits before each mark.

    In older files, ``add_prefix_space`` stands for ``prepend_scheme``.
    """

    kind = "Metaspace"
    replacement: str
    prepend_scheme: PrefixScheme | None = None
    split: bool = True
    add_prefix_space: bool = field(default=True, metadata=OLDER)
    str_rep: str = field(default="", metadata=OLDER)

    def __post_init__(self) -> None:
        if len(self.replacement) != 1:
            raise Unfit(f"has the replacement {self.replacement[:40]!r}", "expected one character")

    def cuts(self) -> list[SplitStep]:
        return [SplitStep(_literally(self.replacement), "MergedWithNext")] if self.split else []

    @property
    def scheme(self) -> PrefixScheme:
        return self.prepend_scheme or ("always" if self.add_prefix_space else "never")

    @property
    def prefix(self) -> Prefix | None:
        return Prefix(self.replacement, self.scheme, replaces_spaces=True)


@dataclass(frozen=True, slots=True)
class CharDelimiterSplit(PreTokenizerStep):
    """Splits at a character."""

    kind = "CharDelimiterSplit"
    delimiter: str

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1:
            raise Unfit(f"has the delimiter {self.delimiter[:40]!r}", "expected one character")

    def cuts(self) -> list[SplitStep]:
        return [SplitStep(_literally(self.delimiter), "Removed")]


PRE_TOKENIZERS = Part[PreTokenizerStep](
    "pre-tokenizer",
    "pretokenizers",
    {
        one.kind: one
        for one in (
            ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer,
            Metaspace, CharDelimiterSplit,
        )
    },
    InvalidPattern,
)  # fmt: skip


def pattern_of_steps(
    steps: Sequence[PreTokenizerStep], *, marks_words: bool = False
) -> SplitPattern:
    """The split pattern equal to these steps; a named or single regex where possible.

    Without steps, texts stay whole. `SplitPattern.drops_gaps` tells whether text is dropped.

    Args:
        marks_words: whether the caller adds the mark of a Metaspace after WhitespaceSplit.

    Raises:
        InvalidPattern: names the step that has no exact equal.
    """
    refuse = PRE_TOKENIZERS.refuse
    if len(steps) > MOST_STEPS:
        refuse(f"has {len(steps)} steps", f"expected up to {MOST_STEPS} steps")
    match steps:
        case [WhitespaceSplit()]:
            return SplitPattern.named("whitespace")
        case [Whitespace()]:
            return SplitPattern.named("wordpunct")
        case [WhitespaceSplit(), Metaspace() as metaspace] if marks_words:
            return _marked_words(metaspace)
    cuts: list[SplitStep] = []
    as_bytes = False
    for number, step in enumerate(steps):
        _refuse_changed(step, number > 0, as_bytes)
        splits = step.cuts()
        if as_bytes and not all(_looks_at_ascii(split.regex) for split in splits):
            refuse(f"has a {step.kind} after ByteLevel that looks at bytes",
                   "expected one that only looks at printable ASCII")  # fmt: skip
        cuts += splits
        as_bytes |= isinstance(step, ByteLevel)
    match steps:
        case [Digits(individual), ByteLevel(use_regex=True)]:
            return SplitPattern.named("starcoder") if individual else SplitPattern(_RUNS_OF_DIGITS)
    if cuts == [SplitStep(regex, "Isolated") for regex in _DEEPSEEK_V3]:
        return SplitPattern.named("deepseek-v3")
    return _alone(cuts[0]) if len(cuts) == 1 else SplitPattern.of_steps(cuts)


def mark_of_words(steps: Sequence[PreTokenizerStep]) -> str:
    """The mark that a Metaspace after WhitespaceSplit adds to each word, or ""."""
    match steps:
        case [WhitespaceSplit(), Metaspace() as metaspace] if metaspace.scheme == "always":
            return metaspace.replacement
    return ""


def _marked_words(metaspace: Metaspace) -> SplitPattern:
    """Words between white space, split before each mark."""
    if not metaspace.split:
        return SplitPattern.named("whitespace")
    if metaspace.scheme == "first":
        PRE_TOKENIZERS.refuse(
            "has Metaspace after another step, with a mark only before the first word",
            "expected prepend_scheme always or never",
        )
    inside = _in_set(metaspace.replacement)
    words = SplitStep(rf"{inside}?[^\s{inside}]+|{inside}", "Removed", invert=True)
    return SplitPattern.of_steps([words])


def _refuse_changed(step: PreTokenizerStep, follows: bool, as_bytes: bool) -> None:
    """Refuse steps that change text after another step has split it."""
    refuse = PRE_TOKENIZERS.refuse
    if isinstance(step, ByteLevel) and as_bytes:
        refuse("has ByteLevel twice")
    if isinstance(step, ByteLevel) and follows and step.add_prefix_space:
        refuse("has ByteLevel with add_prefix_space after another step, which adds a space to "
               "each piece", "expected add_prefix_space=false, or ByteLevel first")  # fmt: skip
    if isinstance(step, Metaspace) and follows:
        refuse("has Metaspace after another step, which changes each piece", "expected it first")


def _alone(step: SplitStep) -> SplitPattern:
    """A single step as a pattern, of one regex if possible."""
    if step.behavior == "Isolated" or (step.drops and step.invert):
        for name in NAMED_PATTERNS:
            if SplitPattern.named(name).regex_for_export == step.regex:
                return SplitPattern.named(name)  # its matches cover all text
        named = SplitPattern(step.regex)
        # tiktoken's spelling of cl100k has a plus that Oniguruma reads as a second repetition.
        if named.name in NAMED_PATTERNS and not _PLUS_AFTER_COUNT.search(step.regex):
            return named
    if step.behavior == "Isolated":
        pattern = SplitPattern(step.regex)
        if pattern.name is not None or pattern.regex_for_export != step.regex:
            PRE_TOKENIZERS.refuse(
                f"has the Split regex {step.regex[:200]!r}, which Oniguruma reads differently",
                f"expected a regex that all engines read alike, such as "
                f"{pattern.regex_for_export[:200]!r}",
            )
        return pattern
    inside, outside = _one_character(step.regex)
    if outside is not None and step.behavior == "Contiguous":
        return SplitPattern(f"{inside}+")
    if outside is not None and not step.invert:
        match step.behavior:
            case "MergedWithPrevious":
                return SplitPattern(f"{outside}+{inside}?|{inside}")
            case "MergedWithNext":
                return SplitPattern(f"{inside}?{outside}+|{inside}")
            case "Removed":
                return SplitPattern.of_steps([SplitStep(f"{outside}+", "Removed", invert=True)])
    return SplitPattern.of_steps([step])


def _one_character(regex: str) -> tuple[str, str | None]:
    """Regexes for one character and for all others; None if it is not that simple."""
    try:
        node = regex_syntax.parsed(regex)
    except regex_syntax.NotRegular:
        return regex, None
    if not isinstance(node, regex_syntax.Characters):
        return regex, None
    source = node.source
    if len(source) == 1:
        return regex, f"[^{_in_set(source)}]"
    if source.startswith("[^"):
        return regex, "[" + source[2:]
    if source.startswith("["):
        return regex, "[^" + source[1:]
    if source.startswith("\\") and (source[1] in "pP" or source[1:] in _LETTERS_OF_SHORTHANDS):
        return regex, f"\\{source[1].swapcase()}{source[2:]}"
    return regex, None


def _looks_at_ascii(regex: str) -> bool:
    try:
        return _is_printable_ascii(regex_syntax.parsed(regex))
    except regex_syntax.NotRegular:
        return False


def _is_printable_ascii(node: regex_syntax.Node) -> bool:
    """Whether a regex only looks at characters that ByteLevel leaves unchanged."""
    match node:
        case regex_syntax.Characters(source):
            return _of_printable_ascii(source)
        case regex_syntax.Next(sources):
            return all(map(_of_printable_ascii, sources))
        case regex_syntax.Parts(parts) | regex_syntax.Choice(parts):
            return all(map(_is_printable_ascii, parts))
        case regex_syntax.Repeat(part):
            return _is_printable_ascii(part)


def _of_printable_ascii(source: str) -> bool:
    first, behind = _PRINTABLE_ASCII
    return all(begin >= first and end <= behind for _, begin, end in class_runs({0: source}))


def _in_set(character: str) -> str:
    return f"\\{character}" if character in "\\^-[]&~" else character


def _literally(text: str) -> str:
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)
