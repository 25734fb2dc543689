"""The steps around the model of an imported tokenizer, as one value.

HuggingFace calls the whole a pipeline: normalizer, pre-tokenizer, model, post-processor,
decoder. The pre-tokenizer's cuts are the split pattern and the model is the algorithm; added
tokens and the decoder have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NoReturn, Protocol

from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.normalization import Normalizer
from bpeline.tokenizer_core.vocabulary.added_tokens import AddedToken
from bpeline.tokenizer_core.vocabulary.decoder_steps import DecoderSteps
from bpeline.tokenizer_core.vocabulary.token_table import MAX_ID, TokenTable

PrefixScheme = Literal["always", "first", "never"]


@dataclass(frozen=True, slots=True)
class PiecePrefix:
    """A mark of the beginning of words, as HuggingFace's Metaspace and ByteLevel write it.

    Attributes:
        text: stands in front of a piece that does not begin with it already: ``▁`` or a space.
        scheme: ``always``: in front of every piece; ``first``: only where the text begins;
            ``never``.
        replaces_spaces: whether each space of a piece becomes ``text`` before (Metaspace).
    """

    text: str
    scheme: PrefixScheme
    replaces_spaces: bool

    def described(self) -> dict[str, Any]:
        """The value as JSON, which `of_description` reads."""
        return asdict(self)

    @classmethod
    def of_description(cls, given: Any) -> PiecePrefix:
        """The value that was described.

        Raises:
            InvalidTokenizer: a part is missing, unknown or of another type.
        """
        if (
            not isinstance(given, dict)
            or given.keys() != {"text", "scheme", "replaces_spaces"}
            or not (isinstance(given["text"], str) and given["text"])
            or given["scheme"] not in ("always", "first", "never")
            or not isinstance(given["replaces_spaces"], bool)
        ):
            raise InvalidTokenizer(
                f"the prefix of pieces is {str(given)[:80]}",
                "text, not empty; scheme: always, first or never; replaces_spaces: true or false",
                "save the tokenizer again from where it came",
            )
        return cls(**given)


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


@dataclass(frozen=True)
class Pipeline:
    """The steps before and behind a model.

    Attributes:
        added_tokens: found in every text; those that are special unless a call says otherwise.
        normalizer: of what lies between added tokens.
        prefix: of each piece that is left then.
        template: ids around one text, where they are asked for.
        decoder: how tokens become text; None where their bytes are joined.
        carried: parts of a tokenizer.json as they were found, for exports: its pre-tokenizer, which
            the split pattern follows, and truncation and padding, which are never applied.
        model_tokens: ids of the added tokens that the model makes of text, too; None: those of
            single bytes and those that merges make.
    """

    added_tokens: tuple[AddedToken, ...] = ()
    normalizer: Normalizer | None = None
    prefix: PiecePrefix | None = None
    template: TextTemplate | None = None
    decoder: DecoderSteps | None = None
    carried: Mapping[str, Any] | None = None
    model_tokens: tuple[int, ...] | None = None

    def described(self) -> dict[str, Any]:
        """The value as JSON, which `of_description` reads, without parts that are not there."""
        parts = {
            "added_tokens": [token.described() for token in self.added_tokens],
            "normalizer": self.normalizer and self.normalizer.described(),
            "prefix": self.prefix and self.prefix.described(),
            "template": self.template and self.template.described(),
            "decoder": self.decoder and [self.decoder.described()],
            "carried": self.carried,
            "model_tokens": None if self.model_tokens is None else [[*self.model_tokens]],
        }
        return {name: part for name, part in parts.items() if part}

    def __reduce__(self) -> tuple[Any, ...]:
        # For other processes: what its parts keep may be compiled there only.
        return type(self).of_description, (self.described(),)

    @property
    def shown(self) -> dict[int, bytes]:
        """What added tokens that are normalized before they are sought look like in text: by id."""
        if self.normalizer is None:
            return {}
        content = self.normalizer.content
        return {
            one.id: content(one.content.encode()) for one in self.added_tokens if one.normalized
        }

    def without_twins(self, vocab: Mapping[int, bytes]) -> Mapping[int, bytes]:
        """A vocab without the added tokens whose text is also that of an ordinary token.

        Merges make the ordinary one.
        """
        if isinstance(vocab, TokenTable) or len(set(vocab.values())) == len(vocab):
            return vocab  # as nearly always
        added = {token.id for token in self.added_tokens}
        others = {token for id_, token in vocab.items() if id_ not in added}
        return {id_: t for id_, t in vocab.items() if id_ not in added or t not in others}

    def with_model_tokens(
        self, vocab: Collection[str], merged: Collection[int], is_met: Callable[[str], bool]
    ) -> Pipeline:
        """The value with `model_tokens`, where their default is wrong.

        Args:
            vocab: tokens of the model.
            merged: ids that its merges make.
            is_met: whether the model may be given a token's text as a whole.
        """
        usual = {token.id for token in self.added_tokens if _is_usual(token, merged)}
        exact = {token.id for token in self.added_tokens if token.content in vocab}
        differing = [token.content for token in self.added_tokens if token.id in usual ^ exact]
        if not any(map(is_met, differing)):
            return self
        return replace(self, model_tokens=tuple(sorted(exact)))

    def hidden(self, merged: Collection[int]) -> set[int]:
        """Ids of added tokens that are found in texts, and that the model never makes.

        Args:
            merged: ids that merges make.
        """
        known = self.model_tokens
        return {
            token.id
            for token in self.added_tokens
            if not (_is_usual(token, merged) if known is None else token.id in known)
        }

    @property
    def behaviour(self) -> dict[str, Any]:
        """What of it decides ids or text beyond special tokens that a call allows; {} for nothing.

        What is carried decides nothing.
        """
        described = self.described()
        described.pop("carried", None)
        if not self.normalizer and all(map(_is_plain, self.added_tokens)):
            described.pop("added_tokens", None)
        return described

    @property
    def special_tokens(self) -> dict[str, int]:
        """The added tokens that are special: token → id."""
        return {token.content: token.id for token in self.added_tokens if token.special}

    @property
    def pre_tokenizer(self) -> Any:
        """As HuggingFace's JSON; None where the file had none, or was another."""
        return (self.carried or {}).get("pre_tokenizer")

    @property
    def lost_without(self) -> str:
        """What of it changes ids or text, for a reader who knows special tokens alone; or ""."""
        parts = {
            "a normalizer": self.normalizer,
            "a prefix of texts": self.prefix,
            "a decoder of its own": self.decoder,
            "added tokens that are found in every text": not all(map(_is_plain, self.added_tokens)),
        }
        return ", ".join(name for name, part in parts.items() if part)

    @property
    def prepares(self) -> bool:
        """Whether anything is done to texts before they are cut."""
        return bool(self.added_tokens or self.normalizer or self.prefix)

    @classmethod
    def of_description(cls, given: Any) -> Pipeline:
        """The value of JSON that `described` gave.

        Raises:
            InvalidTokenizer: anything else.
        """
        known = {"added_tokens", "normalizer", "prefix", "template", "decoder", "carried",
                 "model_tokens"}  # fmt: skip
        if not isinstance(given, Mapping) or given.keys() - known:
            raise InvalidTokenizer(
                f"the pipeline is described as {str(given)[:80]}",
                f"its parts are {', '.join(sorted(known))}",
                "upgrade bpeline, or export the tokenizer again",
            )
        return cls(
            tuple(AddedToken.of_description(token) for token in given.get("added_tokens", ())),
            Normalizer.of_description(given["normalizer"]) if "normalizer" in given else None,
            PiecePrefix.of_description(given["prefix"]) if "prefix" in given else None,
            TextTemplate.of_description(given["template"]) if "template" in given else None,
            DecoderSteps.of_description(given["decoder"][0]) if "decoder" in given else None,
            given.get("carried"),
            _ids_of_description(given["model_tokens"]) if "model_tokens" in given else None,
        )


def _is_usual(token: AddedToken, merged: Collection[int]) -> bool:
    """Whether a model that is not known any better makes an added token of text, too."""
    return len(token.content.encode()) == 1 or token.id in merged


def _ids_of_description(given: Any) -> tuple[int, ...]:
    ids = given[0] if isinstance(given, list) and len(given) == 1 else None
    if not isinstance(ids, list) or set(map(type, ids)) - {int}:
        raise InvalidTokenizer(
            f"the added tokens of a model are {str(given)[:80]}",
            "a list of ids in a list",
            "save the tokenizer again from where it came",
        )
    return tuple(ids)


def _is_plain(token: AddedToken) -> bool:
    """Whether it is what our own special tokens are; without a normalizer all are sought alike."""
    return token.special and not (token.single_word or token.lstrip or token.rstrip)
