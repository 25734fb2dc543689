"""What a tokenizer would be at smaller sizes, and which size to take: from merges that fire.

Merges are a prefix order, so one count of the merges that fire serves every vocab size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.charts import curves_in_notebook
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer


class Curve(tuple[tuple[int, float], ...]):
    """(vocab size, value) in order of size; in a notebook it is drawn.

    Example:
        >>> Curve([(512, 2.5), (1024, 3.0)])
        512: 2.5, 1,024: 3
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return ", ".join(f"{size:,}: {value:.6g}" for size, value in self)

    def _repr_html_(self) -> str:
        return curves_in_notebook({"": self}) or "no curve"


_FIRST_SIZE = 512
_FEWEST_POINTS = 4  # with which a knee can be spoken of


def has_curve(tokenizer: Tokenizer) -> bool:
    """Whether gains tell of smaller sizes: words taken whole take no merges, words of other
    algorithms come about in other ways."""
    return tokenizer.merges_words and not tokenizer.byte_pairs.has_whole_words


def gains_on(tokenizer: Tokenizer, words: WordCounts) -> NDArray[np.int64] | None:
    """`Tokenizer.merge_gains`; None where there is no curve. Those of several texts add up."""
    return tokenizer.merge_gains(words) if has_curve(tokenizer) else None


def curve_sizes(tokenizer: Tokenizer) -> list[int]:
    """512, 1024, 2048, … as far as the merges reach, and the size itself."""
    full = tokenizer.vocab_size
    without_merges = full - len(tokenizer.merges)
    sizes = [_FIRST_SIZE << doubling for doubling in range(full.bit_length())]
    return [size for size in sizes if without_merges <= size < full] + [full]


def curves_of(tokenizer: Tokenizer, size: int, gains: NDArray[np.int64]) -> tuple[Curve, Curve]:
    """Compression, and what merges gain, at `curve_sizes`, as if training had stopped there.

    Args:
        tokenizer: whose vocab holds, besides the merges' results, bytes and special tokens.
        size: bytes of the text, in which nothing but merges shortens.
        gains: int64 ``[n_merges]`` on that text, from `Tokenizer.merge_gains`.

    Returns:
        (vocab size, bytes per token); and (vocab size, tokens one merge saves of a million): the
        mean over the merges behind the size before, of a million tokens that the whole tokenizer
        makes, for sizes with a smaller one.
    """
    sizes = curve_sizes(tokenizer)
    tokens = _tokens_at(tokenizer, size, gains, sizes)
    gain = (
        (sizes[i], 1e6 * (tokens[i - 1] - tokens[i]) / (sizes[i] - sizes[i - 1]) / tokens[-1])
        for i in range(1, len(sizes))
    )
    return Curve((at, size / left) for at, left in zip(sizes, tokens, strict=True)), Curve(gain)


def bytes_per_token_at(
    tokenizer: Tokenizer, size: int, gains: NDArray[np.int64], sizes: Sequence[int]
) -> Curve:
    """(vocab size, bytes per token) at sizes of one's own; for the rest see `curves_of`.

    Raises:
        InvalidOption: a size that the merges do not reach.
    """
    full = tokenizer.vocab_size
    least = full - len(gains)
    for at in sizes:
        if not least <= at <= full:
            raise InvalidOption(
                f"{at:,} ids were asked for",
                f"the tokenizer has {least:,} without merges, and {full:,} with all",
                f"choose sizes from {least:,} to {full:,}",
            )
    tokens = _tokens_at(tokenizer, size, gains, sizes)
    return Curve((at, size / left) for at, left in zip(sizes, tokens, strict=True))


def _tokens_at(
    tokenizer: Tokenizer, size: int, gains: NDArray[np.int64], sizes: Sequence[int]
) -> list[int]:
    saved = np.concatenate(([0], np.cumsum(gains)))
    merges = [at - tokenizer.vocab_size + len(gains) for at in sizes]
    return [size - int(saved[number]) for number in merges]


def knee(curve: Sequence[tuple[int, float]]) -> int | None:
    """The vocab size behind which growing pays least: Kneedle (Satopää et al. 2011), offline.

    Both axes are scaled to 0 … 1, the vocab size logarithmically; the knee is the point of the
    curve that lies highest above the line from its first point to its last. It depends on where
    the curve ends, so it says where this curve bends and no more.

    Returns:
        None for fewer than four points or a curve that nowhere lies above that line.
    """
    if len(curve) < _FEWEST_POINTS:
        return None
    xs = [math.log2(size) for size, _ in curve]
    ys = [value for _, value in curve]
    if ys[-1] <= ys[0]:
        return None
    heights = [
        (y - ys[0]) / (ys[-1] - ys[0]) - (x - xs[0]) / (xs[-1] - xs[0])
        for x, y in zip(xs, ys, strict=True)
    ]
    highest = max(range(len(heights)), key=heights.__getitem__)
    return curve[highest][0] if heights[highest] > 1e-9 else None
