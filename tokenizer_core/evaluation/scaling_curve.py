"""Bits per byte that models reach with a vocabulary, at the training budget that its cost leaves.

A vocabulary that is cheaper to serve than another may spend on training what it saves, and a dearer
one pays there. Of models that somebody trained, (training FLOPs, bits per byte) are fitted by a
power law, and this is read off at the budget: the FLOP-equated bits per byte, feBPB, of
marin-community/marin (pull request 6916, ``experiments/tokenize``). Trains no model, knows no file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bpeline.tokenizer_core.errors import InvalidOption

FEWEST_POINTS = 3
_STEPS, _LARGEST_EXPONENT = 500, 0.5
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    """Bits per byte over training FLOPs C: ``scale · (C / at)^(−exponent) + floor``.

    Attributes:
        scale: bits per byte above the floor at ``at``.
        exponent: 0.001 to 0.5, in steps of 0.001.
        floor: bits per byte that no budget undercuts.
        at: FLOPs, the geometric mean of the points'.
        smallest, largest: FLOPs of the points; beyond these it is extrapolated.
    """

    scale: float
    exponent: float
    floor: float
    at: float
    smallest: float
    largest: float

    def bits_per_byte(self, training_flops: float) -> float:
        """Bits per byte at a budget; infinite where it is none."""
        if training_flops <= 0:
            return math.inf
        fallen: float = (training_flops / self.at) ** -self.exponent
        return self.scale * fallen + self.floor

    def covers(self, training_flops: float) -> bool:
        """Whether the budget lies among the points."""
        return self.smallest <= training_flops <= self.largest


def fit_scaling(points: Points) -> ScalingCurve:
    """The curve nearest to the points by least squares: scale and floor for each exponent.

    Args:
        points: (training FLOPs, bits per byte).

    Raises:
        InvalidOption: points of fewer than three budgets.
    """
    if len({flops for flops, _ in points}) < FEWEST_POINTS:
        raise InvalidOption(
            f"{len(points)} points are given for a curve of bits per byte over training FLOPs",
            f"{FEWEST_POINTS} or more, each of another budget",
            "measure models that were trained longer or shorter, too",
        )
    budgets, reached = np.array(sorted(points), np.float64).T
    at = math.exp(float(np.log(budgets).mean()))
    exponents = _LARGEST_EXPONENT * np.arange(1, _STEPS + 1) / _STEPS
    fallen = np.exp(-exponents[:, None] * np.log(budgets / at))  # [exponents, points]
    across = fallen - fallen.mean(axis=1, keepdims=True)
    scales = across @ (reached - reached.mean()) / (across**2).sum(axis=1)
    floors = reached.mean() - scales * fallen.mean(axis=1)
    errors = ((scales[:, None] * fallen + floors[:, None] - reached) ** 2).sum(axis=1)
    best = int(errors.argmin())
    return ScalingCurve(
        float(scales[best]), float(exponents[best]), float(floors[best]), at,
        float(budgets[0]), float(budgets[-1]),
    )  # fmt: skip


# Attributes of `FlopEquated`; of a model shape, too, as those of `SERVING`.
BITS_PER_BYTE = "serving/flop_equated_bits_per_byte"
FLOP_EQUATED = {
    "serving/relative_cost": "relative_cost",
    "serving/training_budget": "budget",
    BITS_PER_BYTE: "bits_per_byte",
}


@dataclass(frozen=True, slots=True)
class FlopEquated:
    """What models reach with one vocabulary when what it costs to serve is paid in training.

    Attributes:
        relative_cost: FLOPs per byte of text, those of the reference being 1.
        budget: training FLOPs that this leaves.
        bits_per_byte: at that budget; infinite where nothing is left, None where it was not judged.
        remark: why it was not, or what makes it doubtful; empty as a rule.
    """

    relative_cost: float
    budget: float
    bits_per_byte: float | None
    remark: str = ""

    def as_dict(self) -> dict[str, Any]:
        """JSON values, which have no infinity: that is null, and the remark says why."""
        values = asdict(self)
        if self.bits_per_byte == math.inf:
            values["bits_per_byte"] = None
        return values


def middle_budget(points: Points) -> float | None:
    """The budget in the middle of these, of an even number the larger one; None without any."""
    budgets = sorted(flops for flops, _ in points)
    return budgets[len(budgets) // 2] if budgets else None


def flop_equated(
    points: Points, relative_cost: float, budget: float, serving_ratio: float = 1.0
) -> FlopEquated:
    """Bits per byte at the budget C · (1 + q · (1 − r)).

    Args:
        points: (training FLOPs, bits per byte) of models with this vocabulary.
        relative_cost: r, what a byte costs to serve, relative to the reference.
        budget: C, training FLOPs of the reference.
        serving_ratio: q, FLOPs that are served in a model's life for each one of its training.
    """
    left = budget * (1 + serving_ratio * (1 - relative_cost))
    different = len({flops for flops, _ in points})
    if different < FEWEST_POINTS:
        said = f"points of {different} training budgets are known, and {FEWEST_POINTS} are needed"
        return FlopEquated(relative_cost, left, None, said)
    curve = fit_scaling(points)
    remark = ""
    if left <= 0:
        remark = "serving costs more than there was to train with"
    elif not curve.covers(left):
        remark = (
            f"extrapolated: {left:.3g} FLOPs are outside of {curve.smallest:.3g} to "
            f"{curve.largest:.3g}, where models were measured"
        )
    if curve.scale <= 0:
        said = "these points do not fall with training FLOPs"
        remark = f"{remark}; {said}" if remark else said
    return FlopEquated(relative_cost, left, curve.bits_per_byte(left), remark)
