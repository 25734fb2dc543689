"""How equally a tokenizer treats languages or domains: what each of them pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bpeline.tokenizer_core.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class Parity:
    """Inequality of the costs c_l = tokens / bytes of several slices.

    Attributes:
        gini: Σᵢ Σⱼ |cᵢ − cⱼ| / (2 n² μ); 0 is equal (Foroutan, Meister et al. 2025).
        max_over_min: the dearest slice over the cheapest.
        dearest, cheapest: which these are.
    """

    gini: float
    max_over_min: float
    dearest: str
    cheapest: str


def parity(costs: Mapping[str, float]) -> Parity:
    """Compare the costs of slices.

    Bytes per character differ by script, so costs of different scripts are comparable only
    between tokenizers, or on parallel text.

    Args:
        costs: tokens per byte by slice, all above 0.

    Raises:
        InvalidOption: no slice.
    """
    if not costs:
        raise InvalidOption(
            "there is no slice to compare",
            "at least one slice with text",
            "name evaluation sources with a language or domain",
        )
    ordered = sorted(costs, key=costs.__getitem__)
    values = [costs[label] for label in ordered]
    number, total = len(values), sum(values)
    # Of sorted values Σᵢ Σⱼ |cᵢ − cⱼ| = 2 Σ (2i − n − 1) cᵢ, i from 1.
    spread = sum((2 * place - number + 1) * value for place, value in enumerate(values))
    return Parity(spread / (number * total), values[-1] / values[0], ordered[-1], ordered[0])
