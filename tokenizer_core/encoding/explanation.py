"""Explain ids merge by merge, and find tokens that no text produces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.merge_encoding import merge_table, spans_of_lengths
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    LEAST_MERGE_SCRATCH,
    MERGE_SCRATCH,
    POSITION_BITS,
    POSITION_MASK,
    trace_merges,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import MergeIds, TokenIds


def unreachable_tokens(encoder: Encoder, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return UTF-8 tokens v with encode(decode(v)) ≠ [v], and their ids."""
    texts = {token: id_ for token, id_ in ids.items() if _is_utf8(token)}
    spans = spans_of_lengths(list(texts))
    behind = np.full(len(spans), -1, np.int64)
    encoded, ends = encoder.encode(Text.of(b"".join(texts)), spans, behind)
    tokens, numbers = list(texts), np.array([*texts.values()], np.int64)
    return {tokens[index]: int(numbers[index]) for index in _others(numbers, encoded, ends)}


def _is_utf8(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def tokens_not_made_by_merges(encoder: Encoder, ids: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return tokens that merges do not make from their bytes, with their ids."""
    if isinstance(ids, TokenIds):
        table = ids.table
        numbers = table.ids
        others = _others(numbers, *encoder.encode_rows(table.words, np.append(0, table.ends)))
        tokens = dict(zip(others, table.tokens_of(numbers[others]), strict=True))
        others = [index for index in others if int(numbers[index]) not in ids.hidden]
    else:
        tokens, numbers = dict(enumerate(ids)), np.array([*ids.values()], np.int64)
        others = _others(numbers, *encoder.encode_words(list(ids)))
    return {tokens[index]: int(numbers[index]) for index in others}


def _others(
    ids: NDArray[np.int64], encoded: NDArray[np.uint32], ends: NDArray[np.int64]
) -> list[int]:
    themselves = np.diff(ends, prepend=0) == 1
    themselves[themselves] = encoded[ends[themselves] - 1] == ids[themselves]
    return np.flatnonzero(~themselves).tolist()


@dataclass(frozen=True, slots=True)
class FiredMerge:
    """A merge of ``left`` and ``right`` at byte ``begin`` of the text."""

    rank: int
    left: bytes
    right: bytes
    begin: int


@dataclass(frozen=True, slots=True)
class ExplainedPreToken:
    """A pre-token, its merges in order, and its ids.

    Attributes:
        begin: byte offset in the text; for imported tokenizers, in the normalized text.
        whole: it is one token regardless of merges (``ignore_merges``, added tokens).
    """

    word: bytes
    begin: int
    merges: tuple[FiredMerge, ...]
    ids: tuple[int, ...]
    tokens: tuple[bytes, ...]
    whole: bool = False

    def trees(self) -> tuple[MergeTree, ...]:
        """Return a tree of merges for each token, down to bytes."""
        if self.whole:
            return (MergeTree(self.word),)
        trees = {self.begin + at: MergeTree(bytes([byte])) for at, byte in enumerate(self.word)}
        for merge in self.merges:
            left = trees[merge.begin]
            right = trees.pop(merge.begin + len(merge.left))
            joined = MergeTree(merge.left + merge.right, merge.rank, (left, right))
            trees[merge.begin] = joined
        return tuple(trees[place] for place in sorted(trees))


@dataclass(frozen=True, slots=True)
class MergeTree:
    """A token and its two parts; bytes have neither parts nor rank."""

    token: bytes
    rank: int | None = None
    parts: tuple[MergeTree, ...] = ()


class Explainer:
    """Merges words as the encoder does, and records the merges.

    Args:
        byte_ids: int64 ``[256]``; −1 for bytes without an id, which are dropped.
        ids: token bytes → id, without special tokens.
    """

    def __init__(
        self,
        byte_ids: NDArray[np.int64],
        merges: MergeIds,
        ids: Mapping[bytes, int],
        pattern: SplitPattern,
        ignore_merges: bool,
    ) -> None:
        self._absent = bytes(np.flatnonzero(byte_ids < 0).tolist())
        self._merges = tuple(part.tolist() for part in merges)
        self._table = merge_table(merges)
        self._no_id = 1 + max(int(part.max(initial=0)) for part in (byte_ids, *merges))
        self._byte_ids = np.where(byte_ids < 0, self._no_id, byte_ids).astype(np.uint32)
        self._ids = ids
        self._tokens = {id_: token for token, id_ in ids.items()}
        self._pattern = pattern
        self._ignore_merges = ignore_merges

    def explain(self, content: bytes, at: int = 0) -> list[ExplainedPreToken]:
        """Explain each pre-token of a text at byte ``at``, ignoring special tokens."""
        edges = Splitter(self._pattern).edges(Text.of(content)).tolist()
        return [self._word(content[begin:end], at + begin) for begin, end in pairwise(edges)]

    def token(self, content: bytes, begin: int = 0) -> ExplainedPreToken:
        """Explain how merges build a token from its bytes, without the split pattern.

        The ids differ for special tokens and tokens that only ``ignore_merges`` gives.
        """
        data, size = np.frombuffer(bytearray(content), np.uint8), len(content)
        scratch = np.empty((LEAST_MERGE_SCRATCH + MERGE_SCRATCH * size) // 8, np.uint64)
        fired = np.empty(size, np.uint64)
        tables = self._byte_ids, self._table, HASH_KEY, scratch, fired
        number = trace_merges(data, size, *tables)
        left, right, results = self._merges
        symbols = dict(enumerate(self._byte_ids[data].tolist()))
        merges = []
        for item in fired[:number].tolist():
            rank, at = item >> int(POSITION_BITS), item & int(POSITION_MASK)
            parts = self._tokens[left[rank]], self._tokens[right[rank]]
            symbols[at] = results[rank]
            del symbols[at + len(parts[0])]
            merges.append(FiredMerge(rank, *parts, begin + at))
        ids = tuple(id_ for id_ in symbols.values() if id_ != self._no_id)
        named = tuple(self._tokens[id_] for id_ in ids)
        return ExplainedPreToken(content, begin, tuple(merges), ids, named)

    def _word(self, word: bytes, begin: int) -> ExplainedPreToken:
        word = word.translate(None, self._absent)  # as the encoder drops bytes without an id
        if self._ignore_merges and word in self._ids:
            return ExplainedPreToken(word, begin, (), (self._ids[word],), (word,), whole=True)
        return self.token(word, begin)
