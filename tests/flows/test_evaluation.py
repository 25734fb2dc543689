"""What an evaluation says of its own worth: held out or not, and how large the sample was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.evaluate import FEWEST_DOCUMENTS, LEAST_BYTES, Evaluation
from tokenizer_core import Tokenizer, metrics

REPORT = metrics.evaluate(Tokenizer({k: bytes([k]) for k in range(256)}, []), [b"low lower"])


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
    found = Evaluation(replace(REPORT, documents=documents, bytes=size), held_out=True)
    assert found.is_small is small
    assert ("small sample" in found.outcome) is small
    assert bool(found.warning) is small
    if small:
        noun = "document" if documents == 1 else "documents"
        assert f"only {documents:,} {noun} of" in found.warning
        assert "--held-out" in found.warning


def test_training_text_is_called_what_it_is_whatever_its_size() -> None:
    large = replace(REPORT, documents=10**6, bytes=10**9)
    for report in (REPORT, large):
        assert "training" in Evaluation(report, held_out=False).outcome
        assert "flatters" in Evaluation(report, held_out=False).warning
