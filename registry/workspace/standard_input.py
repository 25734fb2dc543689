"""Store a corpus from standard input in the workspace, named by its digest.

Held-out text, resumed runs and `bpeline verify` need to read the corpus again.
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
    """Copy a stream into a file whose extension is that of the detected format.

    Args:
        text_field: the field or column with the documents, for files of records; None if unknown.

    Raises:
        MissingSource: the stream is empty.
        UnreadableSource: the stream is not a corpus, see `extension_for`.
    """
    head, extension = begin_standard_input(stream, text_field)
    with workspace.temporary_directory("standard-input") as folder:
        copy = folder / "copy"
        with DURABLE.writing_aside(copy) as aside:
            digest = copy_standard_input(stream, head, aside)
        target = workspace.standard_input / f"{digest[:_NAME]}{extension}"
        if not target.exists():
            DURABLE.make_directories(target.parent)
            DURABLE.publish(copy, target)
    return target


def begin_standard_input(stream: BinaryIO, text_field: str | None) -> tuple[bytes, str]:
    """Read the head of a stream and detect its format."""
    head = stream.read(HEAD)
    if not head:
        raise MissingSource(
            "standard input is empty",
            "expected a corpus: text, JSON lines, or any other supported file format",
            "check the output of the command before the pipe: … | head -c 300",
        )
    return head, extension_for(head, text_field)


def copy_standard_input(stream: BinaryIO, head: bytes, path: Path) -> str:
    """Write the head and the rest of a stream into a file; returns the SHA-256 in hex."""
    digest, block = hashlib.sha256(), head
    with path.open("wb") as out:
        while block:
            digest.update(block)
            out.write(block)
            block = stream.read(HEAD)
    return digest.hexdigest()
