"""Cost of evaluating a version: figures of an evaluation set, and perturbations."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.corpora import SEPARATOR
from benchmarks.measurement import Case, Contestant, Measurement, Verdict
from benchmarks.process import Stopwatch

_SET_BYTES = 1_000_000
_SECTION = 4096  # approximate length of held-out sections
_CHAMPION = 0.75  # vocab size of the champion relative to the version


@contextmanager
def _trained(case: Case) -> Iterator[Mapping[str, Any]]:
    from bpeline import count_words, train_bpe

    counts = count_words([case.files[0]], special_tokens=[SEPARATOR], workers=case.threads)
    tokenizer = train_bpe(counts, case.vocab_size, special_tokens=[SEPARATOR])
    champion = train_bpe(counts, round(_CHAMPION * case.vocab_size), special_tokens=[SEPARATOR])
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        places = {"version": Path(directory, "version"), "champion": Path(directory, "champion")}
        tokenizer.save(places["version"])
        champion.save(places["champion"])
        facts = {"set_bytes": min(_SET_BYTES, case.bytes)}
        yield {"facts": facts, **{name: str(place) for name, place in places.items()}}


def _documents(path: Path) -> list[bytes]:
    """About 1 MB of sections from all over a file."""
    content = path.read_bytes().decode(errors="ignore")
    number = max(1, _SET_BYTES // _SECTION)
    step = max(_SECTION, len(content) // number)
    sections, size = [], 0
    for at in range(0, len(content), step):
        if size < _SET_BYTES and (document := content[at : at + _SECTION].encode()):
            sections.append(document)
            size += len(document)
    return sections


def _evaluate(case: Case, watch: Stopwatch, beside: bool) -> dict[str, float]:
    """Run twice and measure the second time, with kernels loaded."""
    from bpeline import Tokenizer
    from bpeline.tokenizer_core.evaluation import (
        EvaluationText,
        evaluate_texts,
        measure_robustness,
    )

    documents = _documents(case.path)
    for stopwatch in (Stopwatch(), watch):
        # Load again to start with empty caches.
        tokenizer = Tokenizer.load(case.prepared["version"])
        others = {"champion": Tokenizer.load(case.prepared["champion"])} if beside else {}
        with stopwatch.phase("figures"):
            texts = [EvaluationText("held-out", documents)]
            evaluation, _ = evaluate_texts(tokenizer, others, texts)
        with stopwatch.phase("perturbations"):
            robust = measure_robustness(tokenizer, others, documents)
    return {
        "bytes_per_token": evaluation.report.bytes_per_token,
        "kinds": float(len(robust.applied)),
    }


def _alone(case: Case, watch: Stopwatch) -> dict[str, float]:
    return _evaluate(case, watch, beside=False)


def _beside(case: Case, watch: Stopwatch) -> dict[str, float]:
    return _evaluate(case, watch, beside=True)


EVALUATING = Measurement(
    "evaluation",
    "evaluation of 1 MB and of its perturbations, by a tokenizer of the whole file",
    (Contestant("alone", _alone), Contestant("beside a champion", _beside)),
    _trained,
    lambda _contestant, theirs, found, _case: (
        Verdict(True, "equal") if theirs == found["alone"] else Verdict(False, "differs")
    ),
)
