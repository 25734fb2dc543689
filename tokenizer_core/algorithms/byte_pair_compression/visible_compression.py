"""Byte pair compression made visible: the block after each pair that is replaced, and all pairs.

For people and small inputs. What is replaced `compress_block` has chosen; here it is replaced once
more, pair by pair, in plain Python, and everything is counted anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from bpeline.tokenizer_core.algorithms.byte_pair_compression.block_compression import (
    BLOCK_BYTES,
    THRESHOLD,
    compress_block,
)
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.vocabulary import to_printable

LARGEST_SHOWN = 10_000  # bytes; beyond, nobody reads what is printed
_MOST_PAIRS = 12  # in lines of text; all of them are in JSON


@dataclass(frozen=True, slots=True)
class CompressionStep:
    """A block after some pairs were replaced. Bytes are printed as byte-level tokens are.

    Attributes:
        block: its number, from 1.
        number: of replacements; 0 before the first.
        code: the byte that was put in place of the last pair; empty before the first.
        pair: that pair.
        count: how often it occurred then. ``aaa`` counts (a, a) twice.
        content: the block now.
        pairs: how often each pair of neighbours occurs now, the most frequent first.
        table: code → the two bytes it stands for, in order.
    """

    block: int
    number: int
    code: str
    pair: str
    count: int
    content: str
    pairs: dict[str, int]
    table: dict[str, str] = field(default_factory=dict)

    @property
    def times(self) -> str:
        """The count in words; of ``aaa`` only one (a, a) can be replaced."""
        overlaps = self.pair[:1] == self.pair[1:]
        return f"{self.count:,} times" + ", overlaps included" * overlaps


def compression_steps(
    content: bytes,
    block_bytes: int = BLOCK_BYTES,
    threshold: int = THRESHOLD,
    new_bytes: str = "",
) -> Iterator[CompressionStep]:
    """Compress a small content and show each replacement.

    Args:
        content: any bytes.
        block_bytes, threshold: see `compress`.
        new_bytes: letters to print the bytes that stand for pairs as, in the order in which they
            are needed, such as ``HG``; then these bytes as they are.

    Raises:
        InvalidOption: more than `LARGEST_SHOWN` bytes, letters that the content holds, that are
            not ASCII or named twice, or what `compress_block` refuses.
    """
    if len(content) > LARGEST_SHOWN:
        raise InvalidOption(
            f"the file holds {len(content):,} bytes, too many to show each step",
            f"up to {LARGEST_SHOWN:,} bytes",
            "show the steps on a part of it",
        )
    held = [letter for letter in new_bytes if letter in content.decode("latin-1")]
    if held or len(set(new_bytes)) < len(new_bytes) or not new_bytes.isascii():
        raise InvalidOption(
            f"the letters for new bytes are {new_bytes!r}",
            "different ASCII letters that the content does not hold"
            + (f"; it holds {', '.join(held)}" if held else ""),
            "leave them out to see the bytes that the compressor takes",
        )
    for number, begin in enumerate(range(0, len(content), block_bytes) or [0], 1):
        yield from _steps(content[begin : begin + block_bytes], number, threshold, new_bytes)


def _steps(block: bytes, number: int, threshold: int, new_bytes: str) -> Iterator[CompressionStep]:
    replaced = compress_block(block, threshold).pairs
    order = sorted(replaced, reverse=True)  # the greatest unused byte is taken first
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
    """A step as lines of text."""
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
