"""Writes results as tables and pictures into README and docs, between markers."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import zoo
from benchmarks.charts import bars, curves, speeds
from benchmarks.encoders import ENCODERS
from benchmarks.measurement import OURS, Contestant
from benchmarks.results import RESULTS, newest
from benchmarks.tables import (
    HEADINGS,
    THREADS_HEADINGS,
    algorithms_table,
    cluster_table,
    combining_table,
    encoding_markdown,
    evaluation_table,
    growth_table,
    headlines,
    loading_markdown,
    night_table,
    orchestration_table,
    rows,
    scaling,
    storing_table,
    table_of,
    threads_rows,
    title,
)
from benchmarks.trainers import TRAINERS

ROOT = Path(__file__).parent.parent
_QUIET = 0.3  # of a processor
_LARGE = 100_000_000  # bytes of files that README shows
_RECORDED = RESULTS / "recorded.md"  # tables that no harness writes
_REPRODUCE = (
    "`make bench FILE=corpus.txt` measures training and encoding on your machine, next to the "
    "installed peers; `python -m benchmarks pages` writes this page."
)


def write() -> None:
    """Write all pages."""
    results, encoding = newest("training"), newest("encoding")
    if not results:
        raise SystemExit("no results of training: run `python -m benchmarks training FILE` first")
    encoding.sort(key=lambda result: (result["file"], result["threads"]))
    bars(results, RESULTS / "training.svg")
    bars(
        [result for result in results if _LARGE <= result["bytes"] < 2 * _LARGE],
        RESULTS / "landing.svg",
    )
    if encoding:
        speeds(encoding, RESULTS / "encoding.svg")
    panels = scaling_panels(newest("training-by-corpus"), newest("training-by-vocabulary"))
    if panels:
        curves(panels, RESULTS / "scaling.svg")
    parts = ["## Training", block(results, bool(panels))]
    if encoding:
        parts.append(encoding_block(encoding, *newest("loading")[-1:]))
    for name, written in (
        ("threads", threads_block),
        ("algorithms", algorithms_block),
        ("cluster", cluster_block),
        ("night", nightly_block),
        ("orchestration", orchestration_block),
        ("evaluation", evaluation_block),
        ("combining", combining_block),
    ):
        if found := newest(name):
            parts.append(written(found))
    if (growth := newest("growth")) and (storing := newest("storing")):
        parts.append(growth_block(growth, storing))
    parts += [_RECORDED.read_text("utf-8").rstrip(), _wrapped(_REPRODUCE)]
    _replace(ROOT / "docs/benchmarks.md", "measured", "\n\n".join(parts))
    _replace(ROOT / "README.md", "benchmarks", headlines_block(results, encoding))
    if (zoo_file := RESULTS / "zoo.json").exists():
        content = zoo_block(json.loads(zoo_file.read_text("utf-8")))
        _replace(ROOT / "docs/exactness.md", "zoo", content)


def _replace(page: Path, mark: str, content: str) -> None:
    page.write_text(replaced(page.read_text(encoding="utf-8"), content, mark), encoding="utf-8")


def scaling_panels(
    by_corpus: Sequence[Mapping[str, Any]], by_vocabulary: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Panels of seconds against corpus size and vocabulary size."""
    panels = []
    for results, label, x in (
        (by_corpus, "corpus, MB", lambda result: round(result["bytes"] / 1e6)),
        (by_vocabulary, "vocabulary size", lambda result: result["vocab_size"]),
    ):
        if not results:
            continue
        last = results[-1]
        title = f"{last['file']}, vocabulary {last['vocab_size']:,}"
        if results is by_vocabulary:
            title = f"{last['bytes'] / 1e6:.0f} MB of it"
        lines: dict[str, list[tuple[float, float]]] = {}
        for result in results:
            for name, contestant in result["contestants"].items():
                if "seconds" in contestant:
                    lines.setdefault(name, []).append((x(result), contestant["seconds"]))
        panels.append({"title": title, "label": label, "lines": lines})
    return panels


def headlines_block(
    results: Sequence[Mapping[str, Any]], encoding: Sequence[Mapping[str, Any]]
) -> str:
    large = [result for result in results if result["bytes"] >= _LARGE]
    table = headlines(large, [result for result in encoding if result["threads"] == 1])
    dates = sorted({result["date"] for result in (*large, *encoding)})
    conditions = _wrapped(
        f"Measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} (trainings with 0.2, which "
        "merged in two threads where that paid). CPU time of fresh processes, run in turn on two "
        "cores with AVX-512; encoding is the first pass of one thread with a vocabulary learned "
        "from the file. × is the peer's CPU time divided by ours; only peers with equal "
        "merges or ids count, and slow ones read a sample. "
        "All tables, memory and further conditions: [Benchmarks](docs/benchmarks.md); "
        "`make bench FILE=corpus.txt` measures on your machine."
    )
    return f"{table}\n\n{conditions}"


def zoo_block(found: Mapping[str, Any]) -> str:
    table = table_of(zoo.HEADINGS, [zoo.Outcome(**outcome).row() for outcome in found["files"]])
    libraries = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{table.markdown()}\n\n{_wrapped(found['date'] + ', ' + libraries + '.')}"


def replaced(page: str, content: str, mark: str = "benchmarks") -> str:
    """``page`` with ``content`` between its markers; `ValueError` without them."""
    begin, stop = f"<!-- {mark}:start -->", f"<!-- {mark}:end -->"
    before, start, rest = page.partition(begin)
    _, end, after = rest.partition(stop)
    if not start or not end or begin in after or stop in after:
        raise ValueError(f"expected one {begin} and, after it, one {stop} in the page")
    return f"{before}{begin}\n{content}\n{stop}{after}"


def block(results: Sequence[Mapping[str, Any]], has_scaling: bool = False) -> str:
    parts = [
        _wrapped(
            "Seconds from a file to its merges. Trainers run in turn, in fresh processes, on the "
            "same file with GPT-2's split pattern and the same number of threads. Merges are "
            "compared first; paler bars learn another vocabulary by design."
        ),
        f"![Seconds to train on each file, by trainer]({_relative('training.svg')})",
    ]
    for result in results:
        parts += [f"**{title([result])}**", table_of(HEADINGS, rows(result)).markdown()]
    if has_scaling:
        parts.append(
            f"![Seconds against corpus size and vocabulary size]({_relative('scaling.svg')})"
        )
    parts.append("\n".join(_wrapped(note, "- ") for note in _notes(results)))
    return "\n\n".join(parts)


def encoding_block(
    results: Sequence[Mapping[str, Any]], loading: Mapping[str, Any] | None = None
) -> str:
    parts = [
        "## Encoding",
        _wrapped(
            "MB/s from a file to its ids. Encoders run in turn, in fresh processes, with the same "
            "vocabulary and number of threads. Ids are compared first."
        ),
        f"![MB/s on each file, by encoder]({_relative('encoding.svg')})",
    ]
    for _, group in groupby(results, key=lambda result: (result["file"], result["vocab_size"])):
        of_file = list(group)
        parts += [f"**{title(of_file)}**", encoding_markdown(of_file)]
        parts += filter(None, [_wrapped(scaling(of_file))])
    if loading is not None:
        parts.append(loading_markdown(loading))
    notes = [*_encoding_notes(results), *_circumstances(results)]
    parts.append("\n".join(_wrapped(note, "- ") for note in notes))
    return "\n\n".join(parts)


def threads_block(results: Sequence[Mapping[str, Any]]) -> str:
    text = (
        "One file is counted, and encoded twice into ids in memory, with one thread and with two. "
        "Runs alternate in fresh processes on two CPUs, with kernels loaded; counts and ids were "
        "compared first. *Encoding* starts with empty caches, *encoding again* with all words "
        "cached. *Share*: CPU seconds of two threads divided by those of one. Merging uses one "
        "thread. "
        f"The fastest of at least {min(entry['rounds'] for entry in results)} runs of each, "
        f"{_company(max(results, key=lambda entry: float(entry['load'])))}. "
        "`python -m benchmarks threads FILE…` measures it."
    )
    rows = [row for result in results for row in threads_rows(result)]
    table = table_of(THREADS_HEADINGS, rows).markdown()
    return "\n\n".join(["## One thread and two", _wrapped(text), table])


def algorithms_block(results: Sequence[Mapping[str, Any]]) -> str:
    text = (
        "CPU seconds of all threads, from a file to its tokens. subword-nmt runs once, with two "
        "processes; its codes were compared first and equal those of char-bpe."
    )
    return "\n\n".join(["## Other algorithms", _wrapped(text), *map(algorithms_table, results)])


def cluster_block(results: Sequence[Mapping[str, Any]]) -> str:
    least, most = (
        pick(entry["contestants"]["cluster"]["start_seconds"] for entry in results)
        for pick in (min, max)
    )
    text = (
        "The same files are counted and encoded into shards by threads, and by the same number of "
        "processes of a Dask cluster on the same machine, with equal results. *ratio*: seconds of "
        "threads divided by those of the cluster, the median over pairs of runs; 1 means no "
        "overhead. *CPU ratio*: the same for CPU seconds, which vary less on a shared machine. "
        "Processes do not share their caches of words, threads do. Starting the processes and "
        f"loading kernels took {least:.0f} to {most:.0f} seconds more, on a machine with other "
        "work."
    )
    machines = "\n".join(_wrapped(f"Measured on {entry}.", "- ") for entry in _machines(results))
    return "\n\n".join(["## Clusters", _wrapped(text), *map(cluster_table, results), machines])


def nightly_block(results: Sequence[Mapping[str, Any]]) -> str:
    text = (
        "`bpeline train`, from start to publication in MLflow, when 1 % of the corpus is new since "
        "the last run, compared with a run from scratch; both give the same tokenizer. Combining, "
        "merging, evaluating, screening and publishing are done in every run. "
        "`python -m benchmarks night FILE…` measures it."
    )
    parts = ["## A night's run", _wrapped(text)]
    for result in results:
        rounds = result["rounds"]
        rounds_text = f"Medians of {rounds} rounds" if rounds > 1 else "One round"
        parts += [night_table(result), _wrapped(f"{rounds_text}, {_company(result)}.")]
    return "\n\n".join(parts)


def evaluation_block(results: Sequence[Mapping[str, Any]]) -> str:
    size = max(float(result["set_bytes"]) for result in results)
    text = (
        f"All figures of an evaluation set of {size / 1e6:.0f} MB in documents of 4 KiB, then the "
        "perturbations of 512 KiB of it: for a version alone, and for a version and a champion "
        "with three quarters of its ids. Kernels are loaded, caches are empty. "
        f"Medians of {results[-1]['rounds']} runs, {_company(results[-1])}. "
        "`python -m benchmarks evaluation FILE…` measures it."
    )
    return "\n\n".join(["## Evaluation", _wrapped(text), evaluation_table(results)])


def orchestration_block(results: Sequence[Mapping[str, Any]]) -> str:
    result = results[-1]
    text = (
        f"`bpeline train` on {result['bytes'] / 1e6:,.0f} MB with a running Prefect server and "
        "without one, in turn, each in a fresh workspace and process; "
        f"{result['rounds']} pairs, {_company(result)}. The tokenizers are equal."
    )
    return "\n\n".join(["## What Prefect costs a run", _wrapped(text), orchestration_table(result)])


def combining_block(results: Sequence[Mapping[str, Any]]) -> str:
    result = results[-1]
    text = (
        "Two threads, whole process, 200 synthetic shards of 250,000 to 450,000 rows. Word counts "
        "follow Zipf's law (exponent 1.07). Frequent words come from a real text; rare words are "
        "variants of them. *step* is that of `bpeline train`; *sorted numbers* is NumPy. Digests "
        f"are equal. One round, {_company(result)}. "
        "`TMPDIR=DIRECTORY python -m benchmarks combining FILE` measures it."
    )
    return "\n\n".join(
        ["## Combining 50 million distinct words", _wrapped(text), combining_table(result)]
    )


def growth_block(growth: Sequence[Mapping[str, Any]], storing: Sequence[Mapping[str, Any]]) -> str:
    text = (
        "Texts and their prefixes, two threads, a vocabulary of 32,000, one run each. *of these "
        "once*: the share of words with count 1. Memory is what the phase adds. *combining* sums "
        "the rows and writes the table; a row is a word with its count in one chunk of 64 MiB. "
        "`python -m benchmarks growth FILE` and `python -m benchmarks storing FILE` measure it."
    )
    conditions = "\n".join(_wrapped(note, "- ") for note in _circumstances([*growth, *storing]))
    tables = [growth_table(growth), storing_table(storing)]
    return "\n\n".join(["## Growth", _wrapped(text), *tables, conditions])


def _company(result: Mapping[str, Any]) -> str:
    """Whether the machine had other work, as part of a sentence."""
    if result["load"] >= _QUIET:
        return f"on a machine with other work (load {result['load']}): CPU seconds vary least"
    return "on a machine with no other work"


def _notes(results: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = [
        "*ratio*: their seconds divided by ours, the median over pairs of consecutive runs; "
        "*CPU ratio*: the same for CPU seconds of all threads; "
        "*merging* is everything after counting, if a trainer reports it.",
        f"*peak MB* is the whole process; {_least(results, _before)} MB of ours are Python, "
        "NumPy, Numba and compiled kernels.",
        f"Our seconds exclude starting, importing and loading compiled kernels "
        f"({_least(results, _start_up, 1)} s per process) and compiling them (once per machine); "
        "theirs exclude starting and importing.",
    ]
    by_caveat = _by_caveat(TRAINERS, results)
    notes += [f"{' and '.join(names)}: {caveat}." for caveat, names in by_caveat.items()]
    return [*notes, *_circumstances(results)]


def _circumstances(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The machine, and whether it had other work."""
    notes = [f"Measured on {machine}." for machine in _machines(results)]
    busiest = max(float(result["load"]) for result in results)
    if busiest >= _QUIET:
        notes.append(
            f"The machine was shared (load up to {busiest} before the first run): wall seconds "
            "are too long and ratios uncertain; CPU seconds vary least."
        )
    return notes


def _least(
    results: Sequence[Mapping[str, Any]],
    figure: Callable[[Mapping[str, Any]], float],
    digits: int = 0,
) -> str:
    return f"{min(figure(result['contestants'][OURS]) for result in results):.{digits}f}"


def _before(one: Mapping[str, Any]) -> float:
    return float(one["megabytes_before"])


def _start_up(one: Mapping[str, Any]) -> float:
    return float(one["process_seconds"]) - float(one["seconds"])


def _machines(results: Sequence[Mapping[str, Any]]) -> list[str]:
    described = []
    for result in results:
        machine = result["machine"]
        versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
        words = (
            f"{machine['processor']} ({machine['vectors']}), {machine['cores']} cores, "
            f"{machine['memory_gigabytes']} GB, {machine['system']}, Python {machine['python']}: "
            f"{versions}"
        )
        if words not in described:
            described.append(words)
    return described


def _wrapped(text: str, bullet: str = "") -> str:
    indent = " " * len(bullet)
    return textwrap.fill(
        text, 100, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False
    )


def _relative(name: str) -> str:
    return f"../benchmarks/results/{name}"


def _encoding_notes(results: Sequence[Mapping[str, Any]]) -> list[str]:
    by_caveat = _by_caveat(ENCODERS, results)
    return [
        "*MB/s*: from a file to ids in a fresh process with empty caches; *again*: the same file a "
        "second time, with the most threads; *ratio*: their seconds divided by ours, the median "
        "over pairs of consecutive runs; *CPU ratio*: the same for CPU seconds of all threads.",
        "*60 characters*, *1 kB*: one call per text, for texts from all over the file, with warm "
        "caches; *decode*: the ids of the file's first 4 MB as one list.",
        "*loading*: from the vocabulary's file to a tokenizer; *MB* is the growth of the process, "
        "including the library's code.",
        *(f"{_listed(names)}: {caveat}." for caveat, names in by_caveat.items()),
        *_of_samples(results),
    ]


def _of_samples(results: Sequence[Mapping[str, Any]]) -> list[str]:
    if not any(
        "sample_bytes" in contestant
        for result in results
        for contestant in result["contestants"].values()
    ):
        return []
    return [
        "*of 20 MB*: a sample of twenty parts of the file; ratios compare with our seconds for the "
        "same sample, which are not in the table."
    ]


def _listed(names: Sequence[str]) -> str:
    quoted = [f"*{name}*" if "," in name else name for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _by_caveat(
    contestants: Iterable[Contestant], results: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    shown = {name for result in results for name in result["contestants"]}
    names: dict[str, list[str]] = {}
    for contestant in contestants:
        if contestant.caveat and contestant.name in shown:
            names.setdefault(contestant.caveat, []).append(contestant.name)
    return names
