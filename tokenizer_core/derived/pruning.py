"""Which tokens of a tokenizer can go, and what becomes of ids and texts; changes nothing itself.

A token goes only with every merge it takes part in, so whatever text held none of the tokens that
go is encoded as before, under the new ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import checked, whole_number
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived.token_occurrences import token_counts
from bpeline.tokenizer_core.encoding import unreachable_tokens
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import shown

UNREACHABLE, RARE = "unreachable", "rare"


@dataclass(frozen=True, slots=True)
class DroppedToken:
    """A token that goes: its id, its bytes, how often it was counted, and why."""

    id: int
    token: bytes
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What pruning a tokenizer means.

    Attributes:
        tokenizer: what is left, its ids 0, 1, 2, … in the order of the old ones.
        dropped: by id.
        kept_as_parts: tokens that were to go, but tokens that stay are made of them.
        old_ids: the old id of each new one: int64 ``[n]``. A table of embeddings ``e`` becomes
            ``e[old_ids]``.
        tokens_before, tokens_after: of all counted words.
    """

    tokenizer: Tokenizer
    dropped: tuple[DroppedToken, ...]
    kept_as_parts: int
    old_ids: NDArray[np.int64]
    tokens_before: int
    tokens_after: int

    @property
    def new_ids(self) -> dict[int, int]:
        """Old id → new id, of the tokens that stay."""
        return {old: new for new, old in enumerate(self.old_ids.tolist())}


@dataclass(frozen=True, slots=True)
class SampleCheck:
    """What a sample says of a plan: how many texts keep their tokens, and what the others hold."""

    texts: int
    changed: int
    tokens_before: int
    tokens_after: int
    first_changed: str


@checked
def plan_pruning(
    tokenizer: Tokenizer,
    counts: WordCounts,
    *,
    min_count: int = 0,
    drop_unreachable: bool = False,
) -> PrunePlan:
    """Find the tokens that can go.

    Special tokens and bytes stay. So does whatever a token that stays is made of.

    Args:
        tokenizer: byte-level BPE.
        counts: the words of a corpus, on which tokens are counted.
        min_count: tokens go that occur less often, even with what longer tokens that go leave to
            them; 0 lets none go for that.
        drop_unreachable: whether tokens go that no text leads to (and no counted word).

    Raises:
        InvalidOption: another algorithm, or a tokenizer that does more around it (it was imported).
    """
    if tokenizer.spec.pipeline is not None and tokenizer.spec.pipeline.lost_without:
        raise InvalidOption(
            "the tokenizer cannot be pruned: it was imported, and has "
            f"{tokenizer.spec.pipeline.lost_without}",
            "byte-level BPE that is trained here, or does nothing else to texts",
            "train or extend a tokenizer of its own: `bpeline train`",
        )
    whole_number("min_count", min_count, 0)
    encoder = tokenizer.byte_pairs  # refuses other algorithms
    occurrences = token_counts(tokenizer, counts)
    special_ids = set(tokenizer.special_tokens.values())
    ids = {token: id_ for id_, token in tokenizer.vocab.items() if id_ not in special_ids}
    unreachable: set[bytes] = set()
    if drop_unreachable:
        found = unreachable_tokens(encoder, ids)
        unreachable = {token for token, id_ in found.items() if not occurrences[id_]}
    going, kept_as_parts = _going(tokenizer, ids, occurrences, min_count, unreachable)
    dropped = (
        DroppedToken(ids[token], token, int(occurrences[ids[token]]), reason)
        for token, reason in going.items()
    )
    kept = [id_ for id_, token in sorted(tokenizer.vocab.items()) if token not in going]
    left = Tokenizer(
        dict(enumerate(map(tokenizer.vocab.__getitem__, kept))),
        [(left, right) for left, right in tokenizer.merges if left + right not in going],
        list(tokenizer.special_tokens),
        tokenizer.pattern,
        ignore_merges=tokenizer.ignore_merges,
    )
    after = int(token_counts(left, counts).sum())
    return PrunePlan(
        left,
        tuple(sorted(dropped, key=lambda one: one.id)),
        kept_as_parts,
        np.array(kept, np.int64),
        int(occurrences.sum()),
        after,
    )


@checked
def check_on(tokenizer: Tokenizer, plan: PrunePlan, texts: Iterable[str]) -> SampleCheck:
    """Encode a sample with both and hold the plan to what it promises.

    Raises:
        InvalidTokenizer: a text does not come back, or changes although it held no token that goes.
    """
    compared = list(texts)
    new_ids = plan.new_ids
    pairs = zip(
        tokenizer.encode_batch(compared), plan.tokenizer.encode_batch(compared), strict=True
    )
    changed, before_all, after_all, first = 0, 0, 0, ""
    for text, (before, after) in zip(compared, pairs, strict=True):
        before_all, after_all = before_all + len(before), after_all + len(after)
        if plan.tokenizer.decode_bytes(after) != tokenizer.decode_bytes(before):
            _refuse(f"{shown(text)} does not come back from its new ids")
        if all(id_ in new_ids for id_ in before):
            if [new_ids[id_] for id_ in before] != after:
                _refuse(f"{shown(text)} holds no token that goes and is encoded otherwise")
        else:
            changed += 1
            first = first or text
    return SampleCheck(len(compared), changed, before_all, after_all, first[:200])


def _going(
    tokenizer: Tokenizer,
    ids: Mapping[bytes, int],
    occurrences: NDArray[np.int64],
    min_count: int,
    unreachable: Collection[bytes],
) -> tuple[dict[bytes, str], int]:
    """Token → why it goes; and how many only stay because others are made of them.

    The last merges are looked at first: a token that goes leaves its occurrences to its parts,
    which then may be frequent enough.
    """
    merges = tokenizer.merges
    made = Counter(left + right for left, right in merges)
    counted = occurrences.copy()

    def reason(token: bytes) -> str | None:
        if token in unreachable:
            return UNREACHABLE
        return RARE if counted[ids[token]] < min_count else None

    # Tokens that no merge makes, taken whole or never.
    whole = (token for token in ids if len(token) > 1 and token not in made)
    going = {token: why for token in whole if (why := reason(token))}
    parts: set[bytes] = set()
    wanted: set[bytes] = set()
    for left, right in reversed(merges):
        token = left + right
        why = reason(token)
        if why is None or token in parts or made[token] > 1:
            parts |= {left, right}
            wanted |= {token} if why else set()
            continue
        going[token] = why
        for part in (left, right):
            counted[ids[part]] += counted[ids[token]]
    return going, len(wanted)


def require_something(min_count: int, drop_unreachable: bool) -> None:
    """Refuse to plan nothing.

    Raises:
        InvalidOption: neither kind of token is to go.
    """
    if min_count < 0 or not (min_count or drop_unreachable):
        raise InvalidOption(
            "nothing was said of which tokens can go",
            "accepted: tokens that no text leads to, tokens counted less often than a number",
            "add --drop-unreachable, --min-count 5, or both",
        )


def _refuse(happened: str) -> None:
    raise InvalidTokenizer(
        happened,
        "pruning changes only texts that hold tokens that go",
        "this is a defect of bpeline: report it; nothing was written",
    )
