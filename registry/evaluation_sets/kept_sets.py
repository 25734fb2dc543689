"""Evaluation sets in a workspace and its store: their documents, and what versions made of them.

    evaluation-sets/DIGEST/0.arrow …    the documents of each text
    evaluation-sets/DIGEST/set.json     what makes the set exist
    evaluation-sets/DIGEST/measured/VERSION.json

Knows nothing of names and aliases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bpeline.registry.evaluation_sets.evaluation_set import FORMAT, EvaluationSet
from bpeline.registry.word_counts import documents_as_file, documents_from_file
from bpeline.registry.workspace import (
    FileSeal,
    Workspace,
    damaged,
    fetch,
    forget,
    forget_directory,
    read_record,
    share,
    write_record,
)
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import CorruptFile


def keep_set(
    workspace: Workspace, made: EvaluationSet, documents: Mapping[str, Sequence[bytes]]
) -> None:
    """Keep a set; one that is here already stays as it is.

    Raises:
        DiskFull: no space left.
        StorageError: the workspace's store does not take it.
    """
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
    """Whether a set is here or in the workspace's store, as far as its record tells."""
    return fetch(workspace, workspace.evaluation_set(digest))


def read_set(workspace: Workspace, digest: str) -> EvaluationSet:
    """What a set is; its documents are not read.

    Raises:
        CorruptFile: it is not here, or its record is damaged.
    """
    path = workspace.evaluation_set(digest)
    try:
        found = EvaluationSet.from_record(_record(workspace, digest)["set"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path) from error
    if found.digest != digest:
        raise damaged(path)
    return found


def read_documents(workspace: Workspace, made: EvaluationSet) -> dict[str, list[bytes]]:
    """The documents of a set, by the name of their text, verified.

    Raises:
        CorruptFile: they are missing or not what was written.
    """
    try:
        seals = [FileSeal(*seal) for seal in _record(workspace, made.digest)["seals"]]
        of_texts = list(zip(made.texts, seals, strict=True))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(workspace.evaluation_set(made.digest)) from error
    found = {}
    for number, (text, seal) in enumerate(of_texts):
        path = workspace.evaluation_set_text(made.digest, number)
        fetch(workspace, path)
        found[text.name] = list(documents_from_file(seal.read(path)))
    return found


def is_of_the_same(
    workspace: Workspace,
    made: EvaluationSet,
    other: EvaluationSet,
    documents: Mapping[str, Sequence[bytes]],
) -> bool:
    """Whether a set that is kept has the texts of another one, wherever those were cut.

    Args:
        documents: of the other set.

    Raises:
        CorruptFile: the documents of the set that is kept are missing or damaged.
    """
    before, after = (
        [one.parallel, *((text.name, text.language, text.domain, text.bytes) for text in one.texts)]
        for one in (made, other)
    )
    kept = read_documents(workspace, made) if before == after else {}
    return before == after and all(
        b"".join(kept[name]) == b"".join(documents[name]) for name in kept
    )


def forget_set(workspace: Workspace, digest: str) -> None:
    """Remove a set with all that was measured on it, here and in the store, its record first.

    Raises:
        StorageError: the workspace's store does not answer.
    """
    record = workspace.evaluation_set(digest)
    forget(workspace, record)
    forget_directory(workspace, record.parent, record.name)


def read_measured(workspace: Workspace, set_digest: str, digest: str) -> dict[str, Any] | None:
    """What a version made of a set, if it was measured; a damaged record says nothing."""
    path = workspace.measured_on(set_digest, digest)
    try:
        return read_record(path, FORMAT)
    except CorruptFile:
        return None


def write_measured(
    workspace: Workspace, set_digest: str, digest: str, record: Mapping[str, Any]
) -> Path:
    """Keep what a version made of a set; it can be made again, so no other machine is given it."""
    path = workspace.measured_on(set_digest, digest)
    write_record(path, {**record, "format": FORMAT})
    return path


def _record(workspace: Workspace, digest: str) -> dict[str, Any]:
    return read_record(workspace.evaluation_set(digest), FORMAT, workspace)
