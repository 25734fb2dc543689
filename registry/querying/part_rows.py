"""The rows of parts, as Arrow batches: tokens, merges, words, splits and how tokens are used.

Computes; stores nothing and knows no SQL. Nothing here calls `pyarrow.array` or `pyarrow.table`:
they import pandas.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpeline.registry.word_counts import batch_of, column_of_bytes, column_of_integers
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.evaluation import MadeTokens, token_use
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.tokenizer import Tokenizer

_ROWS_IN_BATCH = 1 << 18


def token_rows(tokenizer: Tokenizer) -> Any:
    """id, bytes, special (0 or 1), and of what a merge makes rank, left_id, right_id, else −1.

    Where several merges make one token, the first of them is told.
    """
    vocab = sorted(tokenizer.vocab.items())
    ids = np.array([id_ for id_, _ in vocab], np.int64)
    content = [token for _, token in vocab]
    size = int(ids[-1]) + 1 if len(ids) else 0
    left, right, results = tokenizer.merge_ids
    made = np.full((3, size), -1, np.int64)
    for row, values in zip(made, (np.arange(len(results)), left, right), strict=True):
        row[results[::-1]] = values[::-1]  # of several the last to be written stays
    special = np.isin(ids, list(tokenizer.special_tokens.values()))
    return _batch({
        "id": column_of_integers(ids),
        "bytes": column_of_bytes(content),
        "special": column_of_integers(special.astype(np.int64)),
        "rank": column_of_integers(made[0][ids]),
        "left_id": column_of_integers(made[1][ids]),
        "right_id": column_of_integers(made[2][ids]),
    })  # fmt: skip


def merge_rows(tokenizer: Tokenizer) -> Any:
    """rank, left_id, right_id, id."""
    left, right, results = tokenizer.merge_ids
    ranks = np.arange(len(results), dtype=np.int64)
    columns = {"rank": ranks, "left_id": left, "right_id": right, "id": results}
    return _batch({name: column_of_integers(values) for name, values in columns.items()})


def word_rows(words: WordCounts) -> Any:
    """word, count, first_position, in the order of the words."""
    return batch_of(words)


def split_rows(words: WordCounts, made: MadeTokens) -> Iterator[Any]:
    """word, count, ids, in the order of the words; at least one batch."""
    import pyarrow

    for begin in range(0, max(len(words), 1), _ROWS_IN_BATCH):
        some = words.between(begin, begin + _ROWS_IN_BATCH)
        ends = np.append(made.ends[begin - 1] if begin else 0, made.ends[begin : begin + len(some)])
        ids = made.ids[int(ends[0]) : int(ends[-1])]
        offsets = pyarrow.py_buffer(np.ascontiguousarray(ends - ends[0], np.int64))
        values = pyarrow.Array.from_buffers(
            pyarrow.uint32(), len(ids), [None, pyarrow.py_buffer(np.ascontiguousarray(ids))]
        )
        lists = pyarrow.Array.from_buffers(
            pyarrow.large_list(pyarrow.uint32()), len(some), [None, offsets], children=[values]
        )
        batch = batch_of(some)
        yield _batch({"word": batch.column(0), "count": batch.column(1), "ids": lists})


def use_rows(tokenizer: Tokenizer, words: WordCounts, made: MadeTokens) -> Any:
    """id, count, made (see `TokenUse`) and words: distinct ones that are left with the token."""
    use = token_use(tokenizer, words, made)
    ids = np.array(sorted(tokenizer.vocab), np.int64)
    columns = {
        "id": ids,
        "count": use.left[ids],
        "made": use.made[ids],
        "words": _words_with(made, len(use.left))[ids],
    }
    return _batch({name: column_of_integers(values) for name, values in columns.items()})


def slice_rows(tokenizer: Tokenizer, words: WordCounts) -> Any:
    """id, count: of the tokens that occur in some words."""
    totals = MadeTokens.of(tokenizer, words).totals(words.counts)
    ids = np.flatnonzero(totals)
    return _batch({"id": column_of_integers(ids), "count": column_of_integers(totals[ids])})


def _words_with(made: MadeTokens, size: int) -> NDArray[np.int64]:
    """int64, by id: how many words are left with the token at least once."""

    def found(begin: int) -> NDArray[np.int64]:
        ends = np.append(made.ends[begin - 1] if begin else 0, made.ends[begin:][:_ROWS_IN_BATCH])
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        # `numpy.unique` takes nine times as long.
        pairs = np.sort(rows * size + made.ids[int(ends[0]) : int(ends[-1])])
        return np.bincount(pairs[np.diff(pairs, prepend=-1) != 0] % size, minlength=size)

    total = np.zeros(size, np.int64)
    with ThreadPoolExecutor(available_processors(), "count words") as threads:
        for one in threads.map(found, range(0, len(made.ends), _ROWS_IN_BATCH)):
            total += one
    return total


def _batch(columns: dict[str, Any]) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
