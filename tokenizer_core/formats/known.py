"""The list of formats, their detection, and roles of special tokens.

Each format is a module with ``save``, ``load`` and ``left_out(tokenizer)``: what its reader must
be given besides the file, by name. Optional are ``differences(tokenizer)``: texts that other
programs read differently, and ``forgotten(tokenizer)``: what the format loses. ``save`` takes
``roles`` in `FORMATS_WITH_ROLES`.
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
ROLES = tuple(_ROLE_NAMES)


def declared_roles(
    spelled: Iterable[str], special_tokens: Collection[str] | None = None
) -> dict[str, str]:
    """Parse ``eos=<|endoftext|>`` or ``model_max_length=N``; a role's last value wins.

    Args:
        special_tokens: of the tokenizer; None skips the check.

    Raises:
        InvalidOption: an unknown role, or a length that is not a positive number.
        InvalidSpecialToken: not a special token.
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
                f"use one of these, or train with `--special-token {token!r}`",
            )
        roles[role] = token
    return roles


def roles_of(
    special_tokens: Collection[str], declared: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Map roles (bos, eos, unk, pad, cls, sep, mask) to special tokens.

    Roles follow from the usual names of tokens; declared roles take precedence.
    """
    by_name = [(role, name) for role, names in _ROLE_NAMES.items() for name in reversed(names)]
    pairs = [*by_name, *(declared or {}).items()]
    return {role: token for role, token in pairs if token in special_tokens}


def undeclared_roles(
    format: str, special_tokens: Collection[str], declared: Mapping[str, str]
) -> str:
    """Message about roles inferred from names and roles left out; may be empty."""
    roles = roles_of(special_tokens, declared)
    by_name = [f"{role} {token}" for role, token in roles.items() if role not in declared]
    expected = [role for role in DECLARED if role != MODEL_MAX_LENGTH or format == "transformers"]
    missing = [role for role in expected if role not in {**roles, **declared}]
    parts = {"from their names:": by_name, "not declared, left out:": missing}
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

# How formats are detected: files in a directory, in this order; suffixes of file names.
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
# How the content begins, where a suffix is shared by two formats.
_BEGINNING = 1 << 16  # bytes
_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n")
_TEKKEN = re.compile(rb'\s*\{.*"num_vocab_tokens"\s*:', re.DOTALL)


def format_named(name: str) -> Any:
    """Import the module of a format; `InvalidOption` for unknown names.

    Its ``save`` raises `DiskFull`, and `InvalidOption`, `InvalidTokenizer` or `InvalidPattern` if
    the format cannot hold the tokenizer. Its ``load`` raises `MissingSource` and
    `InvalidTokenizer`.
    """
    if name not in FORMATS:
        raise InvalidOption(
            f"there is no tokenizer format {name!r}",
            f"expected one of {', '.join(FORMATS)}",
            "use 'bpeline' to keep everything, 'hf' for HuggingFace",
        )
    return importlib.import_module(FORMATS[name])


def save_with_roles(name: str, tokenizer: Any, path: Path, roles: Mapping[str, str]) -> None:
    """Save a tokenizer, with its declared roles if the format can hold them."""
    declared = {"roles": roles} if name in FORMATS_WITH_ROLES else {}
    format_named(name).save(tokenizer, path, **declared)


def differences_of(name: str, tokenizer: Any) -> list[str]:
    """Texts that programs of a format are known to read differently, in a few words."""
    module = format_named(name)
    differences: list[str] = module.differences(tokenizer) if hasattr(module, "differences") else []
    return differences


def forgotten_by(name: str, tokenizer: Any) -> str:
    """Losses of a format, as text; "" for none."""
    module = format_named(name)
    description: str = module.forgotten(tokenizer) if hasattr(module, "forgotten") else ""
    return description


def format_of(path: Path) -> str:
    """Detect the format of a file or directory by its name.

    For .model and .json, which two formats share, the beginning of the content decides.

    Raises:
        MissingSource: nothing there.
        InvalidOption: no format matches.
    """
    if path.is_dir():
        for name, files in _DIRECTORIES.items():
            if name in FORMATS and all((path / file).exists() for file in files):
                return name
    elif not path.exists():
        raise MissingSource(
            f"there is no tokenizer at {path}",
            "expected a directory or file written by Tokenizer.save or by another tool",
            "check the path",
        )
    else:
        name_of_format = _NAMES.get(path.name, _SUFFIXES.get(path.suffix, ""))
        if path.suffix == ".model" and _RANK_LINE.match(_beginning(path)):
            name_of_format = "tiktoken"
        elif path.suffix == ".json" and _TEKKEN.match(_beginning(path)):
            name_of_format = "tekken"
        if name_of_format in FORMATS:
            return name_of_format
    raise InvalidOption(
        f"the format of {path} is unknown",
        "expected a directory with manifest.json, tokenizer.json, vocab.json and merges.txt, or "
        "freqs.json; or a file *.json, *.tiktoken, *.codes, *.model, *.gguf or vocab.txt",
        "rename it, such as model.json or ranks.tiktoken; or, in Python, pass "
        f"Tokenizer.load(path, format=...), one of {', '.join(FORMATS)}",
    )


def details_of(name: str, given: Mapping[str, object]) -> dict[str, object]:
    """Validate ``DETAIL`` and ``DETAIL=VALUE`` for the ``load`` of a format.

    Raises:
        InvalidOption: unknown detail, or a missing or unexpected value.
    """
    load = format_named(name).load
    parameters = load.__kwdefaults__ or {}
    for detail, value in given.items():
        if detail not in parameters:
            raise InvalidOption(
                f"the format {name} has no detail {detail!r}",
                f"expected one of these: {', '.join(parameters) or 'none'}",
                "leave it out",
            )
        is_flag = isinstance(parameters[detail], bool)
        if is_flag is not isinstance(value, bool):
            raise InvalidOption(
                f"the detail {detail} of the format {name} was given "
                f"{'as' if is_flag else 'without'} {value if is_flag else 'a value'}",
                f"expected {detail}" if is_flag else f"expected {detail}=VALUE",
                f"leave the value out: {detail}" if is_flag else f"add a value: {detail}=VALUE",
            )
    return dict(given)


def _beginning(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            return file.read(_BEGINNING)
    except OSError:
        return b""  # `load` reports the error
