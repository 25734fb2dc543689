"""Rows of parts as Arrow batches: tokens, merges, words, splits, token use.

Does not call `pyarrow.array` or `pyarrow.table`, which import pandas.
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
    """Columns id, bytes, special (0 or 1), rank, left_id, right_id.

    The last three are of the first merge that makes the token; −1 for other tokens.
    """
    vocab = sorted(tokenizer.vocab.items())
    ids = np.array([id_ for id_, _ in vocab], np.int64)
    content = [token for _, token in vocab]
    size = int(ids[-1]) + 1 if len(ids) else 0
    left, right, results = tokenizer.merge_ids
    merge_columns = np.full((3, size), -1, np.int64)
    for row, values in zip(merge_columns, (np.arange(len(results)), left, right), strict=True):
        row[results[::-1]] = values[::-1]  # reversed, so that the first merge wins
    special = np.isin(ids, list(tokenizer.special_tokens.values()))
    return _batch({
        "id": column_of_integers(ids),
        "bytes": column_of_bytes(content),
        "special": column_of_integers(special.astype(np.int64)),
        "rank": column_of_integers(merge_columns[0][ids]),
        "left_id": column_of_integers(merge_columns[1][ids]),
        "right_id": column_of_integers(merge_columns[2][ids]),
    })  # fmt: skip


def merge_rows(tokenizer: Tokenizer) -> Any:
    """Columns rank, left_id, right_id, id."""
    left, right, results = tokenizer.merge_ids
    ranks = np.arange(len(results), dtype=np.int64)
    columns = {"rank": ranks, "left_id": left, "right_id": right, "id": results}
    return _batch({name: column_of_integers(values) for name, values in columns.items()})


def word_rows(words: WordCounts) -> Any:
    """Columns word, count, first_position, in the order of the words."""
    return batch_of(words)


def split_rows(words: WordCounts, made: MadeTokens) -> Iterator[Any]:
    """Columns word, count, ids, in the order of the words; at least one batch."""
    import pyarrow

    for begin in range(0, max(len(words), 1), _ROWS_IN_BATCH):
        chunk = words.between(begin, begin + _ROWS_IN_BATCH)
        ends = np.append(
            made.ends[begin - 1] if begin else 0, made.ends[begin : begin + len(chunk)]
        )
        ids = made.ids[int(ends[0]) : int(ends[-1])]
        offsets = pyarrow.py_buffer(np.ascontiguousarray(ends - ends[0], np.int64))
        values = pyarrow.Array.from_buffers(
            pyarrow.uint32(), len(ids), [None, pyarrow.py_buffer(np.ascontiguousarray(ids))]
        )
        lists = pyarrow.Array.from_buffers(
            pyarrow.large_list(pyarrow.uint32()), len(chunk), [None, offsets], children=[values]
        )
        batch = batch_of(chunk)
        yield _batch({"word": batch.column(0), "count": batch.column(1), "ids": lists})


def use_rows(tokenizer: Tokenizer, words: WordCounts, made: MadeTokens) -> Any:
    """Columns id, count, made (see `TokenUse`) and words: the words with the token."""
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
    """Columns id, count, for the tokens that occur in the words."""
    totals = MadeTokens.of(tokenizer, words).totals(words.counts)
    ids = np.flatnonzero(totals)
    return _batch({"id": column_of_integers(ids), "count": column_of_integers(totals[ids])})


def _words_with(made: MadeTokens, size: int) -> NDArray[np.int64]:
    """Number of words with each token; int64, by id."""

    def found(begin: int) -> NDArray[np.int64]:
        ends = np.append(made.ends[begin - 1] if begin else 0, made.ends[begin:][:_ROWS_IN_BATCH])
        rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        # Nine times as fast as `numpy.unique`.
        pairs = np.sort(rows * size + made.ids[int(ends[0]) : int(ends[-1])])
        return np.bincount(pairs[np.diff(pairs, prepend=-1) != 0] % size, minlength=size)

    total = np.zeros(size, np.int64)
    with ThreadPoolExecutor(available_processors(), "count words") as threads:
        for counts in threads.map(found, range(0, len(made.ends), _ROWS_IN_BATCH)):
            total += counts
    return total


def _batch(columns: dict[str, Any]) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
