"""`python -m benchmarks.scale_out`: what corpora too large for this machine would take, reckoned.

Takes the laws that `benchmarks.growth` measured (`growth_model`) to 100 GB, 1 TB and 10 TB, and the
clusters of `CLUSTERS` through the steps of a training (`cluster_model`). Replaces the tables of
docs/scaling.md between their two markers and draws its picture; measures nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.charts import laws
from benchmarks.cluster_model import START, Cluster, Task, simulate
from benchmarks.growth import FOLDER
from benchmarks.growth_model import CHUNK_BYTES, GrowthModel
from benchmarks.render import ROOT
from benchmarks.results import RESULTS

PAGE = ROOT / "docs" / "scaling.md"
PICTURE = RESULTS / "growth.svg"
START_MARK, END_MARK = "<!-- scaling:start -->", "<!-- scaling:end -->"
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


def main() -> None:
    results = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    models = [GrowthModel.of(result) for result in results]
    if not models:
        raise SystemExit("nothing was measured: run `python -m benchmarks.growth FILE` first")
    laws(
        [
            (
                model.name,
                [(one["bytes"], one["distinct"]) for one in result["points"]],
                [(size, model.distinct.at(size)) for size in (1e9, *SIZES.values())],
            )
            for result, model in zip(results, models, strict=True)
        ],
        PICTURE,
    )
    content = "\n\n".join([law_table(models), *(forecast_tables(model) for model in models)])
    before, start, rest = PAGE.read_text().partition(START_MARK)
    _, end, after = rest.partition(END_MARK)
    if not start or not end:
        raise SystemExit(f"{PAGE} holds one {START_MARK} and, behind it, one {END_MARK}")
    PAGE.write_text(f"{before}{START_MARK}\n{content}\n{END_MARK}{after}")


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


if __name__ == "__main__":
    main()
