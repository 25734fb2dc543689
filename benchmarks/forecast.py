"""What corpora too large for this machine would take, reckoned; measures nothing.

What was measured of growing texts becomes laws that reach further. Distinct words follow Heaps'
law, ``K · bytes^β`` (Heaps, "Information Retrieval", 1978, §7.5): a straight line where both axes
are logarithmic. Everything else is proportional to something that is counted: to bytes of text, to
rows of shards, to distinct words. Clusters of `CLUSTERS` are taken through the steps of a training.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, mean
from typing import Any

from benchmarks.charts import laws
from benchmarks.cluster_model import START, Cluster, Task, simulate
from benchmarks.results import RESULTS, newest

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
        """The model of what `measured` gives."""
        points, storing = result["points"], result["storing"]
        whole = points[-1]
        cpu = storing["cpu_phases"]
        counting = cpu["counting"] + cpu["keeping"]
        return cls(
            name=result["file"],
            distinct=PowerLaw.through(_pairs(_top(points), "distinct")),
            word_bytes=PowerLaw.through(_pairs(_top(points), "word_bytes")),
            once=whole["once"] / whole["distinct"],
            often=whole["often_bytes"] / whole["word_bytes"],
            count_rate=whole["bytes"] / counting,
            rows_per_byte=storing["shard_rows"] / whole["bytes"],
            row_bytes=storing["shard_bytes"] / storing["shard_rows"],
            combine_rate=storing["shard_rows"] / cpu["combining"],
            merge_seconds=_line(points, "cpu_phases"),
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
    values = [one[figure]["merging"] for one in points]
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


SIZES = {"100 GB": 1e11, "1 TB": 1e12, "10 TB": 1e13}
CLUSTERS = (
    Cluster("laptop", 1, 8, 32, network=2.0, storage=2.0),
    Cluster("server", 1, 64, 256, network=5.0, storage=5.0),
    Cluster("16 machines", 16, 16, 64, network=1.25, storage=10.0),
    Cluster("64 machines", 64, 32, 128, network=3.0, storage=100.0),
)
MOST_TASKS = 4096  # of one step; a task is several chunks of 64 MiB
PROCESS = 0.6  # GB of a process before it learns: Python, kernels, DuckDB
HELD_OUT, ENCODE_RATE = 0.01, 100e6  # share of the text, and bytes a second that a core encodes


@dataclass(frozen=True, slots=True)
class Forecast:
    """A training on one cluster: seconds of its steps, and what does not fit.

    Attributes:
        count, combine, merge, evaluate: seconds of the steps.
        tasks: handed out to count.
        repeated: of these, done again because a machine failed.
        gigabytes: of memory that the machine needs which learns the merges.
        gigabytes_often: the same with ``--min-word-count 10``.
    """

    count: float
    combine: float
    merge: float
    evaluate: float
    tasks: int
    repeated: int
    gigabytes: float
    gigabytes_often: float

    @property
    def seconds(self) -> float:
        """All steps together."""
        return self.count + self.combine + self.merge + self.evaluate


def forecast(model: GrowthModel, corpus_bytes: float, cluster: Cluster) -> Forecast:
    """What a training on so much text like the measured one takes."""
    chunks = math.ceil(corpus_bytes / CHUNK_BYTES)
    tasks = min(chunks, MOST_TASKS)
    size = corpus_bytes / tasks
    counted = simulate([Task(size / model.count_rate, size)] * tasks, cluster)
    rows = corpus_bytes * model.rows_per_byte
    parts = min(4 * cluster.all_cores, tasks)
    part = Task(rows / parts / model.combine_rate, rows * model.row_bytes / parts)
    combined = simulate([part] * parts, cluster)
    merging, megabytes = model.merging(corpus_bytes)
    held_out = corpus_bytes * HELD_OUT / tasks
    evaluated = simulate([Task(held_out / ENCODE_RATE, held_out)] * tasks, cluster)
    _, megabytes_often = model.merging(corpus_bytes, model.often)
    return Forecast(
        START + counted.seconds, combined.seconds, merging, evaluated.seconds,
        tasks, counted.repeated, PROCESS + megabytes / 1e3, PROCESS + megabytes_often / 1e3,
    )  # fmt: skip


def measured(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Of each file its growth, and what keeping its counts cost: what a model is made of."""
    storing = {one["file"]: one["contestants"]["bpeline"] for one in newest("storing", folder)}
    files: dict[str, list[dict[str, Any]]] = {}
    for one in newest("growth", folder):
        point = {"bytes": one["bytes"], **one["contestants"]["bpeline"]}
        files.setdefault(one["file"], []).append(point)
    return [
        {"file": file, "points": files[file], "storing": storing[file]}
        for file in sorted(files)
        if file in storing
    ]


def pictured(results: Sequence[Mapping[str, Any]], picture: Path) -> str:
    """The tables of docs/scaling.md, and its picture."""
    models = [GrowthModel.of(result) for result in results]
    laws(
        [
            (
                model.name,
                [(one["bytes"], one["distinct"]) for one in result["points"]],
                [(size, model.distinct.at(size)) for size in (1e9, *SIZES.values())],
            )
            for result, model in zip(results, models, strict=True)
        ],
        picture,
    )
    return "\n\n".join([law_table(models), *(forecast_tables(model) for model in models)])


def law_table(models: Sequence[GrowthModel]) -> str:
    """The laws: what they rest on, and where they lead."""
    return "\n".join(
        [
            "| text | distinct words | error, ×8 ahead | at 100 GB | 1 TB | 10 TB | once "
            "| counting, MB/s/core | rows/chunk | bytes/row | combining, M rows/s/core |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *map(_law_row, models),
        ]
    )


def _law_row(model: GrowthModel) -> str:
    reached = " | ".join(_many(model.distinct.at(size)) for size in SIZES.values())
    error = "–" if math.isnan(model.held_back_error) else f"{model.held_back_error:+.0%}"
    return (
        f"| `{model.name}` | {model.distinct.factor:.3g} · bytes^{model.distinct.exponent:.3f} "
        f"| {error} | {reached} | {model.once:.0%} | {model.count_rate / 1e6:.0f} "
        f"| {_many(model.rows_per_byte * CHUNK_BYTES)} | {model.row_bytes:.1f} "
        f"| {model.combine_rate / 1e6:.1f} |"
    )


def forecast_tables(model: GrowthModel) -> str:
    """One table: sizes × clusters."""
    lines = [
        f"**Text like `{model.name}`**",
        "",
        "| corpus | cluster | count | combine | learn 32,000 | evaluate | together "
        "| memory to learn | of words seen 10 times |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for size_name, size in SIZES.items():
        for cluster in CLUSTERS:
            one = forecast(model, size, cluster)
            memory, often = (
                f"{needed:,.1f} GB" if needed <= cluster.memory else f"~~{needed:,.0f} GB~~"
                for needed in (one.gigabytes, one.gigabytes_often)
            )
            lines.append(
                f"| {size_name} | {cluster.name} | {_time(one.count)} | {_time(one.combine)} "
                f"| {_time(one.merge)} | {_time(one.evaluate)} | **{_time(one.seconds)}** "
                f"| {memory} | {often} |"
            )
    return "\n".join(lines)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _many(number: float) -> str:
    return f"{number / 1e6:.3g} M" if number >= 1e6 else f"{number / 1e3:.0f} k"
