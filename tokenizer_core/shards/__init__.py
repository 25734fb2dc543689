"""Encode files to token shards, in bounded memory, resumed where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .file_encoding import NO_SEPARATOR as NO_SEPARATOR
    from .file_encoding import FileEncoding as FileEncoding
    from .file_encoding import file_encoding_of as file_encoding_of
    from .file_encoding import separators_of as separators_of
    from .ids_in_memory import DocumentIds as DocumentIds
    from .ids_in_memory import FileCount as FileCount
    from .ids_in_memory import count_files as count_files
    from .ids_in_memory import gather_files as gather_files
    from .packing import Packing as Packing
    from .packing import pack_shards as pack_shards
    from .shard_formats import ShardFormat as ShardFormat
    from .shard_formats import ShardWriter as ShardWriter
    from .shard_formats import shard_format as shard_format
    from .shard_job import SHARD_BYTES as SHARD_BYTES
    from .shard_job import ShardJob as ShardJob
    from .shard_job import ShardPart as ShardPart
    from .shard_places import ShardRecord as ShardRecord
    from .shard_places import shard_place as shard_place
    from .token_shards import DocumentIndex as DocumentIndex
    from .token_shards import DocumentPlace as DocumentPlace
    from .token_shards import SequencePart as SequencePart
    from .token_shards import TokenShards as TokenShards
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
