"""A tokenizer continued with more merges: every old id stays, and what it means.

Knows how a tokenizer becomes merges to begin with and how it grows; learns nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import (
    ByteBpe,
    byte_order,
    refuse_clashes,
    shown,
    token_bytes,
)


def merges_to_continue(base: Tokenizer, tie_break: str) -> NDArray[np.int32]:
    """The merges of a tokenizer in the numbering of training: what `learn_merges` is ``given``.

    Returns:
        int32 ``[n, 2]``.

    Raises:
        InvalidOption: not byte-level BPE, or with tokens that no merge makes: then a text without
            new tokens could change.
    """
    specials, merges = base.special_tokens, base.merges
    made = {left + right for left, right in merges}
    as_trained = not base.ignore_merges and len(base.vocab) == 256 + len(specials) + len(made)
    if not isinstance(base.algorithm, ByteBpe) or not as_trained:
        raise InvalidOption(
            f"{base!r} cannot be extended",
            "accepted is byte-level BPE whose tokens are bytes, results of merges and special ones",
            "train a new tokenizer",
        )
    numbers = {bytes([byte]): number for number, byte in enumerate(byte_order(tie_break))}
    pairs = np.empty((len(merges), 2), np.int32)
    for rank, (left, right) in enumerate(merges):
        pairs[rank] = numbers[left], numbers[right]
        numbers.setdefault(left + right, 256 + rank)
    return pairs


def extended(base: Tokenizer, pairs: Sequence[tuple[int, int]], tie_break: str) -> Tokenizer:
    """``base`` with the merges that were learned behind its own; their ids follow all of its ids.

    Args:
        base: the tokenizer that was continued.
        pairs: merges in the numbering of training; those of ``base`` come first.
        tie_break: decides that numbering of the bytes.

    Raises:
        InvalidTokenizer: the merges do not begin with those of ``base``.
        InvalidSpecialToken: a special token of ``base`` became an ordinary token.
    """
    old = merges_to_continue(base, tie_break)
    if not np.array_equal(np.array(pairs[: len(old)], np.int32).reshape(-1, 2), old):
        _refuse("the merges do not begin with those of the tokenizer that is extended")
    tokens = token_bytes(pairs, byte_order(tie_break))
    refuse_clashes(list(base.special_tokens), tokens)
    merges = base.merges + [(tokens[left], tokens[right]) for left, right in pairs[len(old) :]]
    known = set(tokens[: 256 + len(old)])
    new = [token for token in dict.fromkeys(tokens) if token not in known]
    vocab = dict(base.vocab) | dict(enumerate(new, base.spec.largest_id + 1))
    return Tokenizer(vocab, merges, base.special_tokens, base.pattern)


@dataclass(frozen=True, slots=True)
class ExtensionCertificate:
    """What was checked of an extension.

    Attributes:
        base, tokenizer: digests of the old and the new one.
        ids_kept: ids of the old one; each stands for the same bytes in the new one.
        first_new_id, new_ids: the ids that were added.
        texts: encoded with both. With new tokens written out in old ones, all were the same; or
            where words are taken whole, or characters became tokens, stand for the same text.
        texts_unchanged: those that hold no new token, whose ids are the same.
    """

    base: str
    tokenizer: str
    ids_kept: int
    first_new_id: int
    new_ids: int
    texts: int
    texts_unchanged: int

    def __str__(self) -> str:
        return (
            f"all {self.ids_kept:,} ids of {self.base[:12]} stand for what they stood for; "
            f"{self.new_ids:,} new ones begin at {self.first_new_id:,}"
        )


def certify_extension(
    base: Tokenizer, tokenizer: Tokenizer, texts: Iterable[str]
) -> ExtensionCertificate:
    """Check that a tokenizer continues another one.

    Args:
        base: the old tokenizer.
        tokenizer: the new one.
        texts: to encode with both.

    Raises:
        InvalidTokenizer: naming the first id, merge or text that changed.
    """
    old, new = base.vocab, tokenizer.vocab
    for id_, token in old.items():
        if new.get(id_) != token:
            _refuse(f"the id {id_} stood for {shown(token)} and stands for {shown(new.get(id_))}")
    if tokenizer.merges[: len(base.merges)] != base.merges:
        _refuse("its merges do not begin with those of the tokenizer that is extended")
    kept = {name: id_ for name, id_ in tokenizer.special_tokens.items() if id_ in old}
    same = (kept, tokenizer.pattern.digest, tokenizer.ignore_merges)
    if same != (base.special_tokens, base.pattern.digest, base.ignore_merges):
        _refuse("its special tokens or its split pattern are others")
    ids = {token: id_ for id_, token in new.items()}
    parts = {ids[left + right]: (ids[left], ids[right]) for left, right in tokenizer.merges}
    compared, known = list(texts), set(old)
    unchanged = 0
    pairs = zip(base.encode_batch(compared), tokenizer.encode_batch(compared), strict=True)
    for text, (before, after) in zip(compared, pairs, strict=True):
        unchanged += before == after
        if before == after or list(_written_out(after, parts, known)) == before:
            continue
        # Where words are taken whole, or characters became tokens, other old tokens may stand for
        # the same text.
        replays = isinstance(base.algorithm, ByteBpe) and not base.ignore_merges
        same_text = tokenizer.decode_bytes(after) == base.decode_bytes(before)
        if replays or known.issuperset(after) or not same_text:
            _refuse(f"{shown(text)} is encoded otherwise, new tokens written out in old ones")
    added = sorted(new.keys() - old.keys())
    first = added[0] if added else max(new) + 1
    return ExtensionCertificate(
        base.digest, tokenizer.digest, len(old), first, len(added), len(compared), unchanged
    )


def _written_out(
    ids: Iterable[int], parts: dict[int, tuple[int, int]], known: set[int]
) -> Iterator[int]:
    left_to_write = list(ids)[::-1]
    while left_to_write:
        id_ = left_to_write.pop()
        if id_ in known or id_ not in parts:
            yield id_
        else:
            left_to_write += reversed(parts[id_])


def _refuse(happened: str) -> NoReturn:
    raise InvalidTokenizer(
        happened,
        "an extension keeps every id, every merge and what texts without new tokens become",
        "this is a defect of bpeline: report it; nothing was published",
    )
