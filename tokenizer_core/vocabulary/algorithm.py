"""Which algorithm a tokenizer follows, as a value; knows how none of them encodes.

A tokenizer of any algorithm is the same class `Tokenizer`: a vocab, special tokens, a split
pattern, sometimes merges, and one of these values. The value chooses the encoder and the decoder,
is part of the digest, and is stored with the tokenizer.

All but `ByteBpe` are companions, each in a folder of its own in `tokenizer_core.algorithms`. They
work *word by word* on the characters of a word: a word is a pre-token of the split pattern (white
space around it is dropped, by ``whitespace`` and ``wordpunct``). So equal words have equal ids,
each distinct word is encoded once, and a text comes back from its ids with its words one space
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, Self

Sentences = Literal["none", "lines", "punkt"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What turns pre-tokens into ids; its fields are the properties that decide how.

    Attributes:
        name: as it is stored and asked for.
        default_pattern: the split pattern where none is named.
        has_merges: whether a tokenizer of it has merges in order of rank.
        finds_special: whether its encoder finds special tokens in texts by itself.
        may_ignore_merges: whether it can take a pre-token of the vocab as one token.
    """

    name: ClassVar[str]
    default_pattern: ClassVar[str] = "whitespace"
    has_merges: ClassVar[bool] = False
    finds_special: ClassVar[bool] = False
    may_ignore_merges: ClassVar[bool] = False

    @property
    def normalizer_name(self) -> str:
        """What the algorithm itself does to texts before they are cut, for people."""
        return "none"

    @property
    def sentence_kind(self) -> Sentences:
        """How sentences are found, each of which is encoded by itself."""
        return "none"

    def described(self) -> dict[str, Any]:
        """The value as JSON, which `of_description` reads."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        """The value of these properties; None where one is missing, unknown or of another type."""
        known = {field.name: field for field in fields(cls)}
        if given.keys() != known.keys():
            return None
        if any(type(given[name]) is not type(field.default) for name, field in known.items()):
            return None
        return cls(**given)


@dataclass(frozen=True, slots=True)
class ByteBpe(Algorithm):
    """Byte pair encoding over bytes: every text can be encoded and comes back unchanged."""

    name: ClassVar[str] = "byte-bpe"
    default_pattern: ClassVar[str] = "gpt2"
    has_merges: ClassVar[bool] = True


BYTE_BPE = ByteBpe()
