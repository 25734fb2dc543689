"""`SplitPattern`: named patterns, regexes and several steps; digests and exports."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NoReturn, TypeAlias, cast, get_args

import regex as regex_package

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    InvalidPattern,
    SegmenterUnavailable,
)
from bpeline.tokenizer_core.splitting.regex_spellings import (
    CUTTING_LESS,
    DROPPING_PATTERNS,
    KERNELS,
    NAMED_PATTERNS,
    NAMES,
    OTHER_SPELLINGS,
    SAME_PATTERNS,
    compile_regex,
    no_pattern,
    respelled_for_export,
    with_gaps_matched,
)
from bpeline.tokenizer_core.splitting.regex_syntax import unicode_classes_digest
from bpeline.tokenizer_core.splitting.segmenters import SEGMENTERS, Punkt, Segmenter, SentenceBreaks
from bpeline.tokenizer_core.splitting.split_automaton import (
    CutPairs,
    SplitAutomaton,
    cut_pairs,
    split_automaton,
)

# These only use letters, numbers and white space, which `unicode_classes_digest` covers.
_OF_THREE_CLASSES = ("gpt2", "cl100k", "llama3", "qwen2")

_BETWEEN = {False: "kept", True: "dropped"}  # text between matches
# Patterns that their regex does not define alone.
_MORE_THAN_REGEX = {
    **DROPPING_PATTERNS,
    **{name: segmenter.blocks for name, segmenter in SEGMENTERS.items()},
}
_SPELLINGS = OTHER_SPELLINGS | {text: name for name, text in NAMED_PATTERNS.items()}
_LIKE_A_NAME = re.compile(r"(?:[A-Za-z0-9_-]+(?:\.[0-9]+)?)?")

Behavior: TypeAlias = Literal[
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"
]
BEHAVIORS: tuple[str, ...] = get_args(Behavior)
MOST_STEPS = 32


@dataclass(frozen=True)
class SplitPattern:
    """How text is split into pre-tokens: each non-empty match, and the text between.

    Attributes:
        regex: in the syntax of the ``regex`` package. Known spellings of named patterns are
            replaced, so that equal patterns are equal values.
        name: ``gpt2``, ``cl100k``, … (see `named`), or None. ``whitespace``, ``wordpunct`` and
            others drop the text between matches (`drops_gaps`). For ``jieba`` and ``sudachi`` a
            `segmenter` splits the matches.
        steps: splits text in several steps (`of_steps`); ``regex`` is then their JSON.
        sentences: finds sentences that are split separately (`within`); white space between them is
            dropped.

    Raises:
        InvalidPattern: the regex does not compile, is longer than 4 KB, searches backwards, or is
            the name of a pattern; or the regex of a step is not regular.
        SegmenterUnavailable: the segmenter is not installed.
    """

    regex: str
    name: str | None = None
    steps: tuple[SplitStep, ...] = ()
    sentences: Punkt | None = None

    def __post_init__(self) -> None:
        checks.text("regex", self.regex)
        if self.name is not None:
            checks.text("name", self.name)
        steps = checks.rows("steps", self.steps, "steps")
        steps = [checks.instance("an item of steps", step, SplitStep) for step in steps]
        object.__setattr__(self, "steps", tuple(steps))
        if self.sentences is not None:
            checks.instance("sentences", self.sentences, Punkt)
        if self.steps:
            object.__setattr__(self, "regex", _checked(self.steps))
            object.__setattr__(self, "name", None)
            return
        name = SAME_PATTERNS.get(self.name or "", self.name)
        if name in _MORE_THAN_REGEX:
            name_of_regex = name if _MORE_THAN_REGEX[name] == self.regex else None
        else:
            name_of_regex = _SPELLINGS.get(self.regex)
        if name is not None and name != name_of_regex:
            raise InvalidPattern(
                f"the regex is not that of the split pattern {self.name!r}",
                "expected the regex of that name",
                f"write SplitPattern.named({self.name!r}) or leave the name out",
            )
        if name_of_regex is not None:
            object.__setattr__(self, "name", name_of_regex)
            object.__setattr__(self, "regex", _regex_of(name_of_regex))
            # Raises if the segmenter is not installed.
            _ = name_of_regex in SEGMENTERS and SEGMENTERS[name_of_regex].identity
        elif self.regex in NAMES:
            raise InvalidPattern(
                f"{self.regex!r} is the name of a split pattern, not a regex",
                "expected a regex; this one would only match that word",
                f"write SplitPattern.named({self.regex!r})",
            )
        else:
            _ = self.compiled  # raises if it does not compile

    @classmethod
    def named(cls, name: str) -> SplitPattern:
        """A built-in pattern: gpt2, cl100k, o200k, llama3, qwen2 (also qwen2.5, qwen3), …

        Raises:
            InvalidOption: unknown name.
            SegmenterUnavailable: the segmenter is not installed.
        """
        checks.text("name", name, "gpt2")
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, 1, 0.4) or ["gpt2"]
            raise InvalidOption(
                f"there is no split pattern named {name!r}",
                f"expected one of {', '.join(NAMES)}, or a regex",
                f"write {close[0]!r}",
            )
        name = SAME_PATTERNS.get(name, name)
        return cls(_regex_of(name), name)

    @classmethod
    def of_steps(cls, steps: Sequence[SplitStep]) -> SplitPattern:
        """A pattern that applies each step to the pieces of the one before.

        A single step of the behavior Isolated gives the pattern of its regex; no steps leave texts
        whole. A regex that is not regular, or that Oniguruma reads differently, raises
        `InvalidPattern`.
        """
        steps = checks.rows("steps", steps, "steps")
        if not steps:
            return cls(r"[\s\S]+")
        if len(steps) == 1 and steps[0].behavior == "Isolated":
            return cls(steps[0].regex)
        return cls("", None, tuple(steps))

    @classmethod
    def parse(cls, pattern: str | SplitPattern) -> SplitPattern:
        """A pattern from a name, a regex, a pattern, or the JSON of `as_record`.

        A string of only letters, digits, ``-`` and ``_``, perhaps with a version such as ``3.5``,
        is a name; ``SplitPattern(regex=...)`` takes it as a regex.

        Raises:
            InvalidOption: unknown name.
            InvalidPattern: invalid regex.
        """
        if isinstance(pattern, SplitPattern):
            return pattern
        if not isinstance(pattern, str):
            raise no_pattern(pattern)
        if _LIKE_A_NAME.fullmatch(pattern):
            return cls.named(pattern)
        record = _record_in(pattern)
        return cls(pattern) if record is None else cls.from_record(record)

    def within(self, sentences: Punkt | None) -> SplitPattern:
        """The same pattern applied to each sentence; None: to the whole text."""
        return replace(self, sentences=sentences)

    def within_named(self, sentences: str) -> SplitPattern:
        """`within` for the arguments of `Punkt.named`, ``none`` and ``lines``."""
        punkt = Punkt.asked(checks.text("sentences", sentences, "none"))
        return self if punkt is None else self.within(punkt)

    @property
    def title(self) -> str:
        """For display: the name, the regex, or the number of steps."""
        if self.sentences is not None:
            return f"{self.within(None).title} within sentences ({self.sentences.name[:14]})"
        if self.steps:
            return f"{len(self.steps)} steps, {self.digest[:8]}"
        return self.name or self.regex

    def as_record(self) -> dict[str, Any]:
        """The pattern as JSON, for `from_record`; ``digest`` includes the Unicode tables."""
        record: dict[str, Any] = {
            "name": self.name,
            "regex": self.regex,
            "between": _BETWEEN[self.drops_gaps],
            "digest": self.digest,
        }
        if self.steps:
            record["steps"] = [step.described() for step in self.steps]
        if self.segmenter is not None:
            record["segmenter"] = self.segmenter.identity
        if self.sentences is not None:
            record["sentences"] = self.sentences.name
        return record

    @classmethod
    def from_record(cls, record: Any) -> SplitPattern:
        """The pattern of `as_record`.

        Raises:
            InvalidPattern: malformed, or made with other Unicode tables.
            SegmenterUnavailable: its segmenter is not installed, or is another version.
        """
        if not isinstance(record, dict) or not isinstance(record.get("regex"), str):
            _refuse_record("is not a valid record")
        name = record.get("name")
        if not isinstance(name, str | None):
            _refuse_record("has a name that is not a string")
        steps = _steps_of_record(record.get("steps", []))
        sentences = record.get("sentences")
        if not isinstance(sentences, str | None):
            _refuse_record("has sentences that are not a string")
        pattern = cls(record["regex"], name, steps, None if sentences is None else Punkt(sentences))
        if (pattern.regex, pattern.name) != (record["regex"], name) and steps:
            _refuse_record("has a regex that contradicts its steps")
        if record.get("between", _BETWEEN[pattern.drops_gaps]) != _BETWEEN[pattern.drops_gaps]:
            _refuse_record(f"has a field 'between' that contradicts its name {name!r}")
        if record.get("digest") != pattern.digest:
            if pattern.segmenter is not None:
                raise SegmenterUnavailable(
                    f"the text was split by {str(record.get('segmenter'))[:400]}; installed is "
                    f"{pattern.segmenter.identity}",
                    "expected the same versions and dictionary",
                    "install the versions named first, or train again",
                )
            _refuse_record(
                "was used with other Unicode tables than those of the installed `regex`",
                "install the version of `regex` it was used with, or train again",
            )
        return pattern

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("regex", "name", "steps", "sentences")}

    @cached_property
    def compiled(self) -> Any:
        """The compiled ``regex.Pattern``; raises `InvalidPattern` for several steps."""
        if self.steps:
            self._refuse_one_regex()
        return compile_regex(self.regex)

    @property
    def _sole_regex(self) -> str | None:
        """The regex whose matches are the pre-tokens; None for several steps."""
        if not self.steps:
            return self.regex
        only = self.steps[0]
        return only.regex if len(self.steps) == 1 and only.drops and only.invert else None

    def _refuse_one_regex(self) -> NoReturn:
        raise InvalidPattern(
            f"the split pattern {self.regex[:200]} has several steps",
            "expected a single regex, which programs other than tokenizers need",
            "save in the format bpeline, or train with a regex such as 'deepseek-v3'",
        )

    @property
    def segmenter(self) -> Segmenter | None:
        """The segmenter of this pattern, if any."""
        return SEGMENTERS.get(self.name or "")

    @property
    def automaton(self) -> SplitAutomaton | None:
        """The automaton of this pattern, if its regex is regular."""
        if self.segmenter is not None:
            return None
        return self._made if isinstance(self._made, SplitAutomaton) else None

    @cached_property
    def _made(self) -> SplitAutomaton | str:
        sole = self._sole_regex
        return "several steps" if sole is None else split_automaton(sole)

    @property
    def compiled_by(self) -> str:
        """What runs this pattern.

        ``kernel``: hand-written machine code; ``automaton``: tables for a generic kernel;
        ``segmenter: `` and its version (1 to 3 MB/s); ``regex: `` and the reason why it needs that
        package (5 to 20 MB/s).
        """
        if self.sentences is not None:
            return "sentences: NLTK's Punkt"
        if (self.name or self.regex) in KERNELS:
            return "kernel"
        if self.segmenter is not None:
            return f"segmenter: {self.segmenter.shown}"
        result = self._made
        if self.steps:
            return "automaton"
        return "automaton" if isinstance(result, SplitAutomaton) else f"regex: {result}"

    @property
    def has_kernel(self) -> bool:
        """Whether machine code runs this pattern."""
        return self.compiled_by in ("kernel", "automaton")

    @property
    def drops_gaps(self) -> bool:
        """Whether text between matches is dropped instead of being a pre-token."""
        dropping = self.name in DROPPING_PATTERNS or self.sentences is not None
        return dropping or any(step.drops for step in self.steps)

    def require_every_byte(self) -> None:
        """Raise `InvalidPattern` if the pattern drops text between matches."""
        if self.drops_gaps:
            raise InvalidPattern(
                f"the split pattern {(self.name or self.regex)[:200]!r} drops the text between its "
                "pre-tokens",
                "expected a pattern that keeps every byte: gpt2, cl100k, o200k, llama3, qwen2, "
                "deepseek-v3 or a regex",
                "use 'gpt2'"
                if self.steps
                else f"use 'gpt2', or the regex {self.regex!r}, which keeps the text between",
            )

    @property
    def cuts_at_spaces(self) -> bool:
        """Whether text can be cut before a single U+0020 between two other characters.

        True if no pre-token has a U+0020 inside or after other characters; known of named patterns
        only.
        """
        if self.sentences is not None:
            return False
        if self.segmenter is not None:
            return self.segmenter.parts_at_spaces
        return self.name is not None

    @cached_property
    def cut_pairs(self) -> CutPairs | SentenceBreaks | None:
        """Where text can be cut; None if unknown."""
        if self.sentences is not None:
            return SentenceBreaks(self.sentences)
        sole = self._sole_regex
        if sole is not None:
            return cut_pairs(CUTTING_LESS.get(sole, sole))
        # Cuts of the first step hold for all.
        first = self.steps[0]
        return cut_pairs(first.regex) if first.behavior in ("Isolated", "Removed") else None

    def parts(self, text: str) -> bool:
        """Whether a text is split in any context."""
        checks.text("text", text)
        pairs, content = self.cut_pairs, text.encode("utf-8", "surrogatepass")
        return pairs is not None and pairs.first(content, 1, len(content)) > 0

    @property
    def digest(self) -> str:
        """Digest of the regex and the Unicode tables it uses, or of the segmenter."""
        if self.sentences is not None:
            whole = self.within(None).digest
            return digest_of({"pattern": whole, "sentences": self.sentences.name})
        if self.segmenter is not None:
            return digest_of({"segmenter": self.segmenter.identity, "blocks": self.regex})
        if self.steps:
            characters = [_characters_digest(step.regex) for step in self.steps]
            return digest_of({"steps": self.regex, "characters": characters})
        behaviour = {"regex": self.regex, "unicode": unicode_classes_digest()}
        if self.name not in _OF_THREE_CLASSES:
            behaviour["characters"] = _characters_digest(self.regex)
        if self.drops_gaps:
            behaviour["between"] = "dropped"
        return digest_of(behaviour)

    @property
    def regex_for_export(self) -> str:
        """An equal regex for Oniguruma (``tokenizers``), see `respelled_for_export`.

        Raises:
            InvalidPattern: the pattern drops text, is not a regex, or engines read it differently.
        """
        self.require_every_byte()
        if self.steps:
            self._refuse_one_regex()
        if self.segmenter is not None:
            raise InvalidPattern(
                f"the split pattern {self.name!r} is not a regex but {self.segmenter.shown}",
                "expected a regex, which other programs need",
                "save in the format bpeline, or train with a regex such as 'deepseek-v3'",
            )
        return self.regex if self.name else respelled_for_export(self.regex)

    @property
    def steps_for_export(self) -> list[dict[str, Any]]:
        """Split pre-tokenizers for a tokenizer.json; errors as for `regex_for_export`."""
        if self.steps:
            return [step.described() for step in self.steps]
        return [SplitStep(self.regex_for_export, "Isolated").described()]

    @property
    def regex_for_tiktoken(self) -> str:
        """An equal regex for fancy-regex (``tiktoken``); errors as for `regex_for_export`.

        It also matches the text between matches, which ``tiktoken`` drops.
        """
        exported = self.regex_for_export
        return exported if self.name else with_gaps_matched(exported)


def _record_in(pattern: str) -> dict[str, Any] | None:
    """The record in a string; None for a regex."""
    if not pattern.startswith("{"):
        return None
    try:
        record = parse_json(pattern)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "steps" in record else None


def _refuse_record(problem: str, next_step: str = "fetch or make the file again") -> NoReturn:
    raise InvalidPattern(
        f"the split pattern in a file {problem}",
        "expected name, regex, 'between', and a digest that includes the Unicode tables",
        next_step,
    )


def _checked(steps: tuple[SplitStep, ...]) -> str:
    if len(steps) > MOST_STEPS:
        raise InvalidPattern(
            f"the split pattern has {len(steps)} steps",
            f"expected up to {MOST_STEPS}",
            "use one regex, such as 'gpt2'",
        )
    for step in steps:
        compile_regex(step.regex)
        _ = step.automaton
    return json.dumps([step.described() for step in steps], ensure_ascii=False)


def _steps_of_record(steps: Any) -> tuple[SplitStep, ...]:
    split_steps = []
    for step in steps if isinstance(steps, list) else [None]:
        match step:
            case {
                "type": "Split",
                "pattern": {"Regex": str(regex)},
                "behavior": str(behavior),
                "invert": bool(invert),
            } if behavior in BEHAVIORS:
                split_steps.append(SplitStep(regex, cast(Behavior, behavior), invert))
            case _:
                _refuse_record("has an invalid step")
    return tuple(split_steps)


def _regex_of(name: str) -> str:
    return NAMED_PATTERNS.get(name) or _MORE_THAN_REGEX[name]


@lru_cache(maxsize=64)
def _characters_digest(pattern: str) -> str:
    automaton = split_automaton(pattern)
    if isinstance(automaton, SplitAutomaton):
        return digest_of_bytes(automaton.class_of_point)
    return str(regex_package.__version__)


@dataclass(frozen=True, slots=True)
class SplitStep:
    """A step that splits pieces at the matches of a regex.

    Attributes:
        behavior: as in HuggingFace's Split.
        invert: exchange the matches and the text between them.
    """

    regex: str
    behavior: Behavior
    invert: bool = False

    def described(self) -> dict[str, Any]:
        return {
            "type": "Split",
            "pattern": {"Regex": self.regex},
            "behavior": self.behavior,
            "invert": self.invert,
        }

    @property
    def drops(self) -> bool:
        return self.behavior == "Removed"

    @property
    def automaton(self) -> SplitAutomaton:
        """The automaton; raises `InvalidPattern` if the regex is unsuitable."""
        automaton_or_reason = split_automaton(self.regex)
        respelled = respelled_for_export(self.regex)
        if isinstance(automaton_or_reason, SplitAutomaton) and respelled == self.regex:
            return automaton_or_reason
        raise InvalidPattern(
            f"a step has the regex {self.regex[:200]!r}, which no automaton can run: "
            f"{automaton_or_reason}"
            if isinstance(automaton_or_reason, str)
            else f"a step has the regex {self.regex[:200]!r}, which tokenizers (Oniguruma) reads "
            "differently",
            "expected a regex without look-behind, back-references, \\w and empty matches",
            "use a tokenizer.json without it"
            if isinstance(automaton_or_reason, str)
            else f"write {respelled[:200]!r}",
        )
