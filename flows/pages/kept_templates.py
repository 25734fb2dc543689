"""Compiled templates, kept from one process to the next, as compiling them takes long.

They lie where compiled kernels do, and are code as these are: nobody else may have a hand in them.
Knows how jinja2 keeps what it compiled, and no template.
"""

from __future__ import annotations

from contextlib import suppress

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

from bpeline.tokenizer_core.cache_directory import (
    kept_below,
    opened,
    read_file,
    write_file,
)
from bpeline.tokenizer_core.digests import digest_of_bytes


class KeptTemplates(BytecodeCache):
    """What jinja2 compiles is loaded where the same was compiled before; else it is compiled.

    Args:
        settings: names all that a compiled template depends on besides its source and jinja2.
    """

    def __init__(self, settings: bytes) -> None:
        self._settings = settings

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """One file for each name of a template, wherever this package is installed."""
        return f"template-{name}"

    def get_source_checksum(self, source: str) -> str:
        """What was compiled from another source, by another jinja2 or otherwise, is not taken."""
        return digest_of_bytes(jinja2.__version__.encode(), b"\0", self._settings, source.encode())

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            with opened(kept_below()) as directory:
                bucket.bytecode_from_string(read_file(directory, bucket.key))
        except Exception:  # damaged files raise what they please; they are compiled anew
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError), opened(kept_below(), make=True) as directory:
            write_file(directory, bucket.key, bucket.bytecode_to_string())
