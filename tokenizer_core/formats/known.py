"""The formats of tokenizers: one module each, with ``save``, ``load`` and ``left_out``.

``left_out(tokenizer)`` gives what a file does not hold and its reader must be given, by its
name in the reader. Some modules have ``differences(tokenizer)``, texts that their programs read
otherwise, or ``forgotten(tokenizer)``, what the format loses irrecoverably. Those in
`FORMATS_WITH_ROLES` write declared roles of special tokens.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import open_file
from bpeline.tokenizer_core.errors import InvalidOption, InvalidSpecialToken, MissingSource
from bpeline.tokenizer_core.plugins import FORMATS_OF_PLUGINS

MODEL_MAX_LENGTH = "model_max_length"
DECLARED = ("eos", "bos", "pad", MODEL_MAX_LENGTH)
FORMATS_WITH_ROLES = ("transformers", "gguf", "sentencepiece")
_POSITIVE = re.compile("[1-9][0-9]{0,29}")
_ROLE_NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "[BOS]"),
    "eos": ("</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "[EOS]"),
    "unk": ("<unk>", "[UNK]", "<|unk|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


def declared_roles(
    spelled: Iterable[str], special_tokens: Collection[str] | None = None
) -> dict[str, str]:
    """``ROLE=TOKEN`` as role → special token, or ``model_max_length`` → digits; the last one wins.

    Args:
        spelled: ``eos=<|endoftext|>``, ``model_max_length=8192``.
        special_tokens: of the tokenizer; None where they are not known yet.

    Raises:
        InvalidOption: another role, or a length that is no positive number.
        InvalidSpecialToken: a role of a text that is no special token.
    """
    roles: dict[str, str] = {}
    for text in spelled:
        role, _, token = text.partition("=")
        is_length = role == MODEL_MAX_LENGTH
        if role not in DECLARED or not token or (is_length and not _POSITIVE.fullmatch(token)):
            raise InvalidOption(
                f"the role {text!r} cannot be used",
                f"expected ROLE=TOKEN, with a role of {', '.join(DECLARED)}",
                "type `--role 'eos=<|endoftext|>'` or `--role model_max_length=8192`",
            )
        if not is_length and special_tokens is not None and token not in special_tokens:
            raise InvalidSpecialToken(
                f"the role {role} is declared for {token!r}, which is no special token here",
                f"special tokens: {', '.join(map(repr, special_tokens)) or 'none'}",
                f"name one of these, or train with `--special-token {token!r}`",
            )
        roles[role] = token
    return roles


def roles_of(
    special_tokens: Collection[str], declared: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Role (``bos``, ``eos``, ``unk``, ``pad``, ``cls``, ``sep``, ``mask``) → special token.

    Those declared win over names, see `declared_roles`.
    """
    by_name = [(role, name) for role, names in _ROLE_NAMES.items() for name in reversed(names)]
    pairs = [*by_name, *(declared or {}).items()]
    return {role: token for role, token in pairs if token in special_tokens}


def undeclared_roles(
    format: str, special_tokens: Collection[str], declared: Mapping[str, str]
) -> str:
    """Which roles an export took from names, and which it left out; may be empty."""
    roles = roles_of(special_tokens, declared)
    by_name = [f"{role} {token}" for role, token in roles.items() if role not in declared]
    expected = [role for role in DECLARED if role != MODEL_MAX_LENGTH or format == "transformers"]
    missing = [role for role in expected if role not in {**roles, **declared}]
    parts = {"by their names": by_name, "not declared, so left out:": missing}
    text = "; ".join(f"{title} {', '.join(listed)}" for title, listed in parts.items() if listed)
    return f"roles of special tokens: {text} (declare with --role ROLE=TOKEN)" if text else ""


FORMATS = {
    "bpeline": "bpeline.tokenizer_core.formats.bpeline",
    "hf": "bpeline.tokenizer_core.formats.huggingface",
    "transformers": "bpeline.tokenizer_core.formats.transformers",
    "gpt2": "bpeline.tokenizer_core.formats.gpt2",
    "tiktoken": "bpeline.tokenizer_core.formats.tiktoken",
    "tekken": "bpeline.tokenizer_core.formats.tekken",
    "gguf": "bpeline.tokenizer_core.formats.gguf",
    **FORMATS_OF_PLUGINS,
}

# What tells them: files of a directory, in this order; endings of a file's name.
_DIRECTORIES = {
    "bpeline": ("manifest.json",),
    "transformers": ("tokenizer.json",),
    "gpt2": ("vocab.json", "merges.txt"),
    "frequency-bpe": ("freqs.json", "vocab_to_idx.json"),
}
_SUFFIXES = {
    ".json": "hf", ".tiktoken": "tiktoken", ".codes": "subword-nmt", ".model": "sentencepiece",
    ".gguf": "gguf",
}  # fmt: skip
_NAMES = {"vocab.txt": "wordpiece"}
# Where names do not tell: how the content begins.
_BEGINNING = 1 << 16  # bytes
_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n")
_TEKKEN = re.compile(rb'\s*\{.*"num_vocab_tokens"\s*:', re.DOTALL)


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


def save_with_roles(name: str, tokenizer: Any, path: Path, roles: Mapping[str, str]) -> None:
    """Write a tokenizer in a format, with the declared roles where the format has a place for them.

    Raises:
        InvalidOption: there is no such format, or as its ``save``.
        InvalidTokenizer: as its ``save``.
    """
    declared = {"roles": roles} if name in FORMATS_WITH_ROLES else {}
    format_named(name).save(tokenizer, path, **declared)


def differences_of(name: str, tokenizer: Any) -> list[str]:
    """What the programs of a format are known to read otherwise, in a few words each.

    Raises:
        InvalidOption: there is no such format.
    """
    module = format_named(name)
    told: list[str] = module.differences(tokenizer) if hasattr(module, "differences") else []
    return told


def forgotten_by(name: str, tokenizer: Any) -> str:
    """What is lost for good with a format unless it is written down elsewhere; or nothing.

    Raises:
        InvalidOption: there is no such format.
    """
    module = format_named(name)
    told: str = module.forgotten(tokenizer) if hasattr(module, "forgotten") else ""
    return told


def format_of(path: Path) -> str:
    """The name of the format that a path holds.

    It is told from the names of files; where one name stands for two formats (.model, .json), from
    how the content begins.

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
        if path.suffix == ".model" and _RANK_LINE.match(_beginning(path)):
            told = "tiktoken"
        elif path.suffix == ".json" and _TEKKEN.match(_beginning(path)):
            told = "tekken"
        if told in FORMATS:
            return told
    raise InvalidOption(
        f"the format of {path} cannot be told from its name",
        "a directory with manifest.json, with tokenizer.json, with vocab.json and merges.txt, or "
        "with freqs.json; a file *.json, *.tiktoken, *.codes, *.model, *.gguf or vocab.txt",
        "give it the name of its format, such as model.json or ranks.tiktoken; or, in Python, name "
        f"the format: Tokenizer.load(path, format=...), one of {', '.join(FORMATS)}",
    )


def details_of(name: str, given: Mapping[str, object]) -> dict[str, object]:
    """Details for the ``load`` of a format, once it is known to understand them.

    Raises:
        InvalidOption: no such detail, or one with a value where none belongs, or without, or with
            one of another type.
    """
    load = format_named(name).load
    known = load.__kwdefaults__ or {}
    for detail, value in given.items():
        if detail not in known:
            raise InvalidOption(
                f"the format {name} has no detail {detail!r}",
                f"accepted: {', '.join(known) or 'none'}",
                "leave it out",
            )
        flag = isinstance(known[detail], bool)
        if flag is not isinstance(value, bool):
            raise InvalidOption(
                f"the detail {detail} of the format {name} was given {'as' if flag else 'without'} "
                f"{value if flag else 'a value'}",
                f"accepted: {detail}" if flag else f"accepted: {detail}=VALUE",
                f"leave the value out: {detail}" if flag else f"say which: {detail}=VALUE",
            )
    return dict(given)


def _beginning(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            return file.read(_BEGINNING)
    except OSError:
        return b""  # reading it says what is wrong
