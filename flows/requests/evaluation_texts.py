"""Which texts a tokenizer is evaluated on: named sources with labels, typed or from a TOML file.

    english=heldout/en/*.txt
    german:language=de:domain=news=heldout/de/*.txt
    evaluation.toml

A TOML file holds tables ``[[evaluation]]`` with ``name``, ``files`` (relative to it), and perhaps
``language`` and ``domain``; ``parallel = true`` above them says that all languages say the same.
Reads no text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bpeline.flows.requests.source_spelling import NamedSource, SourceKind, is_file
from bpeline.tokenizer_core.evaluation import LABELS

EVALUATION = SourceKind(
    "evaluation source", "evaluation", LABELS, "type `--eval 'english=heldout/*.txt'`"
)


@dataclass(frozen=True, slots=True)
class EvaluationSources:
    """Everything to evaluate on; nothing when there are no sources.

    Attributes:
        sources: names differ.
        parallel: the texts of all languages say the same.
    """

    sources: tuple[NamedSource, ...] = ()
    parallel: bool = False


def evaluation_sources(spellings: Iterable[str]) -> EvaluationSources:
    """What was typed, with the tables of TOML files in their places.

    Sources of one name are one source with all their files.

    Raises:
        InvalidOption: not an accepted spelling, or one name with different labels.
    """
    sources: list[NamedSource] = []
    parallel = False
    for spelling in spellings:
        if is_file(spelling):
            listed, others = EVALUATION.from_file(Path(spelling), {"parallel"})
            said = others.get("parallel", False)
            if not isinstance(said, bool):
                refused = f"parallel is {said!r}, not true or false"
                raise EVALUATION.unusable(Path(spelling), refused)
            sources += listed
            parallel |= said
        else:
            sources.append(EVALUATION.from_text(spelling))
    return EvaluationSources(EVALUATION.joined(sources), parallel)


def is_named(spelling: str) -> bool:
    """Whether sources are named, here or in a TOML file; a file with `=` in its name is not."""
    return spelling.endswith(".toml") or ("=" in spelling and not os.path.lexists(spelling))
