"""Baselines: parse their spelling and load them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.records import CHAMPION, ByPath, parse_reference
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer

UNRESTRICTED = "unrestricted"  # the same training without forbidden tokens
ORDINARY = "ordinary"  # the same training without parity
WORDS_ALONE = "words-alone"  # the same size without superwords
PRESENT = "present-mixture"  # the same sources with their current weights
_TAKEN = {
    PRESENT: "the mixture that others are compared with",
    CHAMPION: "the current champion",
    UNRESTRICTED: "the same training without --forbid and --characters",
    ORDINARY: "the same training without --parity",
    WORDS_ALONE: "the same training without superwords",
}
_NAMED = re.compile(r"(?P<label>[A-Za-z0-9_-]{1,32})=(?P<reference>.+)", re.DOTALL)
# File names without information: use the name of the directory.
_NAMELESS = {"tokenizer", "vocab", "encoder"}


def labelled(spelling: str) -> tuple[str, str]:
    """Parse ``[NAME=]REF`` into a label and a reference with an absolute path."""
    match = _NAMED.fullmatch(spelling)
    label, reference = (match["label"], match["reference"]) if match else ("", spelling)
    parsed = parse_reference(reference)
    if isinstance(parsed, ByPath):
        path = Path(os.path.abspath(parsed.path))
        reference = str(replace(parsed, path=path))
        stem = path.parent.name if path.stem in _NAMELESS else path.stem
    else:
        stem = str(parsed)
    label = label or re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-")[:32] or "baseline"
    if label in _TAKEN:
        raise InvalidOption(
            f"the name {label} of the baseline {reference} is reserved",
            f"expected another name: {label} is {_TAKEN[label]}",
            f"type `--baseline other={reference}`",
        )
    return label, reference


def normalized(spellings: Iterable[str]) -> tuple[str, ...]:
    """Every baseline as ``NAME=REF`` with an absolute path; labels must differ."""
    references: dict[str, str] = {}
    for spelling in spellings:
        label, reference = labelled(spelling)
        if references.setdefault(label, reference) != reference:
            raise InvalidOption(
                f"two baselines have the name {label}: {references[label]} and {reference}",
                "expected different names",
                f"rename one of them: `--baseline other={reference}`",
            )
    return tuple(f"{label}={reference}" for label, reference in references.items())


def load_baselines(spellings: Iterable[str], workspace: Path | str) -> dict[str, Tokenizer]:
    """Load the tokenizers, by label, from the spellings of `normalized`.

    Raises:
        UnknownVersion, CorruptFile, InvalidTokenizer: one of them cannot be loaded.
    """
    from bpeline.registry.loading import load_tokenizer

    return {
        label: load_tokenizer(reference, workspace) for label, reference in map(labelled, spellings)
    }
