"""Find the files of a corpus, cut them into chunks and read their documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .chunking import Chunk as Chunk
    from .chunking import ChunkGroup as ChunkGroup
    from .chunking import SingleDocuments as SingleDocuments
    from .chunking import SmallFiles as SmallFiles
    from .chunking import Work as Work
    from .chunking import cut_chunks as cut_chunks
    from .chunking import documents_in as documents_in
    from .chunking import first_cut as first_cut
    from .chunking import has_single_documents as has_single_documents
    from .chunking import plan_chunk_groups as plan_chunk_groups
    from .chunking import read_again as read_again
    from .chunking import read_alike_together as read_alike_together
    from .chunking import read_chunks as read_chunks
    from .chunking import with_small_together as with_small_together
    from .documents import ChunkText as ChunkText
    from .documents import SpecialLooking as SpecialLooking
    from .documents import TextBatch as TextBatch
    from .documents import batches_of as batches_of
    from .documents import count_special_looking as count_special_looking
    from .documents import documents_between as documents_between
    from .documents import look_for_special as look_for_special
    from .documents import read_documents as read_documents
    from .documents import without_copies as without_copies
    from .documents import without_special_looking as without_special_looking
    from .file_kinds import RECORD_END as RECORD_END
    from .file_kinds import SkippedFiles as SkippedFiles
    from .file_kinds import other_than_text as other_than_text
    from .file_kinds import split_of as split_of
    from .first_look import HEAD as HEAD
    from .first_look import extension_for as extension_for
    from .reading import CHUNK_BYTES as CHUNK_BYTES
    from .reading import LEFT_OUT_RULE as LEFT_OUT_RULE
    from .reading import LONG as LONG
    from .reading import SECTIONS_RULE as SECTIONS_RULE
    from .reading import TEXT_FORMS as TEXT_FORMS
    from .reading import DecontaminationSet as DecontaminationSet
    from .reading import ReadOptions as ReadOptions
    from .reading import hold_out as hold_out
    from .reading import in_parts as in_parts
    from .reading import new_documents as new_documents
    from .reading import sections_of as sections_of
    from .source_bytes import SourceBytes as SourceBytes
    from .source_bytes import open_source as open_source
    from .sources import AnyPath as AnyPath
    from .sources import FoundFiles as FoundFiles
    from .sources import Source as Source
    from .sources import SourceFile as SourceFile
    from .sources import find_source_files as find_source_files
    from .sources import search_each as search_each
    from .sources import search_sources as search_sources
    from .sources import sources_of as sources_of
    from .text_records import given_counts as given_counts
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
