"""`bpeline train` as people type it, in a process of its own: seconds, processor seconds, steps."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import SEPARATOR

_COMMAND = "from bpeline.flows.cli.main import main; main()"


def train(
    workspace: Path,
    paths: Sequence[Path],
    vocab_size: int,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Train in a workspace; from starting Python to the version in MLflow.

    Args:
        workspace: where; made if there is none.
        paths: the corpus.
        vocab_size: tokens.
        environment: variables, beside those of this process.

    Returns:
        ``seconds`` and ``cpu_seconds`` of the process, ``steps`` (name → seconds), ``chunks``,
        ``chunks_reused``, ``digest`` of the tokenizer.

    Raises:
        SystemExit: it failed.
    """
    command = [sys.executable, "-c", _COMMAND, "train", *map(os.fspath, paths), "--json"]
    command += ["--name", "measured", "--vocab-size", str(vocab_size)]
    command += ["--special-token", SEPARATOR, "--workspace", os.fspath(workspace)]
    before, begin = _cpu_seconds(), time.perf_counter()
    ended = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, cpu_seconds = time.perf_counter() - begin, _cpu_seconds() - before
    if ended.returncode:
        raise SystemExit(ended.stderr)
    summary = json.loads(ended.stdout)
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "steps": {name: round(took, 3) for name, took in summary["seconds"].items()},
        "chunks": summary["chunks"],
        "chunks_reused": summary["chunks_reused"],
        "digest": summary["digest"],
    }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
