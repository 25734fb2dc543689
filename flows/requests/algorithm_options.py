"""Options of each algorithm besides the vocabulary size, and variants of byte-level BPE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bpeline.tokenizer_core.errors import InvalidOption

BYTE_BPE: Final = "byte-bpe"
CHARACTER_BPE = "char-bpe"
SCORES = ("ratio", "gain", "likelihood")  # of WordPiece; its own list would import kernels
ENCODINGS = ("merges", "greedy", "greedy-trained")
PARTS = ("all", "none")
WORD_SENTENCES = ("sentences", "text")  # what words of frequency BPE are counted within


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to choose.

    Attributes:
        tie_breaks: those that are known, the usual one first.
        min_count: the usual one.
        special_tokens: whether it has any.
        options: the names and types of what it alone is told.
    """

    tie_breaks: tuple[str, ...]
    min_count: int
    special_tokens: bool
    options: Mapping[str, type]


_TIE_BREAKS = ("smallest-ids", "greatest-bytes", "first-seen")
CHOICES = {
    BYTE_BPE: Choices(_TIE_BREAKS, 2, True, {}),
    CHARACTER_BPE: Choices(
        ("first-seen", "greatest-bytes", "smallest-ids"),
        2,
        True,
        {"merges": int, "end_of_word": str, "joined": bool, "unknown": str, "encoding": str},
    ),
    "wordpiece": Choices(
        ("smallest-ids",),
        2,
        True,
        {"score": str, "continuation": str, "unknown": str, "max_word_characters": int},
    ),
    "frequency-bpe": Choices(
        ("first-seen",),
        1,
        False,
        {
            "merges": int,
            "end_of_word": str,
            "sentences": str,
            "word_sentences": str,
            "min_sentence_characters": int,
            "parts": str,
        },
    ),
}
OPTIONS = sorted({name for choices in CHOICES.values() for name in choices.options})


def choices_of(algorithm: str) -> Choices:
    """What an algorithm may be told.

    Raises:
        InvalidOption: there is no such algorithm.
    """
    if algorithm not in CHOICES:
        raise InvalidOption(
            f"there is no algorithm {algorithm!r}",
            f"accepted: {', '.join(CHOICES)}",
            f"type `--algorithm {BYTE_BPE}` or leave it out",
        )
    return CHOICES[algorithm]


def check_options(algorithm: str, options: Mapping[str, Any]) -> None:
    """Refuse options that belong to other algorithms, and values of another type.

    Raises:
        InvalidOption: naming what this algorithm is told.
    """
    known = choices_of(algorithm).options
    for name, value in options.items():
        if name not in known:
            refuse(algorithm, name, ", ".join(map(_typed, known)) or "none of these options")
        if type(value) is not known[name]:
            raise InvalidOption(
                f"{_typed(name)} is {value!r}",
                f"accepted: a value of the type {known[name].__name__}",
                "leave it out for the usual value",
            )
        if isinstance(value, int) and value < 0:
            raise InvalidOption(
                f"{_typed(name)} is {value}",
                "accepted: whole numbers from 0",
                f"type `{_typed(name)} 100` or leave it out",
            )

    for name, values, usual in (
        ("encoding", ENCODINGS, "merges are applied in their order"),
        ("parts", PARTS, "parts of longer tokens have ids after all others"),
        ("word_sentences", WORD_SENTENCES, "words are counted within sentences"),
    ):
        if options.get(name, values[0]) not in values:
            raise InvalidOption(
                f"{_typed(name)} is {options[name]!r}",
                f"accepted: {', '.join(values)}",
                f"leave it out: {usual}",
            )


def refuse(algorithm: str, option: str, accepted: str) -> None:
    """Raise for an option that means nothing to an algorithm."""
    raise InvalidOption(
        f"{_typed(option)} means nothing to the algorithm {algorithm}",
        f"{algorithm} takes {accepted}",
        f"leave {_typed(option)} out, or choose another --algorithm",
    )


def _typed(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")


PLAIN = "plain"
SUPERBPE = "superbpe"  # learned behind the plain training of the same pattern
# Name → parameters of a training.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    PLAIN: {},
    "whole-characters": {"characters": "whole"},
    "left-to-right": {"characters": "left-to-right"},
    SUPERBPE: {},
    "parity": {"parity": "base"},
    "parity-window": {"parity": "window"},
}


def typed(variant: str) -> str:
    """The options of `bpeline train` that say a variant; empty where none does."""
    return " ".join(f"--{name} {value}" for name, value in VARIANTS[variant].items())


def transition_size(vocab_size: int) -> int:
    """How many of so many ids words give in a sweep: nine tenths, as in the published models."""
    return vocab_size * 9 // 10
