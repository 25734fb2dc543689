"""Laying out words as symbols and finding the first pairs; knows nothing of merging.

All words lie in one array: a separator, the first word, a separator, the second word, … and a
last separator. A symbol is the id of a byte.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels.compilation import kernel

SEPARATOR = -1  # between words
INSIDE = -2  # inside a token of more than two bytes: neither its first nor its last position


@kernel
def lay_out_words(
    word_bytes: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    chosen: NDArray[np.int64],
    byte_ids: NDArray[np.int32],
    symbols: NDArray[np.int32],
    word_of: NDArray[np.int32],
    text: NDArray[np.uint8],
) -> None:
    """Write the chosen words, in the order given, into ``symbols``.

    Args:
        word_bytes, offsets: all words; word i is ``word_bytes[offsets[i]:offsets[i + 1]]``.
        chosen: indices of words.
        byte_ids: [256] id of each byte.
        symbols: [1 + Σ(length + 1)] ids and separators.
        word_of: [same] for each symbol the index of its word in ``chosen``.
        text: [same, or 0] the bytes themselves, where tokens will be compared as bytes.
    """
    position = 1
    symbols[0] = SEPARATOR
    for index in range(chosen.size):
        word = chosen[index]
        for source in range(offsets[word], offsets[word + 1]):
            symbols[position] = byte_ids[word_bytes[source]]
            word_of[position] = index
            if text.size > 0:
                text[position] = word_bytes[source]
            position += 1
        symbols[position] = SEPARATOR
        position += 1


@kernel
def count_byte_pairs(
    symbols: NDArray[np.int32],
    word_of: NDArray[np.int32],
    word_counts: NDArray[np.int64],
    counts: NDArray[np.int64],
    occurrences: NDArray[np.int64],
) -> None:
    """Add up, for each pair of byte ids at ``left * 256 + right``, its count and occurrences.

    ``counts`` weighs each occurrence by the count of its word; both arrays are [65536].
    """
    left = symbols[0]
    for position in range(1, symbols.size):
        right = symbols[position]
        if left >= 0 and right >= 0:
            pair = left * 256 + right
            counts[pair] += word_counts[word_of[position]]
            occurrences[pair] += 1
        left = right


@kernel
def collect_byte_pairs(
    symbols: NDArray[np.int32], next_place: NDArray[np.int64], arena: NDArray[np.int32]
) -> None:
    """Write the positions of each pair, ascending, into its segment of the arena.

    ``next_place`` is [65536]: where the pair's segment begins, or −1 for a pair that is not
    wanted; afterwards where it ends.
    """
    left = symbols[0]
    for position in range(1, symbols.size):
        right = symbols[position]
        if left >= 0 and right >= 0:
            place = next_place[left * 256 + right]
            if place >= 0:
                arena[place] = position - 1
                next_place[left * 256 + right] = place + 1
        left = right
