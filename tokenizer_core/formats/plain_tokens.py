"""Vocabs and merges whose tokens are text: as JSON, where any character may stand in a token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.vocabulary import TokenizerSpec, shown

_FILES_OF_TOKENS = ("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json")
_FLAGS = ("single_word", "lstrip", "rstrip")


def json_text(value: Any, indent: int | None = None) -> bytes:
    """A JSON file with every character as it is, ended by a line feed."""
    return (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode()


def vocab_json_of_text(tokenizer: TokenizerParts) -> bytes:
    """token → id, in order of id."""
    named = {tokenizer.spec.vocab[id_].decode(): id_ for id_ in sorted(tokenizer.spec.vocab)}
    return json_text(named, indent=0)


def merges_json(tokenizer: TokenizerParts) -> bytes:
    """[[left, right], …] in order of rank, a line each."""
    lines = [
        json.dumps([left.decode(), right.decode()], ensure_ascii=False)
        for left, right in tokenizer.spec.merges
    ]
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def require_names(named: Any, path: Path) -> None:
    """Raise `InvalidTokenizer` unless a vocab is an object."""
    if not isinstance(named, Mapping):
        refuse(path, "holds no vocab", "the vocab is an object of token → id")


def add_names(named: Any, specials: Mapping[str, int], path: Path) -> None:
    """Put added tokens into a vocab, where they may stand already, with the same id."""
    require_names(named, path)
    for token, id_ in specials.items():
        if named.setdefault(token, id_) != id_:
            refuse(path, f"gives {token!r} two ids", "one id in vocab and added_tokens")


def read_plain_vocab(named: Any, path: Path) -> dict[int, bytes]:
    """The vocab of a JSON object token → id.

    Raises:
        InvalidTokenizer: not an object of distinct whole numbers, or no UTF-8.
    """
    require_names(named, path)
    vocab: dict[int, bytes] = {}
    for token, id_ in named.items():
        if type(id_) is not int or id_ in vocab:
            refuse(path, f"gives {shown(token)} the id {shown(id_)}", "ids are whole numbers, once")
        vocab[id_] = plain_bytes(token, path)
    return vocab


def read_plain_merges(pairs: Any, path: Path) -> list[tuple[bytes, bytes]]:
    """Merges of a JSON list of pairs; raises `InvalidTokenizer` of anything else."""
    if not isinstance(pairs, list):
        refuse(path, "holds no merges", "merges are a list of pairs")
    for rank, pair in enumerate(pairs):
        if not isinstance(pair, list) or list(map(type, pair)) != [str, str]:
            refuse(path, f"has no pair of tokens at merge {rank}: {shown(pair)}")
    return [(plain_bytes(left, path), plain_bytes(right, path)) for left, right in pairs]


def plain_bytes(token: str, path: Path) -> bytes:
    """A token in UTF-8; raises `InvalidTokenizer` of a lone surrogate."""
    try:
        return token.encode()
    except UnicodeEncodeError:
        refuse(path, f"holds {shown(token)}, which is not UTF-8")


def nothing_left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """``left_out`` of a format that holds everything a reader could be told."""
    return {}


def pattern_left_out(tokenizer: TokenizerParts) -> str:
    """The split pattern for a reader who is told of it: its name, else its regex."""
    return tokenizer.spec.pattern.name or tokenizer.spec.pattern.regex


def refuse_other_algorithms(tokenizer: TokenizerParts, accepted: str, kind: type) -> None:
    """Raise `InvalidOption` when a format cannot hold a tokenizer's algorithm, or its pipeline."""
    pipeline = tokenizer.spec.pipeline
    if pipeline is not None and (lost := pipeline.lost_without):
        raise InvalidOption(
            f"this tokenizer was imported with {lost}, which this format does not hold",
            "the formats hf, transformers and bpeline hold all of it",
            "save it as 'hf' or 'bpeline'",
        )
    if not isinstance(tokenizer.spec.algorithm, kind):
        raise InvalidOption(
            f"this tokenizer follows {tokenizer.spec.algorithm.name}",
            f"this format holds {accepted}",
            "save it as 'bpeline', which keeps every tokenizer",
        )


def refuse_tokens_beside(folder: Path, spec: TokenizerSpec) -> None:
    """Refuse tokens that transformers adds to a vocab from the files beside it.

    A special token of the vocab, found as it is written, is none of them.

    Raises:
        InvalidTokenizer: a token is another one, or has a flag that changes where it is found.
    """
    for path in (folder / name for name in _FILES_OF_TOKENS):
        listed = json_of(read_bounded(path), path) if path.exists() else {}
        for token in _tokens_in(listed if isinstance(listed, Mapping) else {}, path.name):
            content, id_ = token.get("content"), token.get("id")
            known = spec.special_tokens.get(content) if isinstance(content, str) else None
            flags = [flag for flag in _FLAGS if token.get(flag)]
            if known is None or flags or (id_ is not None and str(id_) != str(known)):
                refuse(
                    path,
                    f"declares the token {shown(content)}{' with ' if flags else ''}"
                    f"{', '.join(flags)}, which the vocab does not say",
                    "special tokens of the vocab, without flags",
                    "load the tokenizer with transformers, write its tokenizer.json with "
                    "save_pretrained(FOLDER), and load that",
                )


def _tokens_in(listed: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The tokens that a file of transformers declares, each with what is said of it."""
    if name == _FILES_OF_TOKENS[0]:
        return [{"content": content, "id": id_} for content, id_ in listed.items()]
    declared = listed.get("added_tokens_decoder")
    tokens = declared.items() if isinstance(declared, dict) else ()
    found = [{**token, "id": id_} for id_, token in tokens if isinstance(token, dict)]
    for key, value in listed.items():
        if key.endswith("_token") or key == "additional_special_tokens":
            named = value if isinstance(value, list) else [value]
            found += [{"content": token} for token in named if isinstance(token, str)]
            found += [token for token in named if isinstance(token, dict)]
    return found
