"""MLflow's empty database, kept from one workspace to the next, as its migrations take long.

It lies where compiled kernels do, which nobody else may have a hand in. Knows bytes and the name of
what made them, and refuses to know what is in them: whoever takes them looks at that.
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import suppress

from bpeline.tokenizer_core.cache_directory import (
    kept_below,
    opened,
    read_file,
    write_file,
)

_FILE = "mlflow-empty"
_DIGEST_BYTES = 32


def read(made_with: str) -> bytes | None:
    """What is kept, if the same made it; None where that is damaged, or nothing is kept.

    Args:
        made_with: names everything that the content depends on.
    """
    try:
        with opened(kept_below()) as directory:
            kept = read_file(directory, _FILE)
        content = zlib.decompress(kept[_DIGEST_BYTES:])
    except (OSError, zlib.error):
        return None
    return content if kept[:_DIGEST_BYTES] == _digest(made_with, content) else None


def write(made_with: str, content: bytes) -> None:
    """Keep it instead of what was kept; where that cannot be, it is made again next time."""
    kept = _digest(made_with, content) + zlib.compress(content, 1)
    with suppress(OSError), opened(kept_below(), make=True) as directory:
        write_file(directory, _FILE, kept)


def _digest(made_with: str, content: bytes) -> bytes:
    """Of both: a damaged file and that of another MLflow are told by it alike."""
    return hashlib.sha256(made_with.encode() + b"\0" + content).digest()
