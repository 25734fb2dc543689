"""One digest, whatever the hash seed, locale, time zone, umask, threads, chunks, processor, Python.

A cell of the matrix is a fresh process with a value of each kind. Every value of every kind stands
in some cell, and which meet follows from the seed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Record

ROOT = Path(__file__).parents[2]
PATTERNS = ("gpt2", "cl100k")
PROGRAM = ROOT / "tests/support/one_digest.py"

KINDS: dict[str, list[Any]] = {
    "PYTHONHASHSEED": ["0", "1", "4294967295", "random"],
    "LC_ALL": ["C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8"],
    "TZ": ["UTC", "Pacific/Kiritimati", "America/St_Johns"],
    "PYTHONOPTIMIZE": ["", "1"],
    "PYTHONUTF8": ["1", "0"],
    "umask": [0o022, 0o000, 0o077],
    "workers": [1, 2, 3],
    "chunk_bytes": [4 << 20, 1 << 12, 50_000],
    "order": [[0, 1], [1, 0]],
}


def cells(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """The plain cell first; then each kind walks through its values in an order of its own."""
    yield {kind: values[0] for kind, values in KINDS.items()}
    chance = random.Random(seed)
    walks = {kind: chance.sample(values, len(values)) for kind, values in KINDS.items()}
    for turn in range(number):
        yield {kind: walk[turn % len(walk)] for kind, walk in walks.items()}


def digest_of_cell(
    cell: dict[str, Any], corpus: Path, pattern: str, python: str, **environment: str
) -> str:
    variables = {key: cell[key] for key in KINDS if key.isupper()}
    asked = {key: cell[key] for key in KINDS if not key.isupper()}
    asked |= {"corpus": str(corpus), "pattern": pattern}
    ran = subprocess.run(
        [python, str(PROGRAM), json.dumps(asked)],
        env={**os.environ, **variables, **environment, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=600, cwd=corpus.parent,
    )  # fmt: skip
    return ran.stdout.strip() or ran.stderr[-1000:]


@pytest.fixture
def corpus(place: Path, english_and_code: str) -> Path:
    """Letters whose case depends on the locale, other scripts, numbers, every kind of line end."""
    tempting = (
        "İstanbul ISPARTA ısı Iğdır straße ΣΊΣΥΦΟΣ 𝒳 naïve e\u0301 １２３ ½\r\n\u2028<|endoftext|>"
    )
    path = place / "corpus.txt"
    path.write_text(english_and_code[:60_000] + tempting * 50, encoding="utf-8", newline="")
    return path


@pytest.mark.night
def test_every_cell_gives_one_digest(corpus: Path, record: Record, seed: int) -> None:
    for pattern in PATTERNS[: record.amounts.cell_patterns]:
        found: dict[str, list[dict[str, Any]]] = {}
        for number, cell in enumerate(cells(seed, record.amounts.cells), 1):
            if record.wants(number) or number == 1:
                digest = digest_of_cell(cell, corpus, pattern, sys.executable)
                found.setdefault(digest, []).append(cell)
                record.add("cells")
        if len(found) != 1 or len(next(iter(found))) != 64:
            record.fail(f"{record.suite} --seed {seed}", json.dumps(found, indent=1))
    record.require_none()


@pytest.mark.night
def test_other_pythons_and_processors_give_the_same_digest(corpus: Path, record: Record) -> None:
    """Pythons that have the libraries; a processor without vectors when many cases are wanted."""
    plain = next(cells(0, 0))
    expected = digest_of_cell(plain, corpus, "gpt2", sys.executable)
    for python in _pythons():
        record.add(f"Python {python[1]}")
        found = digest_of_cell(plain, corpus, "gpt2", python[0])
        if found != expected:
            record.fail(f"{record.suite}: {python}", found)
    for _ in range(record.amounts.processors):
        cache = str(corpus.parent / "cache")
        settings = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "XDG_CACHE_HOME": cache}
        record.add("processors")
        found = digest_of_cell(plain, corpus, "gpt2", sys.executable, **settings)
        if found != expected:
            record.fail(f"{record.suite}: a generic processor", found)
    record.require_none()


def _pythons() -> Iterator[tuple[str, str]]:
    """Interpreters of the versions we support that can import what the core needs."""
    probe = "import numpy, numba, regex, zstandard, sys; print(sys.version.split()[0])"
    for version in ("3.11", "3.12", "3.13"):
        python = shutil.which(f"python{version}")
        if python is not None:
            ran = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
            if ran.returncode == 0:
                yield python, ran.stdout.strip()
