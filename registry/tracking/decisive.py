"""The metrics and params logged to MLflow: those that help to choose a version.

All others are in the run's artifacts ``metrics.json`` and ``params.json`` and in
``evaluation.json``; a table of a hundred columns would hide the important ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

MOST_METRICS = 40
MOST_PARAMS = 15

# Most important first; names that match one pattern are sorted.
_METRICS = (
    "compression/bytes_per_token",
    "vs_champion_percent/all*",
    "vs_champion_beyond_chance/all",
    "evaluated/roundtrip_failures",
    "privacy/suspicious_tokens",
    "words/fertility",
    "words/distinct_in_one_token",
    "vocabulary/utilization",
    "vocabulary/unreachable_tokens",
    "training/dead_tokens",
    "training/rare_tokens",
    "training/junk_tokens",
    "distribution/renyi_efficiency_2.5",
    "compression/unigram_bits_per_byte",
    "robustness/case_inflation",
    "robustness/styling_inflation",
    "robustness/white_space_inflation",
    "evaluated/encode_mb_per_second",
    "evaluated/decode_mb_per_second",
    "serving/flops_per_byte*",
    "corpus/bytes",
    "corpus/documents",
    "corpus/words",
    "corpus/distinct_words",
    "parity/*",
    "vs_*_percent/all",
    "bytes_per_token/*",
    "vs_champion_percent/*",
    "vs_champion_beyond_chance/*",
    "fertility/*",
    "premium/*",
    # Of sweeps, datasets and drift.
    "sweep_*",
    "dataset/*",
    "encode/*",
    "drift/*",
    "new_text/*",
)
_INTERVAL = ("_low", "_high")
_PARAMS = (
    "champion", "evaluation_set", "extends", "renamed_from", "paths", "sources", "algorithm",
    "vocab_size", "pattern", "special_tokens", "weights", "temperature", "required_tokens",
    "min_count", "held_out", "tie_break", "evaluation", "baselines", "invalid_utf8",
)  # fmt: skip
# Technical settings, and values shown elsewhere.
_NOT_SHOWN = {
    "compared_with.champion", "measured_on", "min_word_count", "table_memory", "text_field",
    "workers",
}  # fmt: skip


def decisive_metrics(names: Iterable[str]) -> list[str]:
    """Return the metric names to log, most important first."""
    remaining, chosen = sorted(names), list[str]()
    for pattern in _METRICS:
        fitting = [name for name in remaining if fnmatchcase(name, pattern) and name not in chosen]
        if pattern.endswith("/*"):  # slices without their intervals, which the pages show
            fitting = [name for name in fitting if not name.endswith(_INTERVAL)]
        chosen += fitting
    return chosen[:MOST_METRICS]


def decisive_params(params: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return up to ``most`` params to log: the decisive ones, then others."""
    present = {key: value for key, value in params.items() if value not in (None, "", [], {}, ())}
    first = [key for key in _PARAMS if key in present]
    others = sorted(present.keys() - set(first) - _NOT_SHOWN)
    return {key: present[key] for key in [*first, *others][:most]}
