"""The parameters of trainings that continue a version: extensions and superwords."""

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
from bpeline.registry.loading import RECIPE, ResolvedVersion, load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import parse_registered
from bpeline.registry.versions import Lineage
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.continuation import pattern_of_words, text_form_of
from bpeline.tokenizer_core.digests import canonical_json, unsealed
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import Cuts, merges_to_continue, superword_lines

# Only for the first training: an alias in these may point elsewhere when resolved again.
_CORPUS = {"sources", "temperature", "counts", "count_columns", *OF_PARITY}
_HOW = ("workers", "table_memory", "engine", "rules")


@request_parameters(ExtensionRequest)
def extension_parameters(request: ExtensionRequest, workspace: str | None) -> dict[str, Any]:
    """Return the parameters of `train_tokenizer` that extend a version.

    Pattern, special tokens, tie-break and thresholds are those of the version. Chunks that it
    counted are not read again. Promotion rules are not copied: pass them to promote the extension.
    """
    version, base, config = _to_continue(request, workspace)
    reference, size = request.reference, request.size
    if size <= base.vocab_size:
        raise InvalidOption(
            f"{version} has {base.vocab_size:,} ids, and {size:,} were requested",
            f"expected a larger size: {base.vocab_size + 1:,} or more",
            f"for a smaller size load {reference}:{size}, which needs no training",
        )
    if not config and not request.paths:
        raise InvalidOption(
            f"the corpus of {version} is not known, as it was not trained here",
            "expected a corpus to learn the new tokens from",
            f"type `bpeline derive extend {reference} FILES --vocab-size {size}`",
        )
    if request.paths and config.get("parity"):
        raise InvalidOption(
            f"{version} was trained with --parity on its named sources, and other files were named",
            "expected no files: its own corpus is used, whose sources are known",
            f"type `bpeline derive extend {reference} --vocab-size {size}`",
        )
    return {
        **_continued(request, version, config),
        **_of_others(base, config.get("tie_break", "smallest-ids")),
        "special_tokens": _separators_of(base),
        "required_tokens": [],  # already among the merges of the version
        "extends": version.digest,
    }


@request_parameters(SuperwordsRequest)
def superword_parameters(request: SuperwordsRequest, workspace: str | None) -> dict[str, Any]:
    """Return the parameters of `train_tokenizer` that add superwords to a version.

    Special tokens, thresholds, token rules and evaluation are those of the version. The same text
    is counted again, by lines. Promotion rules are not copied.
    """
    version, base, config = _to_continue(request, workspace)
    if not config:
        raise InvalidOption(
            f"{version} was not trained here",
            "expected a tokenizer that `bpeline train` made from words",
            "type `bpeline versions` to see which versions there are",
        )
    merges_to_continue(base, config["tie_break"])  # raises if the version cannot be continued
    least, words = 256 + len(base.special_tokens), request.transition_size or base.vocab_size
    if not least <= words <= base.vocab_size or request.size <= words:
        raise InvalidOption(
            f"{request.size:,} ids were requested, {words:,} of them from {version}",
            f"expected {least:,} to {base.vocab_size:,} ids from {version}, and more in all",
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
    """Return training parameters for superwords after the first ids of a tokenizer.

    Args:
        cuts: where superwords end, see `superword_lines`.
    """
    lines = superword_lines(cuts)
    regex = canonical_json(lines.as_record()).decode() if lines.steps else lines.regex
    return {
        "pattern": regex,
        "tie_break": "smallest-ids",
        "special_tokens": _separators_of(base),
        "required_tokens": [],  # already among its merges
        "extends": base.digest,
        "transition_size": transition_size,
    }


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token of an extended version, and the old ids of its text."""

    id: int
    token: str
    old_ids: tuple[int, ...]


@request_parameters(DerivedRequest)
def recipe_of(request: DerivedRequest, workspace: str | None) -> list[NewToken]:
    """Return the new tokens of an extended version, by id, to initialise embeddings."""
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parse_registered(request.reference))
    path = registry.workspace.version_directory(version.digest) / RECIPE
    try:
        recipe = unsealed(read_json(path))["new_ids"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidOption(
            f"{version} has no list of new ids in this workspace",
            "expected a version that `bpeline derive extend` made here",
            f"type `bpeline show {request.reference}` to see where it comes from",
        ) from error
    vocab = load_version(registry, version).vocab
    shown = ((id_, vocab[id_].decode(errors="backslashreplace"), old) for id_, old in recipe)
    return [NewToken(id_, token, tuple(old)) for id_, token, old in shown]


def base_of(request: DerivedRequest, workspace: str | None) -> tuple[Lineage, Tokenizer]:
    """Return the lineage of the version, and its tokenizer."""
    parsed = parse_registered(request.reference)
    registry = open_registry(workspace, make=False)
    version = resolve(registry, parsed)
    return Lineage.of(registry, version), load_version(registry, version)


def _to_continue(
    request: ExtensionRequest, workspace: str | None
) -> tuple[ResolvedVersion, Tokenizer, dict[str, Any]]:
    """Return the version, its tokenizer, and its training request (empty if imported)."""
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
            "expected a version whose tokens were learned from words alone",
            f"type `bpeline derive superwords {words[-1]} --vocab-size SIZE` for another size"
            if words
            else "train one with `bpeline train`: the version that it continues was deleted",
        )
    parameters = {key: value for key, value in config.items() if key not in _HOW}
    if config and (roles := lineage.roles):
        parameters["roles"] = [f"{role}={token}" for role, token in roles.items()]
    return lineage.version, base, parameters


def _continued(
    request: ExtensionRequest, version: ResolvedVersion, config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters common to all trainings that continue a version."""
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
    """Return parameters for a tokenizer whose merges cannot be replayed."""
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
    """Return the special tokens longer than one byte, which separate documents."""
    return [token for token in base.special_tokens if len(token.encode()) > 1]
