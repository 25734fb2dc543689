"""Versions measured on the evaluation set of their name, and the sets of names: shown, changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bpeline.flows.pages import show_name_page
from bpeline.flows.requests import SMALLEST_SIZE, evaluation_sources, files_of_each, is_named
from bpeline.registry.catalogue import NamedSet
from bpeline.registry.evaluation import (
    ROBUSTNESS_COLUMNS,
    Measured,
    change_set,
    chosen_size_of,
    evaluate_version,
    evaluation_of,
    measure_anew,
    robustness_on_set,
    versions_with_aliases,
)
from bpeline.registry.evaluation_sets import (
    EvaluationSet,
    Text,
    as_set,
    has_set,
    read_set,
    texts_of,
)
from bpeline.registry.loading import ResolvedVersion, load_version, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import parse_registered, validate_name
from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.corpus import Reading, SkippedFiles
from bpeline.tokenizer_core.counting import count_texts, evaluation_documents
from bpeline.tokenizer_core.errors import EmptyCorpus, InvalidOption, UnknownVersion
from bpeline.tokenizer_core.evaluation import (
    BYTES_PER_TOKEN,
    CheapestSize,
    ModelShape,
    NamedShape,
    bytes_per_token_at,
    cheapest_size,
    has_curve,
    sizes_between,
)
from bpeline.tokenizer_core.shards import NO_SEPARATOR
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tables import Table

UNNAMED = "text"  # the slice of files that were given without a name


@dataclass(frozen=True, slots=True)
class ListedSet:
    """A set that a name has or had.

    Attributes:
        named: since when, by whom, why.
        made: what it is; None where its documents are not in this workspace.
        current: whether the name has it now.
    """

    named: NamedSet
    made: EvaluationSet | None
    current: bool


def list_sets(name: str | None = None) -> list[ListedSet]:
    """The evaluation sets of all names, or of one, by name and number.

    Raises:
        StorageError: there is no workspace.
    """
    if name is not None:
        validate_name(name)
    registry = open_registry(make=False)
    found = registry.catalogue.evaluation_sets(name)
    latest = {one.name: one.number for one in found}
    return [
        ListedSet(one, _known(registry, one.digest), one.number == latest[one.name])
        for one in found
    ]


def evaluate_registered(reference: str) -> list[Measured]:
    """Measure a version, or of a name alone all versions that an alias points to.

    Raises:
        UnknownVersion: there is none.
        UnknownEvaluationSet: the name has no set, or not here.
        RegistryUnreachable: MLflow does not answer.
    """
    checks.text("reference", reference, "news@champion")
    registry = open_registry(make=False)
    if "/" not in reference and "@" not in reference:
        validate_name(reference)
        found = measure_anew(registry, reference)
        if found:
            show_name_page(registry, reference)
            return found
    found = [evaluate_version(registry, resolve(registry, parse_registered(reference)))]
    show_name_page(registry, found[0].version.name)
    return found


def robustness(measured: Measured) -> list[dict[str, Any]]:
    """Robustness of what was measured, by kind and language; errors as `robustness_on_set`."""
    rows = robustness_on_set(open_registry(make=False), measured)
    return Table(ROBUSTNESS_COLUMNS, rows).json()


def serving_costs(measured: Measured, model: NamedShape) -> dict[str, dict[str, float]]:
    """What text costs a model with the version's vocabulary: slice → figure by its name.

    Raises:
        RegistryUnreachable: the version is to be fetched, and MLflow does not answer.
    """
    size = load_version(open_registry(make=False), measured.version).vocab_size
    return {
        name: model.figures(size, part.metrics[BYTES_PER_TOKEN])
        for name, part in measured.found.slices.items()
    }


def cheapest_size_of(measured: Measured, shape: ModelShape) -> CheapestSize:
    """At which of its sizes a version costs a model least, on the evaluation set of its name.

    Raises:
        InvalidOption: a version whose first merges make no tokenizer.
        RegistryUnreachable: the version is to be fetched, and MLflow does not answer.
    """
    registry = open_registry(make=False)
    tokenizer = load_version(registry, measured.version)
    if not has_curve(tokenizer):
        raise InvalidOption(
            f"the sizes of {measured.version} are not measured at once",
            "byte-level BPE, each of whose merges saves what it joins",
            "measure other versions with `bpeline evaluate`, or sizes with `bpeline sweep`",
        )
    texts = texts_of(registry.workspace, measured.made)
    documents = (text.decode() for one in texts for text in one.documents)
    counts = count_texts(documents, tokenizer.pattern, tuple(tokenizer.special_tokens))
    gains, full = tokenizer.merge_gains(counts), tokenizer.vocab_size
    size = int((counts.counts * np.diff(counts.offsets)).sum())
    sizes = sizes_between(max(SMALLEST_SIZE, full - len(gains)), full)
    return cheapest_size(shape, bytes_per_token_at(tokenizer, size, gains, sizes))


def chosen_size(version: ResolvedVersion, model: NamedShape) -> str:
    """How the training of a version chose its number of ids for this model; empty: it did not."""
    chosen = chosen_size_of(evaluation_of(open_registry(make=False), version), version.name)
    if chosen is None or chosen["model"]["label"] != model.label:
        return ""
    return f"its training chose it of {chosen['smallest']:,} to {chosen['reached']:,} ids"


def set_from(
    name: str,
    sources: Sequence[str | Path],
    *,
    by: str,
    reason: str,
    text_field: str = "text",
    separator: str | None = None,
) -> tuple[NamedSet, list[Measured], SkippedFiles]:
    """Give a name another evaluation set, and measure its versions that have an alias on it.

    Args:
        name: the tokenizers'.
        sources: files, directories and globs, or named sources as of ``--eval``.
        by, reason: for the record.
        text_field: the member of a JSON line that holds its document.
        separator: what stands between the documents of a text file; the special tokens of versions
            with an alias when None; ``none``: each file is one document.

    Returns:
        The set, what its versions make of it, and which files the search for texts did not read.

    Raises:
        InvalidOption: a misspelt source.
        UnknownVersion: the name has no version.
        CorpusError: files that cannot be read, or hold nothing.
        RegistryUnreachable: MLflow does not answer.
    """
    validate_name(name)
    sources = checks.rows("sources", sources, "paths")
    checks.text("by", by)
    checks.text("reason", reason)
    checks.text("text_field", text_field)
    if separator is not None:
        checks.text("separator", separator)
    registry = open_registry(make=False)
    if not registry.tracker.versions(name):
        raise UnknownVersion(
            f"no tokenizer is called {name} in MLflow at {registry.tracker.settings.place}",
            "a set is changed for versions that there are; the first training of a name makes one",
            "type `bpeline versions` to see the names, or give the texts to the first training: "
            f"`bpeline train … --name {name} --eval 'NAME=FILES'`",
        )
    versions = versions_with_aliases(registry, name)
    tokenizers = [load_version(registry, one) for one in versions]
    separators = dict.fromkeys(token for one in tokenizers for token in one.special_tokens)
    if separator is not None:
        separators = {} if separator == NO_SEPARATOR else {separator: None}
    pattern = tokenizers[0].pattern if tokenizers else SplitPattern.named("gpt2")
    reading = Reading(pattern, tuple(separators), text_field=text_field)
    typed = map(str, sources)
    asked = evaluation_sources(one if is_named(one) else f"{UNNAMED}={one}" for one in typed)
    found, skipped = files_of_each(asked.sources)
    texts = [
        Text(
            one.name, list(evaluation_documents(files, reading)), one.language, one.domain,
            one.files,
        )
        for one, files in zip(asked.sources, found, strict=True)
    ]  # fmt: skip
    made, documents = as_set(texts, parallel=asked.parallel)
    if len(made.texts) < len(texts):
        raise EmptyCorpus(
            "a source of the evaluation set has no document",
            "each has at least one",
            "name files that hold text",
        )
    named = change_set(registry, name, made, documents, by=by, reason=reason)
    measured = measure_anew(registry, name)
    show_name_page(registry, name)
    return named, measured, skipped


def _known(registry: Registry, digest: str) -> EvaluationSet | None:
    return read_set(registry.workspace, digest) if has_set(registry.workspace, digest) else None
