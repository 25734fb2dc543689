"""The steps of a training, from chunks to a registered version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .chunk_plan import CorpusPlan as CorpusPlan
    from .chunk_plan import plan_chunks as plan_chunks
    from .chunk_plan import remarks_on as remarks_on
    from .combining import combine_counts as combine_counts
    from .continuing import keep_words as keep_words
    from .counting import CountedCorpus as CountedCorpus
    from .counting import count_words as count_words
    from .dataset_encoding import EncodedDataset as EncodedDataset
    from .dataset_encoding import encode as encode
    from .dataset_encoding import pack as pack
    from .dataset_encoding import record as record
    from .dataset_encoding import write_shards as write_shards
    from .document_notes import notes_on_documents as notes_on_documents
    from .evaluating import evaluate as evaluate
    from .evaluating import evaluate_imported as evaluate_imported
    from .evaluation_setup import left_out_for as left_out_for
    from .evaluation_setup import set_up_evaluation as set_up_evaluation
    from .findings import with_findings as with_findings
    from .import_plan import plan_import as plan_import
    from .import_summary import ImportSummary as ImportSummary
    from .importing import certify_files as certify_files
    from .importing import facts_of as facts_of
    from .importing import publish_import as publish_import
    from .importing import read_files as read_files
    from .importing import summarize_import as summarize_import
    from .learning import learn as learn
    from .learning import learned_from as learned_from
    from .other_versions import logged_change as logged_change
    from .preparation import compiled_ahead as compiled_ahead
    from .preparation import prepared as prepared
    from .promotion import promote_if_better as promote_if_better
    from .publishing import corpus_inputs as corpus_inputs
    from .publishing import evaluation_inputs as evaluation_inputs
    from .publishing import made_with as made_with
    from .publishing import publication_of as publication_of
    from .publishing import publish as publish
    from .remaking import DEVELOPMENT as DEVELOPMENT
    from .remaking import Check as Check
    from .remaking import combined_again as combined_again
    from .remaking import counted_again as counted_again
    from .remaking import files_now as files_now
    from .remaking import inputs_now as inputs_now
    from .remaking import learned_again as learned_again
    from .remaking import words_kept as words_kept
    from .runs import training_run as training_run
    from .shard_packing import pack_beside as pack_beside
    from .size_choice import Sized as Sized
    from .size_choice import choose_size as choose_size
    from .source_statistics import SourceStatistics as SourceStatistics
    from .summarizing import Trained as Trained
    from .summarizing import summarize as summarize
    from .summary import TrainingSummary as TrainingSummary
    from .token_screening import screen_tokens as screen_tokens
    from .training_plan import plan_training as plan_training
    from .trials import MOST_TRIALS as MOST_TRIALS
    from .trials import Trial as Trial
    from .trials import refuse_choice as refuse_choice
    from .trials import sweeping as sweeping
    from .trials import try_sizes as try_sizes
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
