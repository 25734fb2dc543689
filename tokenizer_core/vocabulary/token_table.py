"""A sound vocab as flat arrays, and merges as ids of a vocab.

Python's values are made when they are asked for: a file of 100,000 tokens is read, checked and
encoded with without an object for each of them.
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
        numbers = self._numbers()
        left, right = numbers[left], numbers[right]
        found = np.full(len(left), -1, np.int64)
        if self.lengths[left].sum() + self.lengths[right].sum() <= most:
            tokens = self.begins, self.lengths, self.ids, numbers
            room = np.zeros(2 * int(self.lengths.max()) + 16, np.uint8)
            table = room, self.words, self._table, HASH_KEY
            find_joined_words(left, right, *tokens, *table, found)
        return found

    def id_of(self, token: bytes) -> int:
        """The id of a token, or −1."""
        if not token:
            return -1
        return int(self.find(Text.of(token).data, np.array([0]), np.array([len(token)]))[0])

    def tokens_of(self, ids: NDArray[np.int64]) -> list[bytes]:
        """The tokens of some ids that are all there."""
        found, words = self._numbers()[ids], self.words.data
        edges = zip(self.begins[found].tolist(), self.ends[found].tolist(), strict=True)
        return [bytes(words[begin:end]) for begin, end in edges]

    def byte_ids(self) -> NDArray[np.int64]:
        """int64 ``[256]``: the id of each byte, −1 for those that are no tokens."""
        found = np.full(256, -1, np.int64)
        single = np.flatnonzero(self.lengths == 1)
        found[self.words[self.begins[single]]] = self.ids[single]
        return found

    def _numbers(self) -> NDArray[np.int64]:
        """id → place in `ids`."""
        numbers = np.zeros(int(self.ids.max()) + 1, np.int64)
        numbers[self.ids] = np.arange(len(self.ids))
        return numbers

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


Merge = tuple[bytes, bytes]
MergeIds = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


class MergeList(Sequence[Merge]):
    """Pairs of bytes in order of rank, made when they are looked at.

    Encoding needs their ids only: 100,000 tuples would take more time and memory than the ids of
    them all.

    Args:
        vocab: id → bytes.
        left, right, results: int64 ``[n]``: ids of the parts and of the result, by rank. All of
            them are in the vocab, and the bytes of the parts join to those of the result.
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
    """Look up merges that are spelled out: ids of left parts, right parts and results.

    Args:
        vocab: id → bytes.
        parts: left, right, left, right, … joined. lengths: int64 ``[2n]`` of each, above 0.

    Returns:
        Three times int64 ``[n]``; −1 for what the vocab lacks.
    """
    find = vocab.find if isinstance(vocab, TokenTable) else _finding(vocab)
    text = Text.of(parts).data
    ends = np.cumsum(lengths)
    begins = ends - lengths
    left = find(text, begins[::2], ends[::2])
    right = find(text, begins[1::2], ends[1::2])
    return left, right, find(text, begins[::2], ends[1::2])


def _finding(vocab: Mapping[int, bytes]) -> Callable[..., NDArray[np.int64]]:
    """`TokenTable.find` of a vocab that may hold a token twice: the last one counts."""
    tokens = list(filter(None, vocab.values()))
    words = Text.of(b"".join(tokens)).data
    ids = np.array([id_ for id_, token in vocab.items() if token], np.int64)
    ends = np.cumsum(np.fromiter(map(len, tokens), np.int64, len(tokens)))
    table = empty_word_table(len(tokens))
    fill_whole_words(words, ends, ids, table, HASH_KEY)
    return TokenTable(words, ends, ids, table).find
