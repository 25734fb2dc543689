"""Count words: of a text, of a chunk, of a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .chunk_counts import ChunkCounts as ChunkCounts
    from .chunk_counts import SmallChunks as SmallChunks
    from .chunk_counts import WordSum as WordSum
    from .chunk_counts import combine_word_counts as combine_word_counts
    from .chunk_counts import count_chunk as count_chunk
    from .chunk_counts import count_spans as count_spans
    from .chunk_counts import counts_given as counts_given
    from .count_corpus import FilesCounted as FilesCounted
    from .count_corpus import compile_counting as compile_counting
    from .count_corpus import count_words as count_words
    from .count_corpus import threads_would_wait as threads_would_wait
    from .document_stream import CopiedSections as CopiedSections
    from .document_stream import Duplicates as Duplicates
    from .document_stream import FileDocuments as FileDocuments
    from .document_stream import SectionSample as SectionSample
    from .document_stream import digest_documents as digest_documents
    from .document_stream import documents_of as documents_of
    from .document_stream import evaluation_documents as evaluation_documents
    from .document_stream import find_copies as find_copies
    from .document_stream import sample_documents as sample_documents
    from .source_weights import MILLION as MILLION
    from .source_weights import millionths as millionths
    from .source_weights import sample_texts as sample_texts
    from .source_weights import weighted as weighted
    from .source_weights import weights_at as weights_at
    from .text_streams import TextsCounted as TextsCounted
    from .text_streams import count_texts as count_texts
    from .word_counts import COUNT_LIMIT as COUNT_LIMIT
    from .word_counts import WordCounts as WordCounts
    from .word_counts import concatenated as concatenated
    from .word_counts import order_of_positions as order_of_positions
    from .word_tables import FULL as FULL
    from .word_tables import empty_entries as empty_entries
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
