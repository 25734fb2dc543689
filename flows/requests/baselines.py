"""Reference tokenizers to measure beside the new one: how they are spelt, and loading them."""

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

UNRESTRICTED = "unrestricted"  # the same training, but that any token may be made
ORDINARY = "ordinary"  # the same training, but that each merge serves all text together
WORDS_ALONE = "words-alone"  # as many ids of the words that superwords go on from
PRESENT = "present-mixture"  # the same sources with the weights that they have
_TAKEN = {
    PRESENT: "the mixture that others are compared with",
    CHAMPION: "the present champion",
    UNRESTRICTED: "the same training without --forbid and --characters",
    ORDINARY: "the same training without --parity",
    WORDS_ALONE: "the same training without superwords",
}
_NAMED = re.compile(r"(?P<label>[A-Za-z0-9_-]{1,32})=(?P<reference>.+)", re.DOTALL)
# Files whose name says nothing; their directory's does.
_NAMELESS = {"tokenizer", "vocab", "encoder"}


def labelled(spelling: str) -> tuple[str, str]:
    """The label and the reference of ``NAME=REF``, or of a path or registered version alone.

    Paths come back absolute, so that a run can be continued from any directory.

    Raises:
        InvalidOption: the reference is misspelt, or the label is one that has a meaning.
    """
    named = _NAMED.fullmatch(spelling)
    label, reference = (named["label"], named["reference"]) if named else ("", spelling)
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
            f"the baseline {reference} is to be called {label}",
            f"that is what {_TAKEN[label]} is called, which is always compared with",
            f"give it another name: `--baseline other={reference}`",
        )
    return label, reference


def normalized(spellings: Iterable[str]) -> tuple[str, ...]:
    """Every baseline as ``NAME=REF`` with an absolute path; labels differ.

    Raises:
        InvalidOption: see `labelled`; or two of one label.
    """
    found: dict[str, str] = {}
    for spelling in spellings:
        label, reference = labelled(spelling)
        if found.setdefault(label, reference) != reference:
            raise InvalidOption(
                f"two baselines are called {label}: {found[label]} and {reference}",
                "the names of baselines differ",
                f"name one of them: `--baseline other={reference}`",
            )
    return tuple(f"{label}={reference}" for label, reference in found.items())


def load_baselines(spellings: Iterable[str], workspace: Path | str) -> dict[str, Tokenizer]:
    """The tokenizers by label.

    Args:
        spellings: from `normalized`.
        workspace: where registered versions are looked for.

    Raises:
        UnknownVersion, CorruptFile, InvalidTokenizer: one of them cannot be loaded.
    """
    from bpeline.registry.loading import load_tokenizer

    return {
        label: load_tokenizer(reference, workspace) for label, reference in map(labelled, spellings)
    }
