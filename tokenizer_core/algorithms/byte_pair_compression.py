"""Byte pair compression (Gage 1994, "A New Algorithm for Data Compression").

In each block the most frequent pair of bytes is replaced by an unused byte, until no pair occurs
often enough or every byte is in use. Ties go to the smallest pair by byte values (in Gage's program
the slots of a hash table decide).

File format, all numbers little-endian:

    "BPEC", version 1 (u8), block size (u32), content size (u64)
    per block: number of pairs (u8); if not 0, a bitmap of the bytes that stand for pairs (32) and
        their pairs in ascending order (2 each); size of the compressed block (u32), and its bytes
    SHA-256 of the content (32)
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.algorithms.kernels.byte_pair_compression import PAIRS
from bpeline.tokenizer_core.algorithms.kernels.byte_pair_compression import (
    compress_block as compress_by_kernel,
)
from bpeline.tokenizer_core.algorithms.kernels.byte_pair_compression import (
    expand_block as expand_by_kernel,
)
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption
from bpeline.tokenizer_core.vocabulary import to_printable

BLOCK_BYTES = 5000
THRESHOLD = 3  # storing a pair takes as many bytes as two occurrences save
MAX_BLOCK_BYTES = 1 << 24
LARGEST_SHOWN = 10_000  # largest content in bytes whose steps are shown
_MOST_PAIRS = 12  # in text output; JSON has all of them

_MAGIC, _VERSION = b"BPEC", 1
_HEAD = struct.Struct("<4sBIQ")
_SIZE = struct.Struct("<I")
_DIGEST_BYTES = 32
_BITMAP_BYTES = 32


@dataclass(frozen=True, slots=True)
class CompressedBlock:
    """A compressed block and its pairs."""

    symbols: bytes  # the compressed block
    pairs: dict[int, bytes]  # byte → the two bytes it stands for


class _Compressor:
    """Scratch memory of `compress_block`, allocated once."""

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
    """Compress bytes as one block of at most `MAX_BLOCK_BYTES`."""
    _check(max(len(block), 1), threshold)
    return _Compressor(max(len(block), 1), threshold).compress(block)


def compress(content: bytes, block_bytes: int = BLOCK_BYTES, threshold: int = THRESHOLD) -> bytes:
    """Compress bytes; `expand` is the inverse.

    Args:
        block_bytes: bytes that share a table of pairs.
        threshold: least count of a pair to be replaced, at least 2.
    """
    checks.instance("content", content, bytes)
    block_bytes = checks.whole_number("block_bytes", block_bytes)
    threshold = checks.whole_number("threshold", threshold)
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


def expand(content: bytes) -> bytes:
    """Expand what `compress` returned; raises `CorruptFile` if it is damaged."""
    checks.instance("content", content, bytes)
    if len(content) < _HEAD.size + _DIGEST_BYTES or not content.startswith(_MAGIC):
        _corrupt("it has no valid header or is too short")
    _, version, block_bytes, size = _HEAD.unpack_from(content)
    if version != _VERSION:
        _corrupt(f"it has version {version}, expected {_VERSION}")
    end = len(content) - _DIGEST_BYTES
    if not 0 < block_bytes <= MAX_BLOCK_BYTES or -(-size // block_bytes) * 5 > end - _HEAD.size:
        _corrupt("its blocks cannot hold the size in its header")
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
        expected_size = min(block_bytes, size - begin)
        if symbols > end - at or expand_by_kernel(
            packed, at, at + symbols, pairs, target, 0, expected_size, stack
        ) != expected_size:  # fmt: skip
            _corrupt(f"the block of byte {begin} does not expand to {expected_size} bytes")
        at += symbols
        parts.append(target[:expected_size].tobytes())
        state.update(parts[-1])
    if at != end or state.digest() != content[end:]:
        _corrupt("the expanded content does not match its digest")
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
            f"the block size is {block_bytes} bytes",
            f"expected 1 to {MAX_BLOCK_BYTES} bytes",
            f"leave it out for {BLOCK_BYTES}",
        )
    if threshold < 2:
        raise InvalidOption(
            f"the threshold is {threshold}",
            "expected at least 2: a pair must occur twice to be replaced",
            f"leave it out for {THRESHOLD}",
        )


def _corrupt(problem: str) -> NoReturn:
    raise CorruptFile(
        f"this is not a compressed file, or it is damaged: {problem}",
        "expected a file that `bpeline compress` wrote",
        "fetch it again, or compress the original again",
    )


@dataclass(frozen=True, slots=True)
class CompressionStep:
    """A block after some replacements; bytes are printed like byte-level tokens."""

    block: int  # number of the block, from 1
    number: int  # number of replacements; 0 before the first
    code: str  # the byte that replaced the last pair; empty before the first
    pair: str  # that pair
    count: int  # its count before the replacement; ``aaa`` counts (a, a) twice
    content: str  # the block now
    pairs: dict[str, int]  # count of each pair of neighbours now, the most frequent first
    # code → the two bytes it stands for, in order
    table: dict[str, str] = field(default_factory=dict)

    @property
    def times(self) -> str:
        """The count as text; of ``aaa`` only one (a, a) can be replaced."""
        overlaps = self.pair[:1] == self.pair[1:]
        return f"{self.count:,} times" + ", overlaps included" * overlaps


def compression_steps(
    content: bytes,
    block_bytes: int = BLOCK_BYTES,
    threshold: int = THRESHOLD,
    new_bytes: str = "",
) -> Iterator[CompressionStep]:
    """Compress a small content and yield each replacement.

    Args:
        new_bytes: ASCII letters that stand for new bytes in the output, in order of use, such as
            ``HG``; further new bytes are printed as they are. The content must not contain them.
    """
    if len(content) > LARGEST_SHOWN:
        raise InvalidOption(
            f"the file holds {len(content):,} bytes, too many to show each step",
            f"expected up to {LARGEST_SHOWN:,} bytes",
            "show the steps on a part of it",
        )
    present = [letter for letter in new_bytes if letter in content.decode("latin-1")]
    if present or len(set(new_bytes)) < len(new_bytes) or not new_bytes.isascii():
        raise InvalidOption(
            f"the letters for new bytes are {new_bytes!r}",
            "expected distinct ASCII letters that are not in the content"
            + (f"; it contains {', '.join(present)}" if present else ""),
            "leave them out to see the bytes that the compressor uses",
        )
    for number, begin in enumerate(range(0, len(content), block_bytes) or [0], 1):
        yield from _steps(content[begin : begin + block_bytes], number, threshold, new_bytes)


def _steps(block: bytes, number: int, threshold: int, new_bytes: str) -> Iterator[CompressionStep]:
    replaced = compress_block(block, threshold).pairs
    order = sorted(replaced, reverse=True)  # unused bytes are assigned from 255 down
    names = dict(zip(order, new_bytes, strict=False))

    def printed(content: bytes) -> str:
        return "".join(names.get(byte) or to_printable(bytes([byte])) for byte in content)

    table: dict[str, str] = {}
    yield CompressionStep(number, 0, "", "", 0, printed(block), _pairs(block, printed))
    for step, code in enumerate(order, 1):
        pair = replaced[code]
        count = Counter(pairwise(block))[pair[0], pair[1]]
        block = block.replace(pair, bytes([code]))
        table[printed(bytes([code]))] = printed(pair)
        yield CompressionStep(
            number,
            step,
            printed(bytes([code])),
            printed(pair),
            count,
            printed(block),
            _pairs(block, printed),
            dict(table),
        )


def _pairs(block: bytes, printed: Callable[[bytes], str]) -> dict[str, int]:
    counted = Counter(bytes(pair) for pair in pairwise(block))
    return {printed(pair): count for pair, count in counted.most_common()}


def compression_lines(step: CompressionStep) -> list[str]:
    pairs = [f"{pair} {count}" for pair, count in list(step.pairs.items())[:_MOST_PAIRS]]
    more = len(step.pairs) - _MOST_PAIRS
    pairs += [f"and {more:,} more"] * (more > 0)
    head = f"block {step.block}: start"
    if step.number:
        head = f"step {step.number}: {step.code} = {step.pair}, which occurs {step.times}"
    return [
        head,
        f"  block: {step.content}",
        f"  bytes: {len(step.content)}",
        f"  pairs: {', '.join(pairs) or 'none'}",
    ]
