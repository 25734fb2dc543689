"""Weights and temperatures of sources, and sample texts of a corpus's words.

A weight is a whole number of millionths, so Python, NumPy and SQL give the same counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from bpeline.tokenizer_core.counting.word_counts import COUNT_LIMIT, WordCounts
from bpeline.tokenizer_core.errors import InvalidOption

MILLION = 1_000_000
LARGEST_WEIGHT = 1_000_000

LEAST_COUNT = 8
TEXTS, WORDS_IN_TEXT = 16, 32


def millionths(weight: float) -> int:
    """Convert a weight to millionths, exactly.

    Raises:
        InvalidOption: not a number from 0 to a million with at most six decimals.
    """
    within = 0 <= weight <= LARGEST_WEIGHT  # False for NaN
    scaled = Decimal(repr(float(weight))) * MILLION if within else Decimal(0)
    if not within or scaled != int(scaled):
        raise InvalidOption(
            f"a source cannot have the weight {weight}",
            f"expected a number from 0 to {LARGEST_WEIGHT:,} with at most six decimals",
            "use 1.0 to count a source once, 0.5 to count it half, 0 to leave it out",
        )
    return int(scaled)


def weighted(counts: WordCounts, weight: float) -> WordCounts:
    """Multiply the counts of a source by its weight, rounded half to even, at least 1.

    Call it once, on the sum of a source, so that the result does not depend on chunks. Only the
    weight 0 removes words.

    Raises:
        InvalidOption: an impossible weight, or a product above 2⁶³ − 1.
    """
    factor = millionths(weight)
    if factor == MILLION:
        return counts
    if factor == 0:
        return counts.take(np.zeros(0, np.int64))
    largest = int(counts.counts.max()) if len(counts) else 0
    if round(Fraction(largest * factor, MILLION)) > COUNT_LIMIT:  # half to even, as below
        raise InvalidOption(
            f"counts multiplied by {weight} exceed {COUNT_LIMIT}",
            "expected products that fit 64-bit integers",
            "use smaller weights: only their proportions matter",
        )
    # count = high · 10⁶ + low, so that no product leaves int64: low · factor is below 10¹⁸.
    high, low = np.divmod(counts.counts, MILLION)
    whole, rest = np.divmod(low * factor, MILLION)
    whole += high * factor
    whole += (rest > MILLION // 2) | ((rest == MILLION // 2) & (whole % 2 == 1))
    return replace(counts, counts=np.maximum(whole, 1))


def weights_at(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> list[float]:
    """Return the weights that give every source its share at a temperature.

    A source of ``sizes[i]`` bytes has the share pᵢ = weights[i] · sizes[i] / Σⱼ weights[j] ·
    sizes[j]. At temperature T it gets the share qᵢ = pᵢ^(1/T) / Σⱼ pⱼ^(1/T): T = 1 changes nothing,
    a higher T brings the shares closer together. This is the smoothing of multilingual BERT
    (exponent S = 0.7) and of XLM and XLM-R (α = 0.3), with the exponent 1/T; they sample texts by
    these shares, here counts are multiplied.

    Weights are scaled so that none decreases: the source whose share falls most (for T > 1 the
    largest) keeps its weight. They are rounded to six decimals, and are at least 0.000001 for
    sources that count at all.

    Args:
        sizes: bytes of text of every source; 0 keeps its weight.
        weights: see `millionths`.

    Raises:
        InvalidOption: an impossible temperature or weight, or a result above a million.
    """
    if not 0.01 <= temperature <= 1_000_000:
        raise InvalidOption(
            f"the temperature is {temperature}",
            "expected a number from 0.01 to 1,000,000; 1 keeps the shares as they are",
            "type `--temperature 3.3`, which is XLM-R's exponent of 0.3",
        )
    factors = [millionths(weight) for weight in weights]
    parts = [size * weight for size, weight in zip(sizes, factors, strict=True)]
    largest = max(parts, default=0)
    if temperature == 1 or not largest:
        return [weight / MILLION for weight in factors]
    # qᵢ / pᵢ is (pᵢ / p of the largest)^(1/T - 1), up to a common factor.
    gains = [(part / largest) ** (1 / temperature - 1) if part else 1.0 for part in parts]
    least = min(gain for gain, part in zip(gains, parts, strict=True) if part)
    changed = []
    for weight, gain, part in zip(factors, gains, parts, strict=True):
        factor = max(1, round(weight * gain / least)) if part else weight
        changed.append(factor / MILLION)
        millionths(factor / MILLION)  # raises if it is too large
    return changed


def sample_texts(counts: WordCounts, between: str = "") -> list[str]:
    """Make up to 16 texts of 32 words: the most frequent words, then a spread.

    Only words that occur at least 8 times are used, so that a name, an address or a key of a single
    document does not travel with a tokenizer. Words that are not UTF-8 by themselves are dropped.
    ``between`` separates words; it is empty where words carry their space.
    """
    frequent = np.flatnonzero(counts.counts >= LEAST_COUNT)
    order = np.lexsort((counts.first_positions[frequent], -counts.counts[frequent]))
    rows = frequent[order]
    wanted = TEXTS * WORDS_IN_TEXT
    places = np.arange(len(rows))
    if len(rows) > wanted:
        spread = np.linspace(wanted // 2, len(rows) - 1, wanted - wanted // 2)
        places = np.concatenate([places[: wanted // 2], spread.astype(np.int64)])
    words = []
    for row in rows[places].tolist():
        begin, end = counts.offsets[row : row + 2].tolist()
        try:
            words.append(counts.word_bytes[begin:end].tobytes().decode())
        except UnicodeDecodeError:
            continue
    groups = range(0, len(words), WORDS_IN_TEXT)
    return [between.join(words[begin : begin + WORDS_IN_TEXT]) for begin in groups]
