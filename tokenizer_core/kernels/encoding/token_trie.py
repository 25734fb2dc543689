"""A double-array trie of tokens: one load for each character of a token.

A node is a cell of an array. Its child by a symbol is the cell at the node's *base* XOR that
symbol, if the label of that cell is the symbol; no two nodes with children share a base, so the
label is enough. The first cells are the nodes of one symbol. (J. Aoe, "An efficient digital search
algorithm by using a double-array structure", 1989; labels as the only check and XOR are from
S. Yata's darts-clone.)

*Symbols* are read from left to right: a complete UTF-8 character of two or three bytes that occurs
in some token, else a byte. Bytes are their own numbers; characters are numbered by first occurrence
in tokens, in a table before the cells. If a token ends within a character, its last symbols are
bytes: a search that finds no child by the character continues with its first byte.

A cell is one uint64: its label (16 bits), which is a symbol or `NO_SYMBOL`; whether the node has a
child by the first byte of a character (1); the longest token that begins the node's text (20); how
many bytes the text is longer than that token, or `FAR` (3); and its base (24).
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.kernels.compiling.compilation import (
    entry_kernel,
    inlined_kernel,
    kernel,
)
from bpeline.tokenizer_core.kernels.encoding.token_tables import BYTES, NOTHING, length_of
from bpeline.tokenizer_core.kernels.memory.addresses import (
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    mark,
    store_u16,
    store_u64,
    trailing_zeros,
    unmark,
)
from bpeline.tokenizer_core.kernels.memory.types import (
    I64,
    U64,
    Flags,
    I32s,
    I64s,
    U8s,
    U16s,
    U64s,
)
from bpeline.tokenizer_core.kernels.tables.hashing import ALL, ONE, ZERO, key_in, mix, shift_for
from bpeline.tokenizer_core.kernels.tables.pair_tables import PairTable, packed_entry

# Characters by their payload bits: first those of three bytes, then those of two. By code point,
# ill-formed bytes could be taken for other characters.
_OF_TWO = 1 << 16
CHARACTERS = _OF_TWO + (1 << 11)
CELLS = 2 * CHARACTERS  # bytes before the cells: a uint16 per character
UNKNOWN = BYTES  # the symbol of characters that are in no token
NO_SYMBOL = (1 << 16) - 1
MOST_SYMBOLS = NO_SYMBOL  # further characters are read as bytes

LABEL = np.uint64(NO_SYMBOL)
PARTIAL = np.uint64(1 << 16)
FAR = 7
BEYOND_SHIFT, BEYOND_MASK = np.uint64(17), np.uint64(FAR)
TOKEN_SHIFT, TOKEN_MASK = np.uint64(20), np.uint64(NOTHING)
BASE_SHIFT = np.uint64(40)
# The base of leaves: at its cells are the nodes of one symbol, whose labels match no symbol.
NO_CHILDREN = 0
MAX_NODES = 1 << 23
BLOCK = 256  # cells: the search for a base starts this far before the newest one
WORD = 64  # cells that are tested together
FEWEST_CHILDREN = (64, 16, 4, 2)
THREE, SIX = np.uint64(3), np.uint64(6)
SIXTEEN, NUMBER_BITS = np.uint64(16), np.uint64(24)
NUMBER, LAST_SIX = np.uint64((1 << 24) - 1), np.uint64(63)
# Masks of the lower one of every two groups of 1, 2, 4, … bits.
_HALVES = tuple(np.uint64(((1 << 64) - 1) // ((1 << width) + 1)) for width in (1, 2, 4, 8, 16, 32))


@inlined_kernel
def character_at(at: I64, end: I64) -> tuple[I64, I64]:
    """The bits and length of a character of two or three bytes; length 0: none."""
    four = np.uint64(load_u32(at))
    second = (four >> np.uint64(8)) & LAST_SIX
    if four & np.uint64(0xC0_C0_F0) == np.uint64(0x80_80_E0) and at + 3 <= end:
        upper = ((four & np.uint64(0x0F)) << np.uint64(12)) | (second << SIX)
        return np.int64(upper | ((four >> np.uint64(16)) & LAST_SIX)), np.int64(3)
    if four & np.uint64(0xC0_E0) == np.uint64(0x80_C0) and at + 2 <= end:
        return np.int64(((four & np.uint64(0x1F)) << SIX) | second) + _OF_TWO, np.int64(2)
    return np.int64(0), np.int64(0)


@inlined_kernel
def symbol_at(at: I64, end: I64, trie: I64) -> tuple[U64, I64]:
    """The symbol at a place before ``end``, and its length; reads four bytes."""
    byte = load_u8(at)
    if byte < np.uint8(0x80):
        return np.uint64(byte), np.int64(1)
    bits, size = character_at(at, end)
    if size == 0:
        return np.uint64(byte), np.int64(1)
    return np.uint64(load_u16(trie + 2 * bits)), size


@inlined_kernel
def cell_at(trie: I64, place: U64) -> U64:
    return load_u64(trie + CELLS + np.int64(place << THREE))


@inlined_kernel
def longest_token(at: I64, end: I64, trie: I64, tokens: I64) -> tuple[I64, I64]:
    """Index and end of the longest token at ``at``; ``tokens`` see `token_tables`."""
    begin = at
    symbol, size = symbol_at(at, end, trie)
    if symbol == np.uint64(UNKNOWN):
        symbol, size = np.uint64(load_u8(at)), np.int64(1)
    cell = cell_at(trie, symbol)
    at += size
    while at < end:
        symbol, size = symbol_at(at, end, trie)
        child = cell_at(trie, (cell >> BASE_SHIFT) ^ symbol)
        if child & LABEL != symbol:
            if cell & PARTIAL == ZERO:
                break
            symbol, size = np.uint64(load_u8(at)), np.int64(1)
            child = cell_at(trie, (cell >> BASE_SHIFT) ^ symbol)
            if child & LABEL != symbol:
                break
        cell = child
        at += size
    token = np.int64((cell >> TOKEN_SHIFT) & TOKEN_MASK)
    beyond = np.int64((cell >> BEYOND_SHIFT) & BEYOND_MASK)
    if beyond == FAR:
        return token, begin + length_of(tokens, token)
    return token, at - beyond


@kernel
def number_characters(text: I64, size: I64, symbols: I64, places: I64s) -> I64:
    """Number the characters of tokens; returns the number of symbols.

    A character across two joined tokens may be numbered too; it does no harm. ``symbols`` are
    `CELLS` bytes, all `UNKNOWN`; ``places`` receives the offset of each character in the text.
    """
    number = np.int64(UNKNOWN + 1)
    at, end = text + BYTES, text + size
    while at < end:
        bits, length = character_at(at, end)
        if length > 0:
            entry = symbols + 2 * bits
            if load_u16(entry) == UNKNOWN and number < MOST_SYMBOLS:
                store_u16(entry, np.uint16(number))
                places[number] = at - text
                number += 1
        at += max(length, np.int64(1))
    return number


@kernel
def edge_of(edges: PairTable, node: I64, label: U64) -> I64:
    key = (np.uint64(node) << SIXTEEN) | label
    return packed_entry(edges, key, mix(key, ZERO, edges.key), NUMBER_BITS)


@kernel
def collect_nodes(
    text: I64,
    ends: I64s,
    heads: I64s,
    symbols: I64,
    known: I64,
    spelled: I64s,
    edges: PairTable,
    most: I64,
    parents: I32s,
    labels: U16s,
    tokens: I32s,
    lengths: I32s,
    partial: Flags,
    nodes_of: I32s,
) -> I64:
    """Number the nodes, parents before children; returns how many, or 0 if too many.

    The ``known`` nodes of one symbol have its number. For the arguments see `fill_trie`.
    """
    nodes = np.int64(known)
    for number in range(known):
        parents[number], labels[number], tokens[number] = -1, number, NOTHING
        lengths[number] = 1
        if number > UNKNOWN:
            lengths[number] = 2 if load_u8(text + spelled[number]) < np.uint8(0xE0) else 3
    for byte in range(BYTES):
        tokens[byte] = nodes_of[byte] = byte
    for token in range(BYTES, len(ends)):
        head = heads[token - BYTES]
        node = np.int64(nodes_of[head])
        at, end = text + ends[token - 1], text + ends[token]
        length = ends[head] - (ends[head - 1] if head > 0 else 0)
        if load_u8(at + length) & np.uint8(0xC0) == np.uint8(0x80):
            # May be within a character; the head has its first bytes as separate symbols.
            length, node = np.int64(0), np.int64(-1)
        at += length
        while at < end:
            symbol, size = symbol_at(at, end, symbols)
            if symbol == np.uint64(UNKNOWN):
                symbol, size = np.uint64(load_u8(at)), np.int64(1)
            at += size
            length += size
            if node < 0:
                node = np.int64(symbol)
                continue
            entry = edge_of(edges, node, symbol)
            edge = load_u64(entry)
            if edge == ZERO:
                if nodes == most:
                    return np.int64(0)
                parents[nodes], labels[nodes], tokens[nodes] = node, symbol, NOTHING
                lengths[nodes] = length
                partial[node] |= np.uint64(0xC0) <= symbol < np.uint64(BYTES)
                key = (np.uint64(node) << SIXTEEN) | symbol
                store_u64(entry, (key << NUMBER_BITS) | np.uint64(nodes))
                node = nodes
                nodes += 1
            else:
                node = np.int64(edge & NUMBER)
        tokens[node] = token
        nodes_of[token] = node
    return nodes


@kernel
def find_shorter(
    text: I64,
    nodes: I64,
    known: I64,
    edges: PairTable,
    places: I64s,
    parents: I32s,
    labels: U16s,
    tokens: I32s,
    before: I32s,
    shorter: I32s,
) -> None:
    """Find the longest shorter token that each node and each token begins with.

    That token ends within the node's last character, or is the one that the parent begins with.
    """
    for node in range(nodes):
        if node <= UNKNOWN:
            before[node] = NOTHING
            if node < BYTES:
                shorter[node] = NOTHING
            continue
        label, within = np.int64(labels[node]), np.int64(parents[node])
        longest: I64 = np.int64(NOTHING)
        if node >= known:
            longest = np.int64(before[within] if tokens[within] == NOTHING else tokens[within])
        if label > UNKNOWN:
            place = text + places[label]
            first = np.int64(load_u8(place))
            for i in range(1 if first < 0xE0 else 2):
                byte = np.uint64(load_u8(place + i))
                if node < known and i == 0:
                    within = first
                else:
                    edge = load_u64(edge_of(edges, within, byte))
                    if edge == ZERO:
                        break
                    within = np.int64(edge & NUMBER)
                if tokens[within] != NOTHING:
                    longest = np.int64(tokens[within])
        before[node] = longest
        if tokens[node] != NOTHING:
            shorter[tokens[node]] = longest


@kernel
def sort_children(nodes: I64, known: I64, parents: I32s, begins: I32s, children: I32s) -> None:
    """Group the children of each node: they start at ``begins[node]``."""
    for node in range(known, nodes):
        begins[parents[node]] += 1
    for node in range(nodes):
        begins[node + 1] += begins[node]
    for node in range(nodes - 1, known - 1, -1):
        begins[parents[node]] -= 1
        children[begins[parents[node]]] = node


@kernel
def xored(bits: U64, number: U64) -> U64:
    """Permute 64 bits: bit i of the result is bit i XOR ``number`` (below 64)."""
    for stage in range(len(_HALVES)):
        shift = ONE << np.uint64(stage)
        swapped = ((bits >> shift) & _HALVES[stage]) | ((bits & _HALVES[stage]) << shift)
        bits = swapped if number & shift else bits
    return bits


@kernel
def bases_in(
    word: I64, free: U64s, taken: U64s, labels: U16s, children: I32s, begin: I64, end: I64
) -> U64:
    """Mask of 64 bases that are not taken and whose cells for some children are free."""
    candidates = ~taken[word]
    for at in range(begin, end):
        label = np.uint64(labels[children[at]])
        candidates &= xored(free[word ^ np.int64(label >> SIX)], label & LAST_SIX)
        if candidates == ZERO:
            break
    return candidates


@kernel
def place_children(
    base: I64,
    free: U64s,
    taken: U64s,
    labels: U16s,
    children: I32s,
    begin: I64,
    end: I64,
    places: I32s,
) -> I64:
    """Assign a base and the cells of some children; returns the highest of these."""
    highest = np.int64(0)
    mark(taken, base)
    for at in range(begin, end):
        place = base ^ np.int64(labels[children[at]])
        places[children[at]] = place
        unmark(free, place)
        highest = max(highest, place)
    return highest


@kernel
def place_nodes(
    nodes: I64,
    known: I64,
    labels: U16s,
    begins: I32s,
    children: I32s,
    places: I32s,
    bases: I32s,
    free: U64s,
    taken: U64s,
    swept: I64s,
) -> I64:
    """Find a base and a cell for each node; returns the highest cell, 0 without room.

    Nodes with many children come first; those with one child, the majority, fill the gaps.
    """
    for node in range(known):
        places[node] = node
        swept[node] = 0
    for unused in range(known // WORD, len(free)):
        free[unused] = ALL
    free[known // WORD] &= ALL << (np.uint64(known) & LAST_SIX)
    mark(taken, np.int64(NO_CHILDREN))
    highest, newest, more = np.int64(known), np.int64(0), np.int64(NO_SYMBOL + 1)
    for least in FEWEST_CHILDREN:
        for node in range(nodes):
            begin, end = np.int64(begins[node]), np.int64(begins[node + 1])
            if not least <= end - begin < more:
                continue
            word = max(newest - BLOCK // WORD, np.int64(0))
            candidates = ZERO
            while candidates == ZERO:
                if word == len(free):
                    return np.int64(0)
                candidates = bases_in(word, free, taken, labels, children, begin, end)
                word += candidates == ZERO
            newest = max(newest, word)
            base = np.int64(WORD * word + trailing_zeros(candidates))
            bases[node] = base
            last = place_children(base, free, taken, labels, children, begin, end, places)
            highest = max(highest, last)
        more = np.int64(least)
    for node in range(nodes):
        begin, end = np.int64(begins[node]), np.int64(begins[node + 1])
        if end - begin != 1:
            continue
        # Iterate over cells instead of bases, to fill the first cells first. Cells that are full or
        # unusable for a symbol stay so, hence `swept`.
        symbol = np.int64(labels[children[begin]])
        cell_word, candidates = np.int64(swept[symbol]), ZERO
        while candidates == ZERO:
            if cell_word == len(free):
                return np.int64(0)
            if free[cell_word] != ZERO:
                word = cell_word ^ (symbol // WORD)
                candidates = bases_in(word, free, taken, labels, children, begin, end)
            cell_word += candidates == ZERO
        swept[symbol] = cell_word
        base = np.int64(WORD * (cell_word ^ (symbol // WORD)) + trailing_zeros(candidates))
        bases[node] = base
        last = place_children(base, free, taken, labels, children, begin, end, places)
        highest = max(highest, last)
    return highest


@entry_kernel
def fill_trie(
    text: U8s,
    ends: I64s,
    heads: I64s,
    table: U64s,
    hash_key: U64s,
    parents: I32s,
    labels: U16s,
    tokens: I32s,
    lengths: I32s,
    partial: Flags,
    begins: I32s,
    children: I32s,
    places: I32s,
    bases: I32s,
    free: U64s,
    taken: U64s,
    spelled: I64s,
    nodes_of: I32s,
    shorter: I32s,
    trie: U64s,
) -> I64:
    """Build the trie; returns how many cells a search can reach, 0 without room.

    Args:
        text: uint8, all tokens joined in order of index, followed by four readable bytes.
        ends: int64 ``[n]``: the end of each.
        heads: int64 ``[n - 256]``: for each token of two bytes or more an earlier token or byte
            that it begins with; longer is faster.
        table: uint64, zero, a power of two: slots of nodes, filled up to three quarters.
        parents, tokens, lengths, children, places, bases: int32, labels: uint16, partial: False:
            scratch of one item per node.
        begins: int32, zero, one item more.
        free, taken: uint64, zero, a bit per cell: free cells, and bases in use. The number of cells
            is a multiple of 2¹⁶.
        spelled, nodes_of: int64 ``[MOST_SYMBOLS]`` and int32 ``[n]``: scratch.
        shorter: int32 ``[n]``: receives the longest shorter token that each begins with, or
            `NOTHING`.
        trie: uint64: receives the trie. `CELLS` bytes, each uint16 `UNKNOWN`, then cells, each
            `NO_SYMBOL`.
    """
    edges = PairTable(table.ctypes.data, shift_for(table.size), key_in(hash_key))
    most = min(np.int64(len(parents)), 3 * np.int64(len(table)) >> 2)
    content, symbols = np.int64(text.ctypes.data), np.int64(trie.ctypes.data)
    n_symbols = number_characters(content, ends[-1], symbols, spelled)
    if n_symbols > most:
        return np.int64(0)
    nodes = collect_nodes(
        content,
        ends,
        heads,
        symbols,
        n_symbols,
        spelled,
        edges,
        most,
        parents,
        labels,
        tokens,
        lengths,
        partial,
        nodes_of,
    )
    if nodes == 0:
        return np.int64(0)
    before = places  # the same memory, used before places are known
    find_shorter(
        content, nodes, n_symbols, edges, spelled, parents, labels, tokens, before, shorter
    )
    for node in range(nodes):
        if tokens[node] == NOTHING:
            tokens[node] = before[node]
    sort_children(nodes, n_symbols, parents, begins, children)
    swept = spelled  # the same memory, no longer used
    highest = place_nodes(
        nodes, n_symbols, labels, begins, children, places, bases, free, taken, swept
    )
    if highest == 0:
        return np.int64(0)
    for node in range(nodes):
        token = np.int64(tokens[node])
        if token == NOTHING:  # `UNKNOWN`
            continue
        length = ends[token] - (ends[token - 1] if token > 0 else 0)
        has_children = begins[node] < begins[node + 1]
        base = np.int64(bases[node] if has_children else NO_CHILDREN)
        store_u64(
            symbols + CELLS + 8 * np.int64(places[node]),
            np.uint64(labels[node] if node >= n_symbols else NO_SYMBOL)
            | (PARTIAL if partial[node] else ZERO)
            | (np.uint64(min(np.int64(lengths[node]) - length, np.int64(FAR))) << BEYOND_SHIFT)
            | (np.uint64(token) << TOKEN_SHIFT)
            | (np.uint64(base) << BASE_SHIFT),
        )
    block = np.int64(1)
    while block < n_symbols:
        block *= 2
    return (highest // block + 1) * block
