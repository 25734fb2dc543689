"""How good a tokenizer is, for whom, and where two of them differ; all in figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .bootstrap import CONFIDENCE as CONFIDENCE
    from .comparison import DivergingMerge as DivergingMerge
    from .comparison import DocumentComparison as DocumentComparison
    from .comparison import Segmentation as Segmentation
    from .comparison import VocabDifference as VocabDifference
    from .comparison import WordChange as WordChange
    from .comparison import compare_measured as compare_measured
    from .comparison import compare_on as compare_on
    from .comparison import compare_vocabs as compare_vocabs
    from .comparison import first_diverging_merge as first_diverging_merge
    from .compression_curve import bytes_per_token_at as bytes_per_token_at
    from .compression_curve import has_curve as has_curve
    from .compression_curve import knee as knee
    from .drift import CONTINUED as CONTINUED
    from .drift import DIVERGENCE as DIVERGENCE
    from .drift import DRIFT_DEFINITIONS as DRIFT_DEFINITIONS
    from .drift import EXCESS_DIVERGENCE as EXCESS_DIVERGENCE
    from .drift import MANY as MANY
    from .drift import NEW_COST as NEW_COST
    from .drift import TOKENS_PER_WORD as TOKENS_PER_WORD
    from .drift import Figure as Figure
    from .drift import OwnText as OwnText
    from .drift import TextDrift as TextDrift
    from .drift import drift_of as drift_of
    from .language_choices import LanguageChoices as LanguageChoices
    from .language_choices import compare_choices as compare_choices
    from .made_tokens import MadeTokens as MadeTokens
    from .measuring import Measured as Measured
    from .metric_names import ALL as ALL
    from .metric_names import BYTES_PER_TOKEN as BYTES_PER_TOKEN
    from .metric_names import CHANGED_IDS as CHANGED_IDS
    from .metric_names import CONFIDENCES as CONFIDENCES
    from .metric_names import FEWEST_RESAMPLED as FEWEST_RESAMPLED
    from .metric_names import FLOPS_PER_BYTE as FLOPS_PER_BYTE
    from .metric_names import FLOPS_PER_TOKEN as FLOPS_PER_TOKEN
    from .metric_names import GINI_OF_TEXTS as GINI_OF_TEXTS
    from .metric_names import LABELS as LABELS
    from .metric_names import LEAST_WATCHED_BYTES as LEAST_WATCHED_BYTES
    from .metric_names import LEAST_WATCHED_DOCUMENTS as LEAST_WATCHED_DOCUMENTS
    from .metric_names import MERGE_GAIN as MERGE_GAIN
    from .metric_names import NEW_TEXT as NEW_TEXT
    from .metric_names import POWER_OF_TOKENS as POWER_OF_TOKENS
    from .metric_names import ROBUSTNESS_FIGURES as ROBUSTNESS_FIGURES
    from .metric_names import SERVING as SERVING
    from .metric_names import SHOWN_PER_SLICE as SHOWN_PER_SLICE
    from .metric_names import SHOWN_ROBUSTNESS as SHOWN_ROBUSTNESS
    from .metric_names import SPEEDS as SPEEDS
    from .metric_names import depends_on_text as depends_on_text
    from .metric_names import of_slice as of_slice
    from .metrics import DEFINITIONS as DEFINITIONS
    from .metrics import CompressionReport as CompressionReport
    from .morphology import boundary_scores as boundary_scores
    from .morphology import read_gold as read_gold
    from .named_shapes import NamedShape as NamedShape
    from .named_shapes import model_shape as model_shape
    from .passages import Passage as Passage
    from .passages import PassageSample as PassageSample
    from .perturbations import PERTURBATIONS as PERTURBATIONS
    from .perturbations import Perturbation as Perturbation
    from .robustness import Robustness as Robustness
    from .robustness import may_be_perturbed as may_be_perturbed
    from .robustness import measure_robustness as measure_robustness
    from .robustness import robustness_by_language as robustness_by_language
    from .serving_cost import MODEL_SHAPES as MODEL_SHAPES
    from .serving_cost import CheapestSize as CheapestSize
    from .serving_cost import ModelShape as ModelShape
    from .serving_cost import ServingCost as ServingCost
    from .serving_cost import cheapest_size as cheapest_size
    from .suite import Change as Change
    from .suite import Evaluation as Evaluation
    from .suite import EvaluationText as EvaluationText
    from .suite import Measurement as Measurement
    from .suite import Opponent as Opponent
    from .suite import Slice as Slice
    from .suite import distinct_parts as distinct_parts
    from .suite import evaluate_texts as evaluate_texts
    from .suite import gini_of_texts as gini_of_texts
    from .suite import slices_of as slices_of
    from .suite import token_change as token_change
    from .token_documents import TrainingDocuments as TrainingDocuments
    from .token_documents import made_in_one_document as made_in_one_document
    from .token_fragments import FragmentTokens as FragmentTokens
    from .token_fragments import fragment_tokens as fragment_tokens
    from .token_words import MakingWord as MakingWord
    from .token_words import making_words as making_words
    from .token_words import rows_holding as rows_holding
    from .tokens_in_use import JUNK_SHARE as JUNK_SHARE
    from .tokens_in_use import TokenUsage as TokenUsage
    from .tokens_in_use import TokenUse as TokenUse
    from .tokens_in_use import token_usage as token_usage
    from .tokens_in_use import token_use as token_use
    from .word_drift import NewWord as NewWord
    from .word_drift import TextSample as TextSample
    from .word_drift import sample_of as sample_of
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
