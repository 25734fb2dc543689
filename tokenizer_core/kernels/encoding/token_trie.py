"""A double-array trie of tokens: one load for each byte that a token goes on; knows no merges.

A node is a cell of an array. Its child by a byte is the cell at the node's *base* XOR that byte, if
that cell is in use and says that it is reached by this byte; no two nodes with children have the
same base, so nothing else can have led there. The cells 0 … 255 are the nodes of one byte.
(J. Aoe, "An efficient digital search algorithm by using a double-array structure", 1989; that a
cell needs only its byte to be known, and XOR, which keeps all children within 256 cells, are of
S. Yata's darts-clone.)

A cell, one uint64: the byte that leads to it (8 bits), whether it is in use (1), the index of the
token that ends there or `NOTHING` (20), and its base (32 bits).
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import entry_kernel, kernel
from bpeline.tokenizer_core.kernels.encoding.token_tables import BYTES, NOTHING
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u64,
    store_u64,
    trailing_zeros,
)
from bpeline.tokenizer_core.kernels.memory.bitmaps import mark, unmark
from bpeline.tokenizer_core.kernels.memory.types import I64, U64, I32s, I64s, U8s, U64s
from bpeline.tokenizer_core.kernels.tables.hashing import ALL, ONE, ZERO, key_in, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable, packed_entry

USED = np.uint64(1 << 8)
BYTE_AND_USED = np.uint64((1 << 9) - 1)
TOKEN_SHIFT, TOKEN_MASK = np.uint64(9), np.uint64(NOTHING)
BASE_SHIFT = np.uint64(32)
NO_CHILDREN = 256  # the base of leaves: the cells 256 … 511 are never in use
FIRST_FREE = 512
MAX_NODES = 1 << 24
BLOCK = 256  # cells, where all children of a node lie
WORD = 64  # cells that are looked at together
FEWEST_CHILDREN = (64, 16, 4, 2, 1)
EIGHT, HALF = np.uint64(8), np.uint64(32)
LOWER_HALF, LAST_SIX = np.uint64(0xFFFF_FFFF), np.uint64(63)
# Of each two stretches of 1, 2, 4, … bits the lower one.
_HALVES = tuple(np.uint64(((1 << 64) - 1) // ((1 << width) + 1)) for width in (1, 2, 4, 8, 16, 32))


@kernel
def longest_token(at: I64, end: I64, trie: I64) -> tuple[I64, I64]:
    """The longest token at the beginning of bytes, up to ``end``: its index, and where it ends."""
    best = np.int64(load_u8(at))
    cell = load_u64(trie + 8 * best)
    at += 1
    behind = at
    while at < end:
        byte = np.uint64(load_u8(at))
        cell = load_u64(trie + np.int64(((cell >> BASE_SHIFT) ^ byte) << np.uint64(3)))
        if cell & BYTE_AND_USED != byte | USED:
            break
        at += 1
        token = np.int64((cell >> TOKEN_SHIFT) & TOKEN_MASK)
        best = best if token == NOTHING else token
        behind = behind if token == NOTHING else at
    return best, behind


@kernel
def collect_nodes(
    text: U8s,
    ends: I64s,
    heads: I64s,
    edges: PairTable,
    most: I64,
    parents: I32s,
    labels: U8s,
    tokens: I32s,
    nodes_of: I32s,
) -> I64:
    """Number the nodes, parents before children; returns how many, or 0 where there are too many.

    Arguments are those of `fill_trie`.
    """
    nodes = np.int64(BYTES)
    for byte in range(BYTES):
        tokens[byte] = nodes_of[byte] = byte
    for token in range(BYTES, len(ends)):
        head = heads[token - BYTES]
        node = np.int64(nodes_of[head])
        length = ends[head] - (ends[head - 1] if head > 0 else 0)
        for place in range(ends[token - 1] + length, ends[token]):
            key = (np.uint64(node) << EIGHT) | np.uint64(text[place])
            entry = packed_entry(edges, key, mix(key, ZERO, edges.key), HALF)
            found = load_u64(entry)
            if found == ZERO:
                if nodes == most:
                    return np.int64(0)
                parents[nodes], labels[nodes], tokens[nodes] = node, text[place], NOTHING
                store_u64(entry, (key << HALF) | np.uint64(nodes))
                node = nodes
                nodes += 1
            else:
                node = np.int64(found & LOWER_HALF)
        tokens[node] = token
        nodes_of[token] = node
    return nodes


@kernel
def find_shorter(nodes: I64, parents: I32s, tokens: I32s, before: I32s, shorter: I32s) -> None:
    """For each token the longest one that it begins with; ``before``: the same for each node."""
    for byte in range(BYTES):
        before[byte] = shorter[byte] = NOTHING
    for node in range(BYTES, nodes):
        parent = parents[node]
        before[node] = before[parent] if tokens[parent] == NOTHING else tokens[parent]
        if tokens[node] != NOTHING:
            shorter[tokens[node]] = before[node]


@kernel
def sort_children(nodes: I64, parents: I32s, begins: I32s, children: I32s) -> None:
    """Put the children of each node side by side: from ``begins[node]`` to that of the next."""
    for node in range(BYTES, nodes):
        begins[parents[node]] += 1
    for node in range(nodes):
        begins[node + 1] += begins[node]
    for node in range(nodes - 1, BYTES - 1, -1):
        begins[parents[node]] -= 1
        children[begins[parents[node]]] = node


@kernel
def xored(bits: U64, number: U64) -> U64:
    """Bit ``i`` of the result is bit ``i`` XOR ``number`` (below 64) of a word."""
    for stage in range(len(_HALVES)):
        shift = ONE << np.uint64(stage)
        swapped = ((bits >> shift) & _HALVES[stage]) | ((bits & _HALVES[stage]) << shift)
        bits = swapped if number & shift else bits
    return bits


@kernel
def bases_in(
    word: I64, free: U64s, taken: U64s, labels: U8s, children: I32s, begin: I64, end: I64
) -> U64:
    """Which of 64 bases no node has and leave room for some children: a bit each."""
    found = ~taken[word]
    for at in range(begin, end):
        label = np.uint64(labels[children[at]])
        found &= xored(free[word ^ np.int64(label >> np.uint64(6))], label & LAST_SIX)
        if found == ZERO:
            break
    return found


@entry_kernel
def fill_trie(
    text: U8s,
    ends: I64s,
    heads: I64s,
    table: U64s,
    hash_key: U64s,
    parents: I32s,
    labels: U8s,
    tokens: I32s,
    begins: I32s,
    children: I32s,
    places: I32s,
    bases: I32s,
    free: U64s,
    taken: U64s,
    swept: I64s,
    nodes_of: I32s,
    shorter: I32s,
    cells: U64s,
) -> I64:
    """Put tokens into a trie.

    Args:
        text: uint8, all tokens joined in order of index. ends: int64 ``[n]``: where each ends.
        heads: int64 ``[n - 256]``: of each token of two bytes or more an earlier one, or a byte,
            that it begins with; the longer, the less is to be done.
        table: uint64, zero, a power of two: a slot for each node, three quarters may be filled.
        hash_key: see `HASH_KEY`.
        parents, tokens, children, places, bases: int32, labels: uint8: memory for so many nodes.
        begins: int32, zero, one more. free, taken: uint64, zero, a bit for each cell: which are
            not in use, and which are the base of a node. swept: int64 ``[256]``: memory.
        nodes_of: int32 ``[n]``: memory.
        shorter: int32 ``[n]``: receives the longest token that each begins with, itself left out,
            or `NOTHING`.
        cells: uint64, zero: receives the trie.

    Returns:
        How many cells a search can reach, at most; 0 where nodes or cells are too few.
    """
    edges = PairTable(table.ctypes.data, shift_for(table.size), key_in(hash_key))
    most = min(np.int64(len(parents)), 3 * np.int64(len(table)) >> 2)
    nodes = collect_nodes(text, ends, heads, edges, most, parents, labels, tokens, nodes_of)
    if nodes == 0:
        return np.int64(0)
    find_shorter(nodes, parents, tokens, bases, shorter)
    sort_children(nodes, parents, begins, children)
    for byte in range(BYTES):
        places[byte] = byte
        swept[byte] = FIRST_FREE // WORD
    # Nodes of many children need room; those of one child, most of them, fill what is left over.
    size, more = np.int64(FIRST_FREE), np.int64(BLOCK + 1)
    for least in FEWEST_CHILDREN:
        for node in range(nodes):
            begin, end = np.int64(begins[node]), np.int64(begins[node + 1])
            if not least <= end - begin < more:
                continue
            first: I64 = np.int64(labels[children[begin]])
            # What was full, or of no use to this byte, stays so; other nodes fill the newest block.
            newest = max(size - BLOCK, np.int64(FIRST_FREE)) // WORD
            word = np.int64(swept[first] if least == 1 else newest)
            found = ZERO
            while found == ZERO:
                if word == size // WORD:
                    size += BLOCK
                    if size > len(cells):
                        return np.int64(0)
                    for opened in range(word, size // WORD):
                        free[opened] = ALL
                found = bases_in(word, free, taken, labels, children, begin, end)
                word += found == ZERO
            if least == 1:
                swept[first] = word
            base = np.int64(WORD * word + trailing_zeros(found))
            mark(taken, base)
            bases[node] = base
            for at in range(begin, end):
                places[children[at]] = base ^ np.int64(labels[children[at]])
                unmark(free, base ^ np.int64(labels[children[at]]))
        more = np.int64(least)
    for node in range(nodes):
        has_children = begins[node] < begins[node + 1]
        base = np.int64(bases[node] if has_children else NO_CHILDREN)
        label = node if node < BYTES else labels[node]
        cells[places[node]] = (
            np.uint64(label)
            | USED
            | (np.uint64(tokens[node]) << TOKEN_SHIFT)
            | (np.uint64(base) << BASE_SHIFT)
        )
    return size
