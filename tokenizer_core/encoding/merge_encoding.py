"""Merges applied to spans of text by kernels, in many threads at once.

Knows tables and workspaces; nothing of strings, special tokens' names or files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.encoding_memory import SharedWords, Workspace, scratch_for
from bpeline.tokenizer_core.encoding.merge_tables import empty_pair_table, merge_tables, pair_table
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.encoding.encode_machine import WHOLE, WHOLE_SHIFT, WHOLE_TEXT
from bpeline.tokenizer_core.kernels.encoding.encode_text import (
    DONE,
    NEEDED,
    NEEDS_SCRATCH,
    encode_spans,
)
from bpeline.tokenizer_core.kernels.encoding.encode_word import add_gains
from bpeline.tokenizer_core.kernels.encoding.encode_word import (
    derive_merges as derive_merges_by_kernel,
)
from bpeline.tokenizer_core.kernels.encoding.whole_words import fill_whole_words
from bpeline.tokenizer_core.kernels.encoding.word_cache import ROOM
from bpeline.tokenizer_core.kernels.tables.word_keys import HASH_KEY
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text

DEFAULT_CACHE_WORDS = 1 << 19  # at most 128 bytes each: 64 MiB, as they fill
MAX_CACHE_WORDS = 1 << 24


class BytePairEncoder(Encoder):
    """Byte pair encoding of marked text: in each pre-token the pair of lowest rank, leftmost first.

    Any number of threads may encode at once. Each borrows a workspace for the length of a call, and
    all of them share one table of words, so that a word is merged once, whoever meets it first.

    Args:
        byte_ids: int64 ``[256]``: the id of each byte.
        left, right, results: int64 ``[n_merges]``: ids of the parts and of the result, by rank.
            Pairs are distinct.
        pattern: how spans are cut into pre-tokens.
        cache_words: how many words are remembered, rounded up to a power of two (at least 128);
            then all are forgotten and learned anew. 0: none.

    Attributes:
        pattern, byte_ids: as given.
        merge_ids: left, right and results.
        merges: how many there are.
    """

    def __init__(
        self,
        byte_ids: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
        pattern: SplitPattern,
        cache_words: int = DEFAULT_CACHE_WORDS,
    ) -> None:
        if not 0 <= cache_words <= MAX_CACHE_WORDS:
            raise InvalidOption(
                f"a cache of {cache_words} words was asked for",
                f"accepted: 0 (none) to {MAX_CACHE_WORDS}",
                f"leave cache_words out for {DEFAULT_CACHE_WORDS}",
            )
        self.pattern = pattern
        self.byte_ids = byte_ids
        self.merges = len(results)
        self.merge_ids = left, right, results
        self._words = SharedWords(cache_words)
        self._machine, self._tables = merge_tables(byte_ids, self.merge_ids)
        self._splitter = Splitter(pattern)
        self._mark_short = self._splitter.marking_short_texts()
        self._idle: deque[Workspace] = deque()  # append and pop are atomic

    @property
    def has_whole_words(self) -> bool:
        """Whether some words are one token although merges make several of them."""
        return WHOLE in self._tables

    def take_whole(self, ids: Mapping[bytes, int]) -> None:
        """Make words one token each, whatever their merges say.

        For the time before the first encoding: what is under way is not thought over.

        Args:
            ids: the words, of two bytes or more, and their ids.
        """
        if not ids:
            return
        words = Text.of(b"".join(ids)).data
        ends = np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
        table = np.zeros(4 << (2 * len(ids)).bit_length(), np.uint64)
        values = np.fromiter(ids.values(), np.int64, len(ids))
        self._machine[WHOLE_SHIFT] = fill_whole_words(words, ends, values, table, HASH_KEY)
        for place, kept in ((WHOLE, table), (WHOLE_TEXT, words)):
            self._tables[place] = kept
            self._machine[place] = kept.ctypes.data
        self._words.forget()
        self._idle.clear()

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = Workspace(self._machine, self._words.table)
        if workspace.words is not self._words.table:
            workspace.use(self._words.table)
        try:
            yield workspace
        finally:
            workspace.shrink()
            self._idle.append(workspace)

    def _make_room(self, workspace: Workspace) -> None:
        """Give a workspace whose table of words is full the one that follows."""
        workspace.use(self._words.after(workspace.words))
        self._idle.clear()  # nobody at rest keeps the memory of a table that is out of use

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self._encode_marked(text, self._splitter.mark_every_byte(text, spans), spans, behind)

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        text = Text.of(b"".join(words))
        spans = spans_of_lengths(words)
        marks = np.zeros(text.size // 64 + 2, np.uint64)
        return self._encode_marked(text, marks, spans, np.full(len(words), -1, np.int64))

    def _encode_marked(
        self,
        text: Text,
        marks: NDArray[np.uint64],
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        room = text.size if len(spans) == 1 else int((spans[:, 1] - spans[:, 0]).sum())
        ids = np.empty(room + len(spans) + ROOM, np.uint32)
        ends = np.empty(len(spans), np.int64)
        state = np.array([0, -1, 0, 0], np.int64)
        with self._workspace() as workspace:
            while True:
                machine = workspace.machine
                reason = encode_spans(text.data, marks, spans, behind, machine, ids, ends, state)
                if reason == DONE:
                    break
                if reason == NEEDS_SCRATCH:
                    workspace.grow_scratch(int(state[NEEDED]))
                else:
                    self._make_room(workspace)
        return ids[: ends[-1] if len(ends) else 0], ends

    def encode_short(self, content: bytes) -> list[int]:
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = Workspace(self._machine, self._words.table)
        # On any exception the workspace is lost, not the text of another call in it.
        mark = self._mark_short
        ids, full = workspace.short.encode(content, mark, workspace.machine)
        if full:
            self._make_room(workspace)
        self._idle.append(workspace)
        return ids

    def gains(
        self, words: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How often each merge fires on counted words: int64 ``[n_merges]``.

        Args:
            words: uint8, one after the other. offsets: int64 ``[n + 1]``, where each begins.
            counts: int64 ``[n]``, how often each occurs.
        """
        gains = np.zeros(self.merges, np.int64)
        begins, ends = offsets[:-1], offsets[1:]
        filled = begins < ends
        # Another table than that of `encode`: which merges fire, not only what they leave.
        shift, pairs = pair_table(self.merge_ids)
        add_gains(
            np.require(words, np.uint8, ["C", "W"]),
            begins[filled],
            ends[filled],
            counts[filled],
            self.byte_ids.astype(np.uint32),
            pairs,
            shift,
            scratch_for(int((ends - begins).max(initial=0))),
            gains,
        )
        return gains


def spans_of_lengths(contents: Sequence[bytes]) -> NDArray[np.int64]:
    """int64 ``[n, 2]``: where each of some contents lies when they are joined."""
    spans = np.zeros((len(contents), 2), np.int64)
    np.cumsum(np.fromiter(map(len, contents), np.int64, len(contents)), out=spans[:, 1])
    spans[1:, 0] = spans[:-1, 1]
    return spans


def derive_merges(
    byte_ids: NDArray[np.int64], results: Sequence[int], tokens: Sequence[bytes]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """The parts that make each token, in order of rank, from bytes and the tokens before it.

    Args:
        byte_ids: int64 ``[256]``: the id of each byte.
        results: the ids of the tokens.
        tokens: of two bytes or more.

    Returns:
        left and right ids, int64 ``[n]``; and −1, or the first token that is no merge of two.
    """
    left, right = np.empty((2, len(tokens)), np.int64)
    shift, pairs = empty_pair_table(len(tokens))
    failed = derive_merges_by_kernel(
        np.frombuffer(bytearray(b"".join(tokens)), np.uint8),
        np.ascontiguousarray(spans_of_lengths(tokens)[:, 1]),
        np.array(results, np.int64),
        byte_ids.astype(np.uint32),
        shift,
        pairs,
        scratch_for(max(map(len, tokens), default=0)),
        left,
        right,
    )
    return left, right, int(failed)
