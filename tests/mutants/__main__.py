"""`python tests/mutants [NAME…]`: puts faults into copies of the project; its tests must see them.

The faults are in faults.toml. Each copy runs the tests that are named beside its fault, until the
first failure; two copies at a time. Exit code 0 when all faults were caught, else 1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults.toml")
AT_A_TIME = 2
PACKAGES = ("tokenizer_core", "registry", "flows")
COPIED = (*PACKAGES, "bpeline", "tests", "benchmarks", "docs", "README.md", "pyproject.toml",
          "prefect.yaml", "promotion.toml", "constraints.txt")  # fmt: skip
SECONDS = 300  # a fault may be an endless loop


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: in ``file`` the text ``old``, which stands there once, becomes ``new``.

    Attributes:
        tests: files of tests, one of which has to fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def put_into(self, project: Path) -> None:
        """Change the file.

        Raises:
            ValueError: the text is not there exactly once: the code moved on.
        """
        path = project / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} holds {text.count(self.old)} times: {self.old!r}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def faults() -> list[Fault]:
    """All of faults.toml."""
    with FAULTS.open("rb") as file:
        return [
            Fault(**{**table, "tests": tuple(table["tests"])})
            for table in tomllib.load(file)["fault"]
        ]


def failing_test(fault: Fault) -> str | None:
    """The first test that fails with the fault in place, or that they do not end; or None."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        project = Path(directory)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(
                    source, project / name, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(source, project / name)
        for package in PACKAGES:  # whoever imports from here finds nothing of the checkout
            (project / "bpeline" / package).symlink_to(project / package)
        fault.put_into(project)
        environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
        if "/kernels/" in fault.file:  # machine code that nobody will want again
            environment["XDG_CACHE_HOME"] = str(Path(directory, "cache"))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *fault.tests], cwd=project, env=environment, capture_output=True,
                text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"not at an end after {SECONDS} s"
        if done.returncode == 0:
            return None
        said = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if done.returncode != 1 or not said:
            raise RuntimeError(f"the tests did not run: {done.stdout[-500:]}{done.stderr[-500:]}")
        return said[0].split(" - ")[0]


def timed(fault: Fault) -> tuple[float, str | None]:
    """How many seconds it took, and what `failing_test` says."""
    begin = time.monotonic()
    test = failing_test(fault)
    return time.monotonic() - begin, test


def main(names: list[str]) -> int:
    chosen = [fault for fault in faults() if not names or any(name in fault.name for name in names)]
    seen: dict[str, str | None] = {}
    pool = ThreadPoolExecutor(AT_A_TIME)
    try:
        running = {pool.submit(timed, fault): fault for fault in chosen}
        for done in as_completed(running):
            fault, (seconds, test) = running[done], done.result()
            seen[fault.name] = test
            print(f"{seconds:5.0f} s  {fault.name}: {test or 'NOT CAUGHT'}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)  # tests that cannot run end all the others too
    caught = sum(test is not None for test in seen.values())
    print(f"\n{caught} of {len(chosen)} faults were caught")
    if report := os.environ.get("BPELINE_TEST_REPORTS"):
        Path(report, "mutants.json").write_text(json.dumps(seen, indent=1) + "\n")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
