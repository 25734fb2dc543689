"""What all parts of HuggingFace's pipeline share: a JSON object is a dataclass, read in one way.

A stage is a frozen dataclass. Its fields are the members of its object in tokenizer.json, under
their names there; ``kind`` is its type; a field with a default may be absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from bpeline.tokenizer_core import records
from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer, WrongKind
from bpeline.tokenizer_core.text import utf8_of

MOST_STEPS = 64  # of a Sequence
OLDER = {"older": True}  # metadata of members that only older files have, and that are not written
_DEEPEST = 16  # Sequences in Sequences


class Unfit(Exception):
    """Why a stage cannot be as its object says, and what is accepted."""

    def __init__(self, reason: str, accepted: str = "") -> None:
        super().__init__(reason)
        self.reason, self.accepted = reason, accepted


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a part of the pipeline."""

    kind: ClassVar[str] = ""

    def described(self) -> dict[str, Any]:
        """The stage as in tokenizer.json."""
        members = {one.name: getattr(self, one.name) for one in fields(self) if not one.metadata}
        return {"type": self.kind, **{name: as_json(value) for name, value in members.items()}}


@dataclass(frozen=True, slots=True)
class NormalizerStep(Stage):
    """A step from text to text.

    Attributes:
        local: whether text may be cut where `Normalizer` cuts it, and both sides normalized apart.
    """

    local: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """For people."""
        return self.kind

    @property
    def growth(self) -> float:
        """How many times as many characters a text may have after the step."""
        return 1

    def text(self, text: str) -> str:
        """``text`` after the step: the same string where it changes nothing."""
        raise NotImplementedError


S = TypeVar("S", bound=Stage)


@dataclass(frozen=True)
class InOrder(Generic[S]):
    """A Sequence: one stage after the other.

    Attributes:
        member: under which its object lists them.
    """

    member: str
    steps: tuple[S | InOrder[S], ...]

    def described(self) -> dict[str, Any]:
        """The Sequence as in tokenizer.json."""
        return {"type": "Sequence", self.member: [step.described() for step in self.steps]}


def leaves(step: S | InOrder[S]) -> Iterator[S]:
    """The stages of a Sequence, those of Sequences in it among them; else the stage itself."""
    if isinstance(step, InOrder):
        for inner in step.steps:
            yield from leaves(inner)
    else:
        yield step


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a Split or a Replace looks for: ``{"String": …}`` or ``{"Regex": …}``."""

    source: str
    is_regex: bool

    def described(self) -> dict[str, str]:
        """The pattern as in tokenizer.json."""
        return {"Regex" if self.is_regex else "String": self.source}

    @classmethod
    def of_json(cls, given: Any) -> Pattern:
        """The value of a pattern in tokenizer.json."""
        match given:
            case {"String": str(source)} if len(given) == 1:
                return cls(source, is_regex=False)
            case {"Regex": str(source)} if len(given) == 1:
                return cls(source, is_regex=True)
        raise Unfit(f"has the pattern {str(given)[:80]}", "a pattern of one String or one Regex")


@dataclass(frozen=True)
class Part(Generic[S]):
    """One part of the pipeline, such as the normalizer, and the stages that it may have.

    Attributes:
        name: for messages.
        member: under which a Sequence lists its stages.
        kinds: the stages by their types.
        error: of what is refused.
    """

    name: str
    member: str
    kinds: Mapping[str, type[S]]
    error: type[InvalidTokenizer | InvalidPattern] = InvalidTokenizer

    def read(self, given: Any, depth: int = 0) -> S | InOrder[S]:
        """The stage, or the Sequence of stages, of an object of tokenizer.json.

        Raises:
            InvalidTokenizer, InvalidPattern: naming the type or the member that is not understood.
        """
        kind = given.get("type") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(kind, str):
            self.refuse(f"has no type that is known: {str(kind or given)[:40]}")
        if kind == "Sequence":
            return self._in_order(given, depth)
        if kind not in self.kinds:
            self.refuse(f"has the type {kind[:40]!r}, which is not supported")
        members = {name: value for name, value in given.items() if name != "type"}
        for name, value in members.items():
            if isinstance(value, str) and utf8_of(value).decode() != value:
                self.refuse(f"{kind} has a {name[:40]} with a lone surrogate")
        try:
            return records.read(self.kinds[kind], members, kind)
        except WrongKind as wrong:
            self.refuse(wrong.happened, wrong.accepted)
        except Unfit as unfit:
            self.refuse(f"{kind} {unfit.reason}", unfit.accepted)

    def _in_order(self, given: dict[str, Any], depth: int) -> InOrder[S]:
        listed = given.get(self.member)
        if not isinstance(listed, list) or given.keys() != {"type", self.member}:
            self.refuse(f"Sequence has other members than a list of {self.member}")
        if depth >= _DEEPEST or len(listed) > MOST_STEPS:
            self.refuse("has too many Sequences in Sequences, or steps")
        return InOrder(self.member, tuple(self.read(one, depth + 1) for one in listed))

    def steps(self, given: Any) -> tuple[S, ...]:
        """The stages one after the other, without Sequences; () for null."""
        return () if given is None else tuple(leaves(self.read(given)))

    def refuse(self, happened: str, accepted: str = "") -> NoReturn:
        """Raise the part's error."""
        known = ", ".join(self.kinds)
        raise self.error(
            f"the {self.name} {happened}",
            accepted or f"{known} and Sequence of these, with the members tokenizers 0.23 writes",
            "export the tokenizer again from where it came, without it",
        )


def as_json(value: Any) -> Any:
    """A field of a stage as its member in tokenizer.json."""
    if isinstance(value, tuple):
        return list(map(as_json, value))
    if isinstance(value, Mapping):
        return {name: as_json(one) for name, one in value.items()}
    if (described := getattr(value, "described", None)) is not None:
        return described()
    if is_dataclass(value):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    return value
