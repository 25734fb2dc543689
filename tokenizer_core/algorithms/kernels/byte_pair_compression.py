"""Kernels of byte pair compression: compress and expand one block of bytes.

The positions of each pair and the remaining symbols are doubly linked lists, so the cost of a
replacement does not depend on the block size. The best pair is found by an upper bound per left
byte, which is recomputed only when it could matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.memory.types import I64, I32Rows, I32s, U8s

PAIRS = 1 << 16
NOBODY = np.int32(-1)


class Positions(NamedTuple):
    heads: I32s
    links: I32s
    counts: I32s
    bounds: I32s


@kernel
def link(pair: I64, at: I64, positions: Positions) -> None:
    heads, links, counts, bounds = positions
    first = heads[pair]
    links[0, at] = NOBODY
    links[1, at] = first
    if first >= 0:
        links[0, first] = at
    heads[pair] = at
    counts[pair] += 1
    bounds[pair >> 8] = max(bounds[pair >> 8], counts[pair])


@kernel
def unlink(pair: I64, at: I64, positions: Positions) -> None:
    heads, links, counts, _ = positions
    before, behind = links[0, at], links[1, at]
    if before >= 0:
        links[1, before] = behind
    else:
        heads[pair] = behind
    if behind >= 0:
        links[0, behind] = before
    counts[pair] -= 1


@kernel
def best_pair(counts: I32s, bounds: I32s) -> I64:
    """The most frequent pair; of equals the smallest."""
    best = np.int64(0)
    highest = np.int32(0)
    for left in range(256):
        if bounds[left] > highest:
            exact = np.int32(0)
            first = left << 8
            for right in range(256):
                exact = max(exact, counts[first + right])
            bounds[left] = exact
            if exact > highest:
                highest = exact
                best = np.int64(first)
                while counts[best] != exact:
                    best += 1
    return best


@kernel
def replace_pair(
    symbols: U8s, size: I64, pair: I64, code: I64, chain: I32Rows, positions: Positions
) -> None:
    """Replace every occurrence of a pair, from left to right, without overlap.

    Only a pair of equal bytes can overlap itself: its runs are replaced from the start.
    """
    left, right = pair >> 8, pair & 255
    while positions.heads[pair] >= 0:
        at = np.int64(positions.heads[pair])
        if left == right:
            while chain[0, at] >= 0 and symbols[chain[0, at]] == left:
                at = np.int64(chain[0, at])
        while at < size and symbols[at] == left:
            second = np.int64(chain[1, at])
            if second >= size or symbols[second] != right:
                break
            third = np.int64(chain[1, second])
            before = np.int64(chain[0, at])
            unlink(pair, at, positions)
            if third < size:
                unlink((right << 8) | np.int64(symbols[third]), second, positions)
            if before >= 0:
                unlink((np.int64(symbols[before]) << 8) | left, before, positions)
                link((np.int64(symbols[before]) << 8) | code, before, positions)
            symbols[at] = code
            chain[1, at] = third
            if third < size:
                chain[0, third] = at
                link((code << 8) | np.int64(symbols[third]), at, positions)
            at = third


@entry_kernel
def compress_block(
    symbols: U8s,
    size: I64,
    threshold: I64,
    chain: I32Rows,
    heads: I32s,
    links: I32Rows,
    counts: I32s,
    bounds: I32s,
    pairs: I32s,
) -> I64:
    """Replace pairs until none occurs ``threshold`` times or no byte is unused.

    Args:
        symbols: uint8, the block; receives the compressed block.
        threshold: at least 2; ``aaa`` counts (a, a) twice.
        chain, links: int32 ``[2, size]``; heads, counts: int32 ``[PAIRS]``; bounds: int32
            ``[256]``; all scratch.
        pairs: int32 ``[256]``; receives left · 256 + right for each byte that stands for a pair,
            −1 for others. Unused bytes are assigned from 255 down.
    """
    positions = Positions(heads, links, counts, bounds)
    heads[:] = NOBODY
    counts[:] = np.int32(0)
    bounds[:] = np.int32(0)
    pairs[:] = NOBODY
    for i in range(size):
        pairs[symbols[i]] = 0  # marks the byte as used
    for at in range(size - 1, -1, -1):
        chain[0, at] = at - 1
        chain[1, at] = at + 1
        if at + 1 < size:
            pair = (np.int64(symbols[at]) << 8) | np.int64(symbols[at + 1])
            link(pair, at, positions)
    for code in range(255, -1, -1):
        if pairs[code] == 0:
            pairs[code] = NOBODY
            continue
        pair = best_pair(counts, bounds)
        if counts[pair] < threshold:
            for other in range(code):
                pairs[other] = NOBODY
            break
        pairs[code] = pair
        replace_pair(symbols, size, pair, code, chain, positions)
    written = np.int64(0)
    place = np.int64(0)
    while place < size:
        symbols[written] = symbols[place]
        written += 1
        place = np.int64(chain[1, place])
    return written


@entry_kernel
def expand_block(
    packed: U8s,
    begin: I64,
    end: I64,
    pairs: I32s,
    target: U8s,
    written: I64,
    limit: I64,
    stack: U8s,
) -> I64:
    """Undo `compress_block` for ``packed[begin:end]``.

    Writes to ``target`` from ``written`` on, up to ``limit``; ``stack`` is uint8 ``[257]``. Returns
    the end of the output, or −1 for cyclic pairs or too many bytes.
    """
    for at in range(begin, end):
        depth = 1
        stack[0] = packed[at]
        while depth > 0:
            depth -= 1
            code = stack[depth]
            pair = pairs[code]
            if pair < 0:
                if written >= limit:
                    return np.int64(-1)
                target[written] = code
                written += 1
                continue
            if depth + 2 > len(stack):
                return np.int64(-1)
            stack[depth] = np.uint8(pair & 255)
            stack[depth + 1] = np.uint8(pair >> 8)
            depth += 2
    return np.int64(written)
