"""A version is made again from what it was made of, and must come out the same to the last byte."""

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
    """Make a version again and compare digests and files; an imported one is read again.

    The text is read and counted anew in a directory of its own; nothing in the workspace is used
    or changed. What training remembers of files (sizes, times) is not believed either.

    Args:
        reference: name@alias, name/number or a digest.
        reuse_counts: begin with the word counts the workspace keeps instead of the files: proves
            the merges, and not the counts.

    Raises:
        InvalidOption: a misspelt reference or a path, or a version that was not trained here.
        UnknownVersion: there is no such version.
        CorpusError: a file of the corpus cannot be read as declared.
        DiskFull: no space for the counts.
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
            f"what {lineage.version} was trained on is not known here",
            "versions that `bpeline train` made, in the catalogue that remembers the run",
            "type it where it was trained, or set BPELINE_CATALOGUE_URL to the shared catalogue",
        )
    request = TrainingRequest.checked(**lineage.request)
    inputs: tuple[Check, ...] = ()
    made: list[Check] = []
    # Of sources that were served alike, the sum does not say what each of them holds.
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
        if any(one.what.startswith(DEVELOPMENT) and not one.holds for one in made):
            return verdict("inputs changed")
        return verdict("identical" if all(one.holds for one in made) else "different")


def _read_again(lineage: Lineage, imported: Imported) -> Verification:
    """Read the files that an imported version was read from again, as they were kept."""
    kept = lineage.registry.workspace.version_directory(lineage.version.digest)
    inputs = tuple(Check(one.name, one.sha256, one.sha256) for one in imported.files)
    name = str(lineage.version)
    with tempfile.TemporaryDirectory(prefix="bpeline-verify-") as directory:
        try:
            again = copy_originals(imported, kept, Path(directory))
        except CorruptFile as error:
            changed = Check("original files", imported.digest, error.happened)
            return Verification(name, "inputs changed", True, (changed,), ())
        details: dict[str, Any] = {"format": imported.format, **imported.details}
        digest = lineage.as_renamed(Tokenizer.load(again, **details)).digest
    made = Check("tokenizer", lineage.version.digest, digest)
    return Verification(name, "identical" if made.holds else "different", True, inputs, (made,))
