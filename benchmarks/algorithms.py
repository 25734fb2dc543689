"""`python -m benchmarks.algorithms FILE…`: what each algorithm costs, from a text file to tokens.

Every algorithm learns 32,000 tokens in fresh processes, taken in turn, in CPU seconds of all
threads, compiled kernels loaded from the cache. With ``--peer`` subword-nmt learns as many codes
once, with two processes, and the codes are compared before the seconds are. All read a copy in
which all white space is spaces and ends of lines: subword-nmt loses count of words that hold other
white space.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.captured_output import silenced_output
from benchmarks.machine import description
from benchmarks.results import RESULTS

SIZE = 32_000
FOLDER = RESULTS / "algorithms"
_PEER = "subword-nmt"


def _byte_bpe(path: Path) -> Any:
    from bpeline.tokenizer_core import count_words, train_bpe

    return train_bpe(count_words([path], "gpt2"), SIZE)


def _char_bpe(path: Path) -> Any:
    from bpeline.tokenizer_core import count_words
    from bpeline.tokenizer_core.trainers.characters import train_char_bpe

    counts = count_words([path], "whitespace")
    return train_char_bpe(counts, SIZE, joined=True, tie_break="greatest-bytes")


def _frequency_bpe(path: Path) -> Any:
    from bpeline.tokenizer_core import count_words
    from bpeline.tokenizer_core.trainers.characters import train_frequency_bpe

    return train_frequency_bpe(count_words([path], "wordpunct"), SIZE, sentences="lines")


def _wordpiece(score: Any) -> Callable[[Path], Any]:
    def train(path: Path) -> Any:
        from bpeline.tokenizer_core import count_words
        from bpeline.tokenizer_core.trainers.characters import train_wordpiece

        return train_wordpiece(count_words([path], "wordpunct"), SIZE, score=score)

    return train


OURS: dict[str, Callable[[Path], Any]] = {
    "byte-bpe": _byte_bpe,
    "char-bpe": _char_bpe,
    "wordpiece, ratio": _wordpiece("ratio"),
    "wordpiece, gain": _wordpiece("gain"),
    "frequency-bpe": _frequency_bpe,
}


def main() -> None:
    options = _parser().parse_args()
    if options.run:
        print(json.dumps(_run(options.run, options.files[0], options.codes)))
        return
    for path in options.files:
        result = compare(path, options.rounds, options.peer)
        name = options.output / f"{path.stem}.json"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(table(result))


def compare(path: Path, rounds: int, with_peer: bool) -> dict[str, Any]:
    """Measure every algorithm on a file; the least seconds of all rounds count."""
    with tempfile.TemporaryDirectory() as place:
        text = path.read_bytes().decode()
        copy = Path(place) / path.name
        copy.write_bytes(re.sub(r"[^\S \n]", " ", text).encode())
        del text
        codes = {name: Path(place) / name for name in ("char-bpe", _PEER)}
        seconds: dict[str, list[float]] = {name: [] for name in OURS}
        for at in range(rounds + 1):  # the first one compiles
            for name in OURS:
                taken = _in_a_process(name, copy, codes["char-bpe"])
                if at:
                    seconds[name].append(taken)
        if with_peer:
            seconds[_PEER] = [_in_a_process(_PEER, copy, codes[_PEER])]
            if codes["char-bpe"].read_bytes() != codes[_PEER].read_bytes():
                raise SystemExit("char-bpe and subword-nmt learned different codes")
    least = {name: min(taken) for name, taken in seconds.items()}
    return {
        "file": path.name,
        "bytes": path.stat().st_size,
        "tokens": SIZE,
        "machine": description(["numba", "subword-nmt"]),
        "cpu_seconds": seconds,
        "times_byte_bpe": {name: least[name] / least["byte-bpe"] for name in least},
        "equal_to_subword_nmt": with_peer,
    }


def table(result: dict[str, Any]) -> str:
    """The result as a table of Markdown."""
    rows = [
        f"| {name} | {min(taken):.2f} | {result['times_byte_bpe'][name]:.2f} |"
        for name, taken in result["cpu_seconds"].items()
    ]
    head = f"| {result['file']}, {result['bytes'] / 1e6:.1f} MB | CPU s | times byte-bpe |"
    return "\n".join([head, "|---|---:|---:|", *rows])


def _in_a_process(name: str, path: Path, codes: Path) -> float:
    command = [sys.executable, "-m", "benchmarks.algorithms", os.fspath(path)]
    ended = subprocess.run(
        [*command, "--run", name, "--codes", os.fspath(codes)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(json.loads(ended.stdout))


def _run(name: str, path: Path, codes: Path) -> float:
    """Learn in this process, which does nothing else; imports count for neither side."""
    if name == _PEER:
        peer: Any = import_module("subword_nmt.learn_bpe")
        begun = _seconds()
        with (
            silenced_output(),
            open(path, encoding="utf-8") as read,
            open(codes, "w", encoding="utf-8") as written,
        ):
            peer.learn_bpe(read, written, SIZE, num_workers=2)
        return _seconds() - begun
    for module in (
        "bpeline.tokenizer_core.trainers.bpe",
        "bpeline.tokenizer_core.trainers.characters",
    ):
        import_module(module)
    begun = _seconds()
    tokenizer = OURS[name](path)
    taken = _seconds() - begun
    if name == "char-bpe":
        lines = ["#version: 0.2", *(f"{a.decode()} {b.decode()}" for a, b in tokenizer.merges)]
        codes.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return taken


def _seconds() -> float:
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.algorithms", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, taken in turn")
    parser.add_argument("--peer", action="store_true", help="subword-nmt too: minutes")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where JSON is kept")
    parser.add_argument("--run", choices=[*OURS, _PEER], help=argparse.SUPPRESS)
    parser.add_argument("--codes", type=Path, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
