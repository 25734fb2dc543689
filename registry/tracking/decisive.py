"""Which figures and settings MLflow shows: those by which a person chooses between versions.

A table with a hundred columns hides them. All others are in the artifacts ``metrics.json`` and
``params.json`` of a run, in ``evaluation.json``, and on the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

MOST_METRICS = 40
MOST_PARAMS = 15

# By importance; of a pattern, the names in their order.
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
# How it was done, or said elsewhere.
_NOT_SHOWN = {
    "compared_with.champion", "measured_on", "min_word_count", "table_memory", "text_field",
    "workers",
}  # fmt: skip


def decisive_metrics(names: Iterable[str]) -> list[str]:
    """Of the names of metrics, those that are shown, by importance."""
    left, chosen = sorted(names), list[str]()
    for pattern in _METRICS:
        fitting = [one for one in left if fnmatchcase(one, pattern) and one not in chosen]
        if pattern.endswith("/*"):  # of a slice, the figure; its interval is on the pages
            fitting = [one for one in fitting if not one.endswith(_INTERVAL)]
        chosen += fitting
    return chosen[:MOST_METRICS]


def decisive_params(params: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Of parameters, so many that are shown: the decisive ones, then others that were given."""
    given = {key: value for key, value in params.items() if value not in (None, "", [], {}, ())}
    first = [key for key in _PARAMS if key in given]
    others = sorted(given.keys() - set(first) - _NOT_SHOWN)
    return {key: given[key] for key in [*first, *others][:most]}
