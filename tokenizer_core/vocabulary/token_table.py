"""A sound vocab as flat arrays, of which Python's values are made when they are asked for.

A file of 100,000 tokens is read, checked and encoded with without an object for each of them.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Set, ValuesView
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.kernels.encoding.whole_words import (
    fill_whole_words,
    find_joined_words,
    find_whole_words,
)
from bpeline.tokenizer_core.kernels.tables.hashing import HASH_KEY
from bpeline.tokenizer_core.text import Text

MAX_ID = (1 << 24) - 1
MAX_TOKEN_BYTES = 1 << 16


class TokenTable(Mapping[int, bytes]):
    """id → bytes; see `sound`.

    Attributes:
        words: uint8: the tokens joined, with readable bytes behind.
        begins, ends, lengths: int64 ``[n]``: where each lies, and its bytes.
        ids: int64 ``[n]``: of each.
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
        """The table of these tokens; None where ids or tokens are wrong, or occur twice.

        Args:
            tokens: joined.
            lengths, ids: int64 ``[n]``, of each.
        """
        if not len(ids) or lengths.min() <= 0 or lengths.max() > MAX_TOKEN_BYTES:
            return None
        if ids.min() < 0 or ids.max() > MAX_ID:
            return None
        taken = np.zeros(int(ids.max()) + 1, np.bool_)
        taken[ids] = True
        if np.count_nonzero(taken) != len(ids):
            return None
        words, ends = Text.of(tokens).data, np.cumsum(lengths)
        table = empty_word_table(len(ids))
        if fill_whole_words(words, ends, ids, table, HASH_KEY) != len(ids):
            return None
        return cls(words, ends, ids, table)

    def __reduce__(self) -> tuple[Any, ...]:
        return TokenTable.sound, (self.joined, self.lengths, self.ids)

    def with_tokens(self, more: Mapping[int, bytes]) -> TokenTable | None:
        """A table that holds these tokens besides; None as `sound`."""
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
        """All tokens, one after the other."""
        return self.words[: self.ends[-1]].tobytes()

    def in_order_of_id(self) -> tuple[NDArray[np.int64], NDArray[np.int64], bytes]:
        """The ids, ascending; the bytes that each token has; and the tokens joined."""
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
        """The ids of tokens that lie in a text with readable bytes behind; −1 for other words."""
        found = np.empty(len(begins), np.int64)
        places = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
        find_whole_words(text, *places, self.words, self._table, HASH_KEY, found)
        return found

    def joins(
        self, left: NDArray[np.int64], right: NDArray[np.int64], most: int
    ) -> NDArray[np.int64]:
        """The ids of the tokens that pairs of tokens join to, int64 ``[n]``; −1 for no token.

        Args:
            left, right: int64 ``[n]``: ids that are all there.
            most: bytes of all joined tokens together, beyond which the answer is −1 for each.
        """
        places = np.zeros(int(self.ids.max()) + 1, np.int64)
        places[self.ids] = np.arange(len(self.ids))
        left, right = places[left], places[right]
        found = np.full(len(left), -1, np.int64)
        if self.lengths[left].sum() + self.lengths[right].sum() <= most:
            room = np.zeros(2 * int(self.lengths.max()) + 16, np.uint8)
            tables = self.ends, room, self.words, self._table, HASH_KEY
            find_joined_words(left, right, *tables, found)
        return found

    def id_of(self, token: bytes) -> int:
        """The id of a token, or −1."""
        if not token:
            return -1
        return int(self.find(Text.of(token).data, np.array([0]), np.array([len(token)]))[0])

    def tokens_of(self, ids: NDArray[np.int64]) -> list[bytes]:
        """The tokens of some ids that are all there."""
        places = np.zeros(int(self.ids.max()) + 1, np.int64)
        places[self.ids] = np.arange(len(self.ids))
        found, words = places[ids], self.words.data
        edges = zip(self.begins[found].tolist(), self.ends[found].tolist(), strict=True)
        return [bytes(words[begin:end]) for begin, end in edges]

    def byte_ids(self) -> NDArray[np.int64]:
        """int64 ``[256]``: the id of each byte, −1 for those that are no tokens."""
        found = np.full(256, -1, np.int64)
        single = np.flatnonzero(self.lengths == 1)
        found[self.words[self.begins[single]]] = self.ids[single]
        return found

    @property
    def view(self) -> Mapping[int, bytes]:
        """All of it as Python's values; a read-only view, made once."""
        made = self._made
        if made is None:
            joined, edges = self.joined, pairwise([0, *self.ends.tolist()])
            ids = self.ids.tolist()
            made = MappingProxyType(
                {id_: joined[begin:end] for id_, (begin, end) in zip(ids, edges, strict=True)}
            )
            self._made = made
        return made

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
    """token → id of a table.

    Attributes:
        table: the tokens.
        hidden: ids of tokens that are left out.
    """

    __slots__ = ("_made", "hidden", "table")

    def __init__(self, table: TokenTable, hidden: Set[int]) -> None:
        self.table = table
        self.hidden = hidden
        self._made: dict[bytes, int] | None = None

    @property
    def _ids(self) -> dict[bytes, int]:
        made = self._made
        if made is None:
            tokens = self.table.view
            hidden = self.hidden
            made = {token: id_ for id_, token in tokens.items() if id_ not in hidden}
            self._made = made
        return made

    def __getitem__(self, token: bytes) -> int:
        return self._ids[token]

    def find(self, token: bytes) -> int:
        """The id of one token, or −1; quick for a few tokens."""
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
    """A table for so many words, less than half full: see `fill_whole_words`."""
    # At least two slots: the shift of a table of one is that of no number.
    return np.zeros(4 << max(1, (2 * words).bit_length()), np.uint64)
