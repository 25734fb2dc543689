"""Ways to train the same pattern and size otherwise, as sweeps compare them: names and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN = "plain"
SUPERBPE = "superbpe"  # learned behind the plain training of the same pattern
# Name → parameters of a training.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {},
    "whole-characters": {"characters": "whole"},
    "left-to-right": {"characters": "left-to-right"},
    SUPERBPE: {},
    "parity": {"parity": "base"},
    "parity-window": {"parity": "window"},
}


def typed(variant: str) -> str:
    """The options of `bpeline train` that say a variant; empty where none does."""
    return " ".join(f"--{name} {value}" for name, value in VARIANTS[variant].items())


def transition_size(vocab_size: int) -> int:
    """How many of so many ids words give in a sweep: nine tenths, as in the published models."""
    return vocab_size * 9 // 10
