"""Extensions and superwords: the parameters of the training that continues a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bpeline.flows.requests import (
    OF_PARITY,
    DerivedRequest,
    ExtensionRequest,
    SuperwordsRequest,
    request_parameters,
)
from bpeline.registry.loading import (
    RECIPE,
    ResolvedVersion,
    load_version,
    resolve,
)
from bpeline.registry.opening import open_registry
from bpeline.registry.records import (
    parse_registered,
)
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.continuation import pattern_of_words, text_form_of
from bpeline.tokenizer_core.digests import canonical_json, unsealed
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import (
    Cuts,
    merges_to_continue,
    superword_lines,
)

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
            f"type `bpeline derive extend {reference} FILES --vocab-size {size}`",
        )
    if request.paths and config.get("parity"):
        raise InvalidOption(
            f"each merge of {version} serves one of its named sources, and other files were named",
            "its own corpus, whose sources are known",
            f"type `bpeline derive extend {reference} --vocab-size {size}`",
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
            "versions that `bpeline derive extend` made here",
            f"type `bpeline show {request.reference}` to see where it comes from",
        ) from error
    vocab = load_version(registry, version).vocab
    shown = ((id_, vocab[id_].decode(errors="backslashreplace"), old) for id_, old in recipe)
    return [NewToken(id_, token, tuple(old)) for id_, token, old in shown]


def base_of(request: DerivedRequest, workspace: str | None) -> tuple[Lineage, Tokenizer]:
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
    lineage, base = base_of(request, workspace)
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
            f"type `bpeline derive superwords {words[-1]} --vocab-size SIZE` for another size"
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
