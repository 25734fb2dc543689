"""Writes docs/reliability.md: what is promised, how each promise is tested, and what the runs did.

    python tests/support/reliability_report.py RECORDS docs/reliability.md

RECORDS is the folder that a run of tests/reliability left its records in. Promises are told here;
every number comes from a record, or from the table of amounts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import amounts

HEAD = """# Reliability

What bpeline promises when processes are killed, disks fill up, files are damaged and several run at
once, and what was done to break each promise. Every failure prints one line that does the same
again.

Everything durable is written by one object, `tokenizer_core/durable_files.py`: aside, synced,
renamed, directory synced. Tests put another disk under it, which counts the operations, kills the
process at one of them, lets one fail, or remembers what was not yet synced. Commits of the two
SQLite databases count as operations too, ours and MLflow's. What DuckDB, SQLite and MLflow do
between them is reached by signals at random moments.

## What runs when

`make test` runs what every change is tested by, the same cases every day: what passes today passes
tomorrow. `make test-nightly` also runs the tests that are marked `night`, with random cases from a
seed that is the date, printed at the end (`make test-nightly SEED=20261122` makes those of that
day), and writes this page: the numbers below this table are those of one such run.

{amounts}
"""

PROMISES = {
    "crash points": (
        "Killed at any durable operation, it ends as if nothing had been",
        "Every operation is numbered. For each number one process is killed (signal 9) before it "
        "and one after it; the next process does the same command and must leave what an "
        "undisturbed run leaves: every file byte for byte, every row, one version, nothing aside.",
    ),
    "random kills": (
        "Killed at any moment, up to twelve times in a row, likewise",
        "Delays come from a seed; they end inside compiled code, DuckDB, SQLite and MLflow.",
    ),
    "random signals": (
        "Asked to end at any moment, it ends, and the same command goes on",
        "By Ctrl-C (SIGINT) or a supervisor (SIGTERM), once or, of three cases one, twice: between "
        "any two lines of Python, in waiting, in compiled code.",
    ),
    "power loss": (
        "After a power loss there is the old or the new, never a mixture",
        "Operations are recorded; from prefixes of them follow states that POSIX allows: unsynced "
        "content missing or torn at 512 bytes, unsynced entries of directories undone one by one.",
    ),
    "disk faults": (
        "A full or failing disk is a typed error, and nothing is lost",
        "ENOSPC, EDQUOT, EIO, EMFILE, EACCES or EROFS at an operation, and a limit on the size of "
        "files that meets DuckDB and SQLite in the middle of theirs; afterwards the same command "
        "ends as it should. Of several failures in one process, none leaves a file, a thread or a "
        "process behind.",
    ),
    "memory limits": (
        "Too little memory is an error, and nothing is lost",
        "A limit on the address space, from 1 MiB to enough: `MemoryError`, or an error of ours; "
        "afterwards the same command ends as it should.",
    ),
    "clocks": (
        "The clock of the day decides nothing",
        "A clock that jumps by up to eighty years at each reading, forwards and backwards.",
    ),
    "corruption": (
        "A damaged file is named or made again; never believed",
        "Every file of a finished workspace, found by walking through it: emptied, cut, bits "
        "flipped, blocks zeroed, garbage behind it, swapped with another, deleted.",
    ),
    "concurrency": (
        "Several at once lose nothing",
        "Runs in one workspace, writers of one name, writers of one catalogue of whom half are "
        "killed, loading while an alias moves.",
    ),
    "numbers": (
        "Counts are exact up to 2⁶³ − 1",
        "One count from shard to row at the bounds of 31, 32, 53, 61 and 63 bits, beside plain "
        "Python's integers.",
    ),
    "determinism": (
        "The same input gives the same bytes",
        "Fresh processes that differ in hash seed, locale, time zone, umask, threads, sizes of "
        "chunks and tables, order of files, optimization, Python.",
    ),
}

TAIL = """
## What is not promised

- A disk that says it has synced and has not, and a hostile user of the same account.
- SQLite keeps no checksums of its pages. Damage that it notices is named; a bit flipped inside of a
  row it cannot notice. Which tokenizer is loaded, and what was counted, is checked against digests
  outside of it; figures shown from the catalogue are not.
- Pictures and pages kept with a version are for people: nothing reads them back or seals them.
- Two that register the same tokenizer under one name at the same moment leave one version; the
  number of the other is not given again.
"""


def report(records: list[dict[str, Any]]) -> str:
    """The page."""
    parts = [HEAD.format(amounts=amounts.table())]
    for suite, (promise, how) in PROMISES.items():
        rows = added_up(one for one in records if one["suite"].startswith(suite))
        parts.append(f"## {promise}\n\n{how}\n\n")
        if not rows:
            parts.append("No record of it is in this run.\n\n")
            continue
        parts.append(
            "| test | what was done | failures | seed | seconds |\n|---|---|---|---|---|\n"
        )
        for one in rows:
            test = one["suite"].partition(": ")[2]
            done = ", ".join(f"{number:,} {what}" for what, number in one["counts"].items())
            parts.append(
                f"| {test} | {done} | {one['failures']} | {one['seed']} | {one['seconds']:.0f} |\n"
            )
        parts.append("\n")
    return "".join(parts).rstrip() + "\n" + TAIL


def added_up(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One record for each test, of all its cases: ``name[1]``, ``name[2]`` … are ``name``."""
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(records, key=lambda one: str(one["suite"])):
        name = one["suite"].partition("[")[0]
        nothing = {"suite": name, "counts": {}, "failures": 0, "seconds": 0.0}
        sums = found.setdefault(name, {**one, **nothing})
        sums["failures"] += one["failures"]
        sums["seconds"] += one["seconds"]
        for what, number in one["counts"].items():
            sums["counts"][what] = sums["counts"].get(what, 0) + number
    return list(found.values())


def main() -> None:
    """Read the records, write the page."""
    folder, page = map(Path, sys.argv[1:3])
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    page.write_text(report(records), encoding="utf-8")


if __name__ == "__main__":
    main()
