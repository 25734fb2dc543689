"""Names of metrics in MLflow, in promotion rules and in ``evaluation.json``.

The part before the slash groups charts and tables. For a slice it is the metric, so that the charts
of all slices are adjacent: ``compression/bytes_per_token`` of german is ``bytes_per_token/german``.
"""

from __future__ import annotations

from typing import Literal

ALL = "all"  # the slice of all texts
Label = Literal["language", "domain"]
LABELS: tuple[Label, ...] = ("language", "domain")
CONFIDENCE = 0.95  # the default
CONFIDENCES = (0.8, 0.9, 0.95, 0.99)  # of the intervals that are stored
FEWEST_RESAMPLED = 10  # fewest documents for an interval
TOO_FEW_DOCUMENTS = f"too few documents for an interval (under {FEWEST_RESAMPLED})"

# Least size of the new text and of a version's own text for judging drift; see docs/evaluation.md.
LEAST_WATCHED_DOCUMENTS, LEAST_WATCHED_BYTES = 100, 400_000

WELL_USED = "suggested/vocab_size_well_used"  # for versions whose size was not chosen for a model

BYTES_PER_TOKEN = "compression/bytes_per_token"
GINI_OF_TEXTS = "parity/gini_of_texts"  # of the tokens per byte of each text
ENCODE_SPEED, DECODE_SPEED = "evaluated/encode_mb_per_second", "evaluated/decode_mb_per_second"
SPEEDS = (ENCODE_SPEED, DECODE_SPEED)  # the only metrics that depend on the machine
MERGE_GAIN = "compression/merge_gain_per_million"
# Attributes of `ServingCost`; the names also contain the model shape, see `NamedShape.metric`.
FLOPS_PER_BYTE, FLOPS_PER_TOKEN = "serving/flops_per_byte", "serving/flops_per_token"
SERVING = {
    FLOPS_PER_BYTE: "flops_per_byte",
    FLOPS_PER_TOKEN: "flops_per_token",
    "serving/vocab_share": "vocab_share",
}

# Attributes of `CompressionReport`, which has the formulas.
NAMES = {
    "bytes_per_token": BYTES_PER_TOKEN,
    "chars_per_token": "compression/chars_per_token",
    "compression_ratio_vs_bytes": "compression/ratio_vs_bytes",
    "unigram_bits_per_byte": "compression/unigram_bits_per_byte",
    "description_length": "compression/description_length",
    "tokens_per_line": "compression/tokens_per_line",
    "fertility": "words/fertility",
    "continued_words": "words/continued",
    "single_token_words": "words/distinct_in_one_token",
    "vocab_utilization": "vocabulary/utilization",
    "distribution.distinct_tokens": "vocabulary/distinct_tokens",
    "distribution.unused_tokens": "vocabulary/unused_tokens",
    "distribution.rare_tokens": "vocabulary/rare_tokens",
    "distribution.f95": "vocabulary/f95",
    "unreachable_tokens": "vocabulary/unreachable_tokens",
    "undecodable_tokens": "vocabulary/undecodable_tokens",
    "mixed_fragment_tokens": "vocabulary/mixed_fragment_tokens",
    "mean_token_bytes": "vocabulary/token_bytes_mean",
    "median_token_bytes": "vocabulary/token_bytes_median",
    "p99_token_bytes": "vocabulary/token_bytes_p99",
    "longest_token_bytes": "vocabulary/token_bytes_longest",
    "distribution.shannon_entropy": "distribution/shannon_entropy",
    "distribution.shannon_efficiency": "distribution/shannon_efficiency",
    "distribution.renyi_efficiency": "distribution/renyi_efficiency_2.5",
    "distribution.renyi_efficiency_observed": "distribution/renyi_efficiency_2.5_observed",
    "distribution.imbalance": "distribution/imbalance",
    "distribution.percentile_frequency": "distribution/percentile_frequency",
    "distribution.average_rank": "distribution/average_rank",
    "distribution.type_token_ratio": "distribution/type_token_ratio",
    "unknown_rate": "vocabulary/unknown_rate",
    "byte_rate": "vocabulary/byte_rate",
    "roundtrip_failures": "evaluated/roundtrip_failures",
    "encode_mb_per_second": ENCODE_SPEED,
    "decode_mb_per_second": DECODE_SPEED,
    "bytes": "evaluated/bytes",
    "chars": "evaluated/chars",
    "words": "evaluated/words",
    "lines": "evaluated/lines",
    "pre_tokens": "evaluated/pre_tokens",
    "tokens": "evaluated/tokens",
    "documents": "evaluated/documents",
}

# The power of the number of tokens (of the same text) that each is proportional to. An interval of
# the change in tokens gives one of their change.
POWER_OF_TOKENS = {
    BYTES_PER_TOKEN: -1,
    "compression/chars_per_token": -1,
    "compression/tokens_per_line": 1,
    "words/fertility": 1,
    "evaluated/tokens": 1,
}

# Metrics with a chart for every slice; ``evaluation.json`` has all.
SHOWN_PER_SLICE = (
    BYTES_PER_TOKEN,
    "words/fertility",
    "words/continued",
    "vocabulary/utilization",
)

ROBUSTNESS_FIGURES = ("inflation", "stability", "agreement")
# Robustness metrics with a chart; ``evaluation.json`` has all families and kinds.
SHOWN_ROBUSTNESS = (
    "robustness/case_inflation",
    "robustness/case_agreement",
    "robustness/styling_inflation",
    "robustness/white_space_inflation",
)

# Properties of a version or its training, which do not depend on the text measured.
_OF_NO_TEXT = (
    "corpus/", "ids/", "privacy/", "seconds/", "training/", "vocabulary/mixed_fragment_tokens",
    "vocabulary/token_bytes_", "vocabulary/undecodable_tokens", "vocabulary/unreachable_tokens",
)  # fmt: skip
NEW_TEXT = "own_new_text/"  # on text of one training that no other version was measured on
CHANGED_IDS = "ids/changed_meaning"  # ids with another token, or none, in the newer version


def depends_on_text(name: str) -> bool:
    """Whether a metric depends on the text that it is measured on."""
    return not name.startswith(_OF_NO_TEXT)


def of_slice(name: str, slice_name: str) -> str:
    """The name of a metric for one slice."""
    return f"{name.rpartition('/')[2]}/{slice_name}"
