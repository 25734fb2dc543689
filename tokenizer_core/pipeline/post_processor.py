"""Post-processors of tokenizer.json: ids around one text or a pair."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.pipeline.stages import InOrder, Part, Stage, Unfit, leaves
from bpeline.tokenizer_core.vocabulary import MAX_ID

Ids = tuple[int, ...]

_THE_TEXT = -1  # placeholder for the ids of a text


class _Impossible(Exception):
    """A step cannot be applied to this number of sequences."""


@dataclass(frozen=True, slots=True)
class ProcessorStep(Stage):
    """A step from sequences of ids to sequences of ids."""

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        return sequences


@dataclass(frozen=True, slots=True)
class Piece:
    """A text or a special token in a template; ``type_id`` does not affect ids."""

    is_text: bool
    name: str
    type_id: int

    def described(self) -> dict[str, Any]:
        kind = "Sequence" if self.is_text else "SpecialToken"
        return {kind: {"id": self.name, "type_id": self.type_id}}

    @classmethod
    def of_json(cls, given: Any) -> Piece:
        match given:
            case {"Sequence": {"id": ("A" | "B") as name, "type_id": int(type_id)}}:
                is_text = True
            case {"SpecialToken": {"id": str(name), "type_id": int(type_id)}}:
                is_text = False
            case _:
                raise Unfit(f"has the piece {str(given)[:80]}")
        _require_ids([type_id])
        return cls(is_text, name, type_id)


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """A special token of a template and its ids, often one."""

    id: str
    ids: Ids
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemplateProcessing(ProcessorStep):
    """Special tokens around one text, and other ones around a pair."""

    kind = "TemplateProcessing"
    single: tuple[Piece, ...]
    pair: tuple[Piece, ...]
    special_tokens: Mapping[str, SpecialIds]

    def __post_init__(self) -> None:
        _require_ids(chain.from_iterable(special.ids for special in self.special_tokens.values()))

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        if len(sequences) not in (1, 2):
            raise _Impossible(f"TemplateProcessing cannot process {len(sequences)} sequences")
        texts = dict(zip("AB", sequences, strict=False))
        specials = {name: special.ids for name, special in self.special_tokens.items()}
        parts = []
        for piece in self.single if len(sequences) == 1 else self.pair:
            ids = (texts if piece.is_text else specials).get(piece.name)
            if ids is None:
                raise _Impossible(f"a template names {piece.name[:40]!r}, which is missing")
            parts.append(ids)
        return parts


@dataclass(frozen=True, slots=True)
class BertProcessing(ProcessorStep):
    """[CLS] before the first text, [SEP] after each."""

    kind = "BertProcessing"
    sep: tuple[str, int]
    cls: tuple[str, int]

    def __post_init__(self) -> None:
        _require_ids((self.sep[1], self.cls[1]))

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        first, *later = sequences or [()]
        parts = [(self.cls[1], *first, self.sep[1])] if sequences else []
        return parts + [self._later(ids) for ids in later]

    def _later(self, ids: Ids) -> Ids:
        return (*ids, self.sep[1])


@dataclass(frozen=True, slots=True)
class RobertaProcessing(BertProcessing):
    """BERT's, with a second [SEP] between two texts."""

    kind = "RobertaProcessing"
    trim_offsets: bool
    add_prefix_space: bool

    def _later(self, ids: Ids) -> Ids:
        return (self.sep[1], *ids, self.sep[1])


@dataclass(frozen=True, slots=True)
class ByteLevel(ProcessorStep):
    """Affects offsets only."""

    kind = "ByteLevel"
    add_prefix_space: bool
    trim_offsets: bool
    use_regex: bool = True


POST_PROCESSORS = Part[ProcessorStep](
    "post-processor",
    "processors",
    {one.kind: one for one in (TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel)},
)


@dataclass(frozen=True)
class PostProcessor:
    """The post-processor of a tokenizer.json, made by `of_description`."""

    step: ProcessorStep | InOrder[ProcessorStep]

    def described(self) -> dict[str, Any]:
        return self.step.described()

    @classmethod
    def of_description(cls, given: Any) -> PostProcessor:
        """Read the ``post_processor`` of tokenizer.json; it must hold one text once."""
        post_processor = cls(POST_PROCESSORS.read(given))
        try:
            ids = post_processor._joined([(_THE_TEXT,)])
        except _Impossible as reason:
            POST_PROCESSORS.refuse(f"cannot be used: {reason}")
        if (count := ids.count(_THE_TEXT)) != 1:
            POST_PROCESSORS.refuse(f"holds the text {count} times", "expected it exactly once")
        return post_processor

    def around(self, ids: Iterable[int], second: Iterable[int] | None = None) -> list[int]:
        """Add the ids of the template; `InvalidOption` if it does not support pairs."""
        if second is None:
            return [*self.before, *ids, *self.behind]
        try:
            return list(self._joined([tuple(ids), tuple(second)]))
        except _Impossible as reason:
            raise InvalidOption(
                f"this tokenizer does not support pairs: {reason}",
                "expected single texts",
                "encode each text separately: tokenizer.encode(TEXT)",
            ) from None

    @property
    def before(self) -> Ids:
        """Ids before a single text."""
        return self._single[0]

    @property
    def behind(self) -> Ids:
        """Ids after a single text."""
        return self._single[1]

    @cached_property
    def _single(self) -> tuple[Ids, Ids]:
        around = self._joined([(_THE_TEXT,)])
        at = around.index(_THE_TEXT)
        return around[:at], around[at + 1 :]

    def _joined(self, sequences: list[Ids]) -> Ids:
        for step in leaves(self.step):
            sequences = step.applied(sequences)
        return tuple(chain.from_iterable(sequences))


def _is_id(given: Any) -> bool:
    return type(given) is int and 0 <= given <= MAX_ID


def _require_ids(ids: Iterable[int]) -> None:
    wrong = next((id_ for id_ in ids if not _is_id(id_)), None)
    if wrong is not None:
        raise Unfit(f"has the id {str(wrong)[:40]}", f"expected ids from 0 to {MAX_ID}")
