"""Ids that stand around those of a text, such as of [CLS] and [SEP]; encodes nothing.

As HuggingFace's post-processors put them there with ``add_special_tokens=True``. What those do to
offsets is kept for the file and done nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NoReturn, Protocol

from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.vocabulary.token_table import MAX_ID

Ids = tuple[int, ...]

_THE_TEXT = -1  # stands for the ids of a text


class _Impossible(Exception):
    """Why a step cannot be taken with so many sequences."""


class _Step(Protocol):
    """One post-processor: sequences of ids in, sequences of ids out."""

    def applied(self, sequences: list[Ids]) -> list[Ids]: ...

    def described(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text or a special token in a template; ``type_id`` changes no id."""

    is_text: bool
    name: str
    type_id: int

    def described(self) -> dict[str, Any]:
        kind = "Sequence" if self.is_text else "SpecialToken"
        return {kind: {"id": self.name, "type_id": self.type_id}}


@dataclass(frozen=True, slots=True)
class _Special:
    """A special token of a template: often of one id, sometimes of several."""

    name: str
    id: str
    ids: Ids
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Template:
    single: tuple[_Piece, ...]
    pair: tuple[_Piece, ...]
    special_tokens: tuple[_Special, ...]

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        if len(sequences) not in (1, 2):
            raise _Impossible(f"a TemplateProcessing is given {len(sequences)} sequences")
        known = dict(zip("AB", sequences, strict=False))
        specials = {special.name: special.ids for special in self.special_tokens}
        made = []
        for piece in self.single if len(sequences) == 1 else self.pair:
            ids = (known if piece.is_text else specials).get(piece.name)
            if ids is None:
                raise _Impossible(f"a template names {piece.name[:40]!r}, which is not there")
            made.append(ids)
        return made

    def described(self) -> dict[str, Any]:
        return {
            "type": "TemplateProcessing",
            "single": [piece.described() for piece in self.single],
            "pair": [piece.described() for piece in self.pair],
            "special_tokens": {
                one.name: {"id": one.id, "ids": list(one.ids), "tokens": list(one.tokens)}
                for one in self.special_tokens
            },
        }


@dataclass(frozen=True, slots=True)
class _Bert:
    sep: tuple[str, int]
    cls: tuple[str, int]

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        first, *others = sequences or [()]
        made = [(self.cls[1], *first, self.sep[1])] if sequences else []
        return made + [self._later(ids) for ids in others]

    def _later(self, ids: Ids) -> Ids:
        return (*ids, self.sep[1])

    def described(self) -> dict[str, Any]:
        return {"type": "BertProcessing", "sep": list(self.sep), "cls": list(self.cls)}


@dataclass(frozen=True, slots=True)
class _Roberta(_Bert):
    trim_offsets: bool
    add_prefix_space: bool

    def _later(self, ids: Ids) -> Ids:
        return (self.sep[1], *ids, self.sep[1])

    def described(self) -> dict[str, Any]:
        return {
            "type": "RobertaProcessing",
            "sep": list(self.sep),
            "cls": list(self.cls),
            "trim_offsets": self.trim_offsets,
            "add_prefix_space": self.add_prefix_space,
        }


@dataclass(frozen=True, slots=True)
class _ByteLevel:
    """Moves offsets, and no id."""

    add_prefix_space: bool
    trim_offsets: bool
    use_regex: bool

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        return sequences

    def described(self) -> dict[str, Any]:
        return {
            "type": "ByteLevel",
            "add_prefix_space": self.add_prefix_space,
            "trim_offsets": self.trim_offsets,
            "use_regex": self.use_regex,
        }


@dataclass(frozen=True, slots=True)
class _Sequence:
    processors: tuple[_Step, ...]

    def applied(self, sequences: list[Ids]) -> list[Ids]:
        for step in self.processors:
            sequences = step.applied(sequences)
        return sequences

    def described(self) -> dict[str, Any]:
        return {
            "type": "Sequence",
            "processors": [step.described() for step in self.processors],
        }


@dataclass(frozen=True)
class TextTemplate:
    """What a post-processor of tokenizer.json puts around the ids of a text, or of two.

    Made by `of_description`; two are equal when their descriptions are.
    """

    step: _Step

    def described(self) -> dict[str, Any]:
        """The post-processor as in tokenizer.json."""
        return self.step.described()

    @classmethod
    def of_description(cls, given: Any) -> TextTemplate:
        """Read the ``post_processor`` of tokenizer.json (one that is not null).

        Raises:
            InvalidTokenizer: of another type, or what ``tokenizers`` could not do with one text;
                or a text whose ids would not stand there exactly once.
        """
        template = cls(_step_of(given))
        try:
            around = template._joined([(_THE_TEXT,)])
        except _Impossible as reason:
            _refuse(str(reason))
        if around.count(_THE_TEXT) != 1:
            _refuse(f"the post-processor holds a text {around.count(_THE_TEXT)} times")
        return template

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
        return tuple(chain.from_iterable(self.step.applied(sequences)))


def _step_of(given: Any) -> _Step:
    kind = given.get("type") if isinstance(given, dict) else None
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        _refuse(f"the post-processor is {str(kind)[:40]}")
    try:
        step = reader(given)
    except InvalidTokenizer:
        raise  # of a step inside, and a ValueError too
    except (KeyError, TypeError, ValueError, AttributeError):
        _refuse(f"the post-processor {kind} lacks a part, or has one of another type")
    expected = step.described()
    if unknown := sorted(given.keys() - expected.keys()):
        _refuse(f"the post-processor {kind} has the part {str(unknown[0])[:40]!r}")
    return step


def _template_of(given: dict[str, Any]) -> _Template:
    specials = tuple(
        _Special(_str(name), _str(one["id"]), tuple(map(_id, one["ids"])), _strs(one["tokens"]))
        for name, one in given["special_tokens"].items()
    )
    return _Template(_pieces_of(given["single"]), _pieces_of(given["pair"]), specials)


def _pieces_of(given: Sequence[dict[str, Any]]) -> tuple[_Piece, ...]:
    pieces = []
    for one in given:
        ((kind, part),) = one.items()
        name, type_id = _str(part["id"]), _id(part["type_id"])
        if kind not in ("Sequence", "SpecialToken") or (
            kind == "Sequence" and name not in ("A", "B")
        ):
            raise ValueError
        pieces.append(_Piece(kind == "Sequence", name, type_id))
    return tuple(pieces)


def _bert_of(given: dict[str, Any]) -> _Bert:
    return _Bert(_marked(given["sep"]), _marked(given["cls"]))


def _roberta_of(given: dict[str, Any]) -> _Roberta:
    flags = _bool(given["trim_offsets"]), _bool(given["add_prefix_space"])
    return _Roberta(_marked(given["sep"]), _marked(given["cls"]), *flags)


def _byte_level_of(given: dict[str, Any]) -> _ByteLevel:
    flags = _bool(given["add_prefix_space"]), _bool(given["trim_offsets"])
    return _ByteLevel(*flags, _bool(given.get("use_regex", True)))


def _sequence_of(given: dict[str, Any]) -> _Sequence:
    return _Sequence(tuple(map(_step_of, given["processors"])))


_READERS: dict[str, Callable[[dict[str, Any]], _Step]] = {
    "TemplateProcessing": _template_of,
    "BertProcessing": _bert_of,
    "RobertaProcessing": _roberta_of,
    "ByteLevel": _byte_level_of,
    "Sequence": _sequence_of,
}


def _marked(given: Any) -> tuple[str, int]:
    token, id_ = given
    return _str(token), _id(id_)


def _id(given: Any) -> int:
    if type(given) is not int or not 0 <= given <= MAX_ID:
        raise TypeError
    return given


def _str(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError
    return given


def _strs(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise TypeError
    return tuple(map(_str, given))


def _bool(given: Any) -> bool:
    if not isinstance(given, bool):
        raise TypeError
    return given


def _refuse(happened: str) -> NoReturn:
    raise InvalidTokenizer(
        happened,
        "accepted: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, and a "
        "Sequence of them, in which a single text stands once",
        "export the tokenizer again from where it came",
    )
