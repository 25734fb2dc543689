"""`python -m benchmarks.encoding FILE…`: every installed encoder on each file, in fresh processes.

All hold one vocabulary (`--vocabulary tokenizer.json`, or one that we learn from the file). Ids are
compared before seconds are; who gives other ids gets no ratio. Those who make Python lists get a
sample of a large file, and their ratio is to ours of the same sample in the same round. With
`--loading` the time and the memory to load a vocabulary are measured as well, of 100,000 tokens
unless another is given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.documents import SEPARATOR, sampled
from benchmarks.encoders import ENCODERS, HF_FILE, TIKTOKEN_FILE
from benchmarks.encoding_results import FOLDER, loading_of, plain, save, summary
from benchmarks.measure_encoding import NO_FILE
from benchmarks.results import OURS
from benchmarks.runs import measured_apart

_VOCABULARY = 32_000
_LARGE = 100_000
_SAMPLE = 20_000_000  # bytes
_PATIENT = 60.0  # seconds; who took longer is not asked for another round

Runs = dict[str, list[dict[str, Any]]]


def main() -> None:
    options = _parser().parse_args()
    names = [name for name in options.only or ENCODERS if ENCODERS[name].installed]
    names = [OURS, *(name for name in names if name != OURS)]
    for path in options.files:
        with vocabulary(options.vocabulary, path, options.vocab_size) as folder:
            for threads in options.threads:
                result = compare(path, folder, names, threads, options.rounds)
                print(plain(result))
                print(f"kept as {save(result, options.output)}\n", flush=True)
    if options.loading:
        with vocabulary(options.vocabulary, options.files[0], _LARGE) as folder:
            libraries = [name for name in names if not name.endswith(", lists")]
            runs = in_turn(libraries, folder, None, 1, options.rounds)
            result = loading_of(runs, _size_of(folder))
            print(f"kept as {save(result, options.output)}\n", flush=True)


def compare(
    path: Path, folder: Path, names: Sequence[str], threads: int, rounds: int
) -> dict[str, Any]:
    """Measure encoders on one file; the result as `encoding_results.summary` describes it."""
    load = os.getloadavg()[0]
    measured_apart(_MODULE, [OURS, folder, path, threads])  # new kernels are compiled, untimed
    slow = [name for name in names if ENCODERS[name].slow and path.stat().st_size > 2 * _SAMPLE]
    runs = in_turn([name for name in names if name not in slow], folder, path, threads, rounds)
    on_sample: Runs = {}
    if slow:
        sample = folder / f"sample-of-{path.name}"
        sample.write_bytes(sampled(path, _SAMPLE))
        on_sample = in_turn([OURS, *slow], folder, sample, threads, rounds)
    for ours in (runs[OURS], on_sample.get(OURS, [])):
        if ours and "failure" in ours[-1]:
            raise SystemExit(f"{OURS}: {ours[-1]['failure']}")
    return summary(path, _size_of(folder), threads, runs, load, on_sample, _SAMPLE)


_MODULE = "benchmarks.measure_encoding"


def in_turn(
    names: Sequence[str], folder: Path, path: Path | None, threads: int, rounds: int
) -> Runs:
    """Runs of each; those of one round form pairs that saw the same machine.

    An encoder that fails, or is very slow, is not asked again.
    """
    if path is not None:
        path.read_bytes()  # so that the first encoder does not wait for the disk
    runs: Runs = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            if runs[name] and float(runs[name][-1].get("seconds", 0)) > _PATIENT:
                continue
            if runs[name] and "failure" in runs[name][-1]:
                continue
            measured, failure = measured_apart(_MODULE, [name, folder, path or NO_FILE, threads])
            runs[name].append({"failure": failure} if failure else measured)
            said = failure or f"{measured.get('seconds', measured['load_seconds']):.2f} s"
            print(f"  round {number + 1}: {name}: {said}", file=sys.stderr, flush=True)
    return runs


@contextmanager
def vocabulary(given: Path | None, corpus: Path, vocab_size: int) -> Iterator[Path]:
    """A folder with one vocabulary in every form that encoders read."""
    from bpeline.tokenizer_core import Tokenizer, count_words, train_bpe

    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        folder = Path(directory)
        if given is None:
            counts = count_words([os.fspath(corpus)], special_tokens=[SEPARATOR])
            train_bpe(counts, vocab_size, special_tokens=[SEPARATOR]).save(folder / HF_FILE, "hf")
        else:
            shutil.copyfile(given, folder / HF_FILE)
        Tokenizer.load(folder / HF_FILE, "hf").save(folder / TIKTOKEN_FILE, "tiktoken")
        yield folder


def _size_of(folder: Path) -> int:
    from bpeline.tokenizer_core import Tokenizer

    return Tokenizer.load(folder / HF_FILE, "hf").vocab_size


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoding", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="UTF-8 text, <|endoftext|> between")
    parser.add_argument("--vocabulary", type=Path, help="a tokenizer.json with GPT-2's pattern")
    parser.add_argument("--vocab-size", type=int, default=_VOCABULARY, help="to learn otherwise")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="and processors")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, taken in turn")
    parser.add_argument("--only", nargs="+", choices=list(ENCODERS), default=None)
    parser.add_argument("--loading", action="store_true", help="measure loading as well")
    parser.add_argument("--output", type=Path, default=FOLDER, help="where JSON is kept")
    return parser


if __name__ == "__main__":
    main()
