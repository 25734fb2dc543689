"""Verifying a version: repeat its training and compare every byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.trainings import (
    DEVELOPMENT,
    Check,
    Verdict,
    Verification,
    combined_again,
    counted_again,
    files_now,
    inputs_now,
    learned_again,
    words_kept,
)
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.versions import Imported, Lineage, copy_originals
from bpeline.registry.word_counts import corpus_record
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import CorruptFile, UnknownVersion
from bpeline.tokenizer_core.tokenizer import Tokenizer


def verify_version(reference: str, *, reuse_counts: bool = False) -> Verification:
    """Repeat the training of a version and compare digests and files.

    The text is read and counted again in a temporary directory; caches are not used, and the
    workspace is not changed. Imported versions are read again from their files.

    Args:
        reference: name@alias, name/number or a digest.
        reuse_counts: start from the stored word counts instead of the files, which verifies only
            the merges.
    """
    checks.text("reference", reference, "news@champion")
    reuse_counts = checks.flag("reuse_counts", reuse_counts)
    registry = open_registry(make=False)
    lineage = Lineage.of(registry, resolve(registry, parse_registered(reference)))
    row, imported = lineage.row, lineage.imported
    if imported is not None:
        return _read_again(lineage, imported)
    if row is None or not lineage.request:
        raise UnknownVersion(
            f"the training of {lineage.version} is not known here",
            "expected a version of `bpeline train`, in the catalogue that recorded the run",
            "type it where it was trained, or set BPELINE_CATALOGUE_URL to the shared catalogue",
        )
    request = TrainingRequest.checked(**lineage.request)
    inputs: tuple[Check, ...] = ()
    made: list[Check] = []
    # With --parity, the sum of the counts does not determine those of each source.
    counts_suffice = not request.serves_alike

    def verdict(said: Verdict) -> Verification:
        return Verification(
            str(lineage.version), said, not reuse_counts, inputs, tuple(made), counts_suffice
        )

    with tempfile.TemporaryDirectory(prefix="bpeline-verify-") as directory:
        made_in = Workspace.open(Path(directory) / "workspace")
        if reuse_counts:
            words = words_kept(lineage) if counts_suffice else None
            if words is None:
                return verdict("counts gone")
        else:
            recorded = corpus_record(registry.workspace, row.corpus_digest)
            files, gone = files_now(recorded, request, registry.workspace)
            if gone:
                inputs = tuple(gone)
                return verdict("inputs gone")
            corpus = counted_again(files, request, made_in, lineage.left_out)
            inputs = inputs_now(recorded, corpus)
            made.append(Check("corpus", row.corpus_digest, corpus.digest))
            if not made[0].holds:
                return verdict("inputs changed")
            words = combined_again(corpus, request, made_in)
        made.append(Check("word counts", row.counts_digest, words.table.counts_digest))
        made += learned_again(lineage, words, request, made_in)
        if any(check.what.startswith(DEVELOPMENT) and not check.holds for check in made):
            return verdict("inputs changed")
        return verdict("identical" if all(check.holds for check in made) else "different")


def _read_again(lineage: Lineage, imported: Imported) -> Verification:
    """Read the stored original files of an imported version again."""
    directory_kept = lineage.registry.workspace.version_directory(lineage.version.digest)
    inputs = tuple(Check(file.name, file.sha256, file.sha256) for file in imported.files)
    name = str(lineage.version)
    with tempfile.TemporaryDirectory(prefix="bpeline-verify-") as directory:
        try:
            again = copy_originals(imported, directory_kept, Path(directory))
        except CorruptFile as error:
            changed = Check("original files", imported.digest, error.happened)
            return Verification(name, "inputs changed", True, (changed,), ())
        details: dict[str, Any] = {"format": imported.format, **imported.details}
        digest = lineage.as_renamed(Tokenizer.load(again, **details)).digest
    check = Check("tokenizer", lineage.version.digest, digest)
    return Verification(name, "identical" if check.holds else "different", True, inputs, (check,))
