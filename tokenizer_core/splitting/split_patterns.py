"""Split patterns: named, a user's own, or several steps; their digests and exports."""

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

# These look into no other class than letters, numbers and white space, so that the digest of
# those alone says which characters they mean.
_OF_THREE_CLASSES = ("gpt2", "cl100k", "llama3", "qwen2")

_BETWEEN = {False: "kept", True: "dropped"}  # text between matches
# These are more than their regexes, which without the name cut otherwise.
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
    """How text is cut into pre-tokens: each non-empty match is one, and so is what lies between.

    Attributes:
        regex: the pattern in the syntax of the ``regex`` package. A known spelling of a named
            pattern is replaced by ours, so that equal patterns are equal values.
        name: ``gpt2``, ``cl100k`` … (`named`), or None for a user's own. With ``whitespace`` and
            ``wordpunct`` what lies between matches is dropped (`drops_gaps`); the same regex
            without the name keeps it. With ``jieba`` and ``sudachi`` a program cuts further what
            the regex matches (`segmenter`).
        steps: where text is cut several times, each time the pieces of the time before
            (`of_steps`); ``regex`` then is what they say as JSON, and ``name`` is None.
        sentences: finds the sentences that are cut one by one, of frequency BPE (`within`); white
            space between them is dropped. None: text is cut as a whole.

    Raises:
        InvalidPattern: the regex does not compile, is longer than 4 KB, searches backwards, or is
            the name of a pattern; or one of the steps' is beyond an automaton.
        SegmenterUnavailable: the program is not installed.
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
        steps = [checks.instance("an item of steps", one, SplitStep) for one in steps]
        object.__setattr__(self, "steps", tuple(steps))
        if self.sentences is not None:
            checks.instance("sentences", self.sentences, Punkt)
        if self.steps:
            object.__setattr__(self, "regex", _checked(self.steps))
            object.__setattr__(self, "name", None)
            return
        name = SAME_PATTERNS.get(self.name or "", self.name)
        if name in _MORE_THAN_REGEX:
            known = name if _MORE_THAN_REGEX[name] == self.regex else None
        else:
            known = _SPELLINGS.get(self.regex)
        if name is not None and name != known:
            raise InvalidPattern(
                f"the regex given is not that of the split pattern {self.name!r}",
                "a name stands for one regex",
                f"write SplitPattern.named({self.name!r}) or leave the name out",
            )
        if known is not None:
            object.__setattr__(self, "name", known)
            object.__setattr__(self, "regex", _regex_of(known))
            _ = known in SEGMENTERS and SEGMENTERS[known].identity  # refuses what is missing
        elif self.regex in NAMES:
            raise InvalidPattern(
                f"{self.regex!r} is the name of a split pattern, and was given as a regex",
                "a regex; this one would cut at that one word and nowhere else",
                f"write SplitPattern.named({self.regex!r})",
            )
        else:
            _ = self.compiled  # refuses what does not compile

    @classmethod
    def named(cls, name: str) -> SplitPattern:
        """A built-in pattern: gpt2, cl100k, o200k, llama3, qwen2 (also qwen2.5, qwen3), …

        Raises:
            InvalidOption: there is no pattern of this name.
            SegmenterUnavailable: what it stands for is not installed.
        """
        checks.text("name", name, "gpt2")
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, 1, 0.4) or ["gpt2"]
            raise InvalidOption(
                f"there is no split pattern named {name!r}",
                f"names are {', '.join(NAMES)}; anything else must be a regex",
                f"write {close[0]!r}",
            )
        name = SAME_PATTERNS.get(name, name)
        return cls(_regex_of(name), name)

    @classmethod
    def of_steps(cls, steps: Sequence[SplitStep]) -> SplitPattern:
        """Text cut by one step after the other, each inside of the pieces of the one before.

        A single step that keeps matches and what lies between as they are is the pattern of its
        regex. No step at all leaves texts whole.

        Raises:
            InvalidPattern: a regex that is beyond an automaton, or that Oniguruma reads
                differently.
        """
        steps = checks.rows("steps", steps, "steps")
        if not steps:
            return cls(r"[\s\S]+")
        if len(steps) == 1 and steps[0].behavior == "Isolated":
            return cls(steps[0].regex)
        return cls("", None, tuple(steps))

    @classmethod
    def parse(cls, pattern: str | SplitPattern) -> SplitPattern:
        """A pattern from a name, a regex or a pattern.

        A string of letters, digits, ``-`` and ``_`` alone (and a version such as ``3.5`` at its
        end) is a name: as a regex it would cut at one literal word;
        ``SplitPattern(regex=...)`` takes it nevertheless. The JSON text of `as_record` says a
        pattern of several steps.

        Raises:
            InvalidOption: an unknown name.
            InvalidPattern: a regex that cannot be used.
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
        """The same pattern, applied to each sentence; with None to a text as a whole."""
        return replace(self, sentences=sentences)

    def within_named(self, sentences: str) -> SplitPattern:
        """`within` what `Punkt.named` gives; with ``none`` and ``lines`` the pattern as it is."""
        punkt = Punkt.asked(checks.text("sentences", sentences, "none"))
        return self if punkt is None else self.within(punkt)

    @property
    def title(self) -> str:
        """For people: the name, or the regex, or how many steps there are."""
        if self.sentences is not None:
            return f"{self.within(None).title} within sentences ({self.sentences.name[:14]})"
        if self.steps:
            return f"{len(self.steps)} steps, {self.digest[:8]}"
        return self.name or self.regex

    def as_record(self) -> dict[str, Any]:
        """The pattern as JSON values, for files; `from_record` gives an equal one back.

        Beside what makes the pattern it holds ``digest``, which tells the Unicode tables it was
        used with.
        """
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
        """The pattern that `as_record` wrote down.

        Raises:
            InvalidPattern: not what `as_record` writes, or made with other Unicode tables.
            SegmenterUnavailable: its segmenter is not installed, or is of another version.
        """
        if not isinstance(record, dict) or not isinstance(record.get("regex"), str):
            _refuse_record("is no record of one")
        name = record.get("name")
        if not isinstance(name, str | None):
            _refuse_record("has a name that is none")
        steps = _steps_of_record(record.get("steps", []))
        named = record.get("sentences")
        if not isinstance(named, str | None):
            _refuse_record("finds sentences in no way that has a name")
        pattern = cls(record["regex"], name, steps, None if named is None else Punkt(named))
        if (pattern.regex, pattern.name) != (record["regex"], name) and steps:
            _refuse_record("says otherwise than its steps what its regex is")
        if record.get("between", _BETWEEN[pattern.drops_gaps]) != _BETWEEN[pattern.drops_gaps]:
            _refuse_record(f"says otherwise than its name what lies between matches: {name!r}")
        if record.get("digest") != pattern.digest:
            if pattern.segmenter is not None:
                raise SegmenterUnavailable(
                    f"the text was cut by {str(record.get('segmenter'))[:400]}; installed is "
                    f"{pattern.segmenter.identity}",
                    "the same versions with the same dictionary, for others cut otherwise",
                    "install the versions named first, or train again",
                )
            _refuse_record(
                "was used with other Unicode tables than those of the installed `regex`",
                "install the version of `regex` it was used with, or train again",
            )
        return pattern

    # What the regex is compiled to belongs to the owner of the pattern, such as a tokenizer: the
    # caches below only spare equal patterns the work, and forget.

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("regex", "name", "steps", "sentences")}

    @cached_property
    def compiled(self) -> Any:
        """The compiled ``regex.Pattern``.

        Raises:
            InvalidPattern: text is cut in steps, of which each has its own.
        """
        if self.steps:
            self._refuse_one_regex()
        return compile_regex(self.regex)

    @property
    def _sole_regex(self) -> str | None:
        """The regex whose matches are the pre-tokens; None where steps cut several times."""
        if not self.steps:
            return self.regex
        only = self.steps[0]
        return only.regex if len(self.steps) == 1 and only.drops and only.invert else None

    def _refuse_one_regex(self) -> NoReturn:
        raise InvalidPattern(
            f"the split pattern {self.regex[:200]} cuts in steps, and is no regex",
            "other programs than tokenizers can be told of one regex alone",
            "save in the format bpeline, or train with a regex such as 'deepseek-v3'",
        )

    @property
    def segmenter(self) -> Segmenter | None:
        """The program with a dictionary that cuts text, where this pattern stands for one."""
        return SEGMENTERS.get(self.name or "")

    @property
    def automaton(self) -> SplitAutomaton | None:
        """The tables that run this pattern natively, where its regex can be made into such."""
        if self.segmenter is not None:
            return None
        return self._made if isinstance(self._made, SplitAutomaton) else None

    @cached_property
    def _made(self) -> SplitAutomaton | str:
        sole = self._sole_regex
        return "it is several" if sole is None else split_automaton(sole)

    @property
    def compiled_by(self) -> str:
        """What runs this pattern.

        ``kernel``: machine code written for it; ``automaton``: tables of its own for a kernel that
        runs them; ``segmenter: `` and the program with its version (1 to 3 MB/s); else ``regex: ``
        and the reason why it is left to that package (5 to 20 MB/s).
        """
        if self.sentences is not None:
            return "sentences: NLTK's Punkt"
        if (self.name or self.regex) in KERNELS:
            return "kernel"
        if self.segmenter is not None:
            return f"segmenter: {self.segmenter.shown}"
        made = self._made
        if self.steps:
            return "automaton"
        return "automaton" if isinstance(made, SplitAutomaton) else f"regex: {made}"

    @property
    def has_kernel(self) -> bool:
        """Whether machine code runs this pattern, and not the ``regex`` package."""
        return self.compiled_by in ("kernel", "automaton")

    @property
    def drops_gaps(self) -> bool:
        """Whether text between matches is dropped; otherwise it is a pre-token of its own."""
        dropping = self.name in DROPPING_PATTERNS or self.sentences is not None
        return dropping or any(step.drops for step in self.steps)

    def require_every_byte(self) -> None:
        """Refuse to be used where every byte of a text must belong to a pre-token.

        Raises:
            InvalidPattern: the pattern drops what lies between matches.
        """
        if self.drops_gaps:
            raise InvalidPattern(
                f"the split pattern {(self.name or self.regex)[:200]!r} drops the text between its "
                "pre-tokens",
                "byte-level tokenizers keep every byte: gpt2, cl100k, o200k, llama3, qwen2, "
                "deepseek-v3 or a regex",
                "use 'gpt2'"
                if self.steps
                else f"use 'gpt2', or the regex {self.regex!r}, which keeps what lies between",
            )

    @property
    def cuts_at_spaces(self) -> bool:
        """Whether text may be cut before a single U+0020 between two non-space characters.

        True where no pre-token has a U+0020 inside or behind non-space characters. Known without
        an automaton, of named patterns alone.
        """
        if self.sentences is not None:
            return False
        if self.segmenter is not None:
            return self.segmenter.parts_at_spaces
        return self.name is not None

    @cached_property
    def cut_pairs(self) -> CutPairs | SentenceBreaks | None:
        """Where text may be cut; None where nothing is known."""
        if self.sentences is not None:
            return SentenceBreaks(self.sentences)
        sole = self._sole_regex
        if sole is not None:
            return cut_pairs(CUTTING_LESS.get(sole, sole))
        # What the first step always parts, the others never see together.
        first = self.steps[0]
        return cut_pairs(first.regex) if first.behavior in ("Isolated", "Removed") else None

    def parts(self, text: str) -> bool:
        """Whether a text is known to be cut somewhere, whatever stands around it."""
        checks.text("text", text)
        pairs, content = self.cut_pairs, text.encode("utf-8", "surrogatepass")
        return pairs is not None and pairs.first(content, 1, len(content)) > 0

    @property
    def digest(self) -> str:
        """Digest of the behaviour: the regex and the Unicode tables it looks into.

        Of a segmenter: its name, versions and dictionary.
        """
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
        """An equal regex for Oniguruma (``tokenizers``), where what lies between is kept.

        Each engine has its own Unicode version. See `respelled_for_export`.

        Raises:
            InvalidPattern: the pattern drops text, is no regex, or holds what other engines read
                differently.
        """
        self.require_every_byte()
        if self.steps:
            self._refuse_one_regex()
        if self.segmenter is not None:
            raise InvalidPattern(
                f"the split pattern {self.name!r} is no regex, but cut by {self.segmenter.shown}",
                "other programs can be told of regexes alone",
                "save in the format bpeline, or train with a regex such as 'deepseek-v3'",
            )
        return self.regex if self.name else respelled_for_export(self.regex)

    @property
    def steps_for_export(self) -> list[dict[str, Any]]:
        """Pre-tokenizers Split for a tokenizer.json, in order.

        Raises:
            InvalidPattern: as `regex_for_export`, of a pattern without steps.
        """
        if self.steps:
            return [step.described() for step in self.steps]
        return [SplitStep(self.regex_for_export, "Isolated").described()]

    @property
    def regex_for_tiktoken(self) -> str:
        """An equal regex for fancy-regex (``tiktoken``), which forgets what lies between matches.

        Raises:
            InvalidPattern: as `regex_for_export`.
        """
        exported = self.regex_for_export
        return exported if self.name else with_gaps_matched(exported)


def _record_in(pattern: str) -> dict[str, Any] | None:
    """The record that a text is; None for a regex."""
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
        "name, regex, what becomes of text between matches, and a digest of all that with the "
        "Unicode tables",
        next_step,
    )


def _checked(steps: tuple[SplitStep, ...]) -> str:
    """What steps say, once all of them can be run."""
    if len(steps) > MOST_STEPS:
        raise InvalidPattern(
            f"the split pattern has {len(steps)} steps",
            f"up to {MOST_STEPS}",
            "cut by one regex, such as 'gpt2'",
        )
    for step in steps:
        compile_regex(step.regex)
        _ = step.automaton
    return json.dumps([step.described() for step in steps], ensure_ascii=False)


def _steps_of_record(steps: Any) -> tuple[SplitStep, ...]:
    found = []
    for step in steps if isinstance(steps, list) else [None]:
        match step:
            case {
                "type": "Split",
                "pattern": {"Regex": str(regex)},
                "behavior": str(behavior),
                "invert": bool(invert),
            } if behavior in BEHAVIORS:
                found.append(SplitStep(regex, cast(Behavior, behavior), invert))
            case _:
                _refuse_record("has a step that is none")
    return tuple(found)


def _regex_of(name: str) -> str:
    return NAMED_PATTERNS.get(name) or _MORE_THAN_REGEX[name]


@lru_cache(maxsize=64)
def _characters_digest(pattern: str) -> str:
    made = split_automaton(pattern)
    if isinstance(made, SplitAutomaton):
        return digest_of_bytes(made.class_of_point)
    return str(regex_package.__version__)


@dataclass(frozen=True, slots=True)
class SplitStep:
    """Cuts a piece at the matches of a regex.

    Attributes:
        regex: known to compile, and read alike by Oniguruma.
        behavior: what becomes of a match: dropped, a piece, part of what stands before or after it
            unless that is a match, or one piece with the matches beside it.
        invert: what lies between matches counts as match, and matches as what lies between.
    """

    regex: str
    behavior: Behavior
    invert: bool = False

    def described(self) -> dict[str, Any]:
        """The step as in a tokenizer.json."""
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
        """The tables that find the matches.

        Raises:
            InvalidPattern: there are none, or Oniguruma reads the regex differently.
        """
        made = split_automaton(self.regex)
        respelled = respelled_for_export(self.regex)
        if isinstance(made, SplitAutomaton) and respelled == self.regex:
            return made
        raise InvalidPattern(
            f"one of several splits has the regex {self.regex[:200]!r}, which is beyond an "
            f"automaton: {made}"
            if isinstance(made, str)
            else f"one of several splits has the regex {self.regex[:200]!r}, which tokenizers "
            "(Oniguruma) reads differently",
            "regexes without look-behind, back-references and \\w, that never match nothing",
            "ask for a tokenizer.json without it"
            if isinstance(made, str)
            else f"write {respelled[:200]!r}",
        )
