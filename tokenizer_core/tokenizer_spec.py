"""`TokenizerSpec`: everything that decides what a tokenizer does, and its digest.

File formats read and write it, training produces it, and `Tokenizer` is built from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.digests import canonical_json, digest_of_bytes
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.pipeline import AddedToken, Pipeline
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.vocabulary import (
    CheckedVocab,
    Merge,
    MergeIds,
    MergeList,
    TokenIds,
    TokenTable,
    check_table,
    check_tokens,
    check_vocab,
    merge_ids,
    to_printable,
)

Sentences = Literal["none", "lines", "punkt"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """Turns pre-tokens into ids; its fields are its properties.

    Attributes:
        has_merges: whether its tokenizers have merges, by rank.
        may_ignore_merges: whether it supports ``ignore_merges``.
    """

    name: ClassVar[str]
    default_pattern: ClassVar[str] = "whitespace"
    has_merges: ClassVar[bool] = False
    may_ignore_merges: ClassVar[bool] = False

    @property
    def sentence_kind(self) -> Sentences:
        """How texts are split into sentences that are encoded separately."""
        return "none"

    def described(self) -> dict[str, Any]:
        """Return the properties as JSON, for `of_description`."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        """Build the algorithm; None if a property is missing, unknown or of another type."""
        properties = {field.name: field for field in fields(cls)}
        if given.keys() != properties.keys():
            return None
        if any(type(given[name]) is not type(field.default) for name, field in properties.items()):
            return None
        return cls(**given)


@dataclass(frozen=True, slots=True)
class ByteBpe(Algorithm):
    """Byte pair encoding over bytes: encodes every text without loss."""

    name: ClassVar[str] = "byte-bpe"
    default_pattern: ClassVar[str] = "gpt2"
    has_merges: ClassVar[bool] = True


BYTE_BPE: ByteBpe = ByteBpe()


DefaultSpecial = Literal["none", "all"]


@dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """Consistent vocab, merges, special tokens, pattern and algorithm; see `checked`.

    Attributes:
        vocab: id → bytes, including special tokens; read-only.
        merges: pairs of bytes, by rank.
        special_tokens: token → id.
        ignore_merges: whether a pre-token in the vocab is always one token.
        ids: token → id, without special tokens.
        merge_ids: int64 ``[n_merges]`` three times: ids of left parts, right parts and results.
        byte_ids: int64 ``[256]``: the id of each byte; empty where symbols are characters.
        remarks: notes from reading an import; not in the digest, not saved.
        pipeline: the steps around the model of an imported tokenizer, or None.
        allowed_special: special tokens that `Tokenizer.encode` finds by default: ``none``, or
            ``all`` for imported tokenizers whose own library finds them. Not in the digest;
            saved with a registered version.
        roles: declared roles of special tokens, ``eos`` → ``</s>``; not in the digest.
    """

    vocab: Mapping[int, bytes]
    merges: Sequence[Merge]
    special_tokens: Mapping[str, int]
    pattern: SplitPattern
    algorithm: Algorithm
    ignore_merges: bool
    ids: Mapping[bytes, int]
    merge_ids: MergeIds
    byte_ids: NDArray[np.int64]
    remarks: tuple[str, ...] = ()
    pipeline: Pipeline | None = None
    allowed_special: DefaultSpecial = "none"
    roles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def checked(
        cls,
        vocab: Mapping[int, bytes],
        merges: Sequence[Merge],
        special_tokens: Mapping[str, int] | Sequence[str] = (),
        pattern: SplitPattern | str | None = None,
        *,
        algorithm: Algorithm = BYTE_BPE,
        ignore_merges: bool = False,
        remarks: Iterable[str] = (),
        pipeline: Pipeline | None = None,
        allowed_special: DefaultSpecial | None = None,
        roles: Mapping[str, str] | None = None,
    ) -> TokenizerSpec:
        """Build a spec after checking that its parts are consistent; see `Tokenizer`.

        Args:
            allowed_special: None means ``all`` where the encoder finds special tokens.

        Raises:
            InvalidTokenizer: vocab, merges, special tokens and algorithm are inconsistent.
            InvalidSpecialToken: an empty or duplicate special token.
            InvalidPattern, InvalidOption: an invalid pattern, or an unsupported ``ignore_merges``.
        """
        parsed = SplitPattern.parse(pattern or algorithm.default_pattern)
        if allowed_special is None:
            allowed_special = "all" if pipeline and pipeline.added_tokens else "none"
        pairs: Sequence[Merge]
        # Imported special tokens may be single characters or hidden, which trained ones may not.
        added = {} if pipeline is None else pipeline.special_tokens
        checked_specials = () if added else special_tokens
        if isinstance(algorithm, ByteBpe) and isinstance(vocab, TokenTable):
            checked = _checked_table(vocab, merges, checked_specials, pipeline)
            if checked is not None:
                specials, ids, byte_ids, numbers = checked
                specials, pairs = added or specials, MergeList(vocab, *numbers)
                flags = parsed, algorithm, ignore_merges, ids, numbers, byte_ids
                kept_apart = tuple(remarks), pipeline, allowed_special, roles or {}
                return cls(vocab, pairs, specials, *flags, *kept_apart)
            vocab = vocab.view
        kept: dict[int, bytes] = {} if pipeline is None else {**vocab, **pipeline.shown}
        ordinary = vocab if pipeline is None else _without_added(vocab, merges, pipeline)
        if isinstance(algorithm, ByteBpe):
            may_lack = pipeline is not None
            specials, ids, byte_ids, numbers = check_vocab(
                ordinary, merges, checked_specials, may_lack_bytes=may_lack
            )
            pairs = MergeList(ordinary if pipeline and pipeline.shown else kept, *numbers)
        else:
            _refuse_foreign_parts(algorithm, merges, ignore_merges)
            ids, specials = check_tokens(ordinary, checked_specials)
            pairs = [(left, right) for left, right in merges]
            numbers, byte_ids = merge_ids(ids, pairs), np.empty(0, np.int64)
        if pipeline is None:
            kept.update(vocab)
        else:
            _require_added(kept, pipeline)
        specials = added or specials
        view = MappingProxyType(kept)
        parts = view, pairs, specials, parsed, algorithm, ignore_merges, ids, numbers, byte_ids
        return cls(*parts, tuple(remarks), pipeline, allowed_special, roles or {})

    def __reduce__(self) -> tuple[Any, ...]:
        # For other processes: all fields, since some cannot be derived from the others.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if not isinstance(self.vocab, TokenTable):
            values["vocab"] = dict(self.vocab)
        if isinstance(self.merges, MergeList):
            values["merges"] = None
        return _moved, (type(self), values)

    @property
    def normalizer_name(self) -> str:
        """Name of the normalizer for display: ``none``, ``NFC`` …"""
        normalizer = None if self.pipeline is None else self.pipeline.normalizer
        return "none" if normalizer is None else normalizer.name

    @property
    def finds_special(self) -> bool:
        """Whether the encoder finds special tokens by itself."""
        return bool(self.pipeline and self.pipeline.added_tokens)

    @property
    def found_whole(self) -> dict[str, int]:
        """Special and added tokens that are not also ordinary tokens: token → id."""
        added = () if self.pipeline is None else self.pipeline.added_tokens
        others = {t.content: t.id for t in added if not self._is_ordinary(t)}
        return {**self.special_tokens, **others}

    def _is_ordinary(self, token: AddedToken) -> bool:
        """Return whether an added token is also an ordinary token with the same id."""
        content, ids = token.content.encode(), self.ids
        id_ = ids.find(content) if isinstance(ids, TokenIds) else ids.get(content)
        return id_ == token.id

    @property
    def spelled_vocab(self) -> Mapping[int, bytes]:
        """The vocab with added tokens as written in text, not as decoded."""
        if self.pipeline is None or not self.pipeline.shown:
            return self.vocab
        added = {token.id: token.content.encode() for token in self.pipeline.added_tokens}
        return {**self.vocab, **added}

    @property
    def model_vocab(self) -> Mapping[int, bytes]:
        """`spelled_vocab` without added tokens that the model lacks.

        HuggingFace numbers those after the model's tokens; added tokens with other ids
        belong to the model.
        """
        spelled = self.spelled_vocab
        if self.pipeline is None:
            return spelled
        added = self.pipeline.added_tokens
        apart = {t.id: t.content for t in added if not self._is_ordinary(t)}
        if self.pipeline.model_tokens is None:
            unknown = getattr(self.algorithm, "unknown", None)
            stand_ins = [id_ for id_, text in apart.items() if text == unknown or text[:3] == "<0x"]
            places = {id_: place for place, id_ in enumerate(apart) if id_ not in stand_ins}
            first = len(spelled)
            while first - 1 in places and places[first - 1] < places.get(first, len(apart)):
                first -= 1
            apart = {id_: apart[id_] for id_ in places if id_ >= first}
        return {id_: token for id_, token in spelled.items() if id_ not in apart}

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    @cached_property
    def largest_id(self) -> int:
        return max(self.vocab)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the behaviour; see `Tokenizer.digest`."""
        head: dict[str, Any] = {
            "format": 1,
            "normalizer": None,
            "pattern": self.pattern.digest,
            "special_tokens": self.special_tokens,
            "ignore_merges": self.ignore_merges,
            "tokens": len(self.vocab),
            "merges": len(self.merges),
        }
        if self.algorithm != BYTE_BPE:
            head["algorithm"] = self.algorithm.described()
        if self.pipeline is not None and (behaviour := self.pipeline.behaviour):
            head["pipeline"] = behaviour
        return digest_of_bytes(canonical_json(head), *self.columns)

    @property
    def columns(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """Vocab and merges as in the digest and in bpeline's own file format.

        Ascending ids, lengths of their tokens, the joined tokens, and ids of the left and right
        parts of merges by rank; numbers are little-endian int64.
        """
        if isinstance(self.vocab, TokenTable):
            ids, lengths, joined = self.vocab.in_order_of_id()
        else:
            ids = np.array(sorted(self.vocab), np.int64)
            tokens = [self.vocab[id_] for id_ in ids.tolist()]
            lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
            joined = b"".join(tokens)
        left, right, _ = self.merge_ids
        numbers = (part.astype("<i8").tobytes() for part in (ids, lengths, left, right))
        of_ids, of_lengths, of_left, of_right = numbers
        return of_ids, of_lengths, joined, of_left, of_right


def token_names(spec: TokenizerSpec) -> dict[int, str]:
    """Return tokens as HuggingFace shows them: bytes as printable characters."""
    normalized = () if spec.pipeline is None else spec.pipeline.shown
    whole = {id_: spec.vocab[id_].decode() for id_ in (*spec.found_whole.values(), *normalized)}
    if isinstance(spec.algorithm, ByteBpe):
        named = {id_: to_printable(token) for id_, token in spec.vocab.items()}
    else:
        named = {id_: token.decode() for id_, token in spec.vocab.items()}
    return named | whole


def _checked_table(
    vocab: TokenTable,
    merges: Sequence[Merge],
    special_tokens: Mapping[str, int] | Sequence[str],
    pipeline: Pipeline | None,
) -> CheckedVocab | None:
    """Fast check of a `TokenTable`; None means use `check_vocab`."""
    if pipeline is None:
        return check_table(vocab, merges, special_tokens, frozenset())
    if pipeline.shown or not isinstance(merges, MergeList):
        return None
    # int64, because NumPy makes an empty list a float array and then searches all ids.
    added = np.array([token.id for token in pipeline.added_tokens], np.int64)
    if not np.isin(added, vocab.ids).all():
        return None
    hidden = pipeline.hidden(_made_by(vocab, merges, pipeline))
    return check_table(vocab, merges, special_tokens, hidden, may_lack_bytes=True)


def _require_added(kept: Mapping[int, bytes], pipeline: Pipeline) -> None:
    """Raise for added tokens without a vocab id: kernels write ids unchecked."""
    for token in pipeline.added_tokens:
        if token.id not in kept:
            raise InvalidTokenizer(
                f"the added token {token.content[:40]!r} has the id {token.id}, which no token has",
                "expected added tokens that are in the vocab",
                "add it to `vocab`, or leave the added token out",
            )


def _without_added(
    vocab: Mapping[int, bytes], merges: Sequence[Merge], pipeline: Pipeline
) -> dict[int, bytes]:
    """Return ordinary tokens; of added tokens, only those that the model produces."""
    ordinary = {**vocab, **{token.id: token.content.encode() for token in pipeline.added_tokens}}
    for id_ in pipeline.hidden(_made_by(ordinary, merges, pipeline)):
        ordinary.pop(id_, None)
    return ordinary


def _made_by(
    vocab: Mapping[int, bytes], merges: Sequence[Merge], pipeline: Pipeline
) -> frozenset[int]:
    added = [token.id for token in pipeline.added_tokens]
    if isinstance(merges, MergeList):
        return frozenset(merges.results[np.isin(merges.results, added)].tolist())
    results = {left + right for left, right in merges}
    return frozenset(id_ for id_ in added if vocab.get(id_) in results)


def _refuse_foreign_parts(
    algorithm: Algorithm, merges: Sequence[Merge], ignore_merges: bool
) -> None:
    if ignore_merges and not algorithm.may_ignore_merges:
        raise InvalidOption(
            f"{algorithm.name} does not support ignore_merges",
            "expected byte-level BPE for this flag",
            "leave it out",
        )
    if merges and not algorithm.has_merges:
        raise InvalidTokenizer(
            f"{len(merges)} merges were given for {algorithm.name}, which has none",
            "expected merges only with byte-bpe or char-bpe",
            "leave the merges out: merges=[]",
        )


def _moved(kind: type[TokenizerSpec], values: dict[str, Any]) -> TokenizerSpec:
    vocab = values["vocab"]
    if values["merges"] is None:
        values["merges"] = MergeList(vocab, *values["merge_ids"])
    if not isinstance(vocab, TokenTable):
        values["vocab"] = MappingProxyType(vocab)
    return kind(**values)
