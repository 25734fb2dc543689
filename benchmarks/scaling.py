"""`python -m benchmarks.scaling FILE`: seconds against corpus size and against vocabulary size.

Corpora of each size are beginnings of the file, cut at a document; vocabularies are learned from
a beginning of moderate size. `python -m benchmarks.render` draws the two plots.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.contestants import CONTESTANTS
from benchmarks.documents import SEPARATOR
from benchmarks.results import OURS, RESULTS
from benchmarks.runs import run_in_turn, run_once

MEGABYTES = (10, 30, 100, 300, 1000)
VOCABULARIES = (1_000, 4_000, 16_000, 64_000, 256_000)
_TRAINERS = (OURS, "gigatoken", "rustbpe")
_VOCABULARY = 32_000  # while the corpus grows
_CORPUS = 100  # MB, while the vocabulary grows
_LONG = 120.0  # seconds; a trainer that took longer is not asked for more

Lines = dict[str, list[tuple[float, float]]]


def main() -> None:
    options = _parser().parse_args()
    names = [name for name in options.only if CONTESTANTS[name].installed]
    path, threads, rounds = options.file, options.threads, options.rounds
    run_once(CONTESTANTS[OURS], path, _VOCABULARY, threads)  # new kernels are compiled, untimed
    whole = path.stat().st_size / 1e6
    sizes = sorted({*(size for size in MEGABYTES if size < whole), round(whole)})

    by_corpus: Lines = {name: [] for name in names}
    by_vocabulary: Lines = {name: [] for name in names}
    result = {
        "file": path.name,
        "threads": threads,
        "rounds": rounds,
        "machine": machine.description(),
        "panels": [
            _panel(f"{path.name}, vocabulary {_VOCABULARY:,}", "corpus, MB", by_corpus),
            _panel(f"{min(_CORPUS, whole):.0f} MB of it", "vocabulary size", by_vocabulary),
        ],
    }
    for size in sizes:
        with beginning(path, size) as corpus:
            _measure(by_corpus, corpus, size, _VOCABULARY, threads, rounds)
        _keep(result, options.output)
    with beginning(path, min(_CORPUS, round(whole))) as corpus:
        for vocab_size in VOCABULARIES:
            _measure(by_vocabulary, corpus, vocab_size, vocab_size, threads, rounds)
            _keep(result, options.output)


def _keep(result: dict[str, Any], folder: Path) -> None:
    """Written after every point, so that an interrupted measurement is not lost."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / f"scaling-{Path(result['file']).stem}.json"
    kept.write_text(json.dumps(result, indent=1) + "\n")


@contextmanager
def beginning(path: Path, megabytes: float) -> Iterator[Path]:
    """A file with the first documents of ``path``, at most so long; ``path`` itself if shorter."""
    if path.stat().st_size <= megabytes * 1e6:
        yield path
        return
    with path.open("rb") as file:
        content = file.read(int(megabytes * 1e6))
    cut = max(content.rfind(SEPARATOR.encode()), content.rfind(b"\n"))
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        corpus = Path(directory, f"{megabytes:g}MB.txt")
        corpus.write_bytes(content[:cut] if cut > 0 else content)
        yield corpus


def _measure(
    lines: Lines, corpus: Path, x: float, vocab_size: int, threads: int, rounds: int
) -> None:
    asked = [name for name, points in lines.items() if not points or points[-1][1] < _LONG]
    for name, runs in run_in_turn(asked, corpus, vocab_size, threads, rounds).items():
        good = sorted(run.measured["seconds"] for run in runs if not run.failure)
        if good:
            lines[name].append((x, good[len(good) // 2]))
            print(f"{name}: {x:g}: {good[len(good) // 2]:.2f} s", flush=True)


def _panel(title: str, label: str, lines: Lines) -> dict[str, Any]:
    return {"title": title, "label": label, "lines": lines}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("file", type=Path, help="UTF-8 text, the larger the better")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    trainers: Sequence[str] = list(CONTESTANTS)
    parser.add_argument("--only", nargs="+", choices=trainers, default=list(_TRAINERS))
    parser.add_argument("--output", type=Path, default=RESULTS, help="where JSON is kept")
    return parser


if __name__ == "__main__":
    main()
