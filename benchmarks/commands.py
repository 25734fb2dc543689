"""Benchmarks of the whole `bpeline train` command.

A nightly run, a run with a Prefect server, and many small files.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.corpora import SEPARATOR
from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch

_COMMAND = "from bpeline.script import main; main()"
_PORT = 4291
_NEW = 0.01  # of the corpus
_SMALLEST, _LARGEST, _MANY, _IN_A_DIRECTORY = 1000, 4000, 30_000, 1000


def train(
    workspace: Path,
    paths: Sequence[str],
    case: Case,
    watch: Stopwatch,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Train in a workspace, created if missing; the tokenizer's digest."""
    command = [sys.executable, "-c", _COMMAND, "train", *paths, "--json"]
    command += ["--name", "measured", "--vocab-size", str(case.vocab_size)]
    command += ["--special-token", SEPARATOR, "--workspace", os.fspath(workspace)]
    with watch.phase():
        completed = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
    if completed.returncode:
        raise SystemExit(completed.stderr)
    summary = json.loads(completed.stdout)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # maximum of all commands so far
    watch.more |= {
        "peak_megabytes": (most if sys.platform == "darwin" else most * 1024) / 1e6,
        "steps": {name: round(took, 3) for name, took in summary["seconds"].items()},
        "chunks": summary["chunks"],
        "chunks_reused": summary["chunks_reused"],
    }
    return str(summary["digest"])


@contextmanager
def _night(case: Case) -> Iterator[Mapping[str, Any]]:
    """Yesterday's files, and a new file with 1 % of all bytes cut from the last one."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        yesterday, new = Path(directory, "yesterday"), Path(directory, "new.txt")
        yesterday.mkdir()
        *others, last = map(Path, case.files)
        for path in others:
            (yesterday / f"{path.stem}.txt").symlink_to(path.absolute())
        content = last.read_bytes()
        wanted = len(content) - round(_NEW * case.bytes)
        if wanted <= 0:
            raise SystemExit(f"{last} is smaller than 1 % of all files: put a larger file last")
        cut = content.rfind(b"\n", 0, wanted) + 1
        (yesterday / f"{last.stem}.txt").write_bytes(content[:cut])
        new.write_bytes(content[cut:])
        facts = {"files": len(case.files), "new_bytes": len(content) - cut}
        yield {"yesterday": str(yesterday), "new": str(new), "facts": facts}


def _tonight(case: Case, watch: Stopwatch) -> str:
    yesterday, new = case.prepared["yesterday"], case.prepared["new"]
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        train(Path(directory), [yesterday], case, Stopwatch())
        return train(Path(directory), [yesterday, new], case, watch)


def _from_scratch(case: Case, watch: Stopwatch) -> str:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        paths = [case.prepared["yesterday"], case.prepared["new"]]
        return train(Path(directory), paths, case, watch)


@contextmanager
def _served(case: Case) -> Iterator[Mapping[str, Any]]:
    from bpeline.flows.running import settings
    from bpeline.flows.serving.local_server import prefect_service
    from bpeline.flows.serving.services import HOST, running

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        environment = settings.server_environment(
            PREFECT_API_URL=f"http://{HOST}:{_PORT}/api",
            PREFECT_HOME=directory,
            BPELINE_HOME=directory,
        )
        with running([prefect_service(_PORT)], environment, Path(directory), print):
            train(Path(directory, "first"), case.files, case, Stopwatch(), environment)
            yield {"environment": dict(environment)}


def _without(case: Case, watch: Stopwatch) -> str:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        return train(Path(directory), case.files, case, watch)


def _with(case: Case, watch: Stopwatch) -> str:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        return train(Path(directory), case.files, case, watch, case.prepared["environment"])


@contextmanager
def _shared_out(case: Case) -> Iterator[Mapping[str, Any]]:
    """Lines of the file in files of 1 to 4 kB, and the same bytes in one file."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        many, whole_path, number = Path(directory, "many"), Path(directory, "one.txt"), 0
        with case.path.open("rb") as lines, whole_path.open("wb") as whole:
            for number in range(_MANY):
                content, wanted = b"", chance.randint(_SMALLEST, _LARGEST)
                while len(content) < wanted and (line := lines.readline()):
                    content += line
                if not content:
                    break
                path = many / f"{number // _IN_A_DIRECTORY:03}" / f"{number:06}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                whole.write(content)
        facts = {"files": number, "bytes": whole_path.stat().st_size}
        yield {"many": str(many), "one": str(whole_path), "facts": facts}


def _first(case: Case, watch: Stopwatch) -> str:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        return train(Path(directory), [case.prepared["many"]], case, watch)


def _unchanged(case: Case, watch: Stopwatch) -> str:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        train(Path(directory), [case.prepared["many"]], case, Stopwatch())
        return train(Path(directory), [case.prepared["many"]], case, watch)


def _one_file(case: Case, watch: Stopwatch) -> str:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        return train(Path(directory), [case.prepared["one"]], case, watch)


NIGHT = Measurement(
    "night",
    "the whole command when 1 % of the corpus is new, compared with a run from scratch",
    (Contestant("from scratch", _from_scratch), Contestant("tonight", _tonight)),
    _night,
    together=True,
    packages=("duckdb", "mlflow", "pyarrow"),
)
ORCHESTRATION = Measurement(
    "orchestration",
    "the whole command with a Prefect server and without one",
    (Contestant("without", _without), Contestant("with", _with)),
    _served,
    together=True,
    packages=("prefect", "mlflow"),
)
MANY_FILES = Measurement(
    "many-files",
    "the whole command on up to 30,000 small files and on one large file; TMPDIR on a disk",
    (
        Contestant("one file", _one_file),
        Contestant("many, first", _first),
        Contestant("many, unchanged", _unchanged),
    ),
    _shared_out,
    lambda *_: Verdict(None, "words at the ends of files differ"),
)
