"""The steps of a training, from chunks to a registered version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import shard_encoding as shard_encoding
    from .chunk_plan import CorpusPlan as CorpusPlan
    from .chunk_plan import plan_chunks as plan_chunks
    from .chunk_plan import plan_reading as plan_reading
    from .chunk_plan import sources_of as sources_of
    from .combining import CountedWords as CountedWords
    from .combining import add_up as add_up
    from .combining import combine_counts as combine_counts
    from .counting import CountedCorpus as CountedCorpus
    from .counting import count_chunks as count_chunks
    from .counting import count_words as count_words
    from .dataset_encoding import EncodedDataset as EncodedDataset
    from .dataset_encoding import encode as encode
    from .dataset_encoding import record as record
    from .evaluating import Evaluated as Evaluated
    from .evaluating import evaluate as evaluate
    from .evaluation_metrics import curves_of as curves_of
    from .evaluation_metrics import metrics_of as metrics_of
    from .evaluation_setup import set_up_evaluation as set_up_evaluation
    from .learning import learn as learn
    from .preparation import prepared as prepared
    from .promotion import promote_if_better as promote_if_better
    from .publishing import corpus_inputs as corpus_inputs
    from .publishing import evaluation_inputs as evaluation_inputs
    from .publishing import publish as publish
    from .runs import TrainingRun as TrainingRun
    from .runs import training_run as training_run
    from .source_statistics import SourceStatistics as SourceStatistics
    from .summarizing import Trained as Trained
    from .summarizing import summarize as summarize
    from .summary import TrainingSummary as TrainingSummary
    from .token_screening import screen_tokens as screen_tokens
    from .training_plan import plan_training as plan_training
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
