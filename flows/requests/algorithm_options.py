"""Options of each algorithm, and variants of byte-level BPE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bpeline.tokenizer_core.errors import InvalidOption

BYTE_BPE: Final = "byte-bpe"
CHARACTER_BPE = "char-bpe"
SCORES = ("ratio", "gain", "likelihood")  # of WordPiece, copied: its module imports kernels
ENCODINGS = ("merges", "greedy", "greedy-trained")
PARTS = ("all", "none")
WORD_SENTENCES = ("sentences", "text")  # where frequency BPE counts words


@dataclass(frozen=True, slots=True)
class Choices:
    """The settings of an algorithm.

    Attributes:
        tie_breaks: the default first.
        min_count: the default.
        special_tokens: whether it supports special tokens.
        options: name → type of its own options.
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
    """The settings of an algorithm; raises `InvalidOption` if it is unknown."""
    if algorithm not in CHOICES:
        raise InvalidOption(
            f"there is no algorithm {algorithm!r}",
            f"expected one of {', '.join(CHOICES)}",
            f"type `--algorithm {BYTE_BPE}` or leave it out",
        )
    return CHOICES[algorithm]


def check_options(algorithm: str, options: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` for options of other algorithms and wrong values."""
    types = choices_of(algorithm).options
    for name, value in options.items():
        if name not in types:
            refuse(algorithm, name, ", ".join(map(_typed, types)) or "none of these options")
        if type(value) is not types[name]:
            raise InvalidOption(
                f"{_typed(name)} is {value!r}",
                f"expected a value of type {types[name].__name__}",
                "leave it out for the default",
            )
        if isinstance(value, int) and value < 0:
            raise InvalidOption(
                f"{_typed(name)} is {value}",
                "expected a whole number from 0",
                f"type `{_typed(name)} 100` or leave it out",
            )

    for name, values, default_text in (
        ("encoding", ENCODINGS, "by default, merges apply in order"),
        ("parts", PARTS, "by default, parts of longer tokens get ids after all others"),
        ("word_sentences", WORD_SENTENCES, "by default, words are counted in each sentence"),
    ):
        if options.get(name, values[0]) not in values:
            raise InvalidOption(
                f"{_typed(name)} is {options[name]!r}",
                f"expected one of {', '.join(values)}",
                f"leave it out: {default_text}",
            )


def refuse(algorithm: str, option: str, accepted: str) -> None:
    """Raise `InvalidOption` for an option that an algorithm does not have."""
    raise InvalidOption(
        f"{_typed(option)} does not apply to the algorithm {algorithm}",
        f"expected {accepted}",
        f"leave out {_typed(option)}, or choose another --algorithm",
    )


def _typed(name: str) -> str:
    return "--" + name.replace("_", "-")


PLAIN = "plain"
SUPERBPE = "superbpe"  # learned after the plain training with the same pattern
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
    """The options of `bpeline train` for a variant; may be empty."""
    return " ".join(f"--{name} {value}" for name, value in VARIANTS[variant].items())


def transition_size(vocab_size: int) -> int:
    """Ids before superwords begin in a sweep: 90 %, as in the published SuperBPE models."""
    return vocab_size * 9 // 10
