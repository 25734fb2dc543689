"""A registered version becomes the beginning of a larger one: what training has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bpeline.flows.requests import LARGEST_SIZE, OF_PARITY
from bpeline.registry.lineage import Lineage
from bpeline.registry.loading import ResolvedVersion, load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.references import parse_registered
from bpeline.registry.version_files import EXTENSION
from bpeline.tokenizer_core.arguments import check_fields, checked
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.continuation import pattern_of_words, text_form_of
from bpeline.tokenizer_core.digests import canonical_json
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import (
    Cuts,
    ExtensionCertificate,
    merges_to_continue,
    superword_lines,
)

# Of the first training, not of what is learned: an alias moves where it is asked for again.
_CORPUS = {"sources", "temperature", "counts", "count_columns", *OF_PARITY}
_HOW = ("workers", "table_memory", "engine", "rules")


@checked
def extension_parameters(
    reference: str,
    vocab_size: int | str,
    paths: Sequence[str | Path] = (),
    name: str | None = None,
    reserve: int = 0,
    round_to: int = 1,
    *,
    largest_size: int | None = None,
    model_shape: str | None = None,
) -> dict[str, Any]:
    """The parameters of `train_tokenizer` that continue a version, trained here or imported.

    Everything that decides which merges are learned is as it was for the version: pattern, special
    tokens, tie-break, thresholds. Chunks that it counted are not read again. Its rules are not
    asked again: who wants the extension to become champion says so.

    Args:
        reference: a registered version.
        vocab_size: of the new one; ``auto`` for the one at which text costs a model least.
        paths: the corpus; that of the version when empty.
        name: the name to register under; that of the version when None.
        reserve, round_to: slots behind the new ids; those of the version stay where they are.
        largest_size, model_shape: with ``auto``, up to which size, and which model.

    Raises:
        InvalidOption: a path, no larger size, a tokenizer that cannot be extended, or no paths for
            one that was not trained here.
        UnknownVersion: there is no such version.
    """
    version, base, config = version_to_continue(reference)
    chosen, vocab_size = size_to_choose(vocab_size, largest_size, model_shape)
    if vocab_size <= base.vocab_size:
        raise InvalidOption(
            f"{version} has {base.vocab_size:,} ids, and {vocab_size:,} were asked for",
            f"an extension has more: {base.vocab_size + 1:,} or more",
            f"for a smaller size load {reference}:{vocab_size}, which needs no training",
        )
    if not config and not paths:
        raise InvalidOption(
            f"what {version} was trained on is not known, as it was not trained here",
            "a corpus to learn the new tokens from",
            f"type `bpeline extend {reference} FILES --vocab-size {vocab_size}`",
        )
    if paths and config.get("parity"):
        raise InvalidOption(
            f"each merge of {version} serves one of its named sources, and other files were named",
            "its own corpus, whose sources are known",
            f"type `bpeline extend {reference} --vocab-size {vocab_size}`",
        )
    others = _of_others(base, config.get("tie_break", "smallest-ids"))
    return {
        **on_paths(config, paths),
        **others,
        "name": name or version.name or config.get("name"),
        "vocab_size": vocab_size,
        **chosen,
        "special_tokens": separators_of(base),
        "required_tokens": [],  # they are among the merges of the version
        "extends": version.digest,
        "reserve": reserve,
        "round_to": round_to,
    }


def size_to_choose(
    vocab_size: int | str, largest_size: int | None, model_shape: str | None
) -> tuple[dict[str, Any], int]:
    """What a training is told of its number of ids, where it is to choose one; and the largest.

    Raises:
        InvalidOption: a largest size or a model where a number was given.
    """
    if isinstance(vocab_size, str):
        largest = largest_size or LARGEST_SIZE
        return {"largest_size": largest, "model_shape": model_shape}, largest
    if largest_size is not None or model_shape is not None:
        raise InvalidOption(
            f"the number of ids was given, {vocab_size:,}, and what chooses it, too",
            "--largest-size and --model-shape go with --vocab-size auto",
            "type `--vocab-size auto`, or leave these out",
        )
    return {}, vocab_size


def version_to_continue(reference: str) -> tuple[ResolvedVersion, Tokenizer, dict[str, Any]]:
    """A version, its tokenizer, and how its tokens were learned; nothing if that was not here.

    Raises:
        InvalidOption: no reference, or a version with superwords.
        UnknownVersion: there is no such version.
    """
    parsed = parse_registered(reference)
    registry = open_registry(make=False)
    version = resolve(registry, parsed)
    lineage = Lineage.of(registry, version)
    config = lineage.request
    if config.get("transition_size"):
        words = [
            f"{row.name}/{row.number}"
            for row in registry.catalogue.registrations(store=registry.store)
            if row.digest == config["extends"]
        ]
        raise InvalidOption(
            f"{version} has superwords already",
            "a version whose tokens were learned from words alone",
            f"type `bpeline superwords {words[-1]} --vocab-size SIZE` for another size"
            if words
            else "train one with `bpeline train`: the version that it continues was deleted",
        )
    told = {key: value for key, value in config.items() if key not in _HOW}
    if config and (roles := lineage.roles):
        told["roles"] = [f"{role}={token}" for role, token in roles.items()]
    return version, load_version(registry, version), told


def on_paths(config: dict[str, Any], paths: Sequence[str | Path]) -> dict[str, Any]:
    """The same of another corpus, where one is named."""
    if not paths:
        return config
    kept = {key: config[key] for key in config.keys() - _CORPUS}
    return {**kept, "paths": list(map(str, paths))}


def _of_others(base: Tokenizer, tie_break: str) -> dict[str, Any]:
    """What training is told of a tokenizer whose merges cannot be replayed one by one.

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
    told = canonical_json(record).decode() if pattern.steps else pattern.name or pattern.regex
    return {
        "algorithm": "byte-bpe",
        "pattern": told,
        "tie_break": "smallest-ids",
        "continued_ids": base.vocab_size,
        "text_form": text_form_of(base),
    }


def separators_of(base: Tokenizer) -> list[str]:
    """The special tokens; a single character is found in texts, but separates no documents."""
    return [token for token in base.special_tokens if len(token.encode()) > 1]


def across_spaces(
    base: Tokenizer, transition_size: int, cuts: Cuts = "punctuation"
) -> dict[str, Any]:
    """What a training is told to go on across spaces behind the first ids of a tokenizer.

    Args:
        base: its files are in the workspace.
        transition_size: how many of its ids stay.
        cuts: where superwords end, see `superword_lines`.
    """
    lines = superword_lines(cuts)
    told = canonical_json(lines.as_record()).decode() if lines.steps else lines.regex
    return {
        "pattern": told,
        "tie_break": "smallest-ids",
        "special_tokens": separators_of(base),
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
