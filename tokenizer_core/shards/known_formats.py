"""The formats of token shards by their names; knows nothing of what they look like."""

from __future__ import annotations

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.shards.parquet_shards import PARQUET
from bpeline.tokenizer_core.shards.shard_formats import BIN, MEGATRON, NPY, ShardFormat

_FORMATS = {format.name: format for format in (BIN, NPY, MEGATRON, PARQUET)}


def shard_format(format: str | ShardFormat) -> ShardFormat:
    """A format by its name, or the format that was given.

    Raises:
        InvalidOption: there is none of that name.
    """
    if isinstance(format, ShardFormat):
        return format
    if format not in _FORMATS:
        raise InvalidOption(
            f"there are no token shards of the format {format!r}",
            f"{', '.join(_FORMATS)}, or a ShardFormat",
            'format="bin"',
        )
    return _FORMATS[format]
