"""What measuring a version costs: the figures of an evaluation set, and the same text perturbed."""

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
_SECTION = 4096  # what documents that are held out are cut into, about
_CHAMPION = 0.75  # ids of the champion, of those of the version


@contextmanager
def _trained(case: Case) -> Iterator[Mapping[str, Any]]:
    """A tokenizer of the whole file, and a smaller one beside which it is measured."""
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
    """About 1 MB of a file, in sections from all over it."""
    content = path.read_bytes().decode(errors="ignore")
    number = max(1, _SET_BYTES // _SECTION)
    step = max(_SECTION, len(content) // number)
    found, size = [], 0
    for at in range(0, len(content), step):
        if size < _SET_BYTES and (document := content[at : at + _SECTION].encode()):
            found.append(document)
            size += len(document)
    return found


def _evaluate(case: Case, watch: Stopwatch, beside: bool) -> dict[str, float]:
    """Once so that everything is compiled and loaded, then measured."""
    from bpeline import Tokenizer
    from bpeline.tokenizer_core.evaluation import (
        EvaluationText,
        evaluate_texts,
        measure_robustness,
    )

    documents = _documents(case.path)
    for stopwatch in (Stopwatch(), watch):
        # Read anew: a tokenizer that has met the words once knows their tokens.
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
    "the figures of 1 MB and of the same text perturbed, by a tokenizer of the whole file",
    (Contestant("alone", _alone), Contestant("beside a champion", _beside)),
    _trained,
    lambda _contestant, theirs, found, _case: (
        Verdict(True, "equal") if theirs == found["alone"] else Verdict(False, "differs")
    ),
)
