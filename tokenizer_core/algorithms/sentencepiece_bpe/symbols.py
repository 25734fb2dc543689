"""Characters and their merges as merges of bytes; encodes nothing.

Byte pair encoding starts from bytes here. So each character of several bytes is put together by
merges that come before all others. UTF-8 does not let them meet across characters: a first byte is
never a later one, and it says how many follow. What is left of a character that is no token are
symbols that stand for no token, or for tokens of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary import MergeIds, TokenizerSpec, shown

BYTES = 256
_MAX_SYMBOL = (1 << 24) - 1
_FIRST_BYTES = (*range(0x80), *range(0xC0, BYTES))  # of characters in UTF-8


@dataclass(frozen=True, slots=True, eq=False)
class Symbols:
    """What a byte pair encoder is made of, and what its symbols mean.

    Attributes:
        byte_ids: int64 ``[256]``: the symbol of each byte. Symbols of tokens are their ids.
        merges: of bytes to characters, and of these to tokens.
        first: symbols from here on are no tokens.
        written: for each of these the ids that stand for it.
        pairs: int64 ``[n, 2]``: code points of characters that some merge joins.
        known: the characters that are tokens.
        rest: what becomes of other characters: ``bytes``, ``unknown``, ``nothing`` or ``error``.
        assembling: how many merges put characters together from bytes: the first ones.
        ranks: int64, the rank of each merge; None: their number.
    """

    byte_ids: NDArray[np.int64]
    merges: MergeIds
    first: int
    written: list[tuple[int, ...]]
    pairs: NDArray[np.int64]
    known: frozenset[str]
    rest: str
    assembling: int
    ranks: NDArray[np.int64] | None = None


def ranked_by_piece(symbols: Symbols, spec: TokenizerSpec, ties: frozenset[int]) -> Symbols:
    """The same, where all merges that make one token have one rank: see `SentencePieceBpe`."""
    tokens = dict.fromkeys(spec.merge_ids[2].tolist())
    ranks = dict(zip(tokens, accumulate(i not in ties for i in range(len(tokens))), strict=True))
    made = symbols.merges[2][symbols.assembling :].tolist()
    of_merges = np.array([ranks[id_] for id_ in made], np.int64) + symbols.assembling
    return replace(symbols, ranks=np.concatenate((np.arange(symbols.assembling), of_merges)))


def symbols_of(spec: TokenizerSpec, byte_fallback: bool, unknown: str | None) -> Symbols:
    """The symbols of a vocab and its merges.

    Args:
        byte_fallback, unknown: see `SentencePieceBpe`.

    Raises:
        InvalidTokenizer: see `coders`.
    """
    texts = _texts(spec.spelled_vocab)
    ids = {text: id_ for id_, text in texts.items()}
    characters = {texts[id_]: id_ for id_ in spec.ids.values() if len(texts[id_]) == 1}
    bytes_ = [ids.get(f"<0x{byte:02X}>") for byte in range(BYTES)] if byte_fallback else []
    by_bytes = all(id_ is not None for id_ in bytes_) if bytes_ else False
    if bytes_ and not by_bytes and any(id_ is not None for id_ in bytes_):
        _refuse(
            f"the vocab holds some of the tokens of bytes and lacks {bytes_.count(None)}",
            "all 256 from <0x00> to <0xFF>, or none of them",
        )
    unknown_id = None if unknown is None else ids.get(unknown)
    rest = "bytes" if by_bytes else "nothing" if unknown is None else "unknown"
    if rest == "unknown" and unknown_id is None:
        rest = "error"
    stand_ins = bytes_ if by_bytes else [unknown_id]
    _refuse_merged_stand_ins(texts, spec.merge_ids, set(stand_ins))
    merges = _that_can_happen(characters.values(), spec.merge_ids)
    first = max(spec.vocab, default=0) + 1
    # The symbol of each beginning of a character; whole characters are tokens.
    symbols: dict[bytes, int] = {text.encode(): id_ for text, id_ in characters.items()}
    written: list[tuple[int, ...]] = []

    def symbol_of(content: bytes) -> int:
        if content not in symbols:
            stands_for: tuple[int | None, ...] = ()
            if by_bytes:
                stands_for = tuple(bytes_[byte] for byte in content)
            elif rest == "unknown" and content[0] in _FIRST_BYTES:
                stands_for = (unknown_id,)
            plain = tuple(id_ for id_ in stands_for if id_ is not None)
            if by_bytes and len(content) == 1:
                symbols[content] = plain[0]
            else:
                symbols[content] = first + len(written)
                written.append(plain)
        return symbols[content]

    byte_ids = [symbol_of(bytes([byte])) for byte in range(BYTES)]
    assembling: dict[tuple[int, int], int] = {}
    for character in filter(None, (text.encode() for text in characters)):
        for size in range(2, len(character) + 1):
            pair = symbol_of(character[: size - 1]), byte_ids[character[size - 1]]
            assembling[pair] = symbol_of(character[:size])
    if first + len(written) > _MAX_SYMBOL:
        _refuse(f"the vocab holds the id {first - 1}", f"ids up to {_MAX_SYMBOL - len(written)}")
    left, right = (np.array([pair[i] for pair in assembling], np.int64) for i in (0, 1))
    made = np.array(list(assembling.values()), np.int64)
    all_merges = tuple(map(np.concatenate, zip((left, right, made), merges, strict=True)))
    joined = {
        (ord(texts[one][-1]), ord(texts[other][0]))
        for one, other in zip(merges[0].tolist(), merges[1].tolist(), strict=True)
    }
    return Symbols(
        np.array(byte_ids, np.int64),
        (all_merges[0], all_merges[1], all_merges[2]),
        first,
        written,
        np.array(sorted(joined), np.int64).reshape(-1, 2),
        frozenset(characters),
        rest,
        len(assembling),
    )


def _texts(vocab: Mapping[int, bytes]) -> dict[int, str]:
    texts = {}
    for id_, token in vocab.items():
        try:
            texts[id_] = token.decode()
        except UnicodeDecodeError:
            _refuse(
                f"the token {shown(token)} (id {id_}) is not UTF-8",
                "tokens of this algorithm are made of characters",
            )
    return texts


def _that_can_happen(characters: Iterable[int], merges: MergeIds) -> MergeIds:
    """Without merges of a part that is no character and that no merge makes: they never fire.

    Of a pair that is given twice the last one counts, as in ``tokenizers``.
    """
    single = np.fromiter(characters, np.int64)
    pairs = (merges[0] << 24 | merges[1])[::-1]
    last = np.sort(len(pairs) - 1 - np.unique(pairs, return_index=True)[1])
    merges = merges[0][last], merges[1][last], merges[2][last]
    while True:
        made = np.concatenate((single, merges[2]))
        fires = np.isin(merges[0], made) & np.isin(merges[1], made)
        if fires.all():
            return merges
        merges = merges[0][fires], merges[1][fires], merges[2][fires]


def _refuse_merged_stand_ins(
    texts: Mapping[int, str], merges: MergeIds, stand_ins: set[int | None]
) -> None:
    parts = set(merges[0].tolist()) | set(merges[1].tolist())
    for id_ in sorted(parts & {id_ for id_ in stand_ins if id_ is not None}):
        _refuse(
            f"a merge joins {shown(texts[id_])}, which stands for what is no token",
            "tokens of bytes and of unknown characters are parts of no merge",
        )


def _refuse(happened: str, accepted: str) -> NoReturn:
    raise InvalidTokenizer(
        happened, accepted, "load the files the vocab came from with Tokenizer.load(PATH)"
    )
