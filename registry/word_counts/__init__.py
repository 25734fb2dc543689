"""Word counts on disk: a shard for each chunk, a DuckDB table for each corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .arrow_columns import batch_of as batch_of
    from .arrow_columns import column_of_bytes as column_of_bytes
    from .arrow_columns import column_of_integers as column_of_integers
    from .arrow_columns import documents_as_file as documents_as_file
    from .arrow_columns import documents_from_file as documents_from_file
    from .arrow_columns import reader_of as reader_of
    from .corpus_records import RecordedFile as RecordedFile
    from .corpus_records import corpus_record as corpus_record
    from .corpus_records import digest_of_corpus as digest_of_corpus
    from .corpus_records import keep_corpus_record as keep_corpus_record
    from .mixtures import SourceSums as SourceSums
    from .mixtures import WeighedShards as WeighedShards
    from .mixtures import as_counted as as_counted
    from .mixtures import combine_sources as combine_sources
    from .mixtures import keep_statistics as keep_statistics
    from .mixtures import key_of_sources as key_of_sources
    from .shard_records import Shard as Shard
    from .shard_records import ShardKeys as ShardKeys
    from .shard_records import ShardRef as ShardRef
    from .shard_records import digest_without as digest_without
    from .shard_records import shard_key as shard_key
    from .shards import ShardFiles as ShardFiles
    from .shards import SmallShards as SmallShards
    from .shards import shards_in as shards_in
    from .store import ShardStatistics as ShardStatistics
    from .store import WordCountStore as WordCountStore
    from .table_records import TableHandle as TableHandle
    from .table_records import evict as evict
    from .table_records import keep as keep
    from .table_records import recorded_table as recorded_table
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
