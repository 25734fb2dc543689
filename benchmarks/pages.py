"""Writes the kept results as tables and pictures into README and docs; measures nothing.

README gets the headlines, docs/benchmarks.md everything that is run by `python -m benchmarks`,
docs/scaling.md growing texts and many words; only what stands between two markers is replaced.
"""

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
_REPRODUCE = (
    "`make bench FILE=corpus.txt` measures both on your machine, beside the peers that are "
    "installed; `python -m benchmarks pages` writes this page."
)


def write() -> None:
    """Write all pages.

    Raises:
        SystemExit: nothing was measured.
    """
    results, encoding = newest("training"), newest("encoding")
    if not results:
        raise SystemExit("no results of training: run `python -m benchmarks training FILE` first")
    encoding.sort(key=lambda result: (result["file"], result["threads"]))
    bars(results, RESULTS / "training.svg")
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
    ):
        if found := newest(name):
            parts.append(written(found))
    _replace(ROOT / "docs/benchmarks.md", "measured", "\n\n".join([*parts, _wrapped(_REPRODUCE)]))
    _replace(ROOT / "README.md", "benchmarks", headlines_block(results, encoding))
    if (found := RESULTS / "zoo.json").exists():
        _replace(ROOT / "docs/interop.md", "zoo", zoo_block(json.loads(found.read_text("utf-8"))))
    for result in newest("combining"):
        content = f"{combining_table(result)}\n\n{_wrapped(f'One round, {_company(result)}.')}"
        _replace(ROOT / "docs/scaling.md", "combining", content)
    if (growth := newest("growth")) and (storing := newest("storing")):
        tables = [growth_table(growth), storing_table(storing)]
        conditions = [_wrapped(note, "- ") for note in _circumstances([*growth, *storing])]
        content = "\n\n".join([*tables, "\n".join(conditions)])
        _replace(ROOT / "docs/scaling.md", "scaling", content)


def _replace(page: Path, mark: str, content: str) -> None:
    page.write_text(replaced(page.read_text(encoding="utf-8"), content, mark), encoding="utf-8")


def scaling_panels(
    by_corpus: Sequence[Mapping[str, Any]], by_vocabulary: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Seconds of every trainer against one size and the other."""
    panels = []
    for results, label, x in (
        (by_corpus, "corpus, MB", lambda result: round(result["bytes"] / 1e6)),
        (by_vocabulary, "vocabulary size", lambda result: result["vocab_size"]),
    ):
        if not results:
            continue
        last = results[-1]
        said = f"{last['file']}, vocabulary {last['vocab_size']:,}"
        if results is by_vocabulary:
            said = f"{last['bytes'] / 1e6:.0f} MB of it"
        lines: dict[str, list[tuple[float, float]]] = {}
        for result in results:
            for name, one in result["contestants"].items():
                if "seconds" in one:
                    lines.setdefault(name, []).append((x(result), one["seconds"]))
        panels.append({"title": said, "label": label, "lines": lines})
    return panels


def headlines_block(
    results: Sequence[Mapping[str, Any]], encoding: Sequence[Mapping[str, Any]]
) -> str:
    """What README shows of it."""
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
    """What became of each tokenizer file, and beside which releases of its libraries."""
    table = table_of(zoo.HEADINGS, [zoo.Outcome(**one).row() for one in found["files"]])
    libraries = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return f"{table.markdown()}\n\n{_wrapped(found['date'] + ', ' + libraries + '.')}"


def replaced(page: str, content: str, mark: str = "benchmarks") -> str:
    """``page`` with ``content`` between the markers.

    Raises:
        ValueError: not exactly one pair of markers.
    """
    begin, stop = f"<!-- {mark}:start -->", f"<!-- {mark}:end -->"
    before, start, rest = page.partition(begin)
    _, end, after = rest.partition(stop)
    if not start or not end or begin in after or stop in after:
        raise ValueError(f"the page holds one {begin} and, after it, one {stop}")
    return f"{before}{begin}\n{content}\n{stop}{after}"


def block(results: Sequence[Mapping[str, Any]], has_scaling: bool = False) -> str:
    """Chart, tables, what was measured on, what to know before comparing."""
    parts = [
        _wrapped(
            "From a file to its merges, in seconds: every trainer in a fresh process, in turn, "
            "on the same file, with the GPT-2 split pattern and as many threads. Merges are "
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
    """The same for encoders."""
    parts = [
        "## Encoding",
        _wrapped(
            "From a file to its ids, in MB/s: every encoder in a fresh process, in turn, with the "
            "same vocabulary and as many threads. Ids are compared first."
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
    """What a second thread is worth."""
    said = (
        "One file counted and encoded twice into ids in memory, by one thread and by two, in fresh "
        "processes in turn on two processors, kernels loaded before; counts and ids were compared "
        "first. *Encoding* is that of a tokenizer which has "
        "met no word yet, *encoding again* finds all words known. *Share*: processor seconds of "
        "two threads to those of one, which is the calling one. Merging takes one thread. "
        f"The quickest of {min(one['rounds'] for one in results)} runs of each or more, "
        f"{_company(max(results, key=lambda one: float(one['load'])))}. "
        "`python -m benchmarks threads FILE…` measures it."
    )
    rows = [row for result in results for row in threads_rows(result)]
    table = table_of(THREADS_HEADINGS, rows).markdown()
    return "\n\n".join(["## One thread and two", _wrapped(said), table])


def algorithms_block(results: Sequence[Mapping[str, Any]]) -> str:
    """The trainers that are not byte-level BPE, beside it and beside subword-nmt."""
    said = (
        "From a file to its tokens, in processor seconds of all threads. subword-nmt learns with "
        "two processes and once; its codes were compared first, and are those of char-bpe."
    )
    return "\n\n".join(["## Other algorithms", _wrapped(said), *map(algorithms_table, results)])


def cluster_block(results: Sequence[Mapping[str, Any]]) -> str:
    """Processes of a Dask cluster beside as many threads."""
    least, most = (
        pick(one["contestants"]["cluster"]["start_seconds"] for one in results)
        for pick in (min, max)
    )
    said = (
        "The same files counted and encoded into shards by threads, and by as many processes of a "
        "Dask cluster on the same machine. Results were compared first, and are the same. *ratio*: "
        "the threads' seconds to the cluster's, the median over pairs of runs in turn; 1 would be "
        "a cluster that costs nothing; *CPU ratio*: the same of processor seconds, which others' "
        "work on the machine disturbs less. Each process meets the words of the text by itself, "
        "where threads share what they know. Starting the processes and loading kernels in them "
        f"took {least:.0f} to {most:.0f} seconds more, on a machine with other work."
    )
    machines = "\n".join(_wrapped(f"Measured on {one}.", "- ") for one in _machines(results))
    return "\n\n".join(["## Clusters", _wrapped(said), *map(cluster_table, results), machines])


def nightly_block(results: Sequence[Mapping[str, Any]]) -> str:
    """The whole command again when 1 % of the corpus is new, beside a run from scratch."""
    said = (
        "`bpeline train` in a process of its own, from starting to publishing in MLflow, when 1 % "
        "of the corpus is new since the run before, and on the same corpus from scratch; both "
        "come to the same tokenizer. What follows distinct words or the vocabulary is done again "
        "every night: adding up, learning, evaluating, screening, publishing. "
        "`python -m benchmarks night FILE…` measures it."
    )
    parts = ["## A night's run", _wrapped(said)]
    for result in results:
        rounds = result["rounds"]
        taken = f"Medians of {rounds} rounds" if rounds > 1 else "One round"
        parts += [night_table(result), _wrapped(f"{taken}, {_company(result)}.")]
    return "\n\n".join(parts)


def evaluation_block(results: Sequence[Mapping[str, Any]]) -> str:
    """What measuring a version costs."""
    size = max(float(result["set_bytes"]) for result in results)
    said = (
        f"An evaluation set of {size / 1e6:.0f} MB in documents of 4 KiB: all figures of it, then "
        "the perturbations (of 512 KiB of it), of a version alone and beside a champion with "
        "three quarters of its ids, in a process in which that was done before; both tokenizers "
        f"are read anew. Medians of {results[-1]['rounds']} runs, {_company(results[-1])}. "
        "`python -m benchmarks evaluation FILE…` measures it."
    )
    return "\n\n".join(["## Evaluation", _wrapped(said), evaluation_table(results)])


def orchestration_block(results: Sequence[Mapping[str, Any]]) -> str:
    """What Prefect costs a training."""
    result = results[-1]
    said = (
        f"`bpeline train` on {result['bytes'] / 1e6:,.0f} MB with a Prefect server that runs "
        "already, and without one, in turn, each in a fresh workspace and a process of its own; "
        f"{result['rounds']} pairs, {_company(result)}. The tokenizers are the same."
    )
    return "\n\n".join(["## What Prefect costs a run", _wrapped(said), orchestration_table(result)])


def _company(result: Mapping[str, Any]) -> str:
    """Whether the machine was ours alone, in a part of a sentence."""
    if result["load"] >= _QUIET:
        return f"on a machine with other work (load {result['load']}): CPU seconds vary least"
    return "on a machine with no other work"


def _notes(results: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = [
        "*ratio*: their seconds to ours, the median over pairs of runs made one after the other; "
        "*CPU ratio*: the same of processor seconds, all threads together; "
        "*merging* is everything behind counting, where a trainer tells.",
        f"*peak MB* is the whole process: for us, {_least(results, _before)} MB of it are Python, "
        "NumPy, Numba and its compiled kernels, before the first byte is read.",
        f"Not in our seconds: starting, importing and loading compiled kernels, "
        f"{_least(results, _start_up, 1)} s in each process; compiling them, once per machine. "
        "Not in theirs: starting and importing.",
    ]
    by_caveat = _by_caveat(TRAINERS, results)
    notes += [f"{' and '.join(names)}: {caveat}." for caveat, names in by_caveat.items()]
    return [*notes, *_circumstances(results)]


def _circumstances(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """The machine, and whether it was ours alone."""
    notes = [f"Measured on {machine}." for machine in _machines(results)]
    busiest = max(float(result["load"]) for result in results)
    if busiest >= _QUIET:
        notes.append(
            f"The machine was shared (load up to {busiest} before the first run): wall seconds "
            "are too long for everyone and ratios uncertain; CPU seconds vary least."
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
    """What to know before comparing."""
    by_caveat = _by_caveat(ENCODERS, results)
    return [
        "*MB/s*: from a file to ids in a fresh process, caches empty; *again*: the same file once "
        "more in that process, with the most threads; *ratio*: their seconds to ours, the median "
        "over pairs of runs made one after the other; *CPU ratio*: the same of processor seconds, "
        "all threads together.",
        "*60 characters*, *1 kB*: one call for one text, over texts from all over the file, met "
        "before; *decode*: the ids of the file's first 4 MB as one list.",
        "*loading*: from the vocabulary's file to an object that encodes; *MB* is what the process "
        "grew by, the library's own code included.",
        *(f"{_listed(names)}: {caveat}." for caveat, names in by_caveat.items()),
        *_of_samples(results),
    ]


def _of_samples(results: Sequence[Mapping[str, Any]]) -> list[str]:
    if not any(
        "sample_bytes" in one for result in results for one in result["contestants"].values()
    ):
        return []
    return [
        "*of 20 MB*: given twenty stretches from all over the file; their ratios are "
        "to our seconds for the same sample, in the same round, not to those in our row."
    ]


def _listed(names: Sequence[str]) -> str:
    quoted = [f"*{name}*" if "," in name else name for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def _by_caveat(
    contestants: Iterable[Contestant], results: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """What to know, and about whom."""
    shown = {name for result in results for name in result["contestants"]}
    found: dict[str, list[str]] = {}
    for one in contestants:
        if one.caveat and one.name in shown:
            found.setdefault(one.caveat, []).append(one.name)
    return found
