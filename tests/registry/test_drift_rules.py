"""Rules of drift: an alarm must be sure; what cannot be known is no alarm."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bpeline.registry.evaluation.drift_rules import (
    DEFAULT_RULES,
    default_rules,
    judge_drift,
    read_drift_rules,
    share_to_watch,
    too_small_to_judge,
)
from bpeline.registry.evaluation.gates import Rule, Verdict
from bpeline.tokenizer_core.corpus import hold_out
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import TOO_FEW_DOCUMENTS
from bpeline.tokenizer_core.evaluation.drift import DIVERGENCE, EXCESS_DIVERGENCE, NEW_COST, Figure
from bpeline.tokenizer_core.evaluation.metric_names import BYTES_PER_TOKEN
from bpeline.tokenizer_core.splitting import CutPairs, SplitPattern
from bpeline.tokenizer_core.text import Text


def around(value: float, spread: float, own: float | None = None) -> Figure:
    """A figure whose draws lie evenly within ``spread`` of it."""
    draws = np.linspace(value - spread, value + spread, 2001)
    own_draws = np.zeros(0) if own is None else np.full(2001, own)
    return Figure(value, own, 100, draws, own_draws)


def says(rule: Rule, figure: Figure) -> tuple[bool, str]:
    verdict = verdict_on(rule, figure)
    assert verdict.judged
    return verdict.holds, verdict.said


def verdict_on(rule: Rule, figure: Figure) -> Verdict:
    (verdict,) = judge_drift([rule], {"all": {rule.metric: figure}}, {})
    return verdict


WORSE_BY_A_TWENTIETH = Rule(BYTES_PER_TOKEN, "higher", tolerance=0.05, confidence=0.95)


def test_an_alarm_needs_the_whole_interval_beyond_the_tolerance() -> None:
    holds, said = says(WORSE_BY_A_TWENTIETH, around(3.5, 0.1, own=4.0))
    assert not holds
    assert re.search(r"\b3\.5\b.*\b4\b.*\b3\.8\b", said)
    assert "0.205" in said
    for figure in (around(3.75, 0.1, own=4.0), around(3.85, 0.01, own=4.0), around(4.5, 0.1, 4.0)):
        assert says(WORSE_BY_A_TWENTIETH, figure)[0]


def test_without_a_confidence_the_value_decides() -> None:
    rule = Rule(BYTES_PER_TOKEN, "higher", tolerance=0.05)
    assert not says(rule, around(3.75, 0.1, own=4.0))[0]
    assert says(rule, around(3.81, 0.1, own=4.0))[0]


def test_a_limit_needs_nothing_to_compare_with() -> None:
    rule = Rule(EXCESS_DIVERGENCE, "lower", tolerance=None, limit=0.1, confidence=0.99)
    assert says(rule, around(0.12, 0.05))[0]
    holds, said = says(rule, around(0.3, 0.05))
    assert not holds
    assert re.search(r"\b0\.3\b.*\b0\.1\b", said)
    both = Rule(BYTES_PER_TOKEN, "higher", tolerance=0.05, limit=3.0)
    assert not says(both, Figure(2.9, 3.0))[0], "the limit"
    assert not says(both, Figure(3.1, 4.0))[0], "the tolerance"
    assert not verdict_on(both, Figure(3.1, None)).judged


def test_what_cannot_be_known_is_not_judged() -> None:
    rule = WORSE_BY_A_TWENTIETH
    (missing,) = judge_drift([rule], {"all": {}}, {})
    nothing_own = verdict_on(rule, around(1.0, 0.0))
    few = verdict_on(rule, Figure(1.0, 4.0, documents=3))
    far = {"all": {BYTES_PER_TOKEN: around(1.0, 0.0, own=4.0)}}
    (small,) = judge_drift([rule], far, {"all": "3 documents"})
    for verdict in (missing, nothing_own, few, small):
        assert (verdict.judged, verdict.holds) == (False, False)
        assert BYTES_PER_TOKEN in verdict.said
    assert TOO_FEW_DOCUMENTS in few.said
    assert small.said.endswith(": 3 documents")
    assert len({one.said for one in (missing, nothing_own, few, small)}) == 4, "each has its reason"


def test_slices_are_judged_by_bytes_per_token() -> None:
    rules = default_rules(["german"])
    assert rules[:-1] == DEFAULT_RULES
    assert (rules[-1].metric, rules[-1].slice) == (BYTES_PER_TOKEN, "german")


def test_rules_are_read_in_the_spelling_of_promotion(tmp_path: Path) -> None:
    path = tmp_path / "drift.toml"
    path.write_text(
        '[[rule]]\nmetric = "words/new_frequent_cost"\ndirection = "lower"\nlimit = 0.01\n'
        'confidence = 0.9\n[[rule]]\nmetric = "compression/bytes_per_token"\n'
        'direction = "higher"\nslice = "de"\ntolerance = 0.02\n',
        encoding="utf-8",
    )
    assert read_drift_rules(path) == (
        Rule(NEW_COST, "lower", tolerance=None, limit=0.01, confidence=0.9),
        Rule(BYTES_PER_TOKEN, "higher", tolerance=0.02, slice="de"),
    )


@pytest.mark.parametrize(
    ("metric", "more", "complaint"),
    [
        ("vocabulary/f95", "limit = 1", "vocabulary/f95"),
        (DIVERGENCE, "limit = 1\nconfidence = 0.95", DIVERGENCE),
    ],
)
def test_rules_of_what_is_not_measured_are_refused(
    metric: str, more: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "drift.toml"
    path.write_text(f'[[rule]]\nmetric = "{metric}"\ndirection = "lower"\n{more}\n', "utf-8")
    with pytest.raises(InvalidOption, match=complaint):
        read_drift_rules(path)


def watched(
    size: int, mean: float, spread: float, share: float, pairs: CutPairs | None
) -> tuple[tuple[int, int], str]:
    """What is held out of a corpus whose documents have such lengths, and what is said of it."""
    draw = np.random.default_rng(size)
    text = Text.of(draw.choice(np.frombuffer(b"etaoin shrdlu", np.uint8), size).tobytes())
    ends = np.cumsum(
        1 + draw.lognormal(np.log(mean), spread, int(2 * size / mean)).astype(np.int64)
    )
    ends = np.append(ends[ends < size], size)
    documents = np.ascontiguousarray(np.stack((np.append(0, ends[:-1]), ends), axis=1))
    held_out = hold_out(text, documents, int(share * 2**64), pairs)[1]
    sample = len(held_out), int((held_out[:, 1] - held_out[:, 0]).sum())
    advised = share_to_watch(size, len(documents), pairs is not None)
    return sample, too_small_to_judge(sample, share, advised, size)


@pytest.mark.parametrize(
    ("size", "mean", "spread", "is_cut"),
    [
        (3_000_000, 100, 0.5, True),
        (3_100_000, 3_000, 1.0, True),
        (6_000_000, 16_000, 1.2, True),
        (6_100_000, 6_100_000, 0.1, True),
        (1_300_000, 300_000, 0.1, True),
        (1_250_000, 1_000, 1.0, True),
        (700_000, 16_000, 1.0, True),
        (20_000, 1_000, 1.0, True),
        (6_000_000, 2_000, 1.0, False),
        (5_000_000, 12_000, 0.7, False),
    ],
)
def test_what_is_advised_suffices_for_drift_to_be_judged(
    size: int, mean: float, spread: float, is_cut: bool
) -> None:
    pairs = SplitPattern.named("gpt2").cut_pairs if is_cut else None
    _, said = watched(size, mean, spread, 0.01, pairs)
    if more := re.search(r"\b0\.4 MB\b.* ([0-9.]+) MB\b", said):
        assert size < 1_350_000
        size += round(float(more[1]) * 1_000_000)
    share = float(re.findall(r"--held-out ([0-9.]+)`", said)[0])
    sample, again = watched(size, mean, spread, share, pairs)
    assert again == "", sample


def test_more_is_advised_than_was_not_enough() -> None:
    assert "(92 documents, 332 kB)" in too_small_to_judge((92, 332_000), 0.03, 0.019, 33_000_000)
    assert "`--held-out 0.045`" in too_small_to_judge((92, 332_000), 0.03, 0.019, 33_000_000)
    assert "(1 document, 3,000 bytes)" in too_small_to_judge((1, 3_000), 0.01, 2.0, 300_000)
    assert "1.4 MB" in too_small_to_judge((0, 0), 0.01, share_to_watch(0, 0, True), 0)
