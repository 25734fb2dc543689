"""Repeating a training from its files, to compare the result with a version."""

from __future__ import annotations

import os
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
from bpeline.flows.running import COMBINE_COUNTS, COUNT_WORDS, LEARN_MERGES, telling
from bpeline.flows.wording import counted
from bpeline.registry.loading import holds_version, kept_export, load_tokenizer
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import RecordedFile, ShardStatistics, keep
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.corpus import DecontaminationSet, Source, SourceFile, find_source_files
from bpeline.tokenizer_core.digests import digest_of, digest_of_bytes
from bpeline.tokenizer_core.errors import BpelineError, InvalidTokenizer, MissingSource
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
    with telling(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_chunks(plan, request, made_in)
        outcome(corpus.outcome)
    return corpus


def combined_again(
    corpus: CountedCorpus, request: TrainingRequest, made_in: Workspace
) -> CountedWords:
    """Add up the counts of all chunks."""
    with telling(COMBINE_COUNTS) as outcome:
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
    with telling(LEARN_MERGES, request.merges_shown, "merges") as outcome:
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
