"""What was measured of growing texts, as laws that reach further: words, seconds, memory, disk.

Distinct words follow Heaps' law, ``K · bytes^β`` (Heaps, "Information Retrieval", 1978, §7.5):
a straight line where both axes are logarithmic. Everything else is proportional to something that
is counted: to bytes of text, to rows of shards, to distinct words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression, mean
from typing import Any

CHUNK_BYTES = 64 << 20
_TOP = 8  # laws are fitted to points of at least 1/8 of the largest text: β falls as texts grow


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """``factor · x^exponent``."""

    factor: float
    exponent: float

    def at(self, x: float) -> float:
        """Its value."""
        return float(self.factor * x**self.exponent)

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]]) -> PowerLaw:
        """The law with the least squared error of logarithms.

        Raises:
            ValueError: fewer than two points, or one that is not positive.
        """
        logs = [(math.log(x), math.log(y)) for x, y in points]
        if len(logs) < 2:
            raise ValueError(f"{len(logs)} points make no law; measure larger texts too")
        exponent, intercept = linear_regression(*zip(*logs, strict=True))
        return cls(math.exp(intercept), exponent)


@dataclass(frozen=True, slots=True)
class GrowthModel:
    """One kind of text, as one core of one machine processed it.

    Attributes:
        name: of the text.
        distinct: distinct words by bytes of text.
        word_bytes: bytes of the distinct words, by bytes of text.
        once: the share of distinct words that occur once, in the largest text.
        often: the share of ``word_bytes`` in words that occur `OFTEN` times, in the largest text;
            where words follow Zipf's law this share does not change as the text grows.
        count_rate: bytes a second that one core counts, shards written.
        rows_per_byte: rows of shards per byte of text; a row is a word, distinct in its chunk.
        row_bytes: bytes on disk of such a row.
        combine_rate: rows a second that one core adds up.
        merge_seconds: (seconds at no words, seconds per byte of distinct words) of learning.
        merge_megabytes: the same for memory beside the process itself.
        held_back_error: predicted distinct words of the largest text, from those of at most an
            eighth of it, over measured ones, less 1.
    """

    name: str
    distinct: PowerLaw
    word_bytes: PowerLaw
    once: float
    often: float
    count_rate: float
    rows_per_byte: float
    row_bytes: float
    combine_rate: float
    merge_seconds: tuple[float, float]
    merge_megabytes: tuple[float, float]
    held_back_error: float

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> GrowthModel:
        """The model of what `benchmarks.growth` measured."""
        points, storing = result["points"], result["storing"]
        whole = points[-1]
        counting = storing["counting_cpu_seconds"] + storing["keeping_cpu_seconds"]
        return cls(
            name=result["file"],
            distinct=PowerLaw.through(_pairs(_top(points), "distinct")),
            word_bytes=PowerLaw.through(_pairs(_top(points), "word_bytes")),
            once=whole["once"] / whole["distinct"],
            often=whole["often_bytes"] / whole["word_bytes"],
            count_rate=whole["bytes"] / counting,
            rows_per_byte=storing["shard_rows"] / whole["bytes"],
            row_bytes=storing["shard_bytes"] / storing["shard_rows"],
            combine_rate=storing["shard_rows"] / storing["combining_cpu_seconds"],
            merge_seconds=_line(points, "cpu_seconds"),
            merge_megabytes=_line(points, "megabytes"),
            held_back_error=_held_back_error(points),
        )

    def merging(self, corpus_bytes: float, share: float = 1.0) -> tuple[float, float]:
        """Seconds and megabytes of learning from so much of the distinct words, on one core."""
        size = share * self.word_bytes.at(corpus_bytes)
        return (
            self.merge_seconds[0] + self.merge_seconds[1] * size,
            self.merge_megabytes[0] + self.merge_megabytes[1] * size,
        )


def _pairs(points: Sequence[Mapping[str, Any]], figure: str) -> list[tuple[float, float]]:
    return [(one["bytes"], one[figure]) for one in points]


def _top(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    largest = points[-1]["bytes"]
    return [one for one in points if one["bytes"] * _TOP >= largest]


def _line(points: Sequence[Mapping[str, Any]], figure: str) -> tuple[float, float]:
    """Intercept (not below 0) and slope of a figure of merging against bytes of distinct words."""
    sizes = [one["word_bytes"] for one in points]
    values = [one["merging"][figure] for one in points]
    slope, intercept = linear_regression(sizes, values)
    if intercept >= 0:
        return intercept, slope
    return 0.0, mean(value / size for size, value in zip(sizes, values, strict=True))


def _held_back_error(points: Sequence[Mapping[str, Any]]) -> float:
    whole = points[-1]
    seen = [one for one in points if one["bytes"] * _TOP <= whole["bytes"]]
    if len(_top(seen) if seen else []) < 2:
        return math.nan
    law = PowerLaw.through(_pairs(_top(seen), "distinct"))
    return float(law.at(whole["bytes"]) / whole["distinct"] - 1)
