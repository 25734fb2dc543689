"""Foreign and own file formats of tokenizers: one file per format, no format knows another.

Each has ``save(tokenizer, path)``, ``load(path, ...)`` and ``left_out(tokenizer)``: what the files
do not hold and whoever reads them must be told, by its name in the reader. Two also have
``differences(tokenizer)``: texts that their programs read otherwise.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.companions import FORMATS_OF_COMPANIONS
from bpeline.tokenizer_core.errors import InvalidOption, MissingSource

FORMATS = {
    "bpeline": "bpeline.tokenizer_core.formats.bpeline",
    "hf": "bpeline.tokenizer_core.formats.huggingface",
    "transformers": "bpeline.tokenizer_core.formats.transformers",
    "gpt2": "bpeline.tokenizer_core.formats.gpt2",
    "tiktoken": "bpeline.tokenizer_core.formats.tiktoken",
    "gguf": "bpeline.tokenizer_core.formats.gguf",
    **FORMATS_OF_COMPANIONS,
}
WRITTEN_ONLY = {".model": "sentencepiece", ".gguf": "gguf"}

# What tells them: files of a directory, in this order; endings of a file's name.
_DIRECTORIES = {
    "bpeline": ("manifest.json",),
    "transformers": ("tokenizer.json",),
    "gpt2": ("vocab.json", "merges.txt"),
    "frequency-bpe": ("freqs.json", "vocab_to_idx.json"),
}
_SUFFIXES = {".json": "hf", ".tiktoken": "tiktoken", ".codes": "subword-nmt", **WRITTEN_ONLY}
_NAMES = {"vocab.txt": "wordpiece"}


def format_named(name: str) -> Any:
    """The module of a format.

    Raises:
        InvalidOption: there is no such format.
    """
    if name not in FORMATS:
        raise InvalidOption(
            f"there is no tokenizer format {name!r}",
            f"accepted: {', '.join(FORMATS)}",
            "use 'bpeline' to keep everything, 'hf' for HuggingFace",
        )
    return importlib.import_module(FORMATS[name])


def differences_of(name: str, tokenizer: Any) -> list[str]:
    """What the programs of a format are known to read otherwise, in a few words each.

    Raises:
        InvalidOption: there is no such format.
    """
    module = format_named(name)
    told: list[str] = module.differences(tokenizer) if hasattr(module, "differences") else []
    return told


def format_of(path: Path) -> str:
    """The name of the format that a path holds, told from the names of files alone.

    Raises:
        MissingSource: nothing is there.
        InvalidOption: no format looks like this.
    """
    if path.is_dir():
        for name, files in _DIRECTORIES.items():
            if name in FORMATS and all((path / file).exists() for file in files):
                return name
    elif not path.exists():
        raise MissingSource(
            f"there is no tokenizer at {path}",
            "a directory or file that Tokenizer.save wrote, or other tools did",
            "check the path",
        )
    else:
        told = _NAMES.get(path.name, _SUFFIXES.get(path.suffix, ""))
        if told in FORMATS:
            return told
    raise InvalidOption(
        f"the format of {path} cannot be told from its name",
        "a directory with manifest.json, with tokenizer.json, with vocab.json and merges.txt, or "
        "with freqs.json; a file *.json, *.tiktoken, *.codes or vocab.txt",
        f"name the format: Tokenizer.load(path, format=...), one of {', '.join(FORMATS)}",
    )
