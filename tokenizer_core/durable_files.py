"""The one way a file becomes durable: aside, synced, renamed, directory synced.

After a crash a reader finds the old file or the new one, never a part. Nothing else in the
project opens a file for writing.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenizer_core.errors import DiskFull

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_TEMPORARY = ".tmp-"


class DurableFiles:
    """The operations that make files durable; tests replace single methods to inject faults."""

    def write(self, path: Path, content: bytes | bytearray | memoryview) -> None:
        """Replace ``path`` by ``content`` atomically and durably.

        Raises:
            DiskFull: no space; ``path`` still holds what it held before.
        """
        with self.writing_aside(path) as temporary:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb", closefd=True) as file:
                file.write(content)

    @contextmanager
    def writing_aside(self, path: Path) -> Iterator[Path]:
        """Yield a temporary path in the same directory; publish it as ``path`` on success.

        For writers that insist on opening the file themselves (DuckDB, Parquet).
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{_TEMPORARY}{secrets.token_hex(6)}-{path.name}")
        try:
            yield temporary
            self.publish(temporary, path)
        except OSError as error:
            if error.errno in _FULL:
                raise DiskFull(
                    f"no space left while writing {path}",
                    "the file keeps its earlier content",
                    f"free some space on the disk of {path.parent} and run the same command again",
                ) from error
            raise
        finally:
            temporary.unlink(missing_ok=True)

    def publish(self, temporary: Path, path: Path) -> None:
        """Sync a finished temporary file, give it its name, sync the directory."""
        self.sync(temporary)
        self.replace(temporary, path)
        self.sync(path.parent)

    def sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.sync(path.parent)


DURABLE = DurableFiles()


def is_temporary(path: Path) -> bool:
    """Whether a file is the leftover of a writer that was killed."""
    return path.name.startswith(_TEMPORARY)
