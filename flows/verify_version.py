"""Verifying a version: repeat its training and compare every byte."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bpeline.flows.counting import (
    CountedCorpus,
    CountedWords,
    add_up,
    count_chunks,
    plan_reading,
    sources_of,
)
from bpeline.flows.learning import learn
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import steps, telling
from bpeline.flows.wording import counted
from bpeline.registry.loading import holds_version, kept_export, load_tokenizer, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.versions import Imported, Lineage, copy_originals
from bpeline.registry.word_counts import RecordedFile, ShardStatistics, corpus_record, keep
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.corpus import DecontaminationSet, Source, SourceFile, find_source_files
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import (
    BpelineError,
    CorruptFile,
    InvalidTokenizer,
    MissingSource,
    UnknownVersion,
)
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Format, SavedFormat, Tokenizer
from bpeline.tokenizer_core.vocabulary import shown

Recorded = tuple[RecordedFile, ...] | None
GONE = "gone"
DEVELOPMENT = "development text of"


@dataclass(frozen=True, slots=True)
class Check:
    """Comparison of one repeated item.

    Attributes:
        expected: its digest then; empty if it was not recorded.
        found: its digest now, or ``gone``.
        means_the_same: whether a file with other bytes has the same content.
    """

    what: str
    expected: str
    found: str
    means_the_same: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is unchanged, as far as that is known."""
        return self.means_the_same or self.expected in ("", self.found)


Verdict = Literal["identical", "different", "inputs changed", "inputs gone", "counts gone"]


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a version.

    Attributes:
        made: checks of the results, in order, up to the first failure.
        counts_suffice: whether the stored word counts determine the merges.
    """

    reference: str
    verdict: Verdict
    recounted: bool
    inputs: tuple[Check, ...]
    made: tuple[Check, ...]
    counts_suffice: bool = True

    @property
    def holds(self) -> bool:
        """Whether the version was reproduced from its inputs."""
        return self.verdict == "identical"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, with only those inputs that have changed."""
        return {
            "reference": self.reference,
            "verdict": self.verdict,
            "identical": self.holds,
            "recounted": self.recounted,
            "inputs": len(self.inputs),
            "changed_inputs": [asdict(check) for check in self.inputs if not check.holds],
            "checks": [{**asdict(check), "holds": check.holds} for check in self.made],
        }


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


def files_now(
    recorded: Recorded, request: TrainingRequest, workspace: Workspace
) -> tuple[list[SourceFile], list[Check]]:
    """Return the current files of the corpus, and checks of missing ones."""
    if recorded is None:
        return find_source_files(sources_of(request, workspace)), []
    files: list[SourceFile] = []
    gone = []
    for file in recorded:
        try:
            exists = os.path.lexists(file.path)
            source = Source(file.path, file.source, of_counts=bool(request.counts))
            files_found = find_source_files([source]) if exists else []
        except MissingSource:
            files_found = []
        files += files_found
        if not files_found:
            gone.append(Check(file.path, file.digest, GONE))
    return files, gone


def counted_again(
    files: Sequence[SourceFile],
    request: TrainingRequest,
    made_in: Workspace,
    left_out: DecontaminationSet | None,
) -> CountedCorpus:
    """Count every chunk, without using cached counts."""
    plan = plan_reading(files, {}, replace(request.reading, left_out=left_out))
    with telling(steps.COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_chunks(plan, request, made_in)
        outcome(corpus.outcome)
    return corpus


def combined_again(
    corpus: CountedCorpus, request: TrainingRequest, made_in: Workspace
) -> CountedWords:
    """Add up the counts of all chunks."""
    with telling(steps.COMBINE_COUNTS) as outcome:
        words = add_up(corpus, request, made_in)
        outcome(words.outcome)
    return words


def inputs_now(recorded: Recorded, corpus: CountedCorpus) -> tuple[Check, ...]:
    """Compare the content of every file with the recorded digest."""
    expected = {file.path: file.digest for file in recorded or ()}
    return tuple(
        Check(
            reading.path,
            expected.get(reading.path, ""),
            digest_of([part.digest for part in reading.chunks]),
        )
        for reading in corpus.readings
    )


def words_kept(lineage: Lineage) -> CountedWords | None:
    """Return the stored word counts of a version, with their current digest."""
    words, table = lineage.words, lineage.table
    if words is None or table is None:
        return None
    table = replace(table, counts_digest=words.digest, reused=False)
    keep(table, words)
    return CountedWords(table, "", (), ShardStatistics())


def learned_again(
    lineage: Lineage, words: CountedWords, request: TrainingRequest, made_in: Workspace
) -> Iterator[Check]:
    """Learn the tokenizer again, and compare it and its files with the stored ones."""
    workspace, digest = lineage.registry.workspace, lineage.version.digest
    if request.extends:  # an input: loading it verifies its digest
        base = load_tokenizer(request.extends, workspace)
        bpeline.save(base, made_in.version_directory(request.extends))
    with telling(steps.LEARN_MERGES, request.merges_shown, "merges") as outcome:
        learned = learn(words, request, made_in)
        outcome(learned.outcome)
    recorded = {item.name: item.digest for item in lineage.development}
    texts = [
        Check(f"{DEVELOPMENT} {item.name}", recorded.get(item.name, ""), item.digest)
        for item in learned.development
    ]
    yield from texts
    if not all(item.holds for item in texts):  # the inputs have changed
        return
    tokenizer = lineage.as_renamed(learned.tokenizer(request))
    yield Check("tokenizer", digest, tokenizer.digest)
    required = request.required_tokens
    if required and not request.extends:  # an extension has its base's merges instead
        lacking = next((text for text in required if len(tokenizer.encode(text)) != 1), None)
        all_present = f"all {len(required):,} are there, each encoded as one token"
        found = all_present if lacking is None else f"{shown(lacking)} is no token"
        yield Check("required tokens", all_present, found)
    if token_rules := request.token_rules:
        ordinary = (
            token for id_, token in tokenizer.vocab.items() if not tokenizer.is_special(id_)
        )
        broken = token_rules.first_broken(ordinary)
        found = (
            str(token_rules)
            if broken is None
            else f"{shown(broken)} {token_rules.broken_by(broken)}"
        )
        yield Check("each token", str(token_rules), found)
    if not holds_version(workspace, digest):
        return
    again, files = made_in.version_directory("again"), workspace.version_directory(digest)
    bpeline.save(tokenizer, again)
    with suppress(InvalidTokenizer):
        bpeline.save_for_readers(tokenizer, again)
    is_same, loaded = _behaviour_of(files, "bpeline") == tokenizer.digest, bpeline.files_of(files)
    for name in (bpeline.TOKENS, bpeline.VOCAB, bpeline.MERGES):
        if (files / name).exists() and (again / name).exists():
            yield _beside(files / name, again / name, is_same and name in loaded)
    details: dict[SavedFormat, dict[str, Any]] = {
        "hf": {},
        "tiktoken": {"pattern": tokenizer.pattern.regex},
    }
    for format, options in details.items():
        export = kept_export(files, format)
        if export is not None:
            saved = again / export.name
            tokenizer.save(saved, format)
            behaviours = {_behaviour_of(path, format, **options) for path in (export, saved)}
            yield _beside(export, saved, len(behaviours) == 1 and "" not in behaviours)


def _beside(kept: Path, again: Path, means_the_same: bool) -> Check:
    """Compare a stored file with the one written now."""
    expected, found = (digest_of_bytes(read_file(path)) for path in (kept, again))
    return Check(kept.name, expected, found, means_the_same and expected != found)


def _behaviour_of(path: Path, format: Format, **told: Any) -> str:
    """Return the digest of the tokenizer in a file or directory; may be empty."""
    try:
        return Tokenizer.load(path, format, **told).digest
    except BpelineError:
        return ""


def lines_of(verification: Verification) -> list[str]:
    """Return the verification as lines for a terminal."""
    verdicts = {
        "identical": "is identical: repeating the training gives the same result",
        "different": "is NOT reproducible: its inputs give another result",
        "inputs changed": "cannot be verified: its inputs have changed",
        "inputs gone": "cannot be verified: inputs are missing",
        "counts gone": "cannot be verified: its word counts are not in this workspace",
    }
    lines = [f"{verification.reference} {verdicts[verification.verdict]}"]
    if verification.inputs:
        lines.append(f"inputs       {counted(len(verification.inputs), 'file')}")
    elif not verification.recounted and verification.made:
        lines.append("inputs       not read: the stored word counts are trusted")
    if verification.inputs and not any(check.expected for check in verification.inputs):
        lines.append("  their content was not recorded when this version was trained")
    for check in verification.inputs:
        if not check.holds:
            lines += [
                f"  {check.what}",
                f"    expected {check.expected}",
                f"    found    {check.found}",
            ]
    for check in verification.made:
        if check.means_the_same:
            lines.append(f"{check.what:<12} same content, in another notation")
        elif check.holds:
            lines.append(f"{check.what:<12} {check.found}")
        else:
            lines += [
                f"{check.what:<12} expected {check.expected}",
                f"{'':<12} found    {check.found}",
            ]
    return lines
