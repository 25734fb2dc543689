"""Byte pair compression of one block in plain Python (Gage 1994): documentation and oracle.

>>> compress_block(b"ABABCABCD", threshold=2)
(b'\\xff\\xfe\\xfeD', {255: b'AB', 254: b'\\xffC'})
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise


def compress_block(block: bytes, threshold: int) -> tuple[bytes, dict[int, bytes]]:
    """What is left of a block, and the pair that each newly used byte stands for."""
    unused = [byte for byte in range(255, -1, -1) if byte not in block]
    pairs: dict[int, bytes] = {}
    for code in unused:
        counts = Counter(pairwise(block))
        if not counts or max(counts.values()) < threshold:
            break
        most = max(counts.values())
        best = bytes(min(pair for pair, count in counts.items() if count == most))
        pairs[code] = best
        block = block.replace(best, bytes([code]))
    return block, pairs


def expand_block(block: bytes, pairs: dict[int, bytes]) -> bytes:
    """The bytes that were compressed."""
    for code, pair in reversed(pairs.items()):
        block = block.replace(bytes([code]), pair)
    return block
