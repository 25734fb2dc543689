"""What makes vocab, merges and special tokens a tokenizer; the one place that refuses them.

Everything is checked in bulk; only when a check fails is the culprit looked for, one by one.
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
    """Check that a vocab, merges and special tokens fit together.

    Args:
        may_lack_bytes: whether some bytes need not be tokens, as with imported tokenizers, which
            leave them out of texts.

    Returns:
        Token → id of special tokens; token → id of all others; int64 ``[256]``: the id of each
        byte, −1 for those that are no tokens; int64 ``[n_merges]`` three times: ids of left and
        right parts and of results.

    Raises:
        InvalidTokenizer: ids that are no whole numbers in 0 … 2²⁴ − 1; empty, too long or repeated
            tokens; a missing byte; a merge of parts unknown before it, into a token that the vocab
            lacks, or given twice; a special token without its id.
        InvalidSpecialToken: empty or duplicate special tokens.
    """
    ids, specials = check_tokens(vocab, special_tokens)
    for token in specials:
        if len(token.encode()) == 1:
            _refuse(
                f"the special token {token!r} is a single byte",
                "every single byte is an ordinary token, which a special token would hide",
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
    """`check_vocab` of a table, without an object for each token.

    Args:
        hidden: ids of the table that are none of the vocab's.

    Returns:
        As `check_vocab`; None where that has to look at it, most likely to refuse it.
    """
    if not isinstance(vocab, TokenTable) or not isinstance(merges, MergeList):
        return None
    given = list(special_tokens) if isinstance(special_tokens, Mapping) else special_tokens
    specials = {token: vocab.id_of(token.encode()) for token in validate_special_tokens(given)}
    sound = all(id_ >= 0 and len(token.encode()) > 1 for token, id_ in specials.items())
    if isinstance(special_tokens, Mapping):
        sound &= specials == special_tokens and set(map(type, special_tokens.values())) <= {int}
    byte_ids = vocab.byte_ids()
    if hidden:  # a byte that only an added token spells is no token of texts
        byte_ids[np.isin(byte_ids, list(hidden))] = -1
    if not sound or (not may_lack_bytes and (merges.vocab is not vocab or byte_ids.min() < 0)):
        return None
    numbers = merges.left, merges.right, merges.results
    if specials and np.isin(numbers, list(specials.values())).any():
        return None
    _check_order(numbers, byte_ids, merges)
    return specials, TokenIds(vocab, hidden | set(specials.values())), byte_ids, numbers


def check_tokens(
    vocab: Mapping[int, bytes], special_tokens: Mapping[str, int] | Sequence[str]
) -> tuple[dict[bytes, int], dict[str, int]]:
    """Token → id of the ordinary tokens, and of the special tokens, once both are sound.

    Raises:
        InvalidTokenizer, InvalidSpecialToken: as `check_vocab`, of all but bytes and merges.
    """
    ids = _ids_of_tokens(vocab)
    specials = _special_ids(vocab, ids, special_tokens)
    for token in specials:
        del ids[token.encode()]
    return ids, specials


def shown(token: object) -> str:
    """``token`` for a message: at most 40 characters of it."""
    text = repr(token)
    return text if len(text) <= 40 else f"{text[:37]}…"


def refuse_wrong_ids(vocab: Mapping[int, bytes]) -> None:
    """Refuse ids that are no whole numbers from 0 to `MAX_ID`.

    Raises:
        InvalidTokenizer: names one of them.
    """
    wrong_type = set(map(type, vocab)) - {int}
    if wrong_type or (vocab and not (min(vocab) >= 0 and max(vocab) <= MAX_ID)):
        culprit = next(i for i in vocab if type(i) is not int or not 0 <= i <= MAX_ID)
        _refuse(
            f"the vocab holds the id {shown(culprit)}",
            f"ids are whole numbers from 0 to {MAX_ID}",
        )


def _ids_of_tokens(vocab: Mapping[int, bytes]) -> dict[bytes, int]:
    if not isinstance(vocab, Mapping):
        _refuse(f"vocab is a {type(vocab).__name__}", "a vocab is a dict of id → bytes")
    refuse_wrong_ids(vocab)
    tokens = vocab.values()
    if set(map(type, tokens)) - {bytes}:
        id_, token = next((i, token) for i, token in vocab.items() if type(token) is not bytes)
        _refuse(f"the token of id {id_} is {shown(token)}", "tokens are bytes")
    lengths = np.fromiter(map(len, tokens), np.int64, len(vocab))
    if len(lengths) and (lengths.min() == 0 or lengths.max() > MAX_TOKEN_BYTES):
        id_ = next(i for i, token in vocab.items() if not 0 < len(token) <= MAX_TOKEN_BYTES)
        _refuse(
            f"the token of id {id_} has {len(vocab[id_])} bytes",
            f"tokens have 1 to {MAX_TOKEN_BYTES} bytes",
        )
    ids = dict(zip(tokens, vocab, strict=True))
    if len(ids) != len(vocab):
        id_, token = next((i, token) for i, token in vocab.items() if ids[token] != i)
        _refuse(
            f"the ids {id_} and {ids[token]} both stand for {shown(token)}",
            "every token, special or not, has bytes of its own",
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
                f"the vocab does not hold the special token {shown(token)} under its id",
                "the vocab gives a special token's id its text in UTF-8",
                f"add vocab[id] = {shown(token.encode())}",
            )
    return specials


def _byte_ids(ids: Mapping[bytes, int], may_lack: bool) -> NDArray[np.int64]:
    missing = [byte for byte in range(256) if bytes([byte]) not in ids]
    if missing and not may_lack:
        some = ", ".join(f"0x{byte:02x}" for byte in missing[:5])
        _refuse(
            f"the vocab lacks {len(missing)} of the 256 single bytes: {some}"
            + (", …" if len(missing) > 5 else ""),
            "a byte-level vocab holds all of them, so that every text can be encoded",
        )
    return np.array([ids.get(bytes([byte]), -1) for byte in range(256)], np.int64)


def merge_ids(ids: Mapping[bytes, int], merges: Sequence[tuple[bytes, bytes]]) -> MergeIds:
    """Ids of parts and results, looked up by bytes: no token longer than two others is built.

    Nothing here makes an object per merge that the garbage collector would follow: in a process
    full of compiled kernels one full collection takes longer than all these checks.

    Raises:
        InvalidTokenizer: not pairs of bytes, or a part or a result that the vocab lacks.
    """
    if not isinstance(merges, Sequence) or isinstance(merges, str | bytes):
        _refuse(f"merges are a {type(merges).__name__}", "merges are a list of pairs of bytes")
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
            _refuse(f"merge {rank} is {shown(merge)}", "a merge is a pair of bytes")
        for part in merge:
            if part not in ids:
                _refuse(
                    f"merge {rank} joins {shown(part)}, which the vocab lacks",
                    "the parts of a merge are ordinary tokens of the vocab",
                )
        if merge[0] + merge[1] not in ids:
            _refuse(
                f"merge {rank} makes {shown(merge[0] + merge[1])}, which the vocab lacks",
                "the result of a merge is an ordinary token of the vocab",
            )
    _refuse("merges are not a list of pairs", "merges are a list of (bytes, bytes) by rank")


def _check_order(
    numbers: MergeIds, byte_ids: NDArray[np.int64], merges: Sequence[tuple[bytes, bytes]]
) -> None:
    """Every merge joins tokens that are bytes or results of merges, and comes once.

    A part may be the result of a later merge: Llama 3 has such, which fire as soon as both parts
    are there. What learns merges never makes any.
    """
    left, right, results = numbers
    highest = max(int(part.max(initial=0)) for part in (*numbers, byte_ids))
    made = np.zeros(highest + 1, np.bool_)
    made[results] = made[byte_ids[byte_ids >= 0]] = True
    unmade = np.flatnonzero(~(made[left] & made[right]))
    if len(unmade):
        rank = int(unmade[0])
        part = merges[rank][1 if made[left[rank]] else 0]
        _refuse(
            f"merge {rank} joins {shown(part)}, which no merge makes",
            "a merge joins single bytes and results of merges",
        )
    pairs = left << 24 | right
    ascending = np.sort(pairs)
    if (ascending[1:] == ascending[:-1]).any():
        _, first = np.unique(pairs, return_index=True)
        rank = int(np.setdiff1d(np.arange(len(results)), first)[0])
        _refuse(f"merge {rank}, {shown(merges[rank])}, is given twice", "each pair merges once")


def _refuse(happened: str, accepted: str, next_step: str = _RETRAIN) -> NoReturn:
    raise InvalidTokenizer(happened, accepted, next_step)
