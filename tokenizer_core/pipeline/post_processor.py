"""Post-processors of tokenizer.json: the ids that stand around a text, or two."""

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

_THE_TEXT = -1  # stands for the ids of a text


class _Impossible(Exception):
    """Why a step cannot be taken with so many sequences."""


@dataclass(frozen=True, slots=True)
class ProcessorStep(Stage):
    """A step from sequences of ids to sequences of ids."""

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        """What becomes of the ids of a text, or of two."""
        return sequences


@dataclass(frozen=True, slots=True)
class Piece:
    """A text or a special token in a template; ``type_id`` changes no id."""

    is_text: bool
    name: str
    type_id: int

    def described(self) -> dict[str, Any]:
        """The piece as in tokenizer.json."""
        kind = "Sequence" if self.is_text else "SpecialToken"
        return {kind: {"id": self.name, "type_id": self.type_id}}

    @classmethod
    def of_json(cls, given: Any) -> Piece:
        """The value of a piece in tokenizer.json."""
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
    """A special token of a template: often of one id, sometimes of several."""

    id: str
    ids: Ids
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemplateProcessing(ProcessorStep):
    """Special tokens around a text, and another way around two."""

    kind = "TemplateProcessing"
    single: tuple[Piece, ...]
    pair: tuple[Piece, ...]
    special_tokens: Mapping[str, SpecialIds]

    def __post_init__(self) -> None:
        _require_ids(chain.from_iterable(one.ids for one in self.special_tokens.values()))

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        if len(sequences) not in (1, 2):
            raise _Impossible(f"a TemplateProcessing is given {len(sequences)} sequences")
        known = dict(zip("AB", sequences, strict=False))
        specials = {name: special.ids for name, special in self.special_tokens.items()}
        made = []
        for piece in self.single if len(sequences) == 1 else self.pair:
            ids = (known if piece.is_text else specials).get(piece.name)
            if ids is None:
                raise _Impossible(f"a template names {piece.name[:40]!r}, which is not there")
            made.append(ids)
        return made


@dataclass(frozen=True, slots=True)
class BertProcessing(ProcessorStep):
    """[CLS] before the first text, [SEP] after each."""

    kind = "BertProcessing"
    sep: tuple[str, int]
    cls: tuple[str, int]

    def __post_init__(self) -> None:
        _require_ids((self.sep[1], self.cls[1]))

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        first, *others = sequences or [()]
        made = [(self.cls[1], *first, self.sep[1])] if sequences else []
        return made + [self._later(ids) for ids in others]

    def _later(self, ids: Ids) -> Ids:
        return (*ids, self.sep[1])


@dataclass(frozen=True, slots=True)
class RobertaProcessing(BertProcessing):
    """As BERT's, with a second [SEP] between two texts."""

    kind = "RobertaProcessing"
    trim_offsets: bool
    add_prefix_space: bool

    def _later(self, ids: Ids) -> Ids:
        return (self.sep[1], *ids, self.sep[1])


@dataclass(frozen=True, slots=True)
class ByteLevel(ProcessorStep):
    """Moves offsets, and no id."""

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
    """What a tokenizer puts around the ids of a text, or of two.

    Made by `of_description`; two are equal when their descriptions are.
    """

    step: ProcessorStep | InOrder[ProcessorStep]

    def described(self) -> dict[str, Any]:
        """The post-processor as in tokenizer.json."""
        return self.step.described()

    @classmethod
    def of_description(cls, given: Any) -> PostProcessor:
        """Read the ``post_processor`` of tokenizer.json (one that is not null).

        Raises:
            InvalidTokenizer: of another type, or what ``tokenizers`` could not do with one text;
                or a text whose ids would not stand there exactly once.
        """
        made = cls(POST_PROCESSORS.read(given))
        try:
            around = made._joined([(_THE_TEXT,)])
        except _Impossible as reason:
            POST_PROCESSORS.refuse(f"cannot be used: {reason}")
        if (count := around.count(_THE_TEXT)) != 1:
            POST_PROCESSORS.refuse(f"holds a text {count} times", "a single text stands once")
        return made

    def around(self, ids: Iterable[int], second: Iterable[int] | None = None) -> list[int]:
        """The ids of a text, or of a pair of texts, with those of the template.

        Raises:
            InvalidOption: a template that cannot be used for pairs.
        """
        if second is None:
            return [*self.before, *ids, *self.behind]
        try:
            return list(self._joined([tuple(ids), tuple(second)]))
        except _Impossible as reason:
            raise InvalidOption(
                f"this tokenizer makes no pairs: {reason}",
                "single texts",
                "encode each text by itself: tokenizer.encode(TEXT)",
            ) from None

    @property
    def before(self) -> Ids:
        """Ids before those of a single text."""
        return self._single[0]

    @property
    def behind(self) -> Ids:
        """Ids behind those of a single text."""
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
        raise Unfit(f"has the id {str(wrong)[:40]}", f"ids from 0 to {MAX_ID}")
