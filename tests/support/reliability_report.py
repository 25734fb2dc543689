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

What bpeline guarantees when processes are killed, disks fill up, files are damaged or several
processes run at once, and the tests of each guarantee. Failures print a line that reproduces them.

`tokenizer_core/durable_files.py` writes all durable files: temporary file, sync, rename, directory
sync. Tests interrupt each of these operations and each commit of both SQLite databases.

## Test runs

`make test` runs the same cases each time. `make test-nightly` adds the tests marked `night` and
random cases, and writes this page. The seed is the date; `make test-nightly SEED=20261122` repeats
that day.

{amounts}
"""

PROMISES = {
    "crash points": (
        "Killed at any durable operation",
        "The next run produces the files and rows of an undisturbed run.",
    ),
    "random kills": (
        "Killed at any moment",
        "The same, after up to twelve kills in a row.",
    ),
    "random signals": (
        "Ctrl-C and SIGTERM",
        "The command ends; the same command continues.",
    ),
    "power loss": (
        "Power loss",
        "Files have the old or the new content, whatever unsynced content or names are lost.",
    ),
    "disk faults": (
        "Full or failing disk",
        "ENOSPC, EDQUOT, EIO, EMFILE, EACCES, EROFS: a typed error; nothing is lost or left open.",
    ),
    "memory limits": (
        "Too little memory",
        "From 1 MiB of address space: `MemoryError` or an error of bpeline; nothing is lost.",
    ),
    "clocks": (
        "Wrong clock",
        "Results do not change if the clock jumps by up to 80 years at each reading.",
    ),
    "corruption": (
        "Damaged files",
        "Changed, swapped and deleted files are reported or rebuilt, never used.",
    ),
    "concurrency": (
        "Concurrent processes",
        "Runs in one workspace, writers of one name, loads while an alias moves: nothing is lost.",
    ),
    "numbers": (
        "Large counts",
        "Exact up to 2⁶³ − 1, compared with Python's integers.",
    ),
    "determinism": (
        "Determinism",
        "Equal bytes for other hash seeds, locales, time zones, umasks, threads, chunks, file "
        "orders and Pythons.",
    ),
}

TAIL = """
## What is not guaranteed

- Disks that report a sync they did not do; hostile users of the same account.
- SQLite has no page checksums: a flipped bit can go unnoticed. Tokenizers and counts are checked
  against digests, catalogue figures are not.
- Pictures and pages of a version are not checked.
- Two simultaneous registrations of one tokenizer under one name leave one version. The other
  number stays unused.
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
