"""Planning a corpus in chunks, counting its words, adding up the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from . import chunk_plan as chunk_plan
    from .chunk_plan import CorpusPlan as CorpusPlan
    from .chunk_plan import notes_on_documents as notes_on_documents
    from .chunk_plan import plan_chunks as plan_chunks
    from .chunk_plan import plan_reading as plan_reading
    from .chunk_plan import remarks_on as remarks_on
    from .chunk_plan import sources_of as sources_of
    from .combining import CountedWords as CountedWords
    from .combining import SourceStatistics as SourceStatistics
    from .combining import add_up as add_up
    from .combining import as_json as as_json
    from .combining import combine_counts as combine_counts
    from .combining import empty_corpus as empty_corpus
    from .combining import table_of as table_of
    from .word_counting import CountedCorpus as CountedCorpus
    from .word_counting import count_bundle as count_bundle
    from .word_counting import count_chunks as count_chunks
    from .word_counting import count_words as count_words
    from .word_counting import sections_remark as sections_remark
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
