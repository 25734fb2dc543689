"""Registry of the algorithms besides byte-level BPE, imported at first use.

Each module in `tokenizer_core.algorithms` defines `KIND`, a subclass of `Algorithm`; `coders`,
which returns the encoder and decoder of a `TokenizerSpec`; and `explained`, which explains the
tokens of words. An algorithm can be removed by deleting its entry and the files named after its
module; sentencepiece-bpe and unigram share a file format and go together.
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
class AlgorithmPlugin:
    """An algorithm besides byte-level BPE, with its modules and file formats."""

    module: str
    format: str = ""  # a file format of this algorithm alone
    files: str = ""  # the module that reads and writes its files
    huggingface_model: str = ""  # the model type in tokenizer.json that ``files`` reads
    gguf_model: str = ""  # the tokenizer type in GGUF files that ``files`` reads

    @property
    def home(self) -> Any:
        return import_module(f"{ROOM}.{self.module}")

    @property
    def reader(self) -> Any:
        return import_module(f"{ROOM}.{self.files}")


PLUGINS: dict[str, AlgorithmPlugin] = {
    "char-bpe": AlgorithmPlugin("character_bpe", "subword-nmt", "character_bpe"),
    "greedy-longest": AlgorithmPlugin("greedy", "greedy", "greedy"),
    "wordpiece": AlgorithmPlugin(
        "wordpiece", "wordpiece", "wordpiece", huggingface_model="WordPiece"
    ),
    "frequency-bpe": AlgorithmPlugin("frequency_bpe", "frequency-bpe", "frequency_bpe"),
    "sentencepiece-bpe": AlgorithmPlugin(
        "sentencepiece_bpe",
        "sentencepiece",
        "sentencepiece_bpe_files",
        huggingface_model="BPE",
        gguf_model="llama",
    ),
    "unigram": AlgorithmPlugin("unigram", files="unigram", huggingface_model="Unigram"),
}

LAST_READ_BY = {"superword-bpe": "0.2.0", "foreign": "0.2.0"}  # removed algorithms

FORMATS_OF_PLUGINS = {
    plugin.format: f"{ROOM}.{plugin.files}" for plugin in PLUGINS.values() if plugin.format
}


def kind_of(name: str) -> type[Algorithm]:
    """Return the `Algorithm` subclass of an algorithm."""
    if name == BYTE_LEVEL:
        from bpeline.tokenizer_core.tokenizer_spec import ByteBpe

        return ByteBpe
    kind: type[Algorithm] = PLUGINS[name].home.KIND
    return kind


def coders_of(spec: Any) -> Any:
    """Return the encoder and decoder of a spec."""
    return PLUGINS[spec.algorithm.name].home.coders(spec)


def of_huggingface_model(kind: str) -> AlgorithmPlugin | None:
    """Return the algorithm of a tokenizer.json model type, or None."""
    matches = (entry for entry in PLUGINS.values() if kind and entry.huggingface_model == kind)
    return next(matches, None)


def of_gguf_model(kind: str) -> AlgorithmPlugin | None:
    """Return the algorithm of a GGUF tokenizer type, or None."""
    matches = (entry for entry in PLUGINS.values() if kind and entry.gguf_model == kind)
    return next(matches, None)


def algorithm_of(description: Any) -> Algorithm:
    """Return the algorithm that `Algorithm.described` wrote."""
    name = str(description.get("name")) if isinstance(description, Mapping) else ""
    if name in (BYTE_LEVEL, *PLUGINS):
        properties = {key: value for key, value in description.items() if key != "name"}
        algorithm = kind_of(name).of_description(properties)
        if algorithm is not None:
            return algorithm
    raise InvalidTokenizer(
        f"unknown algorithm or properties: {str(description)[:80]}",
        f"expected one of {', '.join((BYTE_LEVEL, *PLUGINS))}, with its own properties",
        f"read it with bpeline {LAST_READ_BY[name]}, the last version that has {name}"
        if name in LAST_READ_BY
        else "upgrade bpeline, or export the tokenizer again",
    )
