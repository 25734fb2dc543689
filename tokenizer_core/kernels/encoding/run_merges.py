"""One word of few runs in, its token ids out: merges applied to whole runs of one symbol.

Rulers, indentation and empty table cells are words of hundreds of equal bytes. Their tokens are
many and long (a vocabulary of documents has one for most numbers of spaces), so that a search for
tokens that fit tries very many; but merging halves a run with each rank. Knows no cache.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import kernel
from bpeline.tokenizer_core.kernels.encoding.token_tables import (
    ID_MASK,
    NOTHING,
    TOKEN,
    token_of_pair,
)
from bpeline.tokenizer_core.kernels.encoding.workspace_record import key_of
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u64,
    store_u32,
    store_u64,
)
from bpeline.tokenizer_core.kernels.memory.records import Record
from bpeline.tokenizer_core.kernels.memory.types import I64
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable

LEAST_BYTES = 16  # of a word that is asked for its runs
BYTES_OF_A_RUN = 8  # on average, at least
MOST_RUNS = 32  # at any time; a word of more is left to the search
REPEATS = 8  # place in a run, in bytes; before it the index of its token
RUN = 16  # bytes
RUN_SCRATCH = 2 * (MOST_RUNS + 2) * RUN  # bytes


@kernel
def add_run(runs: I64, number: I64, token: I64, repeats: I64) -> I64:
    """Add a run of equal tokens, if there are any, to those before; returns how many runs."""
    if repeats == 0:
        return number
    last = runs + RUN * (number - 1)
    if number > 0 and np.int64(load_u64(last)) == token:
        store_u64(last + REPEATS, load_u64(last + REPEATS) + np.uint64(repeats))
        return number
    store_u64(last + RUN, np.uint64(token))
    store_u64(last + RUN + REPEATS, np.uint64(repeats))
    return number + 1


@kernel
def runs_of_word(word: I64, length: I64, most: I64, runs: I64) -> I64:
    """Write the runs of equal bytes of a word; returns how many, or 0 where they are more."""
    number, begin = np.int64(0), np.int64(0)
    for at in range(1, length + 1):
        byte = load_u8(word + begin)
        if at < length and load_u8(word + at) == byte:
            continue
        if number == most:
            return np.int64(0)
        number = add_run(runs, number, np.int64(byte), at - begin)
        begin = np.int64(at)
    return number


@kernel
def merge_pair_in_runs(
    runs: I64, number: I64, left: I64, right: I64, merged: I64, result: I64
) -> I64:
    """Apply one merge at all its places, from left to right, to other runs; returns how many.

    0: they are more than `MOST_RUNS`.
    """
    written, taken = np.int64(0), np.int64(0)  # taken: from the begin of the next run
    for i in range(number):
        run = runs + RUN * i
        token = np.int64(load_u64(run))
        repeats = np.int64(load_u64(run + REPEATS)) - taken
        taken = np.int64(0)
        if token == left and left == right:
            written = add_run(result, written, merged, repeats >> 1)
            written = add_run(result, written, token, repeats & 1)
        elif (
            token == left
            and repeats > 0
            and i + 1 < number
            and np.int64(load_u64(run + RUN)) == right
        ):
            written = add_run(result, written, token, repeats - 1)
            written = add_run(result, written, merged, np.int64(1))
            taken = np.int64(1)
        else:
            written = add_run(result, written, token, repeats)
        if written > MOST_RUNS:
            return np.int64(0)
    return written


@kernel
def encode_runs(word: I64, length: I64, workspace: Record, target: I64) -> I64:
    """Write the token ids of a word of few runs as uint32.

    Merges are proper (see `token_tables`): a merge makes no neighbours of lower rank, so the one of
    lowest rank is done with when it was applied at all its places from left to right.

    Args:
        word: address of the bytes. length: at least 1.
        workspace: see `workspace_record`; its scratch has `RUN_SCRATCH` bytes.
        target: address with room for ``length`` ids.

    Returns:
        How many ids there are, or 0 where runs are too many. Twin:
        `tokenizer_core.reference.merge_word`.
    """
    runs = workspace.scratch
    other = runs + (RUN_SCRATCH >> 1)
    number = runs_of_word(word, length, min(MOST_RUNS, length // BYTES_OF_A_RUN), runs)
    pairs = PairTable(workspace.pairs, workspace.pair_shift, key_of(workspace))
    while number > 0:
        best = left = right = np.int64(NOTHING)
        for i in range(number):
            run = runs + RUN * i
            token = np.int64(load_u64(run))
            if load_u64(run + REPEATS) > 1:
                made = token_of_pair(pairs, token, token)
                if made < best:
                    best, left, right = made, token, token
            if i + 1 < number:
                behind = np.int64(load_u64(run + RUN))
                made = token_of_pair(pairs, token, behind)
                if made < best:
                    best, left, right = made, token, behind
        if best == NOTHING:
            break
        number = merge_pair_in_runs(runs, number, left, right, best, other)
        runs, other = other, runs
    count = np.int64(0)
    for i in range(number):
        run = runs + RUN * i
        id_ = np.uint32(load_u64(workspace.tokens + TOKEN * np.int64(load_u64(run))) & ID_MASK)
        for _ in range(np.int64(load_u64(run + REPEATS))):
            store_u32(target + 4 * count, id_)
            count += 1
    return count
