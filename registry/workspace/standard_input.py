"""A corpus from standard input becomes a file of the workspace: it is read more than once.

Held-out text, an interrupted run and `bpeline verify` read it by its path again. The name of the
file is the digest of what it says, so the same text is the same corpus.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import BinaryIO

from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core.corpus import other_than_text
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import MissingSource, UnreadableSource

_BLOCK = 1 << 20
_NAME = 24  # digits of the digest
_UNPACK = {"gzip": "zcat", "Zstandard": "zstdcat", "bzip2": "bzcat", "xz": "xzcat"}


def keep_standard_input(workspace: Workspace, stream: BinaryIO, text_field: str) -> Path:
    """Copy a stream to its end; where it begins as JSON lines do, the file's name says so.

    Args:
        workspace: its ``standard_input`` takes the file.
        stream: text, or JSON lines.
        text_field: the member of a JSON line that holds its document.

    Raises:
        MissingSource: the stream is empty.
        UnreadableSource: it begins as something else than text.
        DiskFull: no space left; nothing is kept.
    """
    digest, size = hashlib.sha256(), 0
    with workspace.temporary_directory("standard-input") as folder:
        copy = folder / "copy"
        head = b""
        with DURABLE.writing_aside(copy) as aside, aside.open("wb") as out:
            while block := stream.read(_BLOCK):
                if not size:
                    head = block
                    _refuse_other(head)
                digest.update(block)
                size += len(block)
                out.write(block)
        if not size:
            raise MissingSource(
                "nothing came on standard input",
                "text, or JSON lines",
                "look at what is written to the pipe: … | head -c 300",
            )
        suffix = ".jsonl" if _begins_as_json_lines(head, text_field) else ".txt"
        kept = workspace.standard_input / f"{digest.hexdigest()[:_NAME]}{suffix}"
        if not kept.exists():
            DURABLE.make_directories(kept.parent)
            DURABLE.publish(copy, kept)
    return kept


def _refuse_other(head: bytes) -> None:
    kind = other_than_text(head)
    if kind:
        unpack = _UNPACK.get(kind)
        raise UnreadableSource(
            f"standard input begins as {kind} does",
            "text, or JSON lines, not compressed",
            f"type `{unpack} FILE | bpeline train -`" if unpack else "name the files instead of -",
        )


def _begins_as_json_lines(head: bytes, text_field: str) -> bool:
    """Whether the first line is a JSON object with a document."""
    line = head.lstrip().partition(b"\n")[0]
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        # A first line longer than a block is no complete JSON here.
        return line.startswith(b"{") and len(line) > _BLOCK // 2
    return isinstance(record, dict) and isinstance(record.get(text_field), str)
