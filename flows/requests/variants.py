"""Ways to train the same pattern and size otherwise, as sweeps compare them: names and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PLAIN = "plain"
# Name → parameters of a training.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {},
    "whole-characters": {"characters": "whole"},
    "left-to-right": {"characters": "left-to-right"},
    "superword-runs": {"algorithm": "superword-bpe"},
    "parity": {"parity": "base"},
    "parity-window": {"parity": "window"},
}


def typed(variant: str) -> str:
    """The options of `bpeline train` that say a variant; empty for the plain one."""
    return " ".join(f"--{name} {value}" for name, value in VARIANTS[variant].items())
