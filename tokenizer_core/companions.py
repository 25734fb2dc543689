"""The algorithms beside byte-level BPE, one entry each; a module is imported at its first use.

The module of an algorithm in `tokenizer_core.algorithms` offers `KIND`, the class of its value (a
subclass of `Algorithm`), `coders`, the encoder and the decoder of a `TokenizerSpec`, and
`explained`, which says how words came to their tokens. Remove the files whose names begin with the
module's name, and the entry, and all other algorithms work as before; only sentencepiece-bpe and
unigram, whose models have one kind of file, go together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bpeline.tokenizer_core.errors import InvalidTokenizer

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer_spec import Algorithm

BYTE_LEVEL = "byte-bpe"
ROOM = "bpeline.tokenizer_core.algorithms"


@dataclass(frozen=True, slots=True)
class Companion:
    """An algorithm besides byte-level BPE."""

    module: str
    format: str = ""  # the file format that only this algorithm has
    files: str = ""  # the module that reads and writes files of the algorithm
    huggingface_model: str = ""  # the type of model in tokenizer.json that ``files`` reads
    gguf_model: str = ""  # the type of tokenizer in GGUF files that ``files`` reads

    @property
    def home(self) -> Any:
        """The module of the algorithm."""
        return import_module(f"{ROOM}.{self.module}")

    @property
    def reader(self) -> Any:
        """The module of its files."""
        return import_module(f"{ROOM}.{self.files}")


COMPANIONS: dict[str, Companion] = {
    "char-bpe": Companion("character_bpe", "subword-nmt", "character_bpe"),
    "greedy-longest": Companion("greedy", "greedy", "greedy"),
    "wordpiece": Companion("wordpiece", "wordpiece", "wordpiece", huggingface_model="WordPiece"),
    "frequency-bpe": Companion("frequency_bpe", "frequency-bpe", "frequency_bpe"),
    "sentencepiece-bpe": Companion(
        "sentencepiece_bpe",
        "sentencepiece",
        "sentencepiece_bpe_files",
        huggingface_model="BPE",
        gguf_model="llama",
    ),
    "unigram": Companion("unigram", files="unigram", huggingface_model="Unigram"),
}

LAST_READ_BY = {"superword-bpe": "0.2.0", "foreign": "0.2.0"}  # algorithms that were removed

FORMATS_OF_COMPANIONS = {
    companion.format: f"{ROOM}.{companion.files}"
    for companion in COMPANIONS.values()
    if companion.format
}


def kind_of(name: str) -> type[Algorithm]:
    """The class of an algorithm's value."""
    if name == BYTE_LEVEL:
        from bpeline.tokenizer_core.tokenizer_spec import ByteBpe

        return ByteBpe
    kind: type[Algorithm] = COMPANIONS[name].home.KIND
    return kind


def coders_of(spec: Any) -> Any:
    """The encoder and the decoder of a tokenizer of words, by its algorithm.

    Raises:
        InvalidTokenizer: the vocab does not suit the algorithm.
        InvalidOption: a library is missing.
    """
    return COMPANIONS[spec.algorithm.name].home.coders(spec)


def of_huggingface_model(kind: str) -> Companion | None:
    """The algorithm of a type of model in tokenizer.json, or None."""
    found = (one for one in COMPANIONS.values() if kind and one.huggingface_model == kind)
    return next(found, None)


def of_gguf_model(kind: str) -> Companion | None:
    """The algorithm of a type of tokenizer in GGUF files, or None."""
    found = (one for one in COMPANIONS.values() if kind and one.gguf_model == kind)
    return next(found, None)


def algorithm_of(description: Any) -> Algorithm:
    """The algorithm that `Algorithm.described` wrote.

    Raises:
        InvalidTokenizer: an algorithm or a property of another name or type.
    """
    name = str(description.get("name")) if isinstance(description, Mapping) else ""
    if name in (BYTE_LEVEL, *COMPANIONS):
        given = {key: value for key, value in description.items() if key != "name"}
        made = kind_of(name).of_description(given)
        if made is not None:
            return made
    raise InvalidTokenizer(
        f"the algorithm is described as {str(description)[:80]}",
        f"algorithms are {', '.join((BYTE_LEVEL, *COMPANIONS))}, each with its own properties",
        f"read it with bpeline {LAST_READ_BY[name]}, the last version that has {name}"
        if name in LAST_READ_BY
        else "upgrade bpeline, or export the tokenizer again",
    )
