"""`python -m benchmarks.render`: writes the kept results as tables and charts.

README gets the headlines, docs/benchmarks.md everything; in README only what stands between the two
markers is replaced. Nothing is measured here.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import algorithms, cluster, encoding_results, nightly, orchestration
from benchmarks.charts import bars, curves, speeds
from benchmarks.contestants import CONTESTANTS
from benchmarks.headlines import encoding_headlines, training_headlines
from benchmarks.results import OURS, RESULTS, saved
from benchmarks.tables import markdown, title

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
_QUIET = 0.3  # of a processor
START, END = "<!-- benchmarks:start -->", "<!-- benchmarks:end -->"


def main() -> None:
    results = saved()
    if not results:
        raise SystemExit("nothing to render: run `python -m benchmarks FILE` first")
    bars(results, RESULTS / "training.svg")
    encoding = encoding_results.saved()
    if encoding:
        speeds(encoding, RESULTS / "encoding.svg")
    scaling = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("scaling-*.json"))]
    if scaling:
        curves(scaling[0]["panels"], RESULTS / "scaling.svg")
    parts = ["# Benchmarks", "## Training", block(results, bool(scaling))]
    if encoding:
        parts.append(encoding_block(encoding, encoding_results.saved_loading()))
    learned = [json.loads(path.read_text()) for path in sorted(algorithms.FOLDER.glob("*.json"))]
    if learned:
        parts.append(algorithms_block(learned))
    clusters = [json.loads(path.read_text()) for path in sorted(cluster.FOLDER.glob("*.json"))]
    if clusters:
        parts.append(cluster_block(clusters))
    nights = [json.loads(path.read_text()) for path in nightly.FOLDER.glob("*.json")]
    if nights:
        parts.append(nightly_block(sorted(nights, key=lambda one: int(one["bytes"]))))
    if orchestration.KEPT.exists():
        parts.append(orchestration_block(json.loads(orchestration.KEPT.read_text())))
    PAGE.write_text("\n\n".join([*parts, _wrapped(_reproduce())]) + "\n")
    README.write_text(replaced(README.read_text(), headlines(results, encoding)))


def headlines(results: Sequence[Mapping[str, Any]], encoding: Sequence[Mapping[str, Any]]) -> str:
    """What README shows of it."""
    parts = [
        "![Seconds to train on each file, by trainer](benchmarks/results/training.svg)",
        training_headlines(results),
    ]
    if encoding:
        parts += [
            "![MB/s on each file, by encoder](benchmarks/results/encoding.svg)",
            encoding_headlines(encoding),
        ]
    parts.append(
        _wrapped(
            "Ratios are their seconds to ours, pairs of fresh processes in turn on the same two "
            "cores, and only where merges or ids are equal; slow encoders take a sample. All "
            "tables, and what to know before comparing: [docs/benchmarks.md](docs/benchmarks.md). "
            "`make bench FILE=corpus.txt` measures on your machine."
        )
    )
    return "\n\n".join(parts)


def replaced(readme: str, content: str) -> str:
    """``readme`` with ``content`` between the markers.

    Raises:
        ValueError: not exactly one pair of markers.
    """
    before, start, rest = readme.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end or START in after or END in after:
        raise ValueError(f"README holds one {START} and, behind it, one {END}")
    return f"{before}{START}\n{content}\n{END}{after}"


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
        parts += [f"**{title(result)}**", markdown(result)]
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
        parts += [f"**{encoding_results.title(of_file)}**", encoding_results.markdown(of_file)]
        parts += filter(None, [_wrapped(encoding_results.scaling(of_file))])
    if loading is not None:
        parts.append(encoding_results.loading_markdown(loading))
    notes = [*encoding_results.notes(results), *_circumstances(results)]
    parts.append("\n".join(_wrapped(note, "- ") for note in notes))
    return "\n\n".join(parts)


def algorithms_block(results: Sequence[Mapping[str, Any]]) -> str:
    """The trainers that are not byte-level BPE, beside it and beside subword-nmt."""
    said = (
        "From a file to its tokens, in processor seconds of all threads. subword-nmt learns with "
        "two processes and once; its codes were compared first, and are those of char-bpe."
    )
    return "\n\n".join(["## Other algorithms", _wrapped(said), *map(algorithms.table, results)])


def cluster_block(results: Sequence[Mapping[str, Any]]) -> str:
    """Processes of a Dask cluster beside as many threads."""
    least, most = (pick(float(one["start_seconds"]) for one in results) for pick in (min, max))
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
    return "\n\n".join(["## Clusters", _wrapped(said), *map(cluster.table, results), machines])


def nightly_block(results: Sequence[Mapping[str, Any]]) -> str:
    """The whole command again when 1 % of the corpus is new, beside a run from scratch."""
    said = (
        "`bpeline train` in a process of its own, from starting to publishing in MLflow, when 1 % "
        "of the corpus is new since the run before, and on the same corpus from scratch; both "
        "come to the same tokenizer. What follows distinct words or the vocabulary is done again "
        "every night: adding up, learning, evaluating, screening, publishing. "
        "`python -m benchmarks.nightly FILE…` measures it."
    )
    parts = ["## A night's run", _wrapped(said)]
    for result in results:
        rounds = len(result["rounds"])
        taken = f"Medians of {rounds} rounds" if rounds > 1 else "One round"
        parts += [nightly.table(result), _wrapped(f"{taken}, {_company(result)}.")]
    return "\n\n".join(parts)


def orchestration_block(result: Mapping[str, Any]) -> str:
    """What Prefect costs a training."""
    said = (
        f"`bpeline train` on {result['bytes'] / 1e6:,.0f} MB with a Prefect server that runs "
        "already, and without one, in turn, each in a fresh workspace and a process of its own; "
        f"{len(result['pairs'])} pairs, {_company(result)}. The tokenizers are the same."
    )
    return "\n\n".join(["## What Prefect costs a run", _wrapped(said), orchestration.table(result)])


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
    shown = {name for result in results for name in result["trainers"]}
    by_caveat: dict[str, list[str]] = {}
    for name, contestant in CONTESTANTS.items():
        if contestant.caveat and name in shown:
            by_caveat.setdefault(contestant.caveat, []).append(name)
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
    return f"{min(figure(result['trainers'][OURS]) for result in results):.{digits}f}"


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


def _reproduce() -> str:
    return (
        "`make bench FILE=corpus.txt` measures both on your machine, beside the peers that are "
        "installed; `python -m benchmarks.render` writes this page."
    )


def _wrapped(text: str, bullet: str = "") -> str:
    indent = " " * len(bullet)
    return textwrap.fill(
        text, 100, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False
    )


def _relative(name: str) -> str:
    return f"../benchmarks/results/{name}"


if __name__ == "__main__":
    main()
