"""Charsmaps of the normalizer Precompiled made from a few rules, as SentencePiece lays them out."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import numpy as np

_LEAF = 1 << 31
_HAS_LEAF = 1 << 8
_FAR = 1 << 9  # the offset is counted in steps of 256


def charsmap(rules: Mapping[bytes | str, str]) -> str:
    """Base64 of a trie size, a double-array trie of the keys, and NUL-ended replacements.

    The trie has a block of 256 units for each node, so that no two nodes ever meet.
    """
    tree: dict[int, dict] = {}
    replacements = bytearray()
    for key, value in rules.items():
        node = tree
        for byte in key.encode() if isinstance(key, str) else key:
            node = node.setdefault(byte, {})
        node[0] = len(replacements)
        replacements += value.encode() + b"\0"
    blocks: list[np.ndarray] = []

    def lay(node: dict, at: int, label: int) -> None:
        """Lay the children of ``node`` into a new block; its own unit is at position ``at``."""
        blocks.append(np.zeros(256, np.uint32))
        # The unit's position is in the offset by exclusive or, so the low bits must vanish.
        base = (len(blocks) - 1) << 8 | at & 0xFF
        offset = at ^ base
        assert offset & 0xFF == 0
        blocks[at >> 8][at & 0xFF] = (
            (offset >> 8) << 10 | _FAR | label | (_HAS_LEAF if 0 in node else 0)
        )
        for byte, child in node.items():
            place = base ^ byte
            if byte == 0:
                blocks[place >> 8][place & 0xFF] = _LEAF | child
            else:
                lay(child, place, byte)

    blocks.append(np.zeros(256, np.uint32))
    lay(tree, 0, 0)
    units = np.concatenate(blocks).astype("<u4").tobytes()
    return base64.b64encode(len(units).to_bytes(4, "little") + units + replacements).decode()
