"""Byte pair compression of any bytes (Gage 1994, "A New Algorithm for Data Compression").

In each block the most frequent pair of bytes is replaced by a byte that does not occur, again and
again, until no pair occurs often enough or every byte is in use. Ties go to the smallest pair, by
value of its bytes (in Gage's program the slots of a hash table decide).

A compressed file, all numbers little-endian:

    "BPEC", version 1 (u8), bytes of a block (u32), bytes of the whole (u64)
    for each block: number of pairs (u8); unless 0, a bitmap of the bytes that stand for pairs (32)
        and the pairs in ascending order of these (2 each); bytes of the rest (u32), and these
    SHA-256 of the whole, as it was (32)
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.byte_pair_compression.kernels.compress_block import PAIRS
from bpeline.tokenizer_core.algorithms.byte_pair_compression.kernels.compress_block import (
    compress_block as compress_by_kernel,
)
from bpeline.tokenizer_core.algorithms.byte_pair_compression.kernels.compress_block import (
    expand_block as expand_by_kernel,
)
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

BLOCK_BYTES = 5000
THRESHOLD = 3  # a pair's place in the table takes as much as two occurrences save
MAX_BLOCK_BYTES = 1 << 24

_MAGIC, _VERSION = b"BPEC", 1
_HEAD = struct.Struct("<4sBIQ")
_SIZE = struct.Struct("<I")
_DIGEST_BYTES = 32
_BITMAP_BYTES = 32


@dataclass(frozen=True, slots=True)
class CompressedBlock:
    """A block and its pairs.

    Attributes:
        symbols: what is left of the block.
        pairs: byte → the two bytes it stands for.
    """

    symbols: bytes
    pairs: dict[int, bytes]


class _Compressor:
    """The scratch memory of `compress_block`, made once."""

    def __init__(self, block_bytes: int, threshold: int) -> None:
        self._threshold = threshold
        chain, links = np.empty((2, 2, block_bytes), np.int32)
        heads, counts = np.empty((2, PAIRS), np.int32)
        self._scratch = chain, heads, links, counts, np.empty(256, np.int32)
        self._pairs = np.empty(256, np.int32)

    def compress(self, block: bytes | memoryview) -> CompressedBlock:
        symbols = np.frombuffer(bytearray(block), np.uint8)
        left = compress_by_kernel(
            symbols, len(symbols), self._threshold, *self._scratch, self._pairs
        )
        codes = np.flatnonzero(self._pairs >= 0).tolist()
        pairs = {code: int(self._pairs[code]).to_bytes(2, "big") for code in codes}
        return CompressedBlock(symbols[:left].tobytes(), pairs)


def compress_block(block: bytes, threshold: int = THRESHOLD) -> CompressedBlock:
    """Compress bytes as one block.

    Raises:
        InvalidOption: a threshold below 2, or a block above `MAX_BLOCK_BYTES`.
    """
    _check(max(len(block), 1), threshold)
    return _Compressor(max(len(block), 1), threshold).compress(block)


@checked
def compress(content: bytes, block_bytes: int = BLOCK_BYTES, threshold: int = THRESHOLD) -> bytes:
    """Compress bytes; `expand` gives them back.

    Args:
        content: any bytes.
        block_bytes: bytes that share a table of pairs.
        threshold: how often a pair must occur to be replaced.

    Raises:
        InvalidOption: a block of less than 1 byte or of too many, a threshold below 2.
    """
    _check(block_bytes, threshold)
    compressor = _Compressor(min(block_bytes, max(len(content), 1)), threshold)
    parts = [_HEAD.pack(_MAGIC, _VERSION, block_bytes, len(content))]
    view = memoryview(content)
    for begin in range(0, len(content), block_bytes):
        block = compressor.compress(view[begin : begin + block_bytes])
        parts.append(bytes([len(block.pairs)]))
        if block.pairs:
            is_code = np.zeros(256, np.bool_)
            is_code[list(block.pairs)] = True
            parts += [np.packbits(is_code).tobytes(), *block.pairs.values()]
        parts += [_SIZE.pack(len(block.symbols)), block.symbols]
    return b"".join([*parts, hashlib.sha256(content).digest()])


@checked
def expand(content: bytes) -> bytes:
    """The bytes that `compress` was given.

    Raises:
        CorruptFile: not what `compress` wrote, to the last bit.
    """
    if len(content) < _HEAD.size + _DIGEST_BYTES or not content.startswith(_MAGIC):
        _corrupt("it does not begin and end like a compressed file")
    _, version, block_bytes, size = _HEAD.unpack_from(content)
    if version != _VERSION:
        _corrupt(f"it has version {version}, and version {_VERSION} is read")
    end = len(content) - _DIGEST_BYTES
    if not 0 < block_bytes <= MAX_BLOCK_BYTES or -(-size // block_bytes) * 5 > end - _HEAD.size:
        _corrupt("its blocks cannot hold the bytes it promises")
    packed = np.frombuffer(bytearray(content), np.uint8)
    at = _HEAD.size
    stack = np.empty(257, np.uint8)
    target = np.empty(min(size, block_bytes), np.uint8)
    state = hashlib.sha256()
    parts = []
    for begin in range(0, size, block_bytes):
        pairs, at = _read_pairs(packed, at, end)
        if at + _SIZE.size > end:
            _corrupt("it ends within a block")
        (symbols,) = _SIZE.unpack_from(content, at)
        at += _SIZE.size
        wanted = min(block_bytes, size - begin)
        if symbols > end - at or expand_by_kernel(
            packed, at, at + symbols, pairs, target, 0, wanted, stack
        ) != wanted:  # fmt: skip
            _corrupt(f"the block of byte {begin} does not expand to {wanted} bytes")
        at += symbols
        parts.append(target[:wanted].tobytes())
        state.update(parts[-1])
    if at != end or state.digest() != content[end:]:
        _corrupt("what it expands to does not have the digest it should have")
    return b"".join(parts)


def _read_pairs(packed: NDArray[np.uint8], at: int, end: int) -> tuple[NDArray[np.int32], int]:
    pairs = np.full(256, -1, np.int32)
    number = int(packed[at]) if at < end else 0
    at += 1
    if number:
        codes = np.flatnonzero(np.unpackbits(packed[at : at + _BITMAP_BYTES]))
        at += _BITMAP_BYTES
        if len(codes) != number or at + 2 * number > end:
            _corrupt("a table of pairs is damaged")
        left, right = packed[at : at + 2 * number].reshape(-1, 2).T.astype(np.int32)
        pairs[codes] = left << 8 | right
        at += 2 * number
    return pairs, at


def _check(block_bytes: int, threshold: int) -> None:
    if not 0 < block_bytes <= MAX_BLOCK_BYTES:
        raise InvalidOption(
            f"blocks of {block_bytes} bytes were asked for",
            f"a block has 1 to {MAX_BLOCK_BYTES} bytes",
            f"leave it out for {BLOCK_BYTES}",
        )
    if threshold < 2:
        raise InvalidOption(
            f"the threshold is {threshold}",
            "a pair is replaced when it occurs 2 times or more",
            f"leave it out for {THRESHOLD}",
        )


def _corrupt(problem: str) -> NoReturn:
    raise CorruptFile(
        f"this is no compressed file, or a damaged one: {problem}",
        "a file that `bpeline compress` wrote",
        "fetch it again, or compress the original again",
    )
