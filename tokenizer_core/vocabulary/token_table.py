"""Valid vocabs as flat arrays, and merges as arrays of ids.

Python objects are created on access, so a vocab of 100,000 tokens can be read, checked and used
without an object per token.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Set,
    ValuesView,
)
from itertools import pairwise
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.word_cache import (
    fill_whole_words,
    find_joined_words,
    find_whole_words,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.text import Text

MAX_ID = (1 << 24) - 1
MAX_TOKEN_BYTES = 1 << 16


class TokenTable(Mapping[int, bytes]):
    """A mapping id → bytes in flat arrays; see `sound`.

    Attributes:
        words: uint8: the joined tokens and padding.
        begins, ends, lengths: int64 ``[n]``: byte ranges of the tokens in ``words``.
        ids: int64 ``[n]``.
    """

    __slots__ = ("_made", "_table", "begins", "ends", "ids", "lengths", "words")

    def __init__(
        self,
        words: NDArray[np.uint8],
        ends: NDArray[np.int64],
        ids: NDArray[np.int64],
        table: NDArray[np.uint64],
    ) -> None:
        self.words = words
        self.ends = ends
        self.lengths = np.diff(ends, prepend=0)
        self.begins = ends - self.lengths
        self.ids = ids
        self._table = table
        self._made: Mapping[int, bytes] | None = None

    @classmethod
    def sound(
        cls, tokens: bytes, lengths: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> TokenTable | None:
        """Build a table of joined tokens; None if ids or tokens are invalid or duplicate."""
        if not len(ids) or lengths.min() <= 0 or lengths.max() > MAX_TOKEN_BYTES:
            return None
        if ids.min() < 0 or ids.max() > MAX_ID:
            return None
        used = np.zeros(int(ids.max()) + 1, np.bool_)
        used[ids] = True
        if np.count_nonzero(used) != len(ids):
            return None
        words, ends = Text.of(tokens).data, np.cumsum(lengths)
        table = empty_word_table(len(ids))
        if fill_whole_words(words, ends, ids, table, HASH_KEY) != len(ids):
            return None
        return cls(words, ends, ids, table)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenTable.sound, (self.joined, self.lengths, self.ids)

    def with_tokens(self, more: Mapping[int, bytes]) -> TokenTable | None:
        """Return a table with additional tokens; None as in `sound`."""
        new = {id_: token for id_, token in more.items() if self.id_of(token) != id_}
        if not new:
            return self
        lengths = np.fromiter(map(len, new.values()), np.int64, len(new))
        return TokenTable.sound(
            b"".join((self.joined, *new.values())),
            np.concatenate((self.lengths, lengths)),
            np.concatenate((self.ids, np.fromiter(new, np.int64, len(new)))),
        )

    @property
    def joined(self) -> bytes:
        return self.words[: self.ends[-1]].tobytes()

    def in_order_of_id(self) -> tuple[NDArray[np.int64], NDArray[np.int64], bytes]:
        """Return ascending ids, the lengths of their tokens, and the joined tokens."""
        if (np.diff(self.ids) > 0).all():
            return self.ids, self.lengths, self.joined
        order = np.argsort(self.ids)
        lengths = self.lengths[order]
        source = np.repeat(self.begins[order] - (np.cumsum(lengths) - lengths), lengths)
        joined = self.words[source + np.arange(len(source))].tobytes()
        return self.ids[order], lengths, joined

    def find(
        self, text: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return ids of words in a padded text; −1 for words that are not tokens."""
        ids = np.empty(len(begins), np.int64)
        places = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
        find_whole_words(text, *places, self.words, self._table, HASH_KEY, ids)
        return ids

    def joins(
        self, left: NDArray[np.int64], right: NDArray[np.int64], most: int
    ) -> NDArray[np.int64]:
        """Return the ids of joined pairs of tokens, int64 ``[n]``; −1 for no token.

        All are −1 if the joined tokens have more than ``most`` bytes.
        """
        numbers = self._numbers()
        left, right = numbers[left], numbers[right]
        ids = np.full(len(left), -1, np.int64)
        if self.lengths[left].sum() + self.lengths[right].sum() <= most:
            tokens = self.begins, self.lengths, self.ids, numbers
            room = np.zeros(2 * int(self.lengths.max()) + 16, np.uint8)
            table = room, self.words, self._table, HASH_KEY
            find_joined_words(left, right, *tokens, *table, ids)
        return ids

    def id_of(self, token: bytes) -> int:
        """Return the id of a token, or −1."""
        if not token:
            return -1
        return int(self.find(Text.of(token).data, np.array([0]), np.array([len(token)]))[0])

    def tokens_of(self, ids: NDArray[np.int64]) -> list[bytes]:
        rows, words = self._numbers()[ids], self.words.data
        edges = zip(self.begins[rows].tolist(), self.ends[rows].tolist(), strict=True)
        return [bytes(words[begin:end]) for begin, end in edges]

    def byte_ids(self) -> NDArray[np.int64]:
        """Return the id of each byte, −1 if missing: int64 ``[256]``."""
        byte_ids = np.full(256, -1, np.int64)
        single = np.flatnonzero(self.lengths == 1)
        byte_ids[self.words[self.begins[single]]] = self.ids[single]
        return byte_ids

    def _numbers(self) -> NDArray[np.int64]:
        """Return the map from id to row: int64."""
        numbers = np.zeros(int(self.ids.max()) + 1, np.int64)
        numbers[self.ids] = np.arange(len(self.ids))
        return numbers

    @property
    def view(self) -> Mapping[int, bytes]:
        """All tokens as a read-only dict view, created once."""
        view = self._made
        if view is None:
            joined, edges = self.joined, pairwise([0, *self.ends.tolist()])
            ids = self.ids.tolist()
            view = MappingProxyType(
                {id_: joined[begin:end] for id_, (begin, end) in zip(ids, edges, strict=True)}
            )
            self._made = view
        return view

    def __getitem__(self, id_: int) -> bytes:
        return self.view[id_]

    def __contains__(self, id_: object) -> bool:
        return id_ in self.view

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return repr(self.view)

    def keys(self) -> KeysView[int]:
        return self.view.keys()

    def values(self) -> ValuesView[bytes]:
        return self.view.values()

    def items(self) -> ItemsView[int, bytes]:
        return self.view.items()


class TokenIds(Mapping[bytes, int]):
    """A mapping token → id of a table, without ``hidden`` ids."""

    __slots__ = ("_made", "hidden", "table")

    def __init__(self, table: TokenTable, hidden: Set[int]) -> None:
        self.table = table
        self.hidden = hidden
        self._made: dict[bytes, int] | None = None

    @property
    def _ids(self) -> dict[bytes, int]:
        ids = self._made
        if ids is None:
            tokens = self.table.view
            hidden = self.hidden
            ids = {token: id_ for id_, token in tokens.items() if id_ not in hidden}
            self._made = ids
        return ids

    def __getitem__(self, token: bytes) -> int:
        return self._ids[token]

    def find(self, token: bytes) -> int:
        """Return the id of one token, or −1; fast for few tokens."""
        id_ = self.table.id_of(token)
        return -1 if id_ in self.hidden else id_

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self.table) - len(self.hidden)

    def __repr__(self) -> str:
        return repr(self._ids)

    def keys(self) -> KeysView[bytes]:
        return self._ids.keys()

    def values(self) -> ValuesView[int]:
        return self._ids.values()

    def items(self) -> ItemsView[bytes, int]:
        return self._ids.items()


def empty_word_table(words: int) -> NDArray[np.uint64]:
    """Return a table for this many words, less than half full; see `fill_whole_words`."""
    # At least two slots: with one, the shift would be 64 bits.
    return np.zeros(4 << max(1, (2 * words).bit_length()), np.uint64)


Merge = tuple[bytes, bytes]
MergeIds = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class MergeList(Sequence[Merge]):
    """Merges as pairs of bytes by rank, stored as ids; pairs are created on access.

    Args:
        left, right, results: int64 ``[n]``: ids of parts and results, by rank; all in the vocab,
            and consistent with their bytes.
    """

    __slots__ = ("left", "results", "right", "vocab")

    def __init__(
        self,
        vocab: Mapping[int, bytes],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        results: NDArray[np.int64],
    ) -> None:
        self.vocab = vocab
        self.left = left
        self.right = right
        self.results = results

    def __len__(self) -> int:
        return len(self.left)

    @overload
    def __getitem__(self, rank: int) -> Merge: ...
    @overload
    def __getitem__(self, rank: slice) -> list[Merge]: ...
    def __getitem__(self, rank: int | slice) -> Merge | list[Merge]:
        if isinstance(rank, slice):
            columns = self.left[rank], self.right[rank], self.results[rank]
            return list(MergeList(self.vocab, *columns))
        return self.vocab[int(self.left[rank])], self.vocab[int(self.right[rank])]

    def __iter__(self) -> Iterator[Merge]:
        left, right = self.left.tolist(), self.right.tolist()
        token = self.vocab.__getitem__
        return zip(map(token, left), map(token, right), strict=True)


def find_merges(vocab: Mapping[int, bytes], parts: bytes, lengths: NDArray[np.int64]) -> MergeIds:
    """Look up merges by bytes: ids of lefts, rights and results, or −1.

    Args:
        parts: left, right, left, right, … joined.
        lengths: int64 ``[2n]`` of each part, above 0.
    """
    find = vocab.find if isinstance(vocab, TokenTable) else _finding(vocab)
    text = Text.of(parts).data
    ends = np.cumsum(lengths)
    begins = ends - lengths
    left = find(text, begins[::2], ends[::2])
    right = find(text, begins[1::2], ends[1::2])
    return left, right, find(text, begins[::2], ends[1::2])


def _finding(vocab: Mapping[int, bytes]) -> Callable[..., NDArray[np.int64]]:
    """`TokenTable.find` for a vocab with duplicates, of which the last one counts."""
    tokens = list(filter(None, vocab.values()))
    words = Text.of(b"".join(tokens)).data
    ids = np.array([id_ for id_, token in vocab.items() if token], np.int64)
    ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    table = empty_word_table(len(tokens))
    fill_whole_words(words, ends, ids, table, HASH_KEY)
    return TokenTable(words, ends, ids, table).find
