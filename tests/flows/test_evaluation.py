"""What an evaluation says of its own worth: held out or not, and how large the sample was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bpeline.flows.evaluation.evaluated import Evaluated, MeasuredOn
from bpeline.registry.evaluation.measured import MeasuredSource
from bpeline.registry.evaluation_sets import FEWEST_DOCUMENTS, LEAST_BYTES
from bpeline.tokenizer_core import Tokenizer
from bpeline.tokenizer_core.evaluation.suite import Evaluation, EvaluationText, evaluate_texts

BYTES = Tokenizer({k: bytes([k]) for k in range(256)}, [])
EVALUATION = evaluate_texts(BYTES, {}, [EvaluationText("held-out", [b"low lower"])])[0]
SOURCE = MeasuredSource("held-out", (), None, None, "", 1, 9)


def of_size(documents: int, size: int, held_out: bool = True) -> Evaluated:
    report = replace(EVALUATION.report, documents=documents, bytes=size)
    evaluation: Evaluation = replace(EVALUATION, report=report)
    return Evaluated(
        tokenizer=BYTES,
        on=MeasuredOn(None, 0, held_out),
        sources=(SOURCE,),
        evaluation=evaluation,
        references={},
    )


@pytest.mark.parametrize(
    ("documents", "size", "small"),
    [
        (FEWEST_DOCUMENTS, LEAST_BYTES, False),
        (FEWEST_DOCUMENTS - 1, LEAST_BYTES * 10, True),
        (FEWEST_DOCUMENTS * 10, LEAST_BYTES - 1, True),
        (1, 1000, True),
    ],
)
def test_a_sample_that_says_little_is_called_small(documents: int, size: int, small: bool) -> None:
    found = of_size(documents, size)
    assert found.is_small is small
    assert ("small sample" in found.outcome) is small
    assert bool(found.warning) is small
    if small:
        noun = "document" if documents == 1 else "documents"
        assert f"only {documents:,} {noun} of" in found.warning
        assert "--held-out" in found.warning


def test_training_text_is_called_what_it_is_whatever_its_size() -> None:
    for found in (of_size(1, 9, held_out=False), of_size(10**6, 10**9, held_out=False)):
        assert "training" in found.outcome
        assert "optimistic" in found.warning
