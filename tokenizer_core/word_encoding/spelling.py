"""The tokens, merges and marks of a tokenizer of words as text; makes no encoder of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary import TokenizerSpec, shown

RETRAIN = "train again, or load the files the vocab came from with Tokenizer.load(PATH)"


@dataclass(frozen=True, slots=True)
class SpelledTokens:
    """What a companion algorithm makes its tables of.

    Attributes:
        ids: token → id, marks left out.
        merges: by rank.
        marks: attribute of the algorithm → id of the token that it names.
        whole: ids of special tokens and marks, which are words of their own.
        gap: what stands between words: a space, or nothing where words hold their own spaces.
    """

    ids: dict[str, int]
    merges: list[tuple[str, str]]
    marks: dict[str, int]
    whole: frozenset[int]
    gap: bytes


def spelled_tokens(spec: TokenizerSpec, marks: Sequence[str] = ("unknown",)) -> SpelledTokens:
    """Tokens and merges of a value as text.

    Args:
        marks: attributes of its algorithm that name tokens of the vocab.

    Raises:
        InvalidTokenizer: tokens that are not UTF-8, or marks that the vocab lacks.
    """
    found = {name: _id_of_mark(spec, name) for name in marks}
    known = set(found.values())
    ids = {
        _text(token, f"the token {shown(token)}"): id_
        for token, id_ in spec.ids.items()
        if id_ not in known
    }
    merges = [
        (_part(rank, left), _part(rank, right)) for rank, (left, right) in enumerate(spec.merges)
    ]
    whole = frozenset([*spec.special_tokens.values(), *known])
    return SpelledTokens(ids, merges, found, whole, b" " if spec.pattern.drops_gaps else b"")


def _id_of_mark(spec: TokenizerSpec, name: str) -> int:
    mark = getattr(spec.algorithm, name)
    id_ = spec.special_tokens.get(mark, spec.ids.get(mark.encode()))
    if id_ is None:
        raise InvalidTokenizer(
            f"the vocab lacks {shown(mark)}, the {name} token of {spec.algorithm.name}",
            "each mark of an algorithm is a token of the vocab",
            f"add it to the vocab, or name another one: {name}=...",
        )
    return id_


def _part(rank: int, part: bytes) -> str:
    return _text(part, f"merge {rank} joins {shown(part)}, which")


def _text(token: bytes, said: str) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise InvalidTokenizer(
            f"{said} is not UTF-8", "tokens of this algorithm are made of characters", RETRAIN
        ) from None
