"""`python -m benchmarks.nightly FILE…`: what a night's run costs when 1 % of the corpus is new.

In a fresh workspace, `bpeline train` first takes the corpus as it was yesterday: all files, the
last one without as many bytes as 1 % of all. Tonight these bytes are a new file. The same corpus
from scratch, in a workspace of its own, is what tonight is measured against; both must come to the
same tokenizer. Every run is the whole command in a process of its own: starting, counting, merging,
evaluating, screening, publishing to MLflow.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import description
from benchmarks.results import RESULTS
from benchmarks.whole_command import train

FOLDER = RESULTS / "nightly"  # a file of JSON for each corpus
# Where seconds follow what is new; the other steps see distinct words, tokens and held-out text.
OF_THE_CORPUS = ("plan chunks", "count words", "combine counts")
_NEW = 0.01


def main() -> None:
    options = _parser().parse_args()
    place = options.output / f"{options.label}.json"
    kept = json.loads(place.read_text()) if options.add else None
    result = measure(options.files, options.rounds, options.vocab_size)
    if kept is not None:
        result["rounds"] = [*kept["rounds"], *result["rounds"]]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


def measure(files: Sequence[Path], rounds: int, vocab_size: int) -> dict[str, Any]:
    """Measure so many nights; the result as JSON values.

    Raises:
        SystemExit: a run failed, or tonight's tokenizer is not the one from scratch.
    """
    load = os.getloadavg()[0]  # processors that others keep busy
    with tempfile.TemporaryDirectory(prefix="benchmark-nightly-") as directory:
        yesterday, new = _corpus(files, Path(directory))
        train(Path(directory) / "warm", [new], vocab_size)  # new kernels are compiled, untimed
        nights = []
        for number in range(rounds):
            grown, scratch = (Path(directory) / f"{kind}-{number}" for kind in ("grown", "scratch"))
            night = {
                "yesterday": train(grown, [yesterday], vocab_size),
                "tonight": train(grown, [yesterday, new], vocab_size),
                "from scratch": train(scratch, [yesterday, new], vocab_size),
            }
            if night["tonight"].pop("digest") != night["from scratch"].pop("digest"):
                raise SystemExit("tonight's tokenizer is not the one from scratch")
            nights.append(night)
        return {
            "files": [path.name for path in files],
            "bytes": sum(path.stat().st_size for path in files),
            "new_bytes": new.stat().st_size,
            "vocab_size": vocab_size,
            "machine": description(["duckdb", "mlflow", "pyarrow"]),
            "load": round(load, 1),
            "rounds": nights,
        }


def table(result: Mapping[str, Any]) -> str:
    """The result as a table of Markdown: medians of all rounds."""
    sizes = f"{result['bytes'] / 1e6:,.0f} MB in {len(result['files'])} files"
    new = f"{result['new_bytes'] / 1e6:,.0f} MB new"
    rows = [f"| {sizes} | from scratch, s | {new}, s | share |", "|---|---:|---:|---:|"]
    rows.append(_row("whole command, CPU", *_both(result, lambda run: run["cpu_seconds"])))
    rows.append(_row("whole command", *_both(result, lambda run: run["seconds"])))

    def of_the_corpus(run: dict[str, Any]) -> float:
        return sum(run["steps"][step] for step in OF_THE_CORPUS)

    rows.append(_row("what follows the corpus", *_both(result, of_the_corpus)))
    for step in result["rounds"][0]["tonight"]["steps"]:
        rows.append(_row(f"· {step}", *_both(result, lambda run, step=step: run["steps"][step])))
    return "\n".join(rows)


def _both(result: Mapping[str, Any], figure: Any) -> tuple[float, float]:
    scratch, tonight = (
        median(figure(night[name]) for night in result["rounds"])
        for name in ("from scratch", "tonight")
    )
    return scratch, tonight


def _row(name: str, scratch: float, tonight: float) -> str:
    return f"| {name} | {scratch:.2f} | {tonight:.2f} | {tonight / scratch:.0%} |"


def _corpus(files: Sequence[Path], directory: Path) -> tuple[Path, Path]:
    """A directory with yesterday's files, and the file that is new tonight."""
    yesterday, new = directory / "yesterday", directory / "new.txt"
    yesterday.mkdir()
    *others, last = files
    for path in others:
        (yesterday / f"{path.stem}.txt").symlink_to(path.absolute())
    content = last.read_bytes()
    wanted = len(content) - round(_NEW * sum(path.stat().st_size for path in files))
    if wanted <= 0:
        raise SystemExit(f"{last} is smaller than 1 % of all files: name another one last")
    cut = content.rfind(b"\n", 0, wanted) + 1
    (yesterday / f"{last.stem}.txt").write_bytes(content[:cut])
    new.write_bytes(content[cut:])
    return yesterday, new


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nightly", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--add", action="store_true", help="to the rounds that are kept")
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--label", default="corpus", help="what to call the corpus")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where JSON is kept")
    return parser


if __name__ == "__main__":
    main()
