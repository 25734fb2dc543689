"""Validation of vocab, merges and special tokens.

Everything is checked in bulk; only a failed check searches for the invalid entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from operator import itemgetter
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary.special_tokens import validate_special_tokens
from bpeline.tokenizer_core.vocabulary.token_table import (
    MAX_ID,
    MAX_TOKEN_BYTES,
    MergeIds,
    MergeList,
    TokenIds,
    TokenTable,
)

_RETRAIN = "train again, or load the files the vocab came from with Tokenizer.load(PATH)"


CheckedVocab = tuple[dict[str, int], Mapping[bytes, int], NDArray[np.int64], MergeIds]


def check_vocab(
    vocab: Mapping[int, bytes],
    merges: Sequence[tuple[bytes, bytes]],
    special_tokens: Mapping[str, int] | Sequence[str],
    *,
    may_lack_bytes: bool = False,
) -> CheckedVocab:
    """Check that vocab, merges and special tokens are consistent.

    Args:
        may_lack_bytes: allow missing bytes, which some imported tokenizers drop from texts.

    Returns:
        Token → id of special tokens; token → id of all others; int64 ``[256]``: ids of bytes, −1
        for missing ones; int64 ``[n_merges]`` three times: ids of left parts, right parts and
        results.

    Raises:
        InvalidTokenizer: ids outside 0 … 2²⁴ − 1; empty, too long or duplicate tokens; a missing
            byte; a merge that is duplicate or whose parts or result are missing; a special token
            with another id.
        InvalidSpecialToken: empty or duplicate special tokens.
    """
    ids, specials = check_tokens(vocab, special_tokens)
    for token in specials:
        if len(token.encode()) == 1:
            _refuse(
                f"the special token {token!r} is a single byte",
                "expected a longer text: every single byte is an ordinary token",
                "choose a longer text such as '<|end|>'",
            )
    byte_ids = _byte_ids(ids, may_lack_bytes)
    if isinstance(merges, MergeList) and (may_lack_bytes or merges.vocab is vocab):
        numbers = merges.left, merges.right, merges.results
        if np.isin(numbers, list(specials.values())).any():
            _refuse_merge(ids, merges)
    else:
        numbers = merge_ids(ids, merges)
    _check_order(numbers, byte_ids, merges)
    return specials, ids, byte_ids, numbers


def check_table(
    vocab: Mapping[int, bytes],
    merges: Sequence[tuple[bytes, bytes]],
    special_tokens: Mapping[str, int] | Sequence[str],
    hidden: AbstractSet[int],
    *,
    may_lack_bytes: bool = False,
) -> CheckedVocab | None:
    """Fast `check_vocab` for a `TokenTable`; None means use `check_vocab`.

    Args:
        hidden: ids of the table that are not in the vocab.
    """
    if not isinstance(vocab, TokenTable) or not isinstance(merges, MergeList):
        return None
    listed = list(special_tokens) if isinstance(special_tokens, Mapping) else special_tokens
    specials = {token: vocab.id_of(token.encode()) for token in validate_special_tokens(listed)}
    valid = all(id_ >= 0 and len(token.encode()) > 1 for token, id_ in specials.items())
    if isinstance(special_tokens, Mapping):
        valid &= specials == special_tokens and set(map(type, special_tokens.values())) <= {int}
    byte_ids = vocab.byte_ids()
    if hidden:  # a byte that only an added token spells does not occur in texts
        byte_ids[np.isin(byte_ids, list(hidden))] = -1
    if not valid or (not may_lack_bytes and (merges.vocab is not vocab or byte_ids.min() < 0)):
        return None
    numbers = merges.left, merges.right, merges.results
    if specials and np.isin(numbers, list(specials.values())).any():
        return None
    _check_order(numbers, byte_ids, merges)
    return specials, TokenIds(vocab, hidden | set(specials.values())), byte_ids, numbers


def check_tokens(
    vocab: Mapping[int, bytes], special_tokens: Mapping[str, int] | Sequence[str]
) -> tuple[dict[bytes, int], dict[str, int]]:
    """Check tokens and special tokens, and return token → id of each."""
    ids = _ids_of_tokens(vocab)
    specials = _special_ids(vocab, ids, special_tokens)
    for token in specials:
        del ids[token.encode()]
    return ids, specials


def shown(token: object) -> str:
    """Format a value for a message, in at most 40 characters."""
    text = repr(token)
    return text if len(text) <= 40 else f"{text[:37]}…"


def refuse_wrong_ids(vocab: Mapping[int, bytes]) -> None:
    """Raise InvalidTokenizer for ids that are not whole numbers from 0 to `MAX_ID`."""
    wrong_type = set(map(type, vocab)) - {int}
    if wrong_type or (vocab and not (min(vocab) >= 0 and max(vocab) <= MAX_ID)):
        wrong_id = next(i for i in vocab if type(i) is not int or not 0 <= i <= MAX_ID)
        _refuse(
            f"the vocab contains the id {shown(wrong_id)}",
            f"expected whole numbers from 0 to {MAX_ID}",
        )


def _ids_of_tokens(vocab: Mapping[int, bytes]) -> dict[bytes, int]:
    if not isinstance(vocab, Mapping):
        _refuse(f"vocab is a {type(vocab).__name__}", "expected a dict of id → bytes")
    refuse_wrong_ids(vocab)
    tokens = vocab.values()
    if set(map(type, tokens)) - {bytes}:
        id_, token = next((i, token) for i, token in vocab.items() if type(token) is not bytes)
        _refuse(f"the token of id {id_} is {shown(token)}", "expected bytes")
    lengths = np.fromiter(map(len, tokens), np.int64, len(vocab))
    if len(lengths) and (lengths.min() == 0 or lengths.max() > MAX_TOKEN_BYTES):
        id_ = next(i for i, token in vocab.items() if not 0 < len(token) <= MAX_TOKEN_BYTES)
        _refuse(
            f"the token of id {id_} has {len(vocab[id_])} bytes",
            f"expected 1 to {MAX_TOKEN_BYTES} bytes",
        )
    ids = dict(zip(tokens, vocab, strict=True))
    if len(ids) != len(vocab):
        id_, token = next((i, token) for i, token in vocab.items() if ids[token] != i)
        _refuse(
            f"the ids {id_} and {ids[token]} both stand for {shown(token)}",
            "expected different bytes for every token, special or not",
            "remove one of the two; rename the special token if one is special",
        )
    return ids


def _special_ids(
    vocab: Mapping[int, bytes],
    ids: Mapping[bytes, int],
    special_tokens: Mapping[str, int] | Sequence[str],
) -> dict[str, int]:
    if isinstance(special_tokens, Mapping):
        validate_special_tokens(list(special_tokens))
        specials = dict(special_tokens)
    else:
        specials = {
            token: ids.get(token.encode(), -1) for token in validate_special_tokens(special_tokens)
        }
    for token, id_ in specials.items():
        if type(id_) is not int or vocab.get(id_) != token.encode():
            _refuse(
                f"the special token {shown(token)} is not in the vocab under its id",
                "expected its text in UTF-8 as the token of that id",
                f"add vocab[id] = {shown(token.encode())}",
            )
    return specials


def _byte_ids(ids: Mapping[bytes, int], may_lack: bool) -> NDArray[np.int64]:
    missing = [byte for byte in range(256) if bytes([byte]) not in ids]
    if missing and not may_lack:
        examples = ", ".join(f"0x{byte:02x}" for byte in missing[:5])
        _refuse(
            f"the vocab lacks {len(missing)} of the 256 single bytes: {examples}"
            + (", …" if len(missing) > 5 else ""),
            "expected all of them in a byte-level vocab, so that every text can be encoded",
        )
    return np.array([ids.get(bytes([byte]), -1) for byte in range(256)], np.int64)


def merge_ids(ids: Mapping[bytes, int], merges: Sequence[tuple[bytes, bytes]]) -> MergeIds:
    """Look up the ids of the parts and results of merges; raises `InvalidTokenizer`.

    Creates no Python object per merge that the garbage collector tracks: in a process full of
    compiled kernels, one full collection takes longer than all these checks.
    """
    if not isinstance(merges, Sequence) or isinstance(merges, str | bytes):
        _refuse(f"merges are a {type(merges).__name__}", "expected a list of pairs of bytes")
    try:
        if set(map(len, merges)) - {2} or not all(map(isinstance, merges, repeat((tuple, list)))):
            raise TypeError
        firsts, seconds = list(map(itemgetter(0), merges)), list(map(itemgetter(1), merges))
        left, right, results = (
            np.fromiter(map(ids.__getitem__, parts), np.int64, len(merges))
            for parts in (firsts, seconds, map(bytes.__add__, firsts, seconds))
        )
    except (KeyError, TypeError, ValueError):
        _refuse_merge(ids, merges)
    return left, right, results


def _refuse_merge(ids: Mapping[bytes, int], merges: Any) -> NoReturn:
    for rank, merge in enumerate(merges):
        if not (
            isinstance(merge, tuple | list)
            and len(merge) == 2
            and all(isinstance(part, bytes) for part in merge)
        ):
            _refuse(f"merge {rank} is {shown(merge)}", "expected a pair of bytes")
        for part in merge:
            if part not in ids:
                _refuse(
                    f"merge {rank} joins {shown(part)}, which is not in the vocab",
                    "expected ordinary tokens of the vocab as parts",
                )
        if merge[0] + merge[1] not in ids:
            _refuse(
                f"merge {rank} makes {shown(merge[0] + merge[1])}, which is not in the vocab",
                "expected an ordinary token of the vocab as result",
            )
    _refuse("merges are not a list of pairs", "expected a list of (bytes, bytes) by rank")


def _check_order(
    numbers: MergeIds, byte_ids: NDArray[np.int64], merges: Sequence[tuple[bytes, bytes]]
) -> None:
    """Check that merges are distinct, and their parts are bytes or results of merges.

    A part may be the result of a later merge, as in Llama 3; training never produces this.
    """
    left, right, results = numbers
    highest = max(int(part.max(initial=0)) for part in (*numbers, byte_ids))
    reachable = np.zeros(highest + 1, np.bool_)
    reachable[results] = reachable[byte_ids[byte_ids >= 0]] = True
    unreachable = np.flatnonzero(~(reachable[left] & reachable[right]))
    if len(unreachable):
        rank = int(unreachable[0])
        part = merges[rank][1 if reachable[left[rank]] else 0]
        _refuse(
            f"merge {rank} joins {shown(part)}, which no merge makes",
            "expected single bytes and results of merges as parts",
        )
    pairs = left << 24 | right
    ascending = np.sort(pairs)
    if (ascending[1:] == ascending[:-1]).any():
        _, first = np.unique(pairs, return_index=True)
        rank = int(np.setdiff1d(np.arange(len(results)), first)[0])
        _refuse(f"merge {rank}, {shown(merges[rank])}, is given twice", "expected distinct merges")


def _refuse(happened: str, accepted: str, next_step: str = _RETRAIN) -> NoReturn:
    raise InvalidTokenizer(happened, accepted, next_step)
