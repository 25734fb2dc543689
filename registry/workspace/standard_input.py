"""A corpus from standard input becomes a file of the workspace: it is read more than once.

Held-out text, an interrupted run and `bpeline verify` read it by its path again. The name of the
file is the digest of what it says, so the same text is the same corpus.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.corpus import HEAD, extension_for
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import MissingSource

_NAME = 24  # digits of the digest


def keep_standard_input(workspace: Workspace, stream: BinaryIO, text_field: str | None) -> Path:
    """Copy a stream to its end; the file's extension says what it was seen to hold.

    Args:
        workspace: its ``standard_input`` takes the file.
        stream: a corpus in any format that files have.
        text_field: the member or column that holds documents, for files of records; None: not
            known yet.

    Raises:
        MissingSource: the stream is empty.
        UnreadableSource: it begins as something else than a corpus: see `extension_for`.
        DiskFull: no space left; nothing is kept.
    """
    head, extension = begin_standard_input(stream, text_field)
    with workspace.temporary_directory("standard-input") as folder:
        copy = folder / "copy"
        with DURABLE.writing_aside(copy) as aside:
            digest = copy_standard_input(stream, head, aside)
        kept = workspace.standard_input / f"{digest[:_NAME]}{extension}"
        if not kept.exists():
            DURABLE.make_directories(kept.parent)
            DURABLE.publish(copy, kept)
    return kept


def begin_standard_input(stream: BinaryIO, text_field: str | None) -> tuple[bytes, str]:
    """Read as much of a stream as tells what it holds.

    Returns:
        What was read, and the extension of files that hold the like.

    Raises:
        MissingSource, UnreadableSource: see `keep_standard_input`.
    """
    head = stream.read(HEAD)
    if not head:
        raise MissingSource(
            "nothing came on standard input",
            "a corpus: text, JSON lines, or any other format that files have",
            "look at what is written to the pipe: … | head -c 300",
        )
    return head, extension_for(head, text_field)


def copy_standard_input(stream: BinaryIO, head: bytes, path: Path) -> str:
    """Write what was read of a stream, then the rest of it, into a file.

    Returns:
        The digest of all of it, in hexadecimal digits.
    """
    digest, block = hashlib.sha256(), head
    with path.open("wb") as out:
        while block:
            digest.update(block)
            out.write(block)
            block = stream.read(HEAD)
    return digest.hexdigest()
