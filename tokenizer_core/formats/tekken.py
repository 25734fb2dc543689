"""Mistral's tekken.json: ranks with their split pattern. Read only."""

from __future__ import annotations

import binascii
from pathlib import Path
from typing import Any, NoReturn

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.formats.json_tokens import nothing_left_out
from bpeline.tokenizer_core.formats.ranks import merges_of_ranks
from bpeline.tokenizer_core.splitting import NAMED_PATTERNS, SplitPattern
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
from bpeline.tokenizer_core.vocabulary import MAX_ID

left_out = nothing_left_out
# For files without a list, by id: mistral_common, tekken.py, DEPRECATED_SPECIAL_TOKENS.
_SPECIAL_TOKENS = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip
_NAMES_NONE = ("v1", "v2", "v3", "v7")  # later versions must list them


def save(tokenizer: TokenizerParts, path: Path) -> NoReturn:
    """Raise `InvalidOption`: only mistral-common reads the format."""
    raise InvalidOption(
        "tekken files can be read, not written",
        "expected tiktoken, hf or bpeline",
        "save it as 'bpeline', which keeps every tokenizer",
    )


def load(path: Path, *, pattern: SplitPattern | str | None = None) -> TokenizerSpec:
    """Read a tekken.json; ``pattern`` replaces its split pattern.

    The first ids are special tokens, called ``<SPECIAL_n>`` where the file has no name. The id of
    another token is its rank plus their number. Only ranks below the default vocab size are used.
    """
    document = json_of(read_bounded(path), path)
    config = document.get("config") if isinstance(document, dict) else None
    entries = document.get("vocab") if isinstance(document, dict) else None
    if not isinstance(config, dict) or not isinstance(entries, list):
        refuse(path, "is not a tekken.json", "expected an object with config and vocab")
    size = _number(config, "default_vocab_size", path)
    first = _number(config, "default_num_special_tokens", path)
    if not 0 <= size - first <= len(entries):
        refuse(path, f"has {len(entries)} ranks for {size} tokens with {first} special tokens")
    vocab = {first + rank: _token(entries[rank], rank, path) for rank in range(size - first)}
    merges, some_unmade = merges_of_ranks(vocab, path)
    specials = _specials(document.get("special_tokens"), first, config.get("version"), path)
    vocab |= {id_: token.encode() for token, id_ in specials.items()}
    chosen = pattern or _pattern(config.get("pattern"), path)
    return TokenizerSpec.checked(vocab, merges, specials, chosen, ignore_merges=some_unmade)


def _number(config: dict[str, Any], key: str, path: Path) -> int:
    value = config.get(key)
    if type(value) is not int or not 0 <= value <= MAX_ID:
        refuse(path, f"has the {key} {str(value)[:40]}", f"expected an integer up to {MAX_ID}")
    return value


def _token(entry: Any, rank: int, path: Path) -> bytes:
    try:
        if entry["rank"] != rank:
            raise ValueError(entry["rank"])
        return binascii.a2b_base64(entry["token_bytes"], strict_mode=True)
    except (KeyError, TypeError, ValueError):
        refuse(path, f"lacks rank {rank} with base64 of its bytes at its place in the vocab")


def _specials(named: Any, number: int, version: Any, path: Path) -> dict[str, int]:
    if named is None:
        if version not in _NAMES_NONE:
            refuse(path, f"lists no special tokens, and is of version {str(version)[:40]}",
                   f"versions {', '.join(_NAMES_NONE)} may leave them out")  # fmt: skip
        named = [{"rank": id_, "token_str": token} for id_, token in enumerate(_SPECIAL_TOKENS)]
    specials: dict[str, int] = {}
    for entry in named if isinstance(named, list) else [named]:
        token = entry.get("token_str") if isinstance(entry, dict) else None
        id_ = entry.get("rank") if isinstance(entry, dict) else None
        if (
            not (isinstance(token, str) and type(id_) is int and 0 <= id_ < number)
            or token in specials
            or id_ in specials.values()
        ):
            refuse(path, f"has the special token {str(token)[:40]!r} with rank {str(id_)[:40]}",
                   f"expected names and ranks below {number}, each once")  # fmt: skip
        specials[token] = id_
    if sorted(specials.values()) != list(range(len(specials))):
        refuse(path, "has special tokens with gaps in their ranks", "expected ranks from 0 on")
    return specials | {f"<SPECIAL_{id_}>": id_ for id_ in range(len(specials), number)}


def _pattern(regex: Any, path: Path) -> SplitPattern:
    pattern = SplitPattern(regex) if isinstance(regex, str) and regex else None
    if pattern is None or pattern.name is None:
        refuse(
            path,
            f"has the split pattern {str(regex)[:200]!r}, which tiktoken's regex engine may read "
            "differently",
            f"expected one of {', '.join(NAMED_PATTERNS)}",
            "pass a pattern: in Python Tokenizer.load(PATH, pattern=REGEX), in a command "
            f"{path},pattern=REGEX",
        )
    return pattern
