"""Which algorithm a tokenizer follows, as values; knows how none of them encodes.

A tokenizer of any algorithm is the same class `Tokenizer`: a vocab, special tokens, a split
pattern, sometimes merges, and one of these values. The value chooses the encoder and the decoder,
is part of the digest, and is stored with the tokenizer.

All but `ByteBpe` work *word by word* on the characters of a word: a word is a pre-token of the
split pattern (white space around it is dropped, by ``whitespace`` and ``wordpunct``). So equal
words have equal ids, each distinct word is encoded once, and a text comes back from its ids with
its words one space apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal

from bpeline.tokenizer_core.errors import InvalidTokenizer

Sentences = Literal["none", "lines", "punkt"]


@dataclass(frozen=True, slots=True)
class ByteBpe:
    """Byte pair encoding over bytes: every text can be encoded and comes back unchanged."""

    name: ClassVar[str] = "byte-bpe"
    default_pattern: ClassVar[str] = "gpt2"


@dataclass(frozen=True, slots=True)
class CharacterBpe:
    """Byte pair encoding over characters, with a symbol for the end of a word.

    A word is encoded by applying the merge of lowest rank at all its places, from left to right,
    until none applies (Sennrich et al. 2016, ``subword-nmt``).

    Attributes:
        end_of_word: the text that marks the end of a word in tokens: ``st</w>`` is not ``st``.
        joined: whether the mark is part of a word's last character (``subword-nmt`` 0.2) or a
            symbol of its own that merges may join (the paper, ``subword-nmt`` 0.1).
        unknown: the token of characters that the vocab does not hold.
    """

    name: ClassVar[str] = "char-bpe"
    default_pattern: ClassVar[str] = "whitespace"
    end_of_word: str = "</w>"
    joined: bool = False
    unknown: str = "<unk>"


@dataclass(frozen=True, slots=True)
class GreedyLongest:
    """The longest token found anywhere in a word first, then the same left and right of it.

    Tokens are longer by characters, the mark of the end of a word being one; among equally long
    ones the smaller id comes first. What no token covers becomes one unknown token per stretch.

    Attributes:
        end_of_word: the text that marks the end of a word in tokens.
        unknown: the token of what no other token covers.
    """

    name: ClassVar[str] = "greedy-longest"
    default_pattern: ClassVar[str] = "whitespace"
    end_of_word: str = "</w>"
    unknown: str = "</u>"


@dataclass(frozen=True, slots=True)
class WordPiece:
    """The longest token that begins a word, then the longest that goes on, and so forth.

    Attributes:
        continuation: what tokens begin with that go on inside a word.
        unknown: the one token of a whole word if any part of it is not in the vocab.
        max_word_characters: longer words are unknown.
    """

    name: ClassVar[str] = "wordpiece"
    default_pattern: ClassVar[str] = "wordpunct"
    continuation: str = "##"
    unknown: str = "[UNK]"
    max_word_characters: int = 100


@dataclass(frozen=True, slots=True)
class FrequencyBpe:
    """Character BPE in which not the rank of a merge but the frequency of its result decides.

    In a word, the leftmost of the neighbours whose joined text is most frequent are joined, one
    place at a time, until no neighbours join to a text with a frequency. Each sentence is put
    between ``line_begin`` and ``line_end``.

    Attributes:
        end_of_word: the symbol behind the last character of a word.
        unknown, line_begin, line_end: tokens of the vocab.
        sentences: ``none``: no marks; ``lines``: each line that has a word is a sentence;
            ``punkt``: sentences as NLTK's untrained Punkt tokenizer finds them.
        frequencies: (token, frequency) of every token that can be joined, most frequent first.
    """

    name: ClassVar[str] = "frequency-bpe"
    default_pattern: ClassVar[str] = "wordpunct"
    end_of_word: str = "</w>"
    unknown: str = "<unk>"
    line_begin: str = "<line/>"
    line_end: str = "</line>"
    sentences: Sentences = "punkt"
    frequencies: tuple[tuple[str, int], ...] = ()


OfWords = CharacterBpe | GreedyLongest | WordPiece | FrequencyBpe
Algorithm = ByteBpe | OfWords
BYTE_BPE = ByteBpe()
ALGORITHMS: dict[str, type[Any]] = {
    kind.name: kind for kind in (ByteBpe, CharacterBpe, GreedyLongest, WordPiece, FrequencyBpe)
}


def described(algorithm: Algorithm) -> dict[str, Any]:
    """An algorithm as JSON; `algorithm_of` reads it."""
    description = {"name": algorithm.name, **asdict(algorithm)}
    if isinstance(algorithm, FrequencyBpe):
        description["frequencies"] = [list(entry) for entry in algorithm.frequencies]
    return description


def algorithm_of(description: Any) -> Algorithm:
    """The algorithm that `described` wrote.

    Raises:
        InvalidTokenizer: an algorithm or a property of another name or type.
    """
    if isinstance(description, Mapping) and description.get("name") in ALGORITHMS:
        kind = ALGORITHMS[description["name"]]
        given = {name: value for name, value in description.items() if name != "name"}
        known = {field.name: field for field in fields(kind)}
        if given.keys() == known.keys():
            if "frequencies" in given:
                given["frequencies"] = _frequencies_of(given["frequencies"])
            if all(type(given[name]) is type(field.default) for name, field in known.items()):
                made: Algorithm = kind(**given)
                return made
    raise InvalidTokenizer(
        f"the algorithm is described as {str(description)[:80]}",
        f"algorithms are {', '.join(ALGORITHMS)}, each with its own properties",
        "upgrade bpeline, or export the tokenizer again",
    )


def _frequencies_of(listed: Any) -> Any:
    sound = isinstance(listed, list) and all(
        isinstance(entry, list) and list(map(type, entry)) == [str, int] for entry in listed
    )
    return tuple((token, frequency) for token, frequency in listed) if sound else None
