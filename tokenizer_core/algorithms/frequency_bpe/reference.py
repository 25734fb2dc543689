"""How frequency BPE encodes one word, in plain Python: documentation and oracle."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from bpeline.tokenizer_core.reference_characters import symbols_of


def merge_by_frequency(word: str, frequencies: Mapping[str, int], end_of_word: str) -> list[str]:
    """Frequency BPE: join the leftmost neighbours whose joined text is the most frequent one."""
    symbols = symbols_of(word, end_of_word)
    while True:
        found = [frequencies.get(left + right, 0) for left, right in pairwise(symbols)]
        if not any(found):
            return symbols
        place = found.index(max(found))
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
