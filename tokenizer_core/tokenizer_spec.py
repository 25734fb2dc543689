"""What a tokenizer does, as one value: vocab, merges, special tokens, pattern, algorithm, digest.

File formats read it, training makes it, and `Tokenizer` is built from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
    """What turns pre-tokens into ids; its fields are the properties that decide how.

    Attributes:
        name: as it is stored and asked for.
        default_pattern: the split pattern where none is named.
        has_merges: whether a tokenizer of it has merges in order of rank.
        may_ignore_merges: whether it can take a pre-token of the vocab as one token.
    """

    name: ClassVar[str]
    default_pattern: ClassVar[str] = "whitespace"
    has_merges: ClassVar[bool] = False
    may_ignore_merges: ClassVar[bool] = False

    @property
    def sentence_kind(self) -> Sentences:
        """How sentences are found, each of which is encoded by itself."""
        return "none"

    def described(self) -> dict[str, Any]:
        """The value as JSON, which `of_description` reads."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        """The value of these properties; None where one is missing, unknown or of another type."""
        known = {field.name: field for field in fields(cls)}
        if given.keys() != known.keys():
            return None
        if any(type(given[name]) is not type(field.default) for name, field in known.items()):
            return None
        return cls(**given)


@dataclass(frozen=True, slots=True)
class ByteBpe(Algorithm):
    """Byte pair encoding over bytes: every text can be encoded and comes back unchanged."""

    name: ClassVar[str] = "byte-bpe"
    default_pattern: ClassVar[str] = "gpt2"
    has_merges: ClassVar[bool] = True


BYTE_BPE: ByteBpe = ByteBpe()


DefaultSpecial = Literal["none", "all"]


@dataclass(frozen=True, eq=False)
class TokenizerSpec:
    """Vocab, merges, special tokens, pattern and algorithm that fit together; see `checked`.

    Two of them do the same when their digests are equal.

    Attributes:
        vocab: id → bytes, special tokens included; a read-only view.
        merges: pairs of bytes in order of rank.
        special_tokens: token → id.
        pattern: how text is cut into pre-tokens.
        algorithm: what turns pre-tokens into ids.
        ignore_merges: whether a pre-token that is in the vocab is one token regardless of merges.
        ids: token → id, special tokens left out.
        merge_ids: int64 ``[n_merges]`` three times: ids of left and right parts and of results.
        byte_ids: int64 ``[256]``: the id of each byte; empty where symbols are characters.
        remarks: what people should know of how it was read; no part of the digest, and not kept
            in files.
        pipeline: the steps around the model of an imported tokenizer; None: there are none.
        allowed_special: which special tokens `Tokenizer.encode` finds in a text by default:
            ``none``, or ``all`` of an imported tokenizer whose own library finds them. No part of
            the digest: a registered version keeps the value with which it was registered.
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
    ) -> TokenizerSpec:
        """The value of these parts, once they are known to fit together.

        Args:
            vocab, merges, special_tokens, pattern, algorithm, ignore_merges: see `Tokenizer`.
            remarks, pipeline: see the attributes.
            allowed_special: see there; None: ``all`` where the encoder finds special tokens.

        Raises:
            InvalidTokenizer: vocab, merges and special tokens contradict each other, or the
                algorithm.
            InvalidSpecialToken: an empty or duplicate special token.
            InvalidPattern, InvalidOption: the pattern cannot be used, or ``ignore_merges`` belongs
                to another algorithm.
        """
        parsed = SplitPattern.parse(pattern or algorithm.default_pattern)
        if allowed_special is None:
            allowed_special = "all" if pipeline and pipeline.added_tokens else "none"
        pairs: Sequence[Merge]
        # Those of an imported tokenizer may be what ours are not: a single character, or hidden.
        added = {} if pipeline is None else pipeline.special_tokens
        checked_specials = () if added else special_tokens
        if isinstance(algorithm, ByteBpe) and isinstance(vocab, TokenTable):
            checked = _checked_table(vocab, merges, checked_specials, pipeline)
            if checked is not None:
                specials, ids, byte_ids, numbers = checked
                specials, pairs = added or specials, MergeList(vocab, *numbers)
                flags = parsed, algorithm, ignore_merges, ids, numbers, byte_ids
                return cls(
                    vocab, pairs, specials, *flags, tuple(remarks), pipeline, allowed_special
                )
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
        return cls(*parts, tuple(remarks), pipeline, allowed_special)

    def __reduce__(self) -> tuple[Any, ...]:
        # For other processes: all fields as they are, since not all can be told from the others.
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if not isinstance(self.vocab, TokenTable):
            values["vocab"] = dict(self.vocab)
        if isinstance(self.merges, MergeList):
            values["merges"] = None
        return _moved, (type(self), values)

    @property
    def normalizer_name(self) -> str:
        """What is done to texts before they are cut, for people: ``none``, ``NFC`` …"""
        normalizer = None if self.pipeline is None else self.pipeline.normalizer
        return "none" if normalizer is None else normalizer.name

    @property
    def finds_special(self) -> bool:
        """Whether the encoder of this tokenizer finds special tokens without being given them."""
        return bool(self.pipeline and self.pipeline.added_tokens)

    @property
    def found_whole(self) -> dict[str, int]:
        """Special and added tokens that are no ordinary tokens besides: token → id."""
        added = () if self.pipeline is None else self.pipeline.added_tokens
        others = {t.content: t.id for t in added if not self._is_ordinary(t)}
        return {**self.special_tokens, **others}

    def _is_ordinary(self, token: AddedToken) -> bool:
        """Whether an added token is an ordinary token with the same id, too."""
        content, ids = token.content.encode(), self.ids
        found = ids.find(content) if isinstance(ids, TokenIds) else ids.get(content)
        return found == token.id

    @property
    def spelled_vocab(self) -> Mapping[int, bytes]:
        """The vocab with added tokens as they are written, also where decoding shows others."""
        if self.pipeline is None or not self.pipeline.shown:
            return self.vocab
        added = {token.id: token.content.encode() for token in self.pipeline.added_tokens}
        return {**self.vocab, **added}

    @property
    def model_vocab(self) -> Mapping[int, bytes]:
        """`spelled_vocab` without added tokens that the model lacks.

        HuggingFace numbers these after the others; where it could not give them their ids, the
        model has them, too.
        """
        spelled = self.spelled_vocab
        if self.pipeline is None:
            return spelled
        added = self.pipeline.added_tokens
        apart = {t.id: t.content for t in added if not self._is_ordinary(t)}
        if self.pipeline.model_tokens is None:
            unknown = getattr(self.algorithm, "unknown", None)
            marks = [id_ for id_, text in apart.items() if text == unknown or text[:3] == "<0x"]
            places = {id_: place for place, id_ in enumerate(apart) if id_ not in marks}
            first = len(spelled)
            while first - 1 in places and places[first - 1] < places.get(first, len(apart)):
                first -= 1
            apart = {id_: apart[id_] for id_ in places if id_ >= first}
        return {id_: token for id_, token in spelled.items() if id_ not in apart}

    @property
    def vocab_size(self) -> int:
        """Number of tokens: bytes or characters, merges and special tokens."""
        return len(self.vocab)

    @cached_property
    def largest_id(self) -> int:
        """The greatest id of the vocab."""
        return max(self.vocab)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the behaviour: pattern, special tokens, ids, merges. Equal digests, equal ids.

        How the merges were learned (tie-break, corpus) is no part of it.
        """
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
        """Vocab and merges as the digest hashes them, and the file of our own format holds them.

        Ids in ascending order, the lengths of their tokens, the tokens joined, and the ids of the
        left and of the right part of each merge by rank; numbers are little-endian int64.
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
    """Tokens as HuggingFace shows them: bytes as printable characters, added tokens as they are."""
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
    # Of a type of their own: of an empty list NumPy makes floats, and searches all ids for them.
    added = np.array([token.id for token in pipeline.added_tokens], np.int64)
    if not np.isin(added, vocab.ids).all():
        return None
    hidden = pipeline.hidden(_made_by(vocab, merges, pipeline))
    return check_table(vocab, merges, special_tokens, hidden, may_lack_bytes=True)


def _require_added(kept: Mapping[int, bytes], pipeline: Pipeline) -> None:
    """Refuse added tokens of no id of the vocab: kernels write their ids unseen."""
    for token in pipeline.added_tokens:
        if token.id not in kept:
            raise InvalidTokenizer(
                f"the added token {token.content[:40]!r} has the id {token.id}, which no token has",
                "added tokens that are in the vocab",
                "give it in `vocab`, or leave the added token out",
            )


def _without_added(
    vocab: Mapping[int, bytes], merges: Sequence[Merge], pipeline: Pipeline
) -> dict[int, bytes]:
    """Ordinary tokens: of the added ones those that the model makes, as it spells them.

    An added token may have the text of an ordinary one, and another id: GPT-NeoX has runs of
    spaces twice.
    """
    ordinary = {**vocab, **{token.id: token.content.encode() for token in pipeline.added_tokens}}
    for id_ in pipeline.hidden(_made_by(ordinary, merges, pipeline)):
        ordinary.pop(id_, None)
    return ordinary


def _made_by(
    vocab: Mapping[int, bytes], merges: Sequence[Merge], pipeline: Pipeline
) -> frozenset[int]:
    """Ids of the added tokens that merges make."""
    added = [token.id for token in pipeline.added_tokens]
    if isinstance(merges, MergeList):
        return frozenset(merges.results[np.isin(merges.results, added)].tolist())
    made = {left + right for left, right in merges}
    return frozenset(id_ for id_ in added if vocab.get(id_) in made)


def _refuse_foreign_parts(
    algorithm: Algorithm, merges: Sequence[Merge], ignore_merges: bool
) -> None:
    """Refuse what only other algorithms have."""
    if ignore_merges and not algorithm.may_ignore_merges:
        raise InvalidOption(
            f"ignore_merges was asked for with {algorithm.name}",
            "it is a flag of byte-level BPE",
            "leave it out",
        )
    if merges and not algorithm.has_merges:
        raise InvalidTokenizer(
            f"{len(merges)} merges were given for {algorithm.name}, which has none",
            "merges belong to byte-bpe and char-bpe",
            "leave the merges out: merges=[]",
        )


def _moved(kind: type[TokenizerSpec], values: dict[str, Any]) -> TokenizerSpec:
    """The value that another process described by its fields."""
    vocab = values["vocab"]
    if values["merges"] is None:
        values["merges"] = MergeList(vocab, *values["merge_ids"])
    if not isinstance(vocab, TokenTable):
        values["vocab"] = MappingProxyType(vocab)
    return kind(**values)
