"""Base of all pipeline stages: dataclasses that mirror the JSON of tokenizer.json.

The fields of a stage are the members of its JSON object; ``kind`` is its type; fields with a
default are optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from bpeline.tokenizer_core import records
from bpeline.tokenizer_core.errors import InvalidPattern, InvalidTokenizer, WrongKind
from bpeline.tokenizer_core.text import utf8_of

MOST_STEPS = 64  # of a Sequence
OLDER = {"older": True}  # metadata of members that are read from older files and never written
_DEEPEST = 16  # levels of nested Sequences


class Unfit(Exception):
    """Why a stage is invalid, and what is expected."""

    def __init__(self, reason: str, accepted: str = "") -> None:
        super().__init__(reason)
        self.reason, self.accepted = reason, accepted


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a part of the pipeline."""

    kind: ClassVar[str] = ""

    def described(self) -> dict[str, Any]:
        members = {
            field.name: getattr(self, field.name) for field in fields(self) if not field.metadata
        }
        return {"type": self.kind, **{name: as_json(value) for name, value in members.items()}}


@dataclass(frozen=True, slots=True)
class NormalizerStep(Stage):
    """A step from text to text; ``local`` steps can run on the blocks of `Normalizer`."""

    local: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.kind

    @property
    def growth(self) -> float:
        """Factor by which the step may lengthen a text."""
        return 1

    def text(self, text: str) -> str:
        """Apply the step; returns the same string if nothing changes."""
        raise NotImplementedError


S = TypeVar("S", bound=Stage)


@dataclass(frozen=True)
class InOrder(Generic[S]):
    """A Sequence; its object lists the steps under ``member``."""

    member: str
    steps: tuple[S | InOrder[S], ...]

    def described(self) -> dict[str, Any]:
        return {"type": "Sequence", self.member: [step.described() for step in self.steps]}


def leaves(step: S | InOrder[S]) -> Iterator[S]:
    if isinstance(step, InOrder):
        for inner in step.steps:
            yield from leaves(inner)
    else:
        yield step


@dataclass(frozen=True, slots=True)
class Pattern:
    """Pattern of a Split or a Replace: ``{"String": …}`` or ``{"Regex": …}``."""

    source: str
    is_regex: bool

    def described(self) -> dict[str, str]:
        return {"Regex" if self.is_regex else "String": self.source}

    @classmethod
    def of_json(cls, given: Any) -> Pattern:
        match given:
            case {"String": str(source)} if len(given) == 1:
                return cls(source, is_regex=False)
            case {"Regex": str(source)} if len(given) == 1:
                return cls(source, is_regex=True)
        raise Unfit(f"has the pattern {str(given)[:80]}", "expected one String or one Regex")


@dataclass(frozen=True)
class Part(Generic[S]):
    """A part of the pipeline, such as the normalizer, and its types of stages.

    ``member`` is the member of a Sequence that lists its stages.
    """

    name: str
    member: str
    kinds: Mapping[str, type[S]]
    error: type[InvalidTokenizer | InvalidPattern] = InvalidTokenizer

    def read(self, given: Any, depth: int = 0) -> S | InOrder[S]:
        """Read a stage or a Sequence; errors name the unsupported type or member."""
        kind = given.get("type") if isinstance(given, dict) else None
        if not isinstance(given, dict) or not isinstance(kind, str):
            self.refuse(f"has no known type: {str(kind or given)[:40]}")
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
            self.refuse("has too many nested Sequences or steps")
        return InOrder(self.member, tuple(self.read(step, depth + 1) for step in listed))

    def steps(self, given: Any) -> tuple[S, ...]:
        """The stages in order, without Sequences; () for null."""
        return () if given is None else tuple(leaves(self.read(given)))

    def refuse(self, happened: str, accepted: str = "") -> NoReturn:
        """Raise the error of the part."""
        kinds = ", ".join(self.kinds)
        raise self.error(
            f"the {self.name} {happened}",
            accepted or f"expected {kinds}, or a Sequence of these, as in tokenizers 0.23",
            "export the tokenizer again without it",
        )


def as_json(value: Any) -> Any:
    """Convert a field of a stage to JSON."""
    if isinstance(value, tuple):
        return list(map(as_json, value))
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if (described := getattr(value, "described", None)) is not None:
        return described()
    if is_dataclass(value):
        return {item.name: as_json(getattr(value, item.name)) for item in fields(value)}
    return value
