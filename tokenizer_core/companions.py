"""The companion algorithms, one line each; imports none of them before it is asked for.

A folder of `tokenizer_core.algorithms` holds everything of its algorithm. Its face offers `KIND`,
the algorithm's value (a subclass of `Algorithm`), and `coders`, the encoder and the decoder of a
`TokenizerSpec`; its module ``explained`` says how words came to their tokens. Without its folder
and its line here all others work as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.vocabulary import BYTE_BPE, Algorithm

FOLDERS = "bpeline.tokenizer_core.algorithms"


@dataclass(frozen=True, slots=True)
class Companion:
    """An algorithm besides byte-level BPE.

    Attributes:
        folder: where it lives.
        formats: the file formats that it brings along, and their modules in the folder.
        huggingface_model: the type of model that its format ``huggingface`` reads and writes.
        gguf_model: the type of tokenizer in GGUF files that its module ``gguf_model`` reads.
        sentencepiece_writer: the module that writes its tokenizers as a .model.
    """

    folder: str
    formats: Mapping[str, str] = field(default_factory=dict)
    huggingface_model: str = ""
    gguf_model: str = ""
    sentencepiece_writer: str = ""

    def part(self, module: str = "") -> Any:
        """The folder's face, or one of its modules."""
        return import_module(".".join(filter(None, (FOLDERS, self.folder, module))))


COMPANIONS: dict[str, Companion] = {
    "char-bpe": Companion(
        "character_bpe",
        {"subword-nmt": "codes_file"},
        sentencepiece_writer="sentencepiece_file",
    ),
    "greedy-longest": Companion("greedy", {"greedy": "token_list"}),
    "wordpiece": Companion("wordpiece", {"wordpiece": "vocab_file"}, huggingface_model="WordPiece"),
    "frequency-bpe": Companion("frequency_bpe", {"frequency-bpe": "json_files"}),
    "sentencepiece-bpe": Companion(
        "sentencepiece_bpe",
        {"sentencepiece": "model_file"},
        huggingface_model="BPE",
        gguf_model="llama",
    ),
    "foreign": Companion("foreign"),
}

LAST_READ_BY = {"superword-bpe": "0.2.0"}  # algorithms that were removed

# The formats that companions bring along, and the modules that read and write them.
FORMATS_OF_COMPANIONS = {
    name: ".".join((FOLDERS, companion.folder, module))
    for companion in COMPANIONS.values()
    for name, module in companion.formats.items()
}


def kind_of(name: str) -> type[Algorithm]:
    """The class of an algorithm's value."""
    if name == BYTE_BPE.name:
        return type(BYTE_BPE)
    kind: type[Algorithm] = COMPANIONS[name].part().KIND
    return kind


def coders_of(spec: Any) -> Any:
    """The encoder and the decoder of a tokenizer of words, by its algorithm.

    Raises:
        InvalidTokenizer: the vocab does not suit the algorithm.
        InvalidOption: a library is missing.
    """
    return COMPANIONS[spec.algorithm.name].part().coders(spec)


def of_huggingface_model(kind: str) -> Companion | None:
    """Who reads and writes a type of model of a tokenizer.json; None for a type of nobody."""
    found = (one for one in COMPANIONS.values() if kind and one.huggingface_model == kind)
    return next(found, None)


def of_gguf_model(kind: str) -> Companion | None:
    """Who reads a type of tokenizer of GGUF files; None for a type of nobody."""
    found = (one for one in COMPANIONS.values() if kind and one.gguf_model == kind)
    return next(found, None)


def algorithm_of(description: Any) -> Algorithm:
    """The algorithm that `Algorithm.described` wrote.

    Raises:
        InvalidTokenizer: an algorithm or a property of another name or type.
    """
    name = str(description.get("name")) if isinstance(description, Mapping) else ""
    if name in (BYTE_BPE.name, *COMPANIONS):
        given = {key: value for key, value in description.items() if key != "name"}
        made = kind_of(name).of_description(given)
        if made is not None:
            return made
    raise InvalidTokenizer(
        f"the algorithm is described as {str(description)[:80]}",
        f"algorithms are {', '.join((BYTE_BPE.name, *COMPANIONS))}, each with its own properties",
        f"read it with bpeline {LAST_READ_BY[name]}, the last version that has {name}"
        if name in LAST_READ_BY
        else "upgrade bpeline, or export the tokenizer again",
    )
