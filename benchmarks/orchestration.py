"""`python -m benchmarks.orchestration FILE…`: what a training costs more under a Prefect server.

A server is started and waited for; then `bpeline train` takes the files with it and without it, in
turn, each time in a fresh workspace and in a process of its own. Tokenizers are compared first.
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
from bpeline.flows.running import settings
from bpeline.flows.serving.local_server import prefect_service
from bpeline.flows.serving.services import HOST, running

KEPT = RESULTS / "orchestration.json"
_KINDS = ("without", "with")
_PORT = 4291
_ROUNDS = 5


def main() -> None:
    options = _parser().parse_args()
    result = measure(options.files, options.rounds, options.vocab_size, options.port)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))


def measure(files: Sequence[Path], rounds: int, vocab_size: int, port: int) -> dict[str, Any]:
    """Measure so many pairs; the result as JSON values.

    Raises:
        SystemExit: a run failed, or the two tokenizers differ.
    """
    load = os.getloadavg()[0]  # processors that others keep busy
    with tempfile.TemporaryDirectory(prefix="benchmark-orchestration-") as directory:
        place = Path(directory)
        api = f"http://{HOST}:{port}/api"
        home = str(place / "prefect")
        environment = settings.server_environment(
            PREFECT_API_URL=api, PREFECT_HOME=home, BPELINE_HOME=home
        )
        (place / "prefect").mkdir()
        pairs = []
        with running([prefect_service(port)], environment, place, print):
            for number in range(rounds + 1):
                pair = {
                    "without": train(place / f"without-{number}", files, vocab_size),
                    "with": train(place / f"with-{number}", files, vocab_size, environment),
                }
                if pair["without"].pop("digest") != pair["with"].pop("digest"):
                    raise SystemExit("the two tokenizers differ")
                if number:  # the first pair compiles and makes databases, untimed
                    pairs.append(pair)
    return {
        "files": [path.name for path in files],
        "bytes": sum(path.stat().st_size for path in files),
        "vocab_size": vocab_size,
        "machine": description(["prefect", "mlflow"]),
        "load": round(load, 1),
        "pairs": pairs,
    }


def table(result: Mapping[str, Any]) -> str:
    """The result as a table of Markdown: medians, and the median of the differences of pairs."""
    rows = ["|  | without, s | with, s | more, s |", "|---|---:|---:|---:|"]
    for name, key in (("whole command", "seconds"), ("processor", "cpu_seconds")):
        without, served = ([pair[kind][key] for pair in result["pairs"]] for kind in _KINDS)
        more = [b - a for a, b in zip(without, served, strict=True)]
        rows.append(
            f"| {name} | {median(without):.2f} | {median(served):.2f} | {median(more):.2f} |"
        )
    return "\n".join(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.orchestration", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text")
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--vocab-size", type=int, default=32_000)
    parser.add_argument("--port", type=int, default=_PORT, help="for the server")
    parser.add_argument("--output", type=Path, default=KEPT, help="where JSON is kept")
    return parser


if __name__ == "__main__":
    main()
