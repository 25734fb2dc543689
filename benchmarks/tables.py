"""Results as tables, for the terminal and for Markdown pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.measurement import OURS
from bpeline.tokenizer_core.tables import Table

Result = Mapping[str, Any]
HEADINGS = (
    "",
    "seconds",
    "CPU s",
    "peak MB",
    "counting",
    "merging",
    "ratio",
    "CPU ratio",
    "merges",
)
ENCODING_HEADINGS = (
    *("", "MB/s", "MB/CPU s", "again", "peak MB", "ratio", "CPU ratio"),
    *("60 characters", "1 kB", "decode MB/s", "ids"),
)
THREADS_HEADINGS = (
    *("", "one thread, s", "two, s", "times as fast", "one thread, CPU s", "two, CPU s"),
    "share",
)
LARGE = 64e6  # bytes; docs/benchmarks.md shows texts from this size
# Steps whose time depends on the new text; others depend on distinct words and the vocabulary.
OF_THE_CORPUS = ("plan chunks", "count words", "combine counts")


def megabytes(size: int) -> str:
    """A size in MB, to three digits."""
    return f"{size / 1e6:.3g} MB" if size < 999.5e6 else f"{size / 1e6:,.0f} MB"


def _times(name: str, ratio: float | None, digits: int = 1) -> str:
    return "1" if name == OURS else "–" if ratio is None else f"{ratio:.{digits}f}×"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _speed(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def threads_of(result: Result) -> str:
    return f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}"


def title(results: Sequence[Result]) -> str:
    result = results[0]
    rounds = min(result["rounds"] for result in results)
    return (
        f"{result['file']}: {megabytes(result['bytes'])}, vocabulary {result['vocab_size']:,}, "
        f"{' and '.join(map(threads_of, results))}, "
        f"median of {rounds} run{'s' if rounds > 1 else ''}"
    )


def speed_of(one: Result, result: Result, seconds: str = "seconds") -> float:
    """MB/s of an encoder on the file or its sample."""
    return float(one.get("sample_bytes", result["bytes"])) / 1e6 / float(one[seconds])


def phases_of(trainer: Result) -> tuple[float | None, float | None]:
    """Seconds of counting and of merging (all other time), or None twice."""
    counting = trainer["phases"].get("counting")
    return (None, None) if counting is None else (counting, trainer["seconds"] - counting)


def rows(result: Result) -> list[tuple[str, ...]]:
    """One row per contestant, fastest first; failed and missing ones last."""
    row, headings = _kind(result)
    everyone = result["contestants"]
    measured = {name: figures for name, figures in everyone.items() if "failure" not in figures}
    order = sorted(
        measured, key=lambda name: float(measured[name]["seconds"]) * _whole(measured[name], result)
    )
    lines = [row(name, measured[name], result) for name in order]
    empty = [""] * (len(headings) - 2)
    for name, figures in everyone.items():
        if "failure" in figures:
            lines.append((name, *empty, f"failed: {figures['failure']}"))
    lines.extend((name, *empty, "not installed") for name in result["not_installed"])
    return lines


def _whole(one: Result, result: Result) -> float:
    return float(result["bytes"] / one.get("sample_bytes", result["bytes"]))


def _kind(
    result: Result,
) -> tuple[Callable[[str, Result, Result], tuple[str, ...]], tuple[str, ...]]:
    if result["measurement"] == "encoding":
        return _encoding_row, ENCODING_HEADINGS
    if result["measurement"].startswith("training"):
        return _training_row, HEADINGS
    return _any_row, ("", "seconds", "CPU s", "peak MB", "ratio", "CPU ratio", "result")


def _training_row(name: str, one: Result, _result: Result) -> tuple[str, ...]:
    any_ = _any_row(name, one, _result)
    return (*any_[:4], *map(_seconds, phases_of(one)), *any_[4:])


def _any_row(name: str, one: Result, _result: Result) -> tuple[str, ...]:
    return (
        name,
        _seconds(one["seconds"]),
        _seconds(one["cpu_seconds"]),
        f"{one['peak_megabytes']:,.0f}",
        _times(name, one["ratio"]),
        _times(name, one["cpu_ratio"]),
        one["verdict"],
    )


def _encoding_row(name: str, one: Result, result: Result) -> tuple[str, ...]:
    sample = f", of {one['sample_bytes'] / 1e6:.0f} MB" if "sample_bytes" in one else ""
    return (
        name,
        _speed(speed_of(one, result)),
        _speed(speed_of(one, result, "cpu_seconds")),
        _speed(speed_of(one, result, "again_seconds")),
        f"{one['peak_megabytes']:,.0f}",
        _times(name, one["ratio"], 2),
        _times(name, one["cpu_ratio"], 2),
        f"{one['short_microseconds']:.1f} µs",
        f"{one['kilobyte_microseconds']:.1f} µs",
        f"{one['decode_megabytes_per_second']:.0f}",
        one["verdict"] + sample,
    )


def plain(result: Result) -> str:
    """Aligned columns, and first differences from our result."""
    lines = [title([result]), *table_of(_kind(result)[1], rows(result)).lines()]
    if result["measurement"] == "threads":
        lines += table_of(THREADS_HEADINGS, threads_rows(result)).lines()
    for name, figures in result["contestants"].items():
        if figures.get("divergence"):
            index, ours, theirs = figures["divergence"]
            lines.append(f"  {name} differs at merge {index}: ours {ours}, theirs {theirs}")
    return "\n".join(lines)


def threads_rows(result: Result) -> list[tuple[str, ...]]:
    """A row per phase, from the fastest runs."""
    one, two = result["contestants"].values()
    lines = []
    for phase in one["phases"]:
        wall, cpu = (
            [min(float(run[kind][phase]) for run in by["runs"]) for by in (one, two)]
            for kind in ("phases", "cpu_phases")
        )
        lines.append((
            f"{result['file']}, {phase}",
            *(f"{seconds:.3f}" for seconds in wall),
            f"{wall[0] / wall[1]:.2f}",
            *(f"{seconds:.3f}" for seconds in cpu),
            f"{cpu[1] / cpu[0]:.2f}",
        ))  # fmt: skip
    return lines


def table_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table with its first and last columns left-aligned."""
    return Table(columns, rows, left=(0, len(columns) - 1))


def encoding_markdown(results: Sequence[Result]) -> str:
    """One table of the results of a file: a row per encoder, columns per thread count."""
    last = results[-1]["contestants"]
    columns = [""]
    for result in results:
        columns += [f"MB/s, {threads_of(result)}", "ratio", "CPU ratio"]
    columns += ["again", "peak MB", "60 characters", "1 kB", "decode MB/s", "ids"]
    lines = []
    for name in sorted(last, key=lambda name: -_speed_if_any(last[name], results[-1])):
        line = [name]
        for result in results:
            figures = result["contestants"].get(name, {})
            row = (
                _encoding_row(name, figures, result)
                if "seconds" in figures
                else [""] * len(ENCODING_HEADINGS)
            )
            line += [row[1], row[5], row[6]]
        if "failure" in last[name]:
            lines.append((*line, *[""] * 5, f"failed: {last[name]['failure']}"))
        else:
            row = _encoding_row(name, last[name], results[-1])
            lines.append((*line, row[3], row[4], *row[7:]))
    return table_of(tuple(columns), lines).markdown()


def _speed_if_any(one: Result, result: Result) -> float:
    return speed_of(one, result) if "seconds" in one else 0.0


def scaling(results: Sequence[Result]) -> str:
    """Speed-up by more threads, as a sentence; "" for one result."""
    first, last = results[0], results[-1]
    if first["threads"] == last["threads"]:
        return ""
    speedups = [
        f"{name} {first['contestants'][name]['seconds'] / figures['seconds']:.2f}"
        for name, figures in last["contestants"].items()
        if "seconds" in figures and "seconds" in first["contestants"].get(name, {})
    ]
    return f"Speed-up of {last['threads']} threads over {first['threads']}: {', '.join(speedups)}."


def loading_markdown(loading: Result) -> str:
    """Time and memory to load a vocabulary, fastest first."""
    measured = [
        (float(figures["load_seconds"]), name, float(figures["load_megabytes"]))
        for name, figures in loading["contestants"].items()
        if "failure" not in figures
    ]
    table = [
        (name, f"{seconds:.2f}", f"{megabytes:.0f}")
        for seconds, name, megabytes in sorted(measured)
    ]
    return table_of(
        (f"loading {loading['vocab_size']:,} tokens", "seconds", "MB"), table
    ).markdown()


def headlines(training: Sequence[Result], encoding: Sequence[Result]) -> str:
    """README's table: bpeline and the library with the least CPU time, per file."""
    rows = []
    for results, task, digits in ((training, "train 32k", 1), (encoding, "encode", 2)):
        for result in results:
            ours, others = _of(result)
            same = {
                n: figures for n, figures in others.items() if figures["equal"] and not _is_ours(n)
            }
            speed = f"{speed_of(ours, result, 'cpu_seconds'):,.0f} MB/s"
            rows.append((
                task,
                f"`{result['file']}`, {megabytes(result['bytes'])}",
                speed if task == "encode" else f"{ours['cpu_seconds']:.2f} s",
                _strongest(same, digits),
                _ratio(others, "HuggingFace", 1),
                _ratio(others, "tiktoken", 1) if task == "encode" else "–",
            ))  # fmt: skip
    columns = ("task", "file", "bpeline, CPU", "strongest peer", "HuggingFace", "tiktoken")
    return Table(columns, rows, left=(0, 1)).markdown()


def _is_ours(name: str) -> bool:
    return name.split(",")[0] == OURS


def _strongest(same: Result, digits: int) -> str:
    nearest = min(same, key=lambda name: float(same[name]["cpu_ratio"]))
    return f"{same[nearest]['cpu_ratio']:.{digits}f}× ({nearest})"


def _of(result: Result) -> tuple[Result, dict[str, Any]]:
    measured = {
        n: figures for n, figures in result["contestants"].items() if "failure" not in figures
    }
    return measured[OURS], {name: figures for name, figures in measured.items() if name != OURS}


def _ratio(others: Result, name: str, digits: int) -> str:
    ratio = others.get(name, {}).get("cpu_ratio")
    return "–" if ratio is None else f"{ratio:.{digits}f}×"


def algorithms_table(result: Result) -> str:
    least = {
        name: min(run["cpu_seconds"] for run in figures["runs"])
        for name, figures in result["contestants"].items()
        if "runs" in figures
    }
    head = f"{result['file']}, {result['bytes'] / 1e6:.1f} MB", "CPU s", "times byte-bpe"
    rows = [(name, f"{cpu:.2f}", f"{cpu / least['byte-bpe']:.2f}") for name, cpu in least.items()]
    return Table(head, rows).markdown()


def cluster_table(result: Result) -> str:
    runs = [result["contestants"][name]["runs"] for name in ("threads", "cluster")]
    rows = []
    for step in ("counting", "encoding"):
        cpu, wall = (
            [[run[of][step] for run in group] for group in runs] for of in ("cpu_phases", "phases")
        )
        ratios = [
            f"{median(here / there for here, there in zip(*spent, strict=False)):.2f}"
            for spent in (cpu, wall)
        ]
        rows.append((step, *(f"{median(seconds):.2f}" for seconds in cpu), *ratios))
    table = Table(("", "threads, CPU s", "cluster, CPU s", "CPU ratio", "ratio"), rows)
    return (
        f"**{result['file']}: {result['bytes'] / 1e6:,.0f} MB, {result['threads']} threads or "
        f"processes, median of {len(runs[0])} runs in turn**\n\n{table.markdown()}"
    )


def night_table(result: Result) -> str:
    """Medians of a nightly run and of a run from scratch."""
    runs = [result["contestants"][name]["runs"] for name in ("from scratch", "tonight")]
    sizes = f"{result['bytes'] / 1e6:,.0f} MB in {result['files']} files"
    new = f"{result['new_bytes'] / 1e6:,.0f} MB new"

    def row(name: str, figure: Callable[[Result], float]) -> tuple[str, ...]:
        scratch, tonight = (median(map(figure, group)) for group in runs)
        return name, f"{scratch:.2f}", f"{tonight:.2f}", f"{tonight / scratch:.0%}"

    rows = [
        row("whole command, CPU", lambda run: run["cpu_seconds"]),
        row("whole command", lambda run: run["seconds"]),
        row(
            "what follows the corpus", lambda run: sum(run["steps"][step] for step in OF_THE_CORPUS)
        ),
    ]
    rows += [row(f"· {step}", lambda run, s=step: run["steps"][s]) for step in runs[1][0]["steps"]]
    return Table((sizes, "from scratch, s", f"{new}, s", "share"), rows).markdown()


def combining_table(result: Result) -> str:
    """Time and memory of combining counts."""
    rows = [
        (
            name,
            figures["verdict"].partition(" ")[0],
            f"{figures['cpu_seconds']:.0f}",
            f"{figures['seconds']:.0f}",
            f"{figures['peak_megabytes'] / 1e3:.2f}",
        )
        for name, figures in result["contestants"].items()
    ]
    return Table(("how", "distinct words", "CPU s", "seconds", "peak, GB"), rows).markdown()


def growth_table(results: Sequence[Result]) -> str:
    columns = (
        *("text", "MB", "distinct words", "of these once", "counting, MB/CPU s"),
        *("learning, CPU s", "counting, MB of memory", "learning"),
    )
    rows = []
    for result in sorted(results, key=lambda record: (record["file"], record["bytes"])):
        if result["bytes"] < LARGE:
            continue
        record = result["contestants"][OURS]
        cpu, memory = record["cpu_phases"], record["megabytes"]
        rows.append((
            f"`{result['file']}`", f"{result['bytes'] / 1e6:,.0f}", f"{record['distinct']:,.0f}",
            f"{record['once'] / record['distinct']:.0%}",
            f"{result['bytes'] / 1e6 / cpu['counting']:.0f}", f"{cpu['merging']:.2f}",
            f"{memory['counting']:.0f}", f"{memory['merging']:.0f}",
        ))  # fmt: skip
    return Table(columns, rows).markdown()


def storing_table(results: Sequence[Result]) -> str:
    """Cost of storing and combining counts of chunks."""
    columns = (
        *("text", "MB", "rows of all chunks", "bytes/row on disk"),
        *("counting and keeping, MB/CPU s", "combining, M rows/CPU s"),
    )
    rows = []
    for result in sorted(results, key=lambda record: str(record["file"])):
        record = result["contestants"][OURS]
        cpu, row_count, size = record["cpu_phases"], record["shard_rows"], result["bytes"] / 1e6
        rows.append((
            f"`{result['file']}`", f"{size:,.0f}", f"{row_count:,.0f}",
            f"{record['shard_bytes'] / row_count:.1f}",
            f"{size / (cpu['counting'] + cpu['keeping']):.0f}",
            f"{row_count / 1e6 / cpu['combining']:.1f}",
        ))  # fmt: skip
    return Table(columns, rows).markdown()


def evaluation_table(results: Sequence[Result]) -> str:
    columns = (
        *("file", "ids", "measured", "figures, CPU s", "perturbations, CPU s", "both, CPU s"),
        "seconds",
    )
    rows = []
    for result in results:
        for name, figures in result["contestants"].items():
            phases = [
                median(run["cpu_phases"][phase] for run in figures["runs"])
                for phase in ("figures", "perturbations")
            ]
            times = [
                f"{time:.2f}" for time in (*phases, figures["cpu_seconds"], figures["seconds"])
            ]
            rows.append((result["file"], f"{result['vocab_size']:,}", name, *times))
    return Table(columns, rows, left=(0, 2)).markdown()


def orchestration_table(result: Result) -> str:
    """Medians, and the median difference of pairs."""
    rows = []
    for name, key in (("whole command", "seconds"), ("processor", "cpu_seconds")):
        without, served = (
            [run[key] for run in result["contestants"][kind]["runs"]]
            for kind in ("without", "with")
        )
        more = median(b - a for a, b in zip(without, served, strict=False))
        rows.append((name, f"{median(without):.2f}", f"{median(served):.2f}", f"{more:.2f}"))
    return Table(("", "without, s", "with, s", "more, s"), rows).markdown()
