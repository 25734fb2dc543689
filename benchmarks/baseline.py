"""``make bench-baseline``: CPU ratios of this checkout and release v0.2.0.

The release is installed from its tag with its own versions of libraries. Both run each case
alternately in fresh processes on one CPU and must find the same. A ratio above 1 means that the
checkout needs less CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

TAG = "v0.2.0"
ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "baseline"
MEGABYTES = 20

# Programs get `text` (a path), `tokenizer` (a directory) and `repeat`. Their function `work` runs
# once untimed, then `repeat` times; its result is compared.
_HEAD = """
import hashlib, json, sys, time
from bpeline import Tokenizer, count_words, train_bpe
text, tokenizer, repeat = sys.argv[1], sys.argv[2], int(sys.argv[3])
def pieces(size, many):
    characters = open(text, encoding="utf-8").read(size * many)
    return [characters[at : at + size] for at in range(0, len(characters), size)]
"""
_TAIL = """
found = work()
begun = time.process_time()
for _ in range(repeat):
    work()
spent = (time.process_time() - begun) / repeat
print(json.dumps([spent, hashlib.sha256(repr(found).encode()).hexdigest()]))
"""
_LOAD = "known = Tokenizer.load(tokenizer)\n"
_CASES = {
    "count words": (5, "def work(): return count_words(text, workers=1).digest"),
    "learn 32,000 ids": (
        5,
        "counts = count_words(text, workers=1)\n"
        # 0.2 merges large corpora in two threads by default.
        "from inspect import signature\n"
        "one = {'threads': 1} if 'threads' in signature(train_bpe).parameters else {}\n"
        "def work(): return train_bpe(counts, 32_000, **one).digest",
    ),
    "encode files": (
        20,
        _LOAD + "def work(): return known.encode_files_to_numpy(text, threads=1).ids.tobytes()",
    ),
    "encode a batch": (
        20,
        _LOAD + "batch = pieces(3_000, 2_000)\n"
        "def work(): return known.encode_batch(batch, threads=1)",
    ),
    "encode 60 characters": (
        20,
        _LOAD
        + "short = pieces(60, 20_000)\ndef work(): return [known.encode(one) for one in short]",
    ),
    "encode 300 characters": (
        50,
        _LOAD
        + "short = pieces(300, 4_000)\ndef work(): return [known.encode(one) for one in short]",
    ),
    "decode": (
        50,
        _LOAD + "lists = known.encode_batch(pieces(300, 4_000), threads=1)\n"
        "def work(): return [known.decode(ids) for ids in lists]",
    ),
    "load": (20, "def work(): return Tokenizer.load(tokenizer).vocab_size"),
}
_COMMANDS = {
    "bpeline encode": ("encode", "small/1", "some text to encode"),
    "bpeline versions": ("versions",),
    "bpeline train, tiny": ("train", "tiny.txt", "--name", "again", "--vocab-size", "300"),
}


@dataclass(frozen=True, slots=True)
class Contestant:
    """A Python with one bpeline installed, and a folder with its workspace."""

    python: str
    folder: Path

    def timed(self, program: str, text: Path, tokenizer: Path, repeat: int) -> tuple[float, Any]:
        typed = ["-c", program, str(text), str(tokenizer), str(repeat)]
        printed = _run([self.python, "-P", *typed], self.folder)
        spent, digest = json.loads(printed)
        return spent, digest

    def commanded(self, *typed: str) -> float:
        before = os.times()
        _run([str(Path(self.python).with_name("bpeline")), *typed], self.folder)
        after = os.times()
        spent = after.children_user + after.children_system
        return spent - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.baseline", description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", help="UTF-8 text; default: Python's sources")
    parser.add_argument("--rounds", type=int, default=5, help="pairs per case")
    options = parser.parse_args()
    release = installed_release()
    with tempfile.TemporaryDirectory() as folder:
        text = (options.file or _sources(Path(folder) / "text.txt")).absolute()
        pair = []
        for name, python in (("release", release), ("checkout", sys.executable)):
            contestant = Contestant(python, Path(folder) / name)
            _make_workspace(contestant, text)
            pair.append(contestant)
        print(f"CPU seconds of {TAG} and of this checkout; median ratio (min … max)")
        for line in _lines(pair, text, options.rounds):
            print(line, flush=True)


def installed_release() -> str:
    """The Python of the environment with the release, created if missing."""
    source, python = PLACE / "source", PLACE / "environment" / "bin" / "python"
    ready = PLACE / f"{TAG}.installed"
    if not ready.exists():
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(
            ["git", "archive", TAG], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
        _run([sys.executable, "-m", "venv", str(PLACE / "environment")], ROOT)
        constraints = str(source / "constraints.txt")
        install = ["-m", "pip", "install", "-qq", "--constraint", constraints, str(source)]
        _run([str(python), *install], ROOT)
        ready.touch()
    return str(python)


def _sources(path: Path) -> Path:
    files = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    with path.open("w", encoding="utf-8") as out:
        for file in files:
            if out.tell() > MEGABYTES * 1_000_000:
                break
            out.write(file.read_text("utf-8", errors="ignore") + "<|endoftext|>")
    return path


def _make_workspace(contestant: Contestant, text: Path) -> None:
    contestant.folder.mkdir()
    with text.open(encoding="utf-8") as file:
        (contestant.folder / "tiny.txt").write_text("".join(islice(file, 2_000)), "utf-8")
    contestant.commanded("train", "tiny.txt", "--name", "small", "--vocab-size", "300")
    learn = (
        "from bpeline import count_words, train_bpe\nimport sys\n"
        "train_bpe(count_words(sys.argv[1]), 32_000).save(sys.argv[2])"
    )
    _run([contestant.python, "-P", "-c", learn, str(text), "learned"], contestant.folder)


def _lines(pair: list[Contestant], text: Path, rounds: int) -> Iterator[str]:
    for name, (repeat, program) in _CASES.items():
        seconds = []
        for _ in range(rounds):
            timed = [
                contestant.timed(
                    _HEAD + program + _TAIL, text, contestant.folder / "learned", repeat
                )
                for contestant in pair
            ]
            if timed[0][1] != timed[1][1]:
                raise SystemExit(f"{name}: the result differs from {TAG}")
            seconds.append([spent for spent, _ in timed])
        yield _line(name, seconds)
    for name, typed in _COMMANDS.items():
        for contestant in pair:
            contestant.commanded(*typed)  # fill caches
        yield _line(
            name, [[contestant.commanded(*typed) for contestant in pair] for _ in range(rounds)]
        )


def _line(name: str, seconds: list[list[float]]) -> str:
    release, checkout = (statistics.median(column) for column in zip(*seconds, strict=True))
    ratios = [before / now for before, now in seconds]
    spread = f"({min(ratios):.2f} … {max(ratios):.2f})"
    return f"{name:24}{release:9.3f}{checkout:9.3f}{statistics.median(ratios):7.2f}  {spread}"


def _run(command: list[str], folder: Path) -> str:
    # Write bytecode for this checkout, too; pip has compiled the release.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BPELINE_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    completed = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if completed.returncode:
        raise SystemExit(
            f"{' '.join(command)[:200]} ended with {completed.returncode}: {completed.stderr}"
        )
    return completed.stdout


if __name__ == "__main__":
    main()
