"""The names of figures: in MLflow, in rules of promotion, in ``evaluation.json``.

What is before the slash groups charts and tables; of a slice that is the metric, so that its charts
are side by side: ``compression/bytes_per_token`` of german is ``bytes_per_token/german``.
"""

from __future__ import annotations

from typing import Literal

ALL = "all"  # the slice that is everything
Label = Literal["language", "domain"]
LABELS: tuple[Label, ...] = ("language", "domain")
CONFIDENCE = 0.95  # where none is named
CONFIDENCES = (0.8, 0.9, 0.95, 0.99)  # of the intervals that are kept
FEWEST_RESAMPLED = 10  # documents of which there is an interval
TOO_FEW_DOCUMENTS = f"too few documents to tell chance from difference (under {FEWEST_RESAMPLED})"

# Of new text and of a version's own: with less, drift is not judged; see docs/drift.md.
LEAST_WATCHED_DOCUMENTS, LEAST_WATCHED_BYTES = 100, 400_000

WELL_USED = "suggested/vocab_size_well_used"  # of versions whose size no model chose

BYTES_PER_TOKEN = "compression/bytes_per_token"
GINI_OF_TEXTS = "parity/gini_of_texts"  # of the tokens per byte that each text takes
ENCODE_SPEED, DECODE_SPEED = "evaluated/encode_mb_per_second", "evaluated/decode_mb_per_second"
SPEEDS = (ENCODE_SPEED, DECODE_SPEED)  # of the machine, too: nothing else about a version is
MERGE_GAIN = "compression/merge_gain_per_million"
# Attributes of `ServingCost`. Of a model shape, too, which stands in the name: `NamedShape.metric`.
FLOPS_PER_BYTE, FLOPS_PER_TOKEN = "serving/flops_per_byte", "serving/flops_per_token"
SERVING = {
    FLOPS_PER_BYTE: "flops_per_byte",
    FLOPS_PER_TOKEN: "flops_per_token",
    "serving/vocab_share": "vocab_share",
}

# Attributes of `CompressionReport`, where the formulas are.
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

# How each follows from the number of tokens of the same text: proportional to it (1) or to its
# inverse (−1). An interval of the change in tokens is one of their change too.
POWER_OF_TOKENS = {
    BYTES_PER_TOKEN: -1,
    "compression/chars_per_token": -1,
    "compression/tokens_per_line": 1,
    "words/fertility": 1,
    "evaluated/tokens": 1,
}

# What is worth a chart for every slice; ``evaluation.json`` has all figures.
SHOWN_PER_SLICE = (
    BYTES_PER_TOKEN,
    "words/fertility",
    "words/continued",
    "vocabulary/utilization",
)

ROBUSTNESS_FIGURES = ("inflation", "stability", "agreement")
# What is worth a chart of robustness; ``evaluation.json`` has all families and kinds.
SHOWN_ROBUSTNESS = (
    "robustness/case_inflation",
    "robustness/case_agreement",
    "robustness/styling_inflation",
    "robustness/white_space_inflation",
)

# What a version is, or what its training read: the same whatever text it is measured on.
_OF_NO_TEXT = (
    "corpus/", "ids/", "privacy/", "seconds/", "training/", "vocabulary/mixed_fragment_tokens",
    "vocabulary/token_bytes_", "vocabulary/undecodable_tokens", "vocabulary/unreachable_tokens",
)  # fmt: skip
NEW_TEXT = "own_new_text/"  # on text of one training that no other version was measured on
CHANGED_IDS = "ids/changed_meaning"  # ids that are another token, or none, in the newer version


def depends_on_text(name: str) -> bool:
    """Whether a metric says something only together with the texts it was measured on."""
    return not name.startswith(_OF_NO_TEXT)


def of_slice(name: str, slice_name: str) -> str:
    """The name of a metric of one slice."""
    return f"{name.rpartition('/')[2]}/{slice_name}"
