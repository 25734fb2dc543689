"""A registered version becomes another one: longer, with superwords, pruned, or with other names.

Extensions and superwords are trainings: their functions return the parameters of `train_tokenizer`,
which evaluates, publishes and promotes. A renamed version is published here with the figures that
it has. A plan for pruning registers nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.pages import show_name_page
from bpeline.flows.publishing import made_with, publication_of
from bpeline.flows.requests import (
    OF_PARITY,
    DerivedRequest,
    ExtensionRequest,
    PruneRequest,
    RenameRequest,
    SuperwordsRequest,
    request_parameters,
)
from bpeline.registry.certify import certificate_texts
from bpeline.registry.evaluation import evaluate_version
from bpeline.registry.loading import (
    EXTENSION,
    RECIPE,
    ResolvedVersion,
    golden_texts,
    load_tokenizer,
    load_version,
    resolve,
    write_exports,
)
from bpeline.registry.opening import open_registry
from bpeline.registry.publishing import publish_version
from bpeline.registry.records import (
    CURVE_METRIC,
    ByPath,
    Publication,
    PublishedVersion,
    parse_reference,
    parse_registered,
    split_size,
)
from bpeline.registry.versions import RENAMED, Lineage, imported_in, keep_originals, kept_files
from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.arguments import check_fields
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.continuation import pattern_of_words, text_form_of
from bpeline.tokenizer_core.counting import WordCounts, sample_texts
from bpeline.tokenizer_core.derived import (
    PrunePlan,
    check_on,
    plan_pruning,
    rename_special_tokens,
    require_something,
    slots_of,
)
from bpeline.tokenizer_core.digests import canonical_json, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats import bpeline
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import (
    Cuts,
    ExtensionCertificate,
    merges_to_continue,
    superword_lines,
)
from bpeline.tokenizer_core.vocabulary import to_printable

PLAN_FORMAT = 1

# Of the first training, not of what is learned: an alias moves where it is asked for again.
_CORPUS = {"sources", "temperature", "counts", "count_columns", *OF_PARITY}
_HOW = ("workers", "table_memory", "engine", "rules")


@request_parameters(ExtensionRequest)
def extension_parameters(request: ExtensionRequest, workspace: str | None) -> dict[str, Any]:
    """The parameters of `train_tokenizer` that continue a version, trained here or imported.

    Everything that decides which merges are learned is as it was for the version: pattern, special
    tokens, tie-break, thresholds. Chunks that it counted are not read again. Its rules are not
    asked again: who wants the extension to become champion says so.

    Raises:
        InvalidOption: a path, no larger size, a tokenizer that cannot be extended, or no paths for
            one that was not trained here.
        UnknownVersion: there is no such version.
    """
    version, base, config = _to_continue(request, workspace)
    reference, size = request.reference, request.size
    if size <= base.vocab_size:
        raise InvalidOption(
            f"{version} has {base.vocab_size:,} ids, and {size:,} were asked for",
            f"an extension has more: {base.vocab_size + 1:,} or more",
            f"for a smaller size load {reference}:{size}, which needs no training",
        )
    if not config and not request.paths:
        raise InvalidOption(
            f"what {version} was trained on is not known, as it was not trained here",
            "a corpus to learn the new tokens from",
            f"type `bpeline extend {reference} FILES --vocab-size {size}`",
        )
    if request.paths and config.get("parity"):
        raise InvalidOption(
            f"each merge of {version} serves one of its named sources, and other files were named",
            "its own corpus, whose sources are known",
            f"type `bpeline extend {reference} --vocab-size {size}`",
        )
    return {
        **_continued(request, version, config),
        **_of_others(base, config.get("tie_break", "smallest-ids")),
        "special_tokens": _separators_of(base),
        "required_tokens": [],  # they are among the merges of the version
        "extends": version.digest,
    }


@request_parameters(SuperwordsRequest)
def superword_parameters(request: SuperwordsRequest, workspace: str | None) -> dict[str, Any]:
    """The parameters of `train_tokenizer` that continue a version by superwords.

    Special tokens, thresholds, token rules and evaluation are as they were for the version; the
    same text is counted again, by lines. Its rules are not asked again.

    Raises:
        InvalidOption: sizes out of order, or a version that superwords cannot begin with.
        UnknownVersion: there is no such version.
    """
    version, base, config = _to_continue(request, workspace)
    if not config:
        raise InvalidOption(
            f"{version} was not trained here",
            "superwords begin with a tokenizer of words that `bpeline train` made",
            "type `bpeline versions` to see which versions there are",
        )
    merges_to_continue(base, config["tie_break"])  # refuses what cannot be continued
    least, words = 256 + len(base.special_tokens), request.transition_size or base.vocab_size
    if not least <= words <= base.vocab_size or request.size <= words:
        raise InvalidOption(
            f"{request.size:,} ids were asked for, {words:,} of them from {version}",
            f"{version} gives {least:,} to {base.vocab_size:,} ids, and superwords are more",
            f"type `--vocab-size {base.vocab_size:,} --transition-size "
            f"{max(least, base.vocab_size * 9 // 10)}`".replace(",", ""),
        )
    continued = _continued(request, version, config)
    return {
        **{key: value for key, value in continued.items() if key not in OF_PARITY},
        **across_spaces(base, words, request.cuts),
    }


@request_parameters(PruneRequest)
def prune(request: PruneRequest, workspace: str | None) -> dict[str, Any]:
    """Write a plan of which tokens of a version can go, checked on words of a corpus.

    The reference may be a path, too.

    Returns:
        The plan as JSON values.

    Raises:
        InvalidOption: nothing to drop was named, or no words are known to count tokens in.
    """
    min_count, drop_unreachable = request.min_count, request.drop_unreachable
    require_something(min_count, drop_unreachable)
    tokenizer = load_tokenizer(request.reference, workspace)
    if request.paths:
        specials = tuple(tokenizer.special_tokens)
        paths = list(request.paths)
        counts = count_words(paths, pattern=tokenizer.pattern, special_tokens=specials)
    else:
        counts = _words_of(request.reference, workspace)
    plan = plan_pruning(tokenizer, counts, min_count=min_count, drop_unreachable=drop_unreachable)
    sample = check_on(tokenizer, plan, certificate_texts(tokenizer, sample_texts(counts)))
    record = {
        **_described(tokenizer, plan),
        "reference": request.reference,
        "asked": {"min_count": min_count, "drop_unreachable": drop_unreachable},
        "counted_in": {"digest": counts.digest, "words": len(counts), "occurrences": counts.total},
        "sample": asdict(sample),
    }
    DURABLE.write(Path(request.output), canonical_json(record) + b"\n")
    if request.save_to is not None:
        plan.tokenizer.save(request.save_to, "bpeline")
    return record


@dataclass(frozen=True, slots=True)
class Renaming:
    """What became of it: the old version, names and ids, the new version, slots that are left."""

    base: str
    names: Mapping[str, str]
    ids: Mapping[str, int]
    version: PublishedVersion
    slots_left: int

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "base": self.base,
            "reference": self.version.reference,
            "digest": self.version.digest,
            "newly_registered": self.version.newly_registered,
            "renamed": [
                {"id": self.ids[new], "from": old, "to": new} for old, new in self.names.items()
            ],
            "slots_left": self.slots_left,
        }


@request_parameters(RenameRequest)
def rename(request: RenameRequest, workspace: str | None) -> Renaming:
    """Register a version under the same name in which special tokens are called otherwise.

    Every id stays, and stands for what it stood for. The figures are those of the version: texts
    are measured without special tokens.

    Raises:
        InvalidSpecialToken, InvalidOption: see `rename_special_tokens`.
        UnknownVersion: there is no such version.
        RegistryUnreachable: MLflow does not answer; the new version is kept in the outbox.
        DiskFull: no space left.
    """
    lineage, before = _base_of(request, workspace)
    registry, base, names = lineage.registry, lineage.version, dict(request.names)
    tokenizer = rename_special_tokens(before, names)
    with registry.workspace.temporary_directory("publish") as directory, DURABLE.passing(directory):
        _write_renamed(tokenizer, names, lineage, directory)
        publication = _renamed_publication(tokenizer, names, lineage, directory)
        version = publish_version(registry, publication)
    if version.newly_registered and registry.catalogue.evaluation_set(base.name) is not None:
        evaluate_version(registry, resolve(registry, parse_registered(version.reference)))
    show_name_page(registry, base.name)
    ids = {new: tokenizer.special_tokens[new] for new in names.values()}
    return Renaming(str(base), names, ids, version, len(slots_of(tokenizer)))


def names_of(spelled: Sequence[str]) -> dict[str, str]:
    """Old name → new name.

    Raises:
        InvalidOption: not OLD=NEW, or an old name given twice.
    """
    names: dict[str, str] = {}
    for one in spelled:
        old, equals, new = one.partition("=")
        if not old or not equals or not new or old in names:
            raise InvalidOption(
                f"{old!r} is given twice" if old in names else f"{one!r} names no two tokens",
                "OLD=NEW, each old name once",
                "type `bpeline rename news/3 '<|reserved_0|>=<|tool|>'`",
            )
        names[old] = new
    return names


def across_spaces(
    base: Tokenizer, transition_size: int, cuts: Cuts = "punctuation"
) -> dict[str, Any]:
    """The parameters of a training that learns superwords after the first ids of a tokenizer.

    Args:
        base: its files are in the workspace.
        transition_size: how many of its ids stay.
        cuts: where superwords end, see `superword_lines`.
    """
    lines = superword_lines(cuts)
    regex = canonical_json(lines.as_record()).decode() if lines.steps else lines.regex
    return {
        "pattern": regex,
        "tie_break": "smallest-ids",
        "special_tokens": _separators_of(base),
        "required_tokens": [],  # they are among its merges
        "extends": base.digest,
        "transition_size": transition_size,
    }


def extension_of(directory: str | Path) -> ExtensionCertificate | None:
    """What was checked of a version that extends another; None for all others."""
    try:
        return check_fields(ExtensionCertificate(**read_json(Path(directory) / EXTENSION)))
    except (OSError, ValueError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token of a version that extends another, and the old ids that its text was before."""

    id: int
    token: str
    old_ids: tuple[int, ...]


@request_parameters(DerivedRequest)
def recipe_of(request: DerivedRequest, workspace: str | None) -> list[NewToken]:
    """The new tokens of a version that extends another, by id: for initialising embeddings.

    Raises:
        UnknownVersion: there is no such version.
        InvalidOption: it extends no other, or the workspace does not know how.
    """
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parse_registered(request.reference))
    path = registry.workspace.version_directory(version.digest) / RECIPE
    try:
        recipe = unsealed(read_json(path))["new_ids"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidOption(
            f"{version} has no list of new ids in this workspace",
            "versions that `bpeline extend` made here",
            f"type `bpeline show {request.reference}` to see where it comes from",
        ) from error
    vocab = load_version(registry, version).vocab
    shown = ((id_, vocab[id_].decode(errors="backslashreplace"), old) for id_, old in recipe)
    return [NewToken(id_, token, tuple(old)) for id_, token, old in shown]


def _base_of(request: DerivedRequest, workspace: str | None) -> tuple[Lineage, Tokenizer]:
    """Where the version comes from, and its tokenizer."""
    parsed = parse_registered(request.reference)
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parsed)
    return Lineage.of(registry, version), load_version(registry, version)


def _to_continue(
    request: ExtensionRequest, workspace: str | None
) -> tuple[ResolvedVersion, Tokenizer, dict[str, Any]]:
    """The version, its tokenizer, and how its tokens were learned; nothing if that was not here.

    Raises:
        InvalidOption: no reference, or a version with superwords.
        UnknownVersion: there is no such version.
    """
    lineage, base = _base_of(request, workspace)
    registry, config = lineage.registry, lineage.request
    if config.get("transition_size"):
        words = [
            f"{row.name}/{row.number}"
            for row in registry.catalogue.registrations(store=registry.store)
            if row.digest == config["extends"]
        ]
        raise InvalidOption(
            f"{lineage.version} has superwords already",
            "a version whose tokens were learned from words alone",
            f"type `bpeline superwords {words[-1]} --vocab-size SIZE` for another size"
            if words
            else "train one with `bpeline train`: the version that it continues was deleted",
        )
    kept = {key: value for key, value in config.items() if key not in _HOW}
    if config and (roles := lineage.roles):
        kept["roles"] = [f"{role}={token}" for role, token in roles.items()]
    return lineage.version, base, kept


def _continued(
    request: ExtensionRequest, version: ResolvedVersion, config: Mapping[str, Any]
) -> dict[str, Any]:
    """What a training that continues a version is asked, whatever follows its ids."""
    if request.paths:
        kept = {key: config[key] for key in config.keys() - _CORPUS}
        config = {**kept, "paths": list(request.paths)}
    return {
        **config,
        "name": request.name or version.name or config.get("name"),
        "vocab_size": request.size,
        **request.choice,
        "reserve": request.reserve,
        "round_to": request.round_to,
    }


def _of_others(base: Tokenizer, tie_break: str) -> dict[str, Any]:
    """Parameters of a training after a tokenizer whose merges cannot be replayed.

    Raises:
        InvalidOption: it cannot be extended at all.
    """
    if base.spec.pipeline is None:
        try:
            merges_to_continue(base, tie_break)
        except InvalidOption:
            pass
        else:
            return {}
    pattern = pattern_of_words(base)
    record = pattern.as_record()
    regex = canonical_json(record).decode() if pattern.steps else pattern.name or pattern.regex
    return {
        "algorithm": "byte-bpe",
        "pattern": regex,
        "tie_break": "smallest-ids",
        "continued_ids": base.vocab_size,
        "text_form": text_form_of(base),
    }


def _separators_of(base: Tokenizer) -> list[str]:
    """The special tokens; a single character is found in texts, but separates no documents."""
    return [token for token in base.special_tokens if len(token.encode()) > 1]


def _described(tokenizer: Tokenizer, plan: PrunePlan) -> dict[str, Any]:
    new_ids = plan.new_ids
    return {
        "plan": PLAN_FORMAT,
        "tokenizer": tokenizer.digest,
        "pruned": plan.tokenizer.digest,
        "vocab_size": {"before": tokenizer.vocab_size, "after": plan.tokenizer.vocab_size},
        "tokens": {"before": plan.tokens_before, "after": plan.tokens_after},
        "dropped": [
            {"id": one.id, "token": to_printable(one.token), "count": one.count,
             "reason": one.reason}
            for one in plan.dropped
        ],
        "kept_as_parts": plan.kept_as_parts,
        "old_of_new": plan.old_ids.tolist(),
        "new_of_old": [new_ids.get(old) for old in range(tokenizer.spec.largest_id + 1)],
    }  # fmt: skip


def _words_of(reference: str, workspace: str | None) -> WordCounts:
    """The words that a version was trained on, where this workspace has them."""
    parsed = parse_reference(split_size(reference)[0])
    counts = None
    if not isinstance(parsed, ByPath):
        registry = open_registry(workspace, make=False)
        counts = Lineage.of(registry, resolve(registry, parsed)).words
    if counts is None:
        raise InvalidOption(
            f"the words that {reference} was trained on are not in this workspace",
            "files to count its tokens in",
            f"type `bpeline prune {reference} FILES... --min-count 5 -o plan.json`",
        )
    return counts


def _write_renamed(
    tokenizer: Tokenizer, names: Mapping[str, str], lineage: Lineage, directory: Path
) -> None:
    """The files of the new version; what the old one has besides is copied."""
    workspace, digest = lineage.registry.workspace, lineage.version.digest
    kept = workspace.version_directory(digest)
    provenance = {
        **lineage.provenance,
        RENAMED: [*lineage.renamings, dict(names)],
        "renamed_from": {"version": str(lineage.version), "digest": digest},
        "made_with": made_with(),
    }
    bpeline.save(tokenizer, directory, provenance, golden_texts(kept))
    if (imported := imported_in(kept)) is not None:
        keep_originals(imported, kept_files(imported, kept), directory)
    write_exports(tokenizer, lineage.version.name, directory)


def _renamed_publication(
    tokenizer: Tokenizer, names: Mapping[str, str], lineage: Lineage, directory: Path
) -> Publication:
    base, row = lineage.version, lineage.row
    catalogue = lineage.registry.catalogue
    found = catalogue.metrics(base.name, base.digest)
    lines = "\n".join(f"- `{old}` → `{new}`" for old, new in names.items())
    return publication_of(
        tokenizer,
        directory,
        base.name,
        f"rename-{uuid.uuid4().hex}",
        corpus_digest=row.corpus_digest if row is not None else "",
        counts_digest=row.counts_digest if row is not None else "",
        params={"renamed_from": str(base), "renamed": dict(names)},
        metrics={one.key: one.value for one in found if one.key != CURVE_METRIC},
        curve=tuple((one.step, one.value) for one in found if one.key == CURVE_METRIC),
        tags={"renamed_from": str(base)},
        report=f"# {base}, special tokens renamed\n\n{lines}\n\nIds and figures are those of it.",
    )
