"""`python -m benchmarks.many_files FILE`: what many small files cost beside the same bytes in one.

Lines of the file become files of 1 to 4 kB. A training over all of them, the same again, and one
over the same bytes in one file, each as a process of its own in a workspace of its own (the second
in the first one's).
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

from benchmarks.whole_command import train

_SMALLEST, _LARGEST = 1000, 4000
_IN_A_DIRECTORY = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--files", type=int, default=30_000)
    parser.add_argument("--scratch", type=Path, default=None, help="a directory on a disk")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        many, one = Path(scratch) / "many", Path(scratch) / "one.txt"
        number = share_out(given.file, many, one, given.files)
        print(f"{number:,} files, {one.stat().st_size / 1e6:.1f} MB")
        cases = (("many", many, "first"), ("unchanged", many, "first"), ("one file", one, "second"))
        for name, path, workspace in cases:
            took = train(Path(scratch) / workspace, [path], 32_000)
            steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in took["steps"].items())
            print(f"{name}: {took['seconds']:.1f} s, {took['cpu_seconds']:.1f} s CPU: {steps}")


def share_out(text: Path, many: Path, one: Path, most: int) -> int:
    """Write the files, and all of their bytes in one; returns how many there are."""
    chance = random.Random(1)
    with text.open("rb") as lines, one.open("wb") as whole:
        for number in range(most):
            content, wanted = b"", chance.randint(_SMALLEST, _LARGEST)
            while len(content) < wanted and (line := lines.readline()):
                content += line
            if not content:
                return number
            path = many / f"{number // _IN_A_DIRECTORY:03}" / f"{number:06}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            whole.write(content)
    return most


if __name__ == "__main__":
    main()
