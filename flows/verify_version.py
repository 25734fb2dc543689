"""A version is made again from what it was made of, and must come out the same to the last byte."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running import COMBINE_COUNTS, COUNT_WORDS, LEARN_MERGES, telling
from bpeline.flows.steps import (
    CountedCorpus,
    CountedWords,
    add_up,
    count_chunks,
    learn,
    plan_reading,
    sources_of,
)
from bpeline.flows.wording import counted
from bpeline.registry.lineage import Lineage
from bpeline.registry.loading import load_tokenizer, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.references import parse_registered
from bpeline.registry.version_files import holds_version
from bpeline.registry.word_counts import RecordedFile, ShardStatistics, corpus_record
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.corpus import Source, SourceFile, find_source_files
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import MissingSource, UnknownVersion
from bpeline.tokenizer_core.formats import bpeline

Verdict = Literal["identical", "different", "inputs changed", "inputs gone", "counts gone"]
GONE = "gone"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was made again.

    Attributes:
        what: ``corpus``, ``word counts``, ``tokenizer``, or a file.
        expected: the digest it had; empty where that was not kept.
        found: the digest it has now, or ``gone``.
    """

    what: str
    expected: str
    found: str

    @property
    def holds(self) -> bool:
        """Whether it is what it was, as far as that is known."""
        return self.expected in ("", self.found)


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of making a version again.

    Attributes:
        reference: the version.
        verdict: what is to be said of it.
        recounted: whether the text was read and counted anew.
        inputs: the files of the corpus, in their order; empty where none were read.
        made: what was made of them, in order, as far as that went.
    """

    reference: str
    verdict: Verdict
    recounted: bool
    inputs: tuple[Check, ...]
    made: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether the version is proven to come from its inputs."""
        return self.verdict == "identical"

    def as_dict(self) -> dict[str, Any]:
        """JSON values; of the inputs those that are not what they were, and how many there are."""
        return {
            "reference": self.reference,
            "verdict": self.verdict,
            "identical": self.holds,
            "recounted": self.recounted,
            "inputs": len(self.inputs),
            "changed_inputs": [asdict(one) for one in self.inputs if not one.holds],
            "checks": [{**asdict(one), "holds": one.holds} for one in self.made],
        }


def verify_version(reference: str, *, reuse_counts: bool = False) -> Verification:
    """Make a version again and compare digests and files.

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
    registry = open_registry(make=False)
    parsed = parse_registered(reference)
    lineage = Lineage.of(registry, resolve(registry, parsed))
    if lineage.row is None or not lineage.request:
        raise UnknownVersion(
            f"what {lineage.version} was trained on is not known here",
            "versions that `bpeline train` made, in the catalogue that remembers the run",
            "type it where it was trained, or set BPELINE_CATALOGUE_URL to the shared catalogue",
        )
    again = _Again(lineage, TrainingRequest.checked(**lineage.request))
    with tempfile.TemporaryDirectory(prefix="bpeline-verify-") as directory:
        made_in = Workspace.open(Path(directory) / "workspace")
        return again.from_counts(made_in) if reuse_counts else again.from_files(made_in)


@dataclass(frozen=True, slots=True)
class _Again:
    """One version on its way."""

    lineage: Lineage
    request: TrainingRequest

    def from_counts(self, made_in: Workspace) -> Verification:
        words, table = self.lineage.words, self.lineage.table
        if words is None or table is None:
            return self._verdict("counts gone", False, (), ())
        expected = self._row_counts_digest
        counts = Check("word counts", expected, words.digest)
        nothing_else = CountedWords(replace(table, counts=words), "", (), ShardStatistics())
        made = (counts, *self._learned(nothing_else, made_in))
        return self._verdict(_said_of(made), False, (), made)

    def from_files(self, made_in: Workspace) -> Verification:
        row = self.lineage.row
        assert row is not None
        recorded = corpus_record(self.lineage.registry.workspace, row.corpus_digest)
        files, missing = _files_of(recorded, self.request, self.lineage.registry)
        if missing:
            gone = tuple(Check(file.path, file.digest, GONE) for file in missing)
            return self._verdict("inputs gone", True, gone, ())
        plan = plan_reading(files, {})
        with telling(COUNT_WORDS, plan.bytes_to_read, "bytes") as said:
            corpus = count_chunks(plan, self.request, made_in)
            said.append(corpus.outcome)
        inputs = _inputs(recorded, corpus)
        made = [Check("corpus", row.corpus_digest, corpus.digest)]
        if not made[0].holds:
            return self._verdict("inputs changed", True, inputs, made)
        with telling(COMBINE_COUNTS) as said:
            words = add_up(corpus, self.request, made_in)
            said.append(words.outcome)
        made.append(Check("word counts", self._row_counts_digest, words.table.counts_digest))
        made += self._learned(words, made_in)
        return self._verdict(_said_of(made), True, inputs, made)

    @property
    def _row_counts_digest(self) -> str:
        assert self.lineage.row is not None
        return self.lineage.row.counts_digest

    def _learned(self, words: CountedWords, made_in: Workspace) -> Iterator[Check]:
        """The tokenizer made again, and its files beside those that are kept."""
        if self.request.extends:
            self._bring_the_base(made_in)
        with telling(LEARN_MERGES, self.request.merges_shown, "merges") as said:
            learned = learn(words, self.request, made_in)
            said.append(learned.outcome)
        tokenizer = learned.tokenizer(self.request)
        yield Check("tokenizer", self.lineage.version.digest, tokenizer.digest)
        workspace, digest = self.lineage.registry.workspace, self.lineage.version.digest
        if not holds_version(workspace, digest):
            return
        again = made_in.version_directory("again")
        bpeline.save(tokenizer, again)
        kept = workspace.version_directory(digest)
        for name in (bpeline.VOCAB, bpeline.MERGES):
            paths = (kept / name, again / name)
            yield Check(name, *(digest_of_bytes(path.read_bytes()) for path in paths))

    def _bring_the_base(self, made_in: Workspace) -> None:
        """The version that was extended is an input: its digest is looked at when it is read."""
        registry = self.lineage.registry
        base = load_tokenizer(self.request.extends, registry.workspace)
        bpeline.save(base, made_in.version_directory(self.request.extends))

    def _verdict(
        self, verdict: Verdict, recounted: bool, inputs: Sequence[Check], made: Sequence[Check]
    ) -> Verification:
        version = str(self.lineage.version)
        return Verification(version, verdict, recounted, tuple(inputs), tuple(made))


def _said_of(made: Sequence[Check]) -> Verdict:
    return "identical" if all(one.holds for one in made) else "different"


def _files_of(
    recorded: tuple[RecordedFile, ...] | None, request: TrainingRequest, registry: Registry
) -> tuple[list[SourceFile], list[RecordedFile]]:
    """The files of the corpus as they are now, and those that are gone.

    Where it was not kept which they were, those that the same paths name now.
    """
    if recorded is None:
        return find_source_files(sources_of(request, registry.workspace)), []
    files, missing = [], []
    for file in recorded:
        if not os.path.lexists(file.path):
            missing.append(file)
            continue
        try:
            files += find_source_files([Source(file.path, file.source)])
        except MissingSource:
            missing.append(file)
    return files, missing


def _inputs(recorded: tuple[RecordedFile, ...] | None, corpus: CountedCorpus) -> list[Check]:
    """What every file holds now, beside what it held."""
    expected = {file.path: file.digest for file in recorded or ()}
    return [
        Check(
            reading.path,
            expected.get(reading.path, ""),
            digest_of([chunk.digest for chunk in reading.chunks]),
        )
        for reading in corpus.readings
    ]


def lines_of(verification: Verification) -> list[str]:
    """The verification for a terminal."""
    said = {
        "identical": "is identical: made again, it came out the same",
        "different": "is NOT what its inputs make",
        "inputs changed": "cannot be made again: its inputs have changed",
        "inputs gone": "cannot be made again: inputs are gone",
        "counts gone": "cannot be made again: its word counts are not in this workspace",
    }
    lines = [f"{verification.reference} {said[verification.verdict]}"]
    if verification.inputs:
        lines.append(f"inputs       {counted(len(verification.inputs), 'file')}")
    elif not verification.recounted and verification.made:
        lines.append("inputs       not read: the word counts that were kept are believed")
    if verification.inputs and not any(one.expected for one in verification.inputs):
        lines.append("  what each of them held was not kept when this version was made")
    for one in verification.inputs:
        if not one.holds:
            lines += [f"  {one.what}", f"    expected {one.expected}", f"    found    {one.found}"]
    for one in verification.made:
        if one.holds:
            lines.append(f"{one.what:<12} {one.found}")
        else:
            lines += [f"{one.what:<12} expected {one.expected}", f"{'':<12} found    {one.found}"]
    return lines
