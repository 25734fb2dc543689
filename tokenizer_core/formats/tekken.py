"""Mistral's tekken.json: ranks with their split pattern; read, not written."""

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
# Of files that name none, in order of id: mistral_common, tekken.py, DEPRECATED_SPECIAL_TOKENS.
_SPECIAL_TOKENS = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
    "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
)  # fmt: skip
_NAMES_NONE = ("v1", "v2", "v3", "v7")  # later versions must name them


def save(tokenizer: TokenizerParts, path: Path) -> NoReturn:
    """Refuse: nothing but mistral-common reads the format.

    Raises:
        InvalidOption: always.
    """
    raise InvalidOption(
        "the format tekken is read and not written",
        "the formats that hold ranks or the whole tokenizer: tiktoken, hf and bpeline",
        "save it as 'bpeline', which keeps every tokenizer",
    )


def load(path: Path, *, pattern: SplitPattern | str | None = None) -> TokenizerSpec:
    """Read a tekken.json.

    The first ids are special tokens, those without a name ``<SPECIAL_n>``; the rank of a token is
    its id less their number. Of the ranks only as many count as the default size of the vocab says.

    Args:
        path: the file.
        pattern: the split pattern, instead of the one in the file.

    Raises:
        MissingSource: no such file.
        InvalidTokenizer: malformed, or a split pattern that is not a published one.
    """
    document = json_of(read_bounded(path), path)
    config = document.get("config") if isinstance(document, dict) else None
    entries = document.get("vocab") if isinstance(document, dict) else None
    if not isinstance(config, dict) or not isinstance(entries, list):
        refuse(path, "is not a tekken.json", "an object with config and vocab")
    size = _number(config, "default_vocab_size", path)
    first = _number(config, "default_num_special_tokens", path)
    if not 0 <= size - first <= len(entries):
        refuse(path, f"has {len(entries)} ranks for a vocab of {size} with {first} special tokens")
    vocab = {first + rank: _token(entries[rank], rank, path) for rank in range(size - first)}
    merges, some_unmade = merges_of_ranks(vocab, path)
    specials = _specials(document.get("special_tokens"), first, config.get("version"), path)
    vocab |= {id_: token.encode() for token, id_ in specials.items()}
    chosen = pattern or _pattern(config.get("pattern"), path)
    return TokenizerSpec.checked(vocab, merges, specials, chosen, ignore_merges=some_unmade)


def _number(config: dict[str, Any], key: str, path: Path) -> int:
    value = config.get(key)
    if type(value) is not int or not 0 <= value <= MAX_ID:
        refuse(path, f"has the {key} {str(value)[:40]}", f"a whole number up to {MAX_ID}")
    return value


def _token(entry: Any, rank: int, path: Path) -> bytes:
    try:
        if entry["rank"] != rank:
            raise ValueError(entry["rank"])
        return binascii.a2b_base64(entry["token_bytes"], strict_mode=True)
    except (KeyError, TypeError, ValueError):
        refuse(path, f"has no rank {rank} with base64 of its bytes at its place in the vocab")


def _specials(named: Any, number: int, version: Any, path: Path) -> dict[str, int]:
    if named is None:
        if version not in _NAMES_NONE:
            refuse(path, f"names no special tokens, and is of version {str(version)[:40]}",
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
                   f"each has a name and a rank below {number} of its own")  # fmt: skip
        specials[token] = id_
    if sorted(specials.values()) != list(range(len(specials))):
        refuse(path, "has special tokens whose ranks have gaps", "ranks from 0 without gaps")
    return specials | {f"<SPECIAL_{id_}>": id_ for id_ in range(len(specials), number)}


def _pattern(regex: Any, path: Path) -> SplitPattern:
    pattern = SplitPattern(regex) if isinstance(regex, str) and regex else None
    if pattern is None or pattern.name is None:
        refuse(
            path,
            f"has the split pattern {str(regex)[:200]!r}, which is not known to be read alike by "
            "tiktoken's engine and ours",
            f"those of {', '.join(NAMED_PATTERNS)}",
            "say how it cuts: Tokenizer.load(PATH, pattern=REGEX), and wherever a command takes a "
            f"tokenizer: {path},pattern=REGEX",
        )
    return pattern
