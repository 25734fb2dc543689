"""CPU seconds from file to tokens, of all algorithms and of subword-nmt.

White space in the text becomes spaces and line ends, because subword-nmt miscounts words with other
white space.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch, captured

_PEER, _SAME = "subword-nmt", "char-bpe"


@contextmanager
def _plain_copy(case: Case) -> Iterator[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        copy = Path(directory, case.path.name)
        copy.write_bytes(re.sub(r"[^\S \n]", " ", case.path.read_bytes().decode()).encode())
        yield {"copy": str(copy)}


def _ours(train: Callable[[Path, int], Any], name: str) -> Contestant:
    def run(case: Case, watch: Stopwatch) -> str:
        for module in ("training.bpe", "algorithms.character_bpe"):  # import untimed
            import_module(f"bpeline.tokenizer_core.{module}")
        with watch.phase():
            tokenizer = train(Path(case.prepared["copy"]), case.vocab_size)
        lines = ["#version: 0.2"]
        if name == _SAME:
            lines += [f"{left.decode()} {right.decode()}" for left, right in tokenizer.merges]
        return _digest("\n".join(lines) + "\n")

    return Contestant(name, run)


def _subword_nmt(case: Case, watch: Stopwatch) -> str:
    library: Any = import_module("subword_nmt.learn_bpe")
    copy = Path(case.prepared["copy"])
    codes = copy.with_suffix(".codes")
    with (
        captured(1),
        watch.phase(),
        open(copy, encoding="utf-8") as read,
        open(codes, "w", encoding="utf-8") as written,
    ):
        library.learn_bpe(read, written, case.vocab_size, num_workers=2)
    return _digest(codes.read_text(encoding="utf-8"))


def _digest(codes: str) -> str:
    return hashlib.sha256(codes.encode()).hexdigest()


def _verdict(contestant: Contestant, theirs: str, found: Mapping[str, Any], _case: Case) -> Verdict:
    if contestant.name != _PEER:
        return Verdict(None, "ours")
    equal = theirs == found.get(_SAME)
    return Verdict(equal, "equal to char-bpe" if equal else "other codes than char-bpe")


def _counted(path: Path, pattern: str) -> Any:
    from bpeline.tokenizer_core import count_words

    return count_words([path], pattern)


def _trainers() -> Any:
    return import_module("bpeline.tokenizer_core.algorithms")


def _byte_bpe(path: Path, size: int) -> Any:
    from bpeline.tokenizer_core import train_bpe

    return train_bpe(_counted(path, "gpt2"), size)


def _char_bpe(path: Path, size: int) -> Any:
    counts = _counted(path, "whitespace")
    return _trainers().train_char_bpe(counts, size, joined=True, tie_break="greatest-bytes")


def _ratio(path: Path, size: int) -> Any:
    return _trainers().train_wordpiece(_counted(path, "wordpunct"), size, score="ratio")


def _gain(path: Path, size: int) -> Any:
    return _trainers().train_wordpiece(_counted(path, "wordpunct"), size, score="gain")


def _frequency_bpe(path: Path, size: int) -> Any:
    return _trainers().train_frequency_bpe(_counted(path, "wordpunct"), size, sentences="lines")


ALGORITHMS = Measurement(
    "algorithms",
    "all algorithms, from a file to its tokens; subword-nmt takes minutes",
    (
        _ours(_byte_bpe, "byte-bpe"),
        _ours(_char_bpe, _SAME),
        _ours(_ratio, "wordpiece, ratio"),
        _ours(_gain, "wordpiece, gain"),
        _ours(_frequency_bpe, "frequency-bpe"),
        Contestant(_PEER, _subword_nmt, _PEER, "subword_nmt", once=True),
    ),
    _plain_copy,
    _verdict,
)
