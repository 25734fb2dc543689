"""Evaluation sets on disk, in the workspace and its store.

evaluation-sets/DIGEST/0.arrow …    documents of each text
evaluation-sets/DIGEST/set.json     the set; written last
evaluation-sets/DIGEST/measured/VERSION.json
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.registry.evaluation_sets.evaluation_set import FORMAT, EvaluationSet
from bpeline.registry.word_counts import documents_as_file, documents_from_file
from bpeline.registry.workspace import (
    Workspace,
    damaged,
    fetch,
    forget,
    forget_directory,
    read_record,
    share,
    write_record,
)
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.records import check_fields


@dataclass(frozen=True, slots=True)
class FileSeal:
    """The expected size in bytes and SHA-256 of a file."""

    size: int
    sha256: str

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of_content(cls, content: Any) -> FileSeal:
        """Return the seal of a file's content, any object with the buffer protocol."""
        return cls(memoryview(content).nbytes, hashlib.sha256(content).hexdigest())

    def read(self, path: Path) -> bytes:
        """Read and verify the file."""
        try:
            is_whole = path.stat().st_size == self.size
        except OSError:
            is_whole = False
        if is_whole:
            content = read_file(path, self.size)
            if FileSeal.of_content(content) == self:
                return content
        raise damaged(path)


def keep_set(
    workspace: Workspace, made: EvaluationSet, documents: Mapping[str, Sequence[bytes]]
) -> None:
    """Write a set to the workspace and its store, unless it exists."""
    if has_set(workspace, made.digest):
        return
    seals = []
    for number, text in enumerate(made.texts):
        content = documents_as_file(list(documents[text.name]))
        path = workspace.evaluation_set_text(made.digest, number)
        share(workspace, path, content)
        DURABLE.write(path, content)
        seal = FileSeal.of_content(content)
        seals.append([seal.size, seal.sha256])
    record = {"format": FORMAT, "set": made.as_record(), "seals": seals}
    write_record(workspace.evaluation_set(made.digest), record, workspace)


def has_set(workspace: Workspace, digest: str) -> bool:
    """Whether the record of a set is in the workspace or its store."""
    return fetch(workspace, workspace.evaluation_set(digest))


def read_set(workspace: Workspace, digest: str) -> EvaluationSet:
    """Read a set without its documents; raises CorruptFile if missing or damaged."""
    path = workspace.evaluation_set(digest)
    try:
        evaluation_set = EvaluationSet.from_record(_record(workspace, digest)["set"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path) from error
    if evaluation_set.digest != digest:
        raise damaged(path)
    return evaluation_set


def read_documents(workspace: Workspace, made: EvaluationSet) -> dict[str, list[bytes]]:
    """Read and verify the documents of a set, by name; raises CorruptFile."""
    try:
        seals = [FileSeal(*seal) for seal in _record(workspace, made.digest)["seals"]]
        of_texts = list(zip(made.texts, seals, strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(workspace.evaluation_set(made.digest)) from error
    documents = {}
    for number, (text, seal) in enumerate(of_texts):
        path = workspace.evaluation_set_text(made.digest, number)
        fetch(workspace, path)
        documents[text.name] = list(documents_from_file(seal.read(path)))
    return documents


def is_of_the_same(
    workspace: Workspace,
    made: EvaluationSet,
    other: EvaluationSet,
    documents: Mapping[str, Sequence[bytes]],
) -> bool:
    """Whether a stored set has the texts of another set, however they were cut."""
    before, after = (
        [
            evaluation_set.parallel,
            *((text.name, text.language, text.domain, text.bytes) for text in evaluation_set.texts),
        ]
        for evaluation_set in (made, other)
    )
    stored = read_documents(workspace, made) if before == after else {}
    return before == after and all(
        b"".join(stored[name]) == b"".join(documents[name]) for name in stored
    )


def forget_set(workspace: Workspace, digest: str) -> None:
    """Remove a set and its measurements, here and in the store; its record first."""
    record = workspace.evaluation_set(digest)
    forget(workspace, record)
    forget_directory(workspace, record.parent, record.name)


def _record(workspace: Workspace, digest: str) -> dict[str, Any]:
    return read_record(workspace.evaluation_set(digest), FORMAT, workspace)
