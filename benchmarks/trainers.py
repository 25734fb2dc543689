"""Training: every trainer with its best settings, and the merges it must learn.

Each library is imported inside its function, so that a process measures only one. Merges depend on
how ties between equally frequent pairs are broken: by ids of bytes as GPT-2 prints them
(`printable`) or by value (`value`). Trainers that read files treat each line as a document
(`lines`).
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.corpora import GPT2, SEPARATOR, batches, documents, lines, warming_file
from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import WHOLE, Stopwatch, captured

# (left, right) bytes of a merge, or (token,) from trainers that only return tokens.
Merge = tuple[bytes, ...]
SPECIAL = [SEPARATOR]
_BYTES = 256
_SPECIALS = 1  # rustbpe and bpeasy have none, so their vocabulary is smaller by one
_LONGEST_LINE = 1 << 30  # SentencePiece's default drops lines over 4,192 bytes


def bpeline(path: Path, vocab_size: int, threads: int, watch: Stopwatch) -> list[Merge]:
    """The public API with its defaults and compiled kernels."""
    from bpeline.tokenizer_core import count_words, train_bpe

    # Load kernels untimed, like the imports of other libraries.
    with warming_file() as warm:
        counts = count_words([os.fspath(warm)], special_tokens=SPECIAL, workers=threads)
        train_bpe(counts, 260, special_tokens=SPECIAL)

    with watch.phase("counting"):
        counts = count_words([os.fspath(path)], special_tokens=SPECIAL, workers=threads)
    with watch.phase("merging"):
        tokenizer = train_bpe(counts, vocab_size, special_tokens=SPECIAL)
    return list(tokenizer.merges)


def by_value(path: Path, vocab_size: int) -> list[Merge]:
    """Our merges if bytes were numbered by value; an oracle, not timed."""
    import numpy as np

    from bpeline.tokenizer_core import WordCounts, count_words, train_bpe
    from bpeline.tokenizer_core.vocabulary.numbering import byte_order

    # Replace each byte by the one whose id is its value.
    order = np.array(byte_order("smallest-ids"), np.uint8)
    counts = count_words([os.fspath(path)], special_tokens=SPECIAL)
    disguised = WordCounts(
        order[counts.word_bytes], counts.offsets, counts.counts, counts.first_positions
    )
    back = bytes(np.argsort(order).astype(np.uint8))
    merges = train_bpe(disguised, vocab_size - len(SPECIAL)).merges
    return [(left.translate(back), right.translate(back)) for left, right in merges]


def by_lines(path: Path, vocab_size: int) -> list[Merge]:
    """Our merges if lines were documents; an oracle, not timed."""
    from bpeline.tokenizer_core import count_texts, train_bpe

    return list(train_bpe(count_texts(lines(path)), vocab_size, special_tokens=SPECIAL).merges)


def gigabpe(path: Path, vocab_size: int, threads: int, watch: Stopwatch) -> list[Merge]:
    library: Any = import_module("gigabpe")

    with watch.phase():
        _, merges = library.train_bpe(
            [os.fspath(path)],
            vocab_size,
            special_tokens=[SEPARATOR],
            pretokenizer="bytelevel",
            min_frequency=2,
            threads=threads,
        )
    return _from_printable([list(merge) for merge in merges])[: vocab_size - _BYTES - _SPECIALS]


def gigatoken(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[Merge]:
    library: Any = import_module("gigatoken")

    source = library.TextFileSource([path], separator=SEPARATOR.encode())
    begin = time.perf_counter()
    with captured(2) as output, watch.phase():
        _, merges = library.train_bpe(source, vocab_size, [SEPARATOR], tie_breaking="huggingface")
    if match := re.search(r"Pretokenization took ([\d.]+)(ms|s)", output()):
        counted = begin + float(match[1]) / (1000 if match[2] == "ms" else 1)
        ends = {"counting": counted, "merging": counted}
        watch.split(ends, begin, begin + watch.phases[WHOLE])
    return list(merges)


def rustbpe(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[Merge]:
    library: Any = import_module("rustbpe")

    reached = _Milestones(
        {
            "Processed": "counting",
            "Building heap": "pairs",
            "Finished training": "merging",
        }
    )
    logging.getLogger("rustbpe").addHandler(reached)
    logging.getLogger("rustbpe").setLevel(logging.INFO)
    tokenizer = library.Tokenizer()
    begin = time.perf_counter()
    with watch.phase():
        tokenizer.train_from_iterator(documents(path), vocab_size - _SPECIALS, pattern=GPT2)
    if reached.times:
        watch.split(reached.times, begin, begin + watch.phases[WHOLE])
    ranks = sorted(tokenizer.get_mergeable_ranks(), key=lambda item: item[1])
    return [(bytes(token),) for token, _ in ranks[_BYTES:]]


def ffbpe(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[Merge]:
    return _counter_and_trainer(import_module("ffbpe"), path, vocab_size, watch)


def uni_tokenizer(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[Merge]:
    return _counter_and_trainer(import_module("uni_tokenizer"), path, vocab_size, watch)


def _counter_and_trainer(
    library: Any, path: Path, vocab_size: int, watch: Stopwatch
) -> list[Merge]:
    with watch.phase("counting"):
        counter = library.PreTokenizer([SEPARATOR]).word_counter()
        counter.add_source(documents(path))
    with watch.phase("merging"):
        trainer = library.BpeTrainer(
            [SEPARATOR],
            unit="byte",
            initial_alphabet="byte_level",
            tie_break="smallest_pair_id",
            bigram_cutoff_freq=2,
        )
        trainer.add_word_counter(counter)
        trainer.train(vocab_size)
    with tempfile.TemporaryDirectory() as directory:
        saved = Path(directory, "merges.txt")
        trainer.save_files(Path(directory, "vocab.json"), saved, format="gpt2")
        lines = saved.read_text(encoding="utf-8").split("\n")
    # A line is `left right => count`.
    return _from_printable([line.split(" ")[:2] for line in lines if _is_merge(line)])


def bpeasy(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[Merge]:
    library: Any = import_module("bpeasy")

    no_limit = 1 << 30
    with watch.phase():
        vocab = library.train_bpe(documents(path), GPT2, no_limit, vocab_size - _SPECIALS)
    return [(token,) for token, _ in sorted(vocab.items(), key=lambda item: item[1])[_BYTES:]]


def huggingface(path: Path, vocab_size: int, _threads: int, watch: Stopwatch) -> list[Merge]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    with watch.phase():
        tokenizer.train_from_iterator(batches(path), trainer=trainer)
    return _from_printable(json.loads(tokenizer.to_str())["model"]["merges"])


def sentencepiece(path: Path, vocab_size: int, threads: int, watch: Stopwatch) -> list[Merge]:
    library: Any = import_module("sentencepiece")

    with tempfile.TemporaryDirectory() as directory:
        with watch.phase():
            library.SentencePieceTrainer.train(
                input=os.fspath(path),
                model_prefix=os.path.join(directory, "model"),
                model_type="bpe",
                vocab_size=vocab_size,
                num_threads=threads,
                byte_fallback=True,
                character_coverage=0.9995,
                normalization_rule_name="identity",
                max_sentence_length=_LONGEST_LINE,
                input_sentence_size=0,
                control_symbols=[SEPARATOR],
                hard_vocab_limit=False,
                minloglevel=2,
            )
        model = library.SentencePieceProcessor(model_file=os.path.join(directory, "model.model"))
        size = model.get_piece_size()
        pieces = [
            model.id_to_piece(token)
            for token in range(size)
            if not (model.is_byte(token) or model.is_control(token) or model.is_unknown(token))
        ]
    return [(piece.encode(),) for piece in pieces if len(piece) > 1]


def youtokentome(path: Path, vocab_size: int, threads: int, watch: Stopwatch) -> list[Merge]:
    library: Any = import_module("youtokentome")

    with tempfile.TemporaryDirectory() as directory:
        model = os.path.join(directory, "model")
        with watch.phase(), captured(1):
            library.BPE.train(
                data=os.fspath(path),
                model=model,
                vocab_size=vocab_size,
                coverage=0.9995,
                n_threads=threads,
            )
        pieces = library.BPE(model=model).vocab()
    return [(piece.encode(),) for piece in pieces if len(piece) > 1]


class _Milestones(logging.Handler):
    """Times of log messages, the only source of some trainers' phases."""

    def __init__(self, phases: dict[str, str]) -> None:
        super().__init__()
        self._phases = phases
        self.times: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        for opening, phase in self._phases.items():
            if message.startswith(opening):
                self.times[phase] = time.perf_counter()


def _is_merge(line: str) -> bool:
    return bool(line) and not line.startswith("#version")


def _from_printable(merges: list[list[str]]) -> list[Merge]:
    from bpeline.tokenizer_core.vocabulary.numbering import from_printable

    return [tuple(from_printable(token) for token in merge) for merge in merges]


def verdict(
    contestant: Contestant, theirs: Sequence[Merge], found: Mapping[str, Any], case: Case
) -> Verdict:
    """Compare a trainer's merges with ours under its tie-breaking."""
    if contestant.package is None:
        return Verdict(True, "ours")
    if contestant.promise == "other":
        return Verdict(None, "another algorithm, by design")
    oracle = _ORACLES.get(contestant.promise)
    expected = oracle(case) if oracle else _merges(found["bpeline"])
    theirs = _merges(theirs)
    tokens_only = bool(theirs) and len(theirs[0]) == 1
    ours = [(b"".join(merge),) if tokens_only else merge for merge in expected]
    what = "tokens" if tokens_only else "merges"
    divergence = first_divergence(ours, theirs)
    if divergence is None:
        return Verdict(True, f"all {len(ours):,} {what} equal{_UNDER.get(contestant.promise, '')}")
    return Verdict(False, f"differ from merge {divergence[0]:,} on", divergence)


def _merges(told: Sequence[Sequence[Any]]) -> list[Merge]:
    return [
        tuple(bytes.fromhex(token) if isinstance(token, str) else token for token in merge)
        for merge in told
    ]


_of_values, _of_lines = cache(by_value), cache(by_lines)
_ORACLES: dict[str, Callable[[Case], list[Merge]]] = {
    "value": lambda case: _of_values(case.path, case.vocab_size),
    "lines": lambda case: _of_lines(case.path, case.vocab_size),
}
_UNDER = {"value": ", bytes numbered by value", "lines": ", lines taken for documents"}


def first_divergence(ours: Sequence[Merge], theirs: Sequence[Merge]) -> tuple[int, str, str] | None:
    """(index, ours, theirs) of the first difference; "nothing" where a list has ended."""
    for index, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if mine != other:
            return index, _shown(mine), _shown(other)
    shorter = min(len(ours), len(theirs))
    if len(ours) == len(theirs):
        return None
    rest = [_shown(side[shorter]) if len(side) > shorter else "nothing" for side in (ours, theirs)]
    return shorter, rest[0], rest[1]


def _shown(merge: Merge) -> str:
    return " + ".join(repr(token)[1:] for token in merge)


def _trainer(
    train: Callable[[Path, int, int, Stopwatch], list[Merge]],
    promise: str,
    package: str | None = None,
    caveat: str = "",
    name: str = "",
) -> Contestant:
    def run(case: Case, watch: Stopwatch) -> list[Merge]:
        return train(case.path, case.vocab_size, case.threads, watch)

    module = (package or "bpeline").replace("-", "_")
    return Contestant(name or package or "bpeline", run, package, module, promise, caveat)


_VALUE = (
    "numbers bytes by value, so it breaks ties differently from HuggingFace; "
    "tokens are compared, because it does not return pairs"
)
_CHARACTERS = "characters instead of bytes, words split at spaces: another vocabulary by design"

TRAINERS = (
    _trainer(bpeline, "printable"),
    _trainer(
        gigatoken,
        "printable",
        "gigatoken",
        "with its HuggingFace tie-breaking (its two others learn other merges); "
        "maps the file into memory, so the file counts as memory",
    ),
    _trainer(
        gigabpe,
        "lines",
        "gigabpe",
        "treats each line as a document and separators as text, so its merges are compared with "
        "ours of such documents; it learns one more merge for each byte value that the text lacks, "
        "and these are left out",
    ),
    _trainer(rustbpe, "value", "rustbpe", _VALUE),
    _trainer(
        ffbpe,
        "printable",
        "ffbpe",
        "run with its byte-level alphabet and smallest-pair tie-breaking",
    ),
    _trainer(
        uni_tokenizer,
        "printable",
        "uni-tokenizer",
        "run with its byte-level alphabet and smallest-pair tie-breaking",
    ),
    _trainer(bpeasy, "value", "bpeasy", _VALUE),
    _trainer(huggingface, "printable", "tokenizers", name="HuggingFace"),
    _trainer(sentencepiece, "other", "sentencepiece", _CHARACTERS, "SentencePiece"),
    _trainer(youtokentome, "other", "youtokentome", _CHARACTERS),
)
TRAINING = Measurement("training", "a file to its merges", TRAINERS, judge=verdict)
SCALED = tuple(
    one for one in TRAINERS if one.name in ("bpeline", "gigabpe", "gigatoken", "rustbpe")
)
BY_CORPUS = Measurement(
    "training-by-corpus",
    "seconds against corpus size, on beginnings of a file",
    SCALED,
    judge=verdict,
    megabytes=(10, 30, 100, 300, 1000),
)
BY_VOCABULARY = Measurement(
    "training-by-vocabulary",
    "seconds against vocabulary size, on a file's first 100 MB",
    SCALED,
    judge=verdict,
    vocab_sizes=(1_000, 4_000, 16_000, 64_000, 256_000),
    megabytes=(100,),
)
