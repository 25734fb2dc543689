"""Thread-safe byte pair encoding by kernels, and the tables that they use."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.encoding.encoder import Encoder
from bpeline.tokenizer_core.encoding.encoding_memory import (
    SHORT_TEXT,
    SharedWords,
    ShortKernel,
    TextsAtOnce,
    Workspace,
    at_cache_line,
    scratch_for,
)
from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept
from bpeline.tokenizer_core.kernels.encoding import (
    encode_text,
    encode_word,
    short_texts,
    token_tables,
    token_trie,
)
from bpeline.tokenizer_core.kernels.encoding.word_cache import ROOM, WORKSPACE, fill_whole_words
from bpeline.tokenizer_core.kernels.memory.pages import HUGE_PAGE, LINE, in_lines
from bpeline.tokenizer_core.kernels.memory.python_objects import ints_to
from bpeline.tokenizer_core.kernels.scanning.cl100k import mark_cl100k
from bpeline.tokenizer_core.kernels.scanning.gpt2 import mark_gpt2
from bpeline.tokenizer_core.kernels.scanning.o200k import mark_o200k
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.kernels.tables.pair_tables import NO_MERGE, fill_merges
from bpeline.tokenizer_core.splitting import SplitPattern, Splitter
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.vocabulary import MergeIds

DEFAULT_CACHE_WORDS = 1 << 21  # up to 144 bytes each: 288 MiB when full
MAX_CACHE_WORDS = 1 << 24

# One workspace for the short texts of all threads relies on the interpreter's lock.
_LOCKED = not sysconfig.get_config_var("Py_GIL_DISABLED")
# Kernels for short texts are compiled only after many calls; a few calls use the others.
_CALLS_BEFORE_COMPILING = 64
_calls_left: dict[Callable[..., int], int] = {}
_SHORT_KERNELS: dict[Callable[..., bool], ShortKernel] = {
    mark_gpt2: short_texts.encode_short_gpt2,
    mark_cl100k: short_texts.encode_short_cl100k,
    mark_o200k: short_texts.encode_short_o200k,
}
_MAX_TOKEN_TEXT = 1 << 26  # bytes of all tokens
_LEAST_LARGE = 1 << 20  # bytes of all tables from which huge pages are worth their unused space
_NODES_PER_TOKEN = 4  # of the trie; doubled if too few


class BytePairEncoder(Encoder):
    """Byte pair encoding of marked text: lowest rank first, leftmost first.

    Thread-safe. Each call borrows a workspace; all share one word cache.

    Args:
        byte_ids: int64 ``[256]``: the id of each byte.
        left, right, results: int64 ``[n_merges]``: ids of parts and results, by rank; distinct
            pairs.
        cache_words: size of the word cache, rounded up to a power of two (at least 128); it is
            emptied when full. 0 disables it.
        splitter: pre-tokenizer for the pattern; may split further where no merge joins.
        ranks: int64 ``[n_merges]``, ascending, if merges share ranks.
    """

    def __init__(
        self,
        byte_ids: NDArray[np.int64],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
        pattern: SplitPattern,
        cache_words: int = DEFAULT_CACHE_WORDS,
        splitter: Splitter | None = None,
        ranks: NDArray[np.int64] | None = None,
    ) -> None:
        self.pattern = pattern
        self.cache_words = cache_words
        self.byte_ids = byte_ids
        self.merges: int = len(results)
        self.merge_ids: MergeIds = (left, right, results)
        self._words = SharedWords(cache_words)
        self._record, self._tables = merge_tables(byte_ids, self.merge_ids, ranks)
        self._splitter = splitter or Splitter(pattern)
        self._mark_short = self._splitter.marking_short_texts()
        masks = self._splitter.masks if _LOCKED else None
        self._short_kernel = None if masks is None else _SHORT_KERNELS.get(masks[0])
        self._mask_options = (0, 0, 0) if masks is None else (*masks[1], 0, 0, 0)[:3]
        self._may_wait = True
        self._idle: dict[int, Workspace] = {}  # by the thread that had it last
        self._at_once: TextsAtOnce | None = None  # made for the first short text
        self._highest_id = max(int(ids.max(initial=0)) for ids in (byte_ids, results))

    @property
    def has_whole_words(self) -> bool:
        """Whether `add_whole_words` added words."""
        return "whole" in self._tables

    @property
    def merges_once(self) -> bool:
        """Whether each merge makes a new token after its parts, and is reachable."""
        tokens = self._tables.get("tokens")
        return tokens is not None and len(tokens) == _words_of_tokens(self.merges)

    def add_whole_words(self, ids: Mapping[bytes, int]) -> None:
        """Encode these words as one token, regardless of merges; call it before encoding."""
        if not ids:
            return
        words = Text.of(b"".join(ids)).data
        ends = np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
        bits = (2 * len(ids)).bit_length()
        table = np.zeros(4 << bits, np.uint64)
        values = np.fromiter(ids.values(), np.int64, len(ids))
        fill_whole_words(words, ends, values, table, HASH_KEY)
        self._record["whole_shift"] = 64 - bits
        for field, array in (("whole", table), ("whole_text", words)):
            self._tables[field] = array
            self._record[field] = array.ctypes.data
        self._highest_id = max(self._highest_id, int(values.max()))
        self._words.forget()
        self._leave_words()

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        workspace = self._borrow()
        if workspace.words is not self._words.table:
            workspace.use(self._words.table)
        try:
            yield workspace
        finally:
            workspace.shrink()
            self._idle[get_ident()] = workspace

    def _borrow(self) -> Workspace:
        """Return this thread's last workspace, which may be cached, or another."""
        idle = self._idle
        with suppress(KeyError):  # each call is atomic
            return idle.pop(get_ident())
        with suppress(KeyError):
            return idle.popitem()[1]
        return self._new_workspace()

    def _new_workspace(self) -> Workspace:
        return Workspace(self._record, self._words.table)

    def _make_room(self, workspace: Workspace) -> None:
        workspace.use(self._words.after(workspace.words))
        self._leave_words()

    def _leave_words(self) -> None:
        """Drop idle workspaces, so that an unused word cache can be freed."""
        self._idle.clear()
        self._at_once = None

    def encode(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self.encode_marked(text, self._splitter.mark_every_byte(text, spans), spans, behind)

    def encode_words(self, words: Sequence[bytes]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self._encode_unmarked(Text.of(b"".join(words)), spans_of_lengths(words))

    def encode_rows(
        self, content: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        return self._encode_unmarked(*as_spans(content, offsets))

    def _encode_unmarked(
        self, text: Text, spans: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        marks = np.zeros(text.size // 64 + 2, np.uint64)
        return self.encode_marked(text, marks, spans, np.full(len(spans), -1, np.int64))

    def encode_marked(
        self,
        text: Text,
        marks: NDArray[np.uint64],
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Encode text that is already split; ``marks`` is a bitmap of starts."""
        ids = np.empty(_room_for(text, spans), np.uint32)
        with self._workspace() as workspace:
            ends = self._write_ids(workspace, text, marks, spans, behind, ids)
        return ids[: ends[-1] if len(ends) else 0], ends

    @contextmanager
    def lending(
        self, text: Text, spans: NDArray[np.int64], behind: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        marks = self._splitter.mark_every_byte(text, spans)
        with self._workspace() as workspace:
            ids = workspace.room_for_ids(_room_for(text, spans))
            ends = self._write_ids(workspace, text, marks, spans, behind, ids)
            yield ids[: ends[-1] if len(ends) else 0], ends

    def _write_ids(
        self,
        workspace: Workspace,
        text: Text,
        marks: NDArray[np.uint64],
        spans: NDArray[np.int64],
        behind: NDArray[np.int64],
        ids: NDArray[np.uint32],
    ) -> NDArray[np.int64]:
        """Write the ids of spans; return the number of ids up to the end of each span."""
        ends = np.empty(len(spans), np.int64)
        state = np.zeros(1, encode_text.PROGRESS)
        state["position"] = -1
        while True:
            fields = workspace.fields
            reason = encode_text.encode_spans(
                text.data, marks, spans, behind, fields, ids, ends, state
            )
            if reason == encode_text.DONE:
                return ends
            if reason == encode_text.NEEDS_SCRATCH:
                workspace.grow_scratch(int(state["needed"][0]))
            else:
                self._make_room(workspace)

    def encode_short(self, content: bytes) -> list[int]:
        if type(content) is not bytes:
            raise TypeError(f"expected bytes, not {type(content).__name__}")
        at_once, size = self._at_once, len(content)
        if at_once is None or size > SHORT_TEXT:
            return self._encode_without_kernel(content)
        ids: list[int] = []
        if state := at_once.encode(at_once.address, id(content), size, id(ids)):
            if state == short_texts.NO_MEMORY:
                raise MemoryError
            self._words.after(at_once.words)
            self._leave_words()
        return ids

    def _encode_without_kernel(self, content: bytes) -> list[int]:
        """`encode_short` until a specialised kernel is ready."""
        may_wait, kernel = self._may_wait, self._short_kernel or encode_text.encode_span
        if len(content) > SHORT_TEXT or (may_wait and _is_one_of_few(kernel)):
            return super().encode_short(content)
        self._may_wait = False
        ints = ints_to(self._highest_id)
        if self._short_kernel is not None and ints is not None:
            cutting = self._splitter.classes, self._mask_options
            workspace = self._new_workspace()
            self._at_once = TextsAtOnce(workspace, self._short_kernel, cutting, ints)
            return self.encode_short(content)
        workspace = self._borrow()
        # On an exception, the workspace is dropped instead of reused in an unknown state.
        ids, full = workspace.short.encode(content, self._mark_short, workspace.fields)
        if full:
            self._make_room(workspace)
        self._idle[get_ident()] = workspace
        return ids

    def gains(
        self, words: NDArray[np.uint8], offsets: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Count the applications of each merge; see `Tokenizer.merge_gains`."""
        gains = np.zeros(self.merges, np.int64)
        begins, ends = offsets[:-1], offsets[1:]
        filled = begins < ends
        # Not the tables of `encode`: these record which merges are applied.
        encode_word.add_gains(
            np.require(words, np.uint8, ["C", "W"]),
            begins[filled],
            ends[filled],
            counts[filled],
            self.byte_ids.astype(np.uint32),
            merge_table(self.merge_ids),
            HASH_KEY,
            scratch_for(int((ends - begins).max(initial=0))),
            gains,
        )
        return gains


def _room_for(text: Text, spans: NDArray[np.int64]) -> int:
    size = text.size if len(spans) == 1 else int((spans[:, 1] - spans[:, 0]).sum())
    return size + len(spans) + ROOM


def _is_one_of_few(kernel: Callable[..., int]) -> bool:
    """Return whether a kernel is not compiled and was called only a few times."""
    left = _calls_left.get(kernel)
    if left is None:
        left = 0 if are_kept(kernel) else _CALLS_BEFORE_COMPILING
    _calls_left[kernel] = max(left - 1, 0)
    return left > 0


def spans_of_lengths(contents: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the ranges of contents when they are joined: int64 ``[n, 2]``."""
    spans = np.zeros((len(contents), 2), np.int64)
    np.cumsum(np.fromiter(map(len, contents), np.int64, len(contents)), out=spans[:, 1])
    spans[1:, 0] = spans[:-1, 1]
    return spans


def as_spans(
    content: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[Text, NDArray[np.int64]]:
    """Return joined words as a text and spans: int64 ``[n, 2]``."""
    begin, end = int(offsets[0]), int(offsets[-1])
    edges = np.asarray(offsets, np.int64) - begin
    spans = np.ascontiguousarray(np.stack((edges[:-1], edges[1:]), axis=1))
    return Text.of(np.ascontiguousarray(content[begin:end], np.uint8).data), spans


def derive_merges(byte_ids: NDArray[np.int64], tokens: Mapping[int, bytes]) -> MergeIds:
    """Derive the merges of tokens whose ids are ranks, by rank; see `formats.ranks`.

    Tokens, by id, have at least two bytes; those that no merge makes are left out.
    """
    in_order = sorted(tokens, key=lambda id_: len(tokens[id_]))
    words, results = [tokens[id_] for id_ in in_order], np.array(in_order, np.int64)
    left, right = np.empty((2, len(words)), np.int64)
    encode_word.derive_merges(
        np.frombuffer(bytearray(b"".join(words)), np.uint8),
        np.ascontiguousarray(spans_of_lengths(words)[:, 1]),
        results,
        byte_ids.astype(np.uint32),
        empty_merge_table(len(words)),
        HASH_KEY,
        scratch_for(max(map(len, words), default=0)),
        left,
        right,
    )
    rows = np.flatnonzero(left >= 0)
    by_rank = rows[np.argsort(results[rows])]
    return left[by_rank], right[by_rank], results[by_rank]


def merge_tables(
    byte_ids: NDArray[np.int64], merges: MergeIds, ranks: NDArray[np.int64] | None = None
) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Build the tables that threads share.

    Returns one `WORKSPACE` with their addresses, and the tables, which must outlive it.
    """
    record = np.zeros(1, WORKSPACE)
    record["key_low"], record["key_high"] = HASH_KEY
    tables = _token_tables(byte_ids, merges, record) if ranks is None else None
    if tables is None:
        ids = byte_ids.astype(np.uint32)
        pairs = merge_table(merges, ranks)
        record["pair_shift"] = 65 - (pairs.size >> 1).bit_length()
        tables = {"byte_ids": ids, "pairs": pairs}
    for field, table in tables.items():
        record[field] = table.ctypes.data
    return record, tables


def _token_tables(
    byte_ids: NDArray[np.int64], merges: MergeIds, record: NDArray[Any]
) -> dict[str, NDArray[Any]] | None:
    """Build tables for `encode_by_backtracking`; None if it cannot be used."""
    largest = max(int(column.max(initial=0)) for column in (byte_ids, *merges))
    indices = np.full(largest + 1, -1, np.int32)
    indices[merges[2]] = 0
    produced = int(np.count_nonzero(indices == 0))
    indices[merges[2]] = -1
    if token_tables.BYTES + produced > token_tables.MAX_TOKENS:
        return None
    pair_bits = _bits_for(produced)
    pair_shift = np.uint64(64 - pair_bits)
    pairs = np.zeros(9 << (pair_bits - 3), np.uint64)  # slots, and one byte per slot
    kept_merges, tokens = np.empty(produced, np.int32), at_cache_line(_words_of_tokens(produced))
    number = token_tables.keep_merges(
        byte_ids, *merges, pair_shift, HASH_KEY, indices, kept_merges, pairs, tokens
    )
    if number < 0:
        return None
    left, right, results = (column[kept_merges[:number]] for column in merges)
    ids = np.concatenate((byte_ids, results))
    left, right = indices[left].astype(np.int64), indices[right].astype(np.int64)
    ends = np.empty(len(ids), np.int64)
    token_tables.measure_tokens(left, right, ends)
    if ends[-1] > _MAX_TOKEN_TEXT:
        return None
    text = np.empty(int(ends[-1]) + 8, np.uint8)
    token_tables.spell_tokens(left, right, ends, text)
    lengths = np.diff(ends, prepend=0)
    built = trie_of_tokens(text, ends, left)
    if built is None:
        return None
    trie, shorter = built
    tokens = tokens[: token_tables.TOKEN // 8 * len(ids)]
    infos = tokens.reshape(-1, token_tables.TOKEN // 8)[:, token_tables.INFO // 8]
    infos[:] = ids.astype(np.uint64)
    infos |= lengths.astype(np.uint64) << token_tables.LENGTH_SHIFT
    infos |= shorter.astype(np.uint64) << token_tables.SHORTER_SHIFT
    record["pair_shift"] = pair_shift
    return _side_by_side({"pairs": pairs, "tokens": tokens, "trie": trie})


def _words_of_tokens(merges: int) -> int:
    return token_tables.TOKEN // 8 * (token_tables.BYTES + merges)


def _side_by_side(tables: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Copy large tables to huge pages, to avoid TLB misses."""
    begins = np.cumsum([0, *(-(-table.nbytes // LINE) * LINE for table in tables.values())])
    if begins[-1] < _LEAST_LARGE:
        return tables
    words = int(-(-begins[-1] // HUGE_PAGE)) * HUGE_PAGE // 8
    room, placed = in_lines(words, np.uint64), {}
    for (name, table), begin in zip(tables.items(), begins.tolist(), strict=False):
        placed[name] = room[begin // 8 : begin // 8 + table.size]
        placed[name][:] = table
    return placed


def trie_of_tokens(
    text: NDArray[np.uint8], ends: NDArray[np.int64], heads: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int32]] | None:
    """Build a `token_trie` and the next shorter prefixes; None if too large."""
    nodes_of, shorter = np.empty((2, len(ends)), np.int32)
    spelled = np.empty(token_trie.MOST_SYMBOLS, np.int64)
    begin = token_trie.CELLS // 8
    nodes, used = _NODES_PER_TOKEN * len(ends), 0
    while used == 0:
        if nodes > token_trie.MAX_NODES:
            return None
        cells = (nodes + nodes // 8 >> 16) + 1 << 16
        parents, tokens, lengths, children, places, bases = np.empty((6, nodes), np.int32)
        trie = np.full(begin + cells, token_trie.NO_SYMBOL, np.uint64)
        trie[:begin].view(np.uint16)[:] = token_trie.UNKNOWN
        free, taken = np.zeros((2, cells // 64), np.uint64)
        used = token_trie.fill_trie(
            text,
            ends,
            heads,
            np.zeros(1 << nodes.bit_length(), np.uint64),
            HASH_KEY,
            parents,
            np.empty(nodes, np.uint16),
            tokens,
            lengths,
            np.zeros(nodes, np.bool_),
            np.zeros(nodes + 1, np.int32),
            children,
            places,
            bases,
            free,
            taken,
            spelled,
            nodes_of,
            shorter,
            trie,
        )
        nodes *= 2
    return trie[: begin + used].copy(), shorter


def merge_table(merges: MergeIds, ranks: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """Build `merge_word`'s table of merges; by default, ranks are positions."""
    table = empty_merge_table(len(merges[2]))
    left, right, results = merges
    order = np.arange(len(results)) if ranks is None else ranks
    fill_merges(left, right, order, results, table, HASH_KEY)
    return table


def empty_merge_table(merges: int) -> NDArray[np.uint64]:
    return np.full(2 << _bits_for(merges), NO_MERGE, np.uint64)


def _bits_for(merges: int) -> int:
    return max(4, (2 * merges).bit_length())
