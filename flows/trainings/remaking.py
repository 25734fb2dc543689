"""A training made again from the files that it read, and compared with what is kept."""

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
from bpeline.registry.word_counts import RecordedFile, ShardStatistics, hold
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
    """One thing that was made again.

    Attributes:
        what: ``corpus``, ``word counts``, a text that begins with `DEVELOPMENT`, ``tokenizer``, or
            a file.
        expected: the digest it had; empty where that was not kept.
        found: the digest it has now, or ``gone``.
        means_the_same: of a file whose bytes are others, whether what it says is the same.
    """

    what: str
    expected: str
    found: str
    means_the_same: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is what it was, as far as that is known."""
        return self.means_the_same or self.expected in ("", self.found)


def files_now(
    recorded: Recorded, request: TrainingRequest, workspace: Workspace
) -> tuple[list[SourceFile], list[Check]]:
    """The files of the corpus as they are now, and those that are gone.

    Where it was not kept which they were, those that the same paths name now.
    """
    if recorded is None:
        return find_source_files(sources_of(request, workspace)), []
    files: list[SourceFile] = []
    gone = []
    for file in recorded:
        try:
            there = os.path.lexists(file.path)
            source = Source(file.path, file.source, of_counts=bool(request.counts))
            found = find_source_files([source]) if there else []
        except MissingSource:
            found = []
        files += found
        if not found:
            gone.append(Check(file.path, file.digest, GONE))
    return files, gone


def counted_again(
    files: Sequence[SourceFile],
    request: TrainingRequest,
    made_in: Workspace,
    left_out: DecontaminationSet | None,
) -> CountedCorpus:
    """Every chunk counted, whatever is remembered of the files."""
    plan = plan_reading(files, {}, replace(request.reading, left_out=left_out))
    with telling(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_chunks(plan, request, made_in)
        outcome(corpus.outcome)
    return corpus


def combined_again(
    corpus: CountedCorpus, request: TrainingRequest, made_in: Workspace
) -> CountedWords:
    """The word counts of all chunks together."""
    with telling(COMBINE_COUNTS) as outcome:
        words = add_up(corpus, request, made_in)
        outcome(words.outcome)
    return words


def inputs_now(recorded: Recorded, corpus: CountedCorpus) -> tuple[Check, ...]:
    """What every file holds now, beside what it held."""
    expected = {file.path: file.digest for file in recorded or ()}
    return tuple(
        Check(one.path, expected.get(one.path, ""), digest_of([part.digest for part in one.chunks]))
        for one in corpus.readings
    )


def words_kept(lineage: Lineage) -> CountedWords | None:
    """The word counts that the workspace keeps, by the digest that they have now."""
    words, table = lineage.words, lineage.table
    if words is None or table is None:
        return None
    table = replace(table, counts_digest=words.digest, reused=False)
    hold(table, words)
    return CountedWords(table, "", (), ShardStatistics())


def learned_again(
    lineage: Lineage, words: CountedWords, request: TrainingRequest, made_in: Workspace
) -> Iterator[Check]:
    """The tokenizer made again, and its files beside those that are kept."""
    workspace, digest = lineage.registry.workspace, lineage.version.digest
    if request.extends:  # an input too: its digest is looked at when it is read
        base = load_tokenizer(request.extends, workspace)
        bpeline.save(base, made_in.version_directory(request.extends))
    with telling(LEARN_MERGES, request.merges_shown, "merges") as outcome:
        learned = learn(words, request, made_in)
        outcome(learned.outcome)
    kept = {one.name: one.digest for one in lineage.development}
    texts = [
        Check(f"{DEVELOPMENT} {one.name}", kept.get(one.name, ""), one.digest)
        for one in learned.development
    ]
    yield from texts
    if not all(one.holds for one in texts):  # what it makes now is of other inputs
        return
    tokenizer = lineage.as_renamed(learned.tokenizer(request))
    yield Check("tokenizer", digest, tokenizer.digest)
    required = request.required_tokens
    if required and not request.extends:  # what is extended brings its own merges
        lacking = next((text for text in required if len(tokenizer.encode(text)) != 1), None)
        there = f"all {len(required):,} are there, each encoded as one token"
        found = there if lacking is None else f"{shown(lacking)} is no token"
        yield Check("required tokens", there, found)
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
    same, loaded = _behaviour_of(files, "bpeline") == tokenizer.digest, bpeline.files_of(files)
    for name in (bpeline.TOKENS, bpeline.VOCAB, bpeline.MERGES):
        if (files / name).exists() and (again / name).exists():
            yield _beside(files / name, again / name, same and name in loaded)
    details: dict[SavedFormat, dict[str, Any]] = {
        "hf": {},
        "tiktoken": {"pattern": tokenizer.pattern.regex},
    }
    for format, told in details.items():
        export = kept_export(files, format)
        if export is not None:
            made = again / export.name
            tokenizer.save(made, format)
            behaviours = {_behaviour_of(path, format, **told) for path in (export, made)}
            yield _beside(export, made, len(behaviours) == 1 and "" not in behaviours)


def _beside(kept: Path, again: Path, means_the_same: bool) -> Check:
    """A file as it was kept, and as it is made now."""
    expected, found = (digest_of_bytes(read_file(path)) for path in (kept, again))
    return Check(kept.name, expected, found, means_the_same and expected != found)


def _behaviour_of(path: Path, format: Format, **told: Any) -> str:
    """The digest of the tokenizer that a file or directory holds; empty where it holds none."""
    try:
        return Tokenizer.load(path, format, **told).digest
    except BpelineError:
        return ""


Verdict = Literal["identical", "different", "inputs changed", "inputs gone", "counts gone"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of making a version again.

    Attributes:
        reference: the version.
        verdict: what is to be said of it.
        recounted: whether the text was read and counted anew.
        inputs: the files of the corpus, in their order; empty where none were read.
        made: what was made of them, in order, as far as that went.
        counts_suffice: whether the word counts that were kept say all that merges are learned from.
    """

    reference: str
    verdict: Verdict
    recounted: bool
    inputs: tuple[Check, ...]
    made: tuple[Check, ...]
    counts_suffice: bool = True

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
        if one.means_the_same:
            lines.append(f"{one.what:<12} means the same, and is only spelled otherwise today")
        elif one.holds:
            lines.append(f"{one.what:<12} {one.found}")
        else:
            lines += [f"{one.what:<12} expected {one.expected}", f"{'':<12} found    {one.found}"]
    return lines
