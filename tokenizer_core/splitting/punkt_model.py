"""NLTK's Punkt tokenizer; the one door to NLTK, which is optional.

Imports little: processes that cut text load it within limits.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

PUNKT = "punkt"


def as_text(tables: tuple[str, ...]) -> str:
    """A model as text, for a process that cuts; see `Punkt.tables`."""
    return "\0".join((PUNKT, *tables))


def of_text(text: str) -> Any:
    """The tokenizer of the model that `as_text` wrote."""
    return tokenizer_of(tuple(text.split("\0")[1:]))


def directories_of(language: str) -> list[Path]:
    """Where NLTK looks for the tables of a language, first things first."""
    from nltk import data

    return [Path(place, "tokenizers/punkt_tab", language) for place in data.path]


@functools.lru_cache(maxsize=4)
def tokenizer_of(tables: tuple[str, ...]) -> Any:
    """The tokenizer with the tables of a language; untrained without any."""
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    parameters = PunktParameters()
    if tables:
        abbreviations, collocations, contexts, starters = (
            [line for line in text.replace("\r\n", "\n").split("\n") if line] for text in tables
        )
        parameters.abbrev_types = set(abbreviations)
        parameters.collocations = {tuple(line.split("\t")) for line in collocations}
        parameters.sent_starters = set(starters)
        for line in contexts:
            word, number = line.rsplit("\t", 1)
            parameters.ortho_context[word] = int(number)
    return PunktSentenceTokenizer(parameters)
