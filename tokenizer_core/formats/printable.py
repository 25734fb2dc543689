"""Vocab and merges in GPT-2's printable characters, as vocab.json, merges.txt and others hold them.

Special tokens stand in such a vocab as they are; all other tokens one character per byte.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tokenizer_core.errors import InvalidTokenizer
from tokenizer_core.formats.bounded_files import refuse, text_of
from tokenizer_core.special_tokens import validate_special_tokens
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.vocab_rules import shown
from tokenizer_core.vocabulary import printable_bytes

_HEADER = "#version: 0.2"
_TO_PRINTABLE = dict(printable_bytes())
# Characters that stand for no byte become one that Latin-1 lacks, and so are found.
_FROM_PRINTABLE = dict.fromkeys(range(256), "\uffff") | {
    ord(character): byte for byte, character in printable_bytes().items()
}


def printable_tokens(tokens: Iterable[bytes]) -> list[str]:
    """Each token in printable characters, one per byte."""
    return [token.decode("latin-1").translate(_TO_PRINTABLE) for token in tokens]


def tokens_of_printable(names: Sequence[str]) -> list[bytes] | None:
    """The tokens that `printable_tokens` wrote, or None when a character stands for no byte."""
    try:
        content = "".join(names).translate(_FROM_PRINTABLE).encode("latin-1")
    except UnicodeEncodeError:
        return None
    edges = accumulate(map(len, names), initial=0)
    return [content[begin:end] for begin, end in pairwise(edges)]


def named_vocab(tokenizer: Tokenizer) -> dict[str, int]:
    """Printable token → id, ordered by id; special tokens as they are.

    Raises:
        InvalidTokenizer: a special token reads like an ordinary one.
    """
    ids = sorted(tokenizer.vocab)
    special_names = {id_: token for token, id_ in tokenizer.special_tokens.items()}
    names = printable_tokens(tokenizer.vocab[id_] for id_ in ids)
    named = {special_names.get(id_, name): id_ for id_, name in zip(ids, names, strict=True)}
    if len(named) != len(ids):
        taken = next(
            token
            for token, id_ in tokenizer.special_tokens.items()
            if named[token] != id_
            or token in printable_tokens(tokenizer.vocab[i] for i in ids if i != id_)
        )
        raise InvalidTokenizer(
            f"the special token {taken!r} reads like an ordinary token in printable characters",
            "in vocab.json each name is one token",
            "choose another special token such as '<|end|>'",
        )
    return named


def vocab_json(tokenizer: Tokenizer) -> bytes:
    """vocab.json: printable token → id."""
    return (json.dumps(named_vocab(tokenizer), ensure_ascii=False, indent=0) + "\n").encode()


def merges_txt(tokenizer: Tokenizer) -> bytes:
    """merges.txt: a header, then one merge per line."""
    merges = tokenizer.merges
    first = printable_tokens(left for left, _ in merges)
    second = printable_tokens(right for _, right in merges)
    lines = [f"{left} {right}" for left, right in zip(first, second, strict=True)]
    return "\n".join([_HEADER, *lines, ""]).encode()


def read_vocab(
    named: Any, special_tokens: Collection[str], path: Path
) -> tuple[dict[int, bytes], dict[str, bytes]]:
    """The vocab of printable names: id → bytes, and name → bytes.

    Args:
        named: what a JSON parser gave.
        special_tokens: names that stand for their own UTF-8.

    Raises:
        InvalidTokenizer: not a mapping of strings to distinct ids, or a name that is no token.
        InvalidSpecialToken: an empty special token, or one with a lone surrogate.
    """
    validate_special_tokens(list(special_tokens))
    if not isinstance(named, dict):
        refuse(path, "holds no vocab", "the vocab is an object of token → id")
    if set(map(type, named.values())) - {int}:
        name = next(name for name, id_ in named.items() if type(id_) is not int)
        refuse(path, f"gives {shown(name)} the id {shown(named[name])}", "ids are whole numbers")
    ordinary = [name for name in named if name not in special_tokens]
    tokens = tokens_of_printable(ordinary)
    if tokens is None:
        name = next(name for name in ordinary if tokens_of_printable([name]) is None)
        refuse(
            path,
            f"holds the token {shown(name)}, which is not in GPT-2's printable characters",
            "byte-level vocabs write each byte as one printable character",
            "name it as a special token if it is one",
        )
    bytes_of = dict(zip(ordinary, tokens, strict=True))
    bytes_of |= {name: name.encode() for name in special_tokens if name in named}
    vocab = {named[name]: token for name, token in bytes_of.items()}
    if len(vocab) != len(named):
        name = next(n for n, id_ in named.items() if vocab[id_] != bytes_of[n])
        refuse(path, f"gives the id {named[name]} to two tokens", "each id is one token")
    return vocab, bytes_of


def read_merges(
    names: Sequence[str], bytes_of: Mapping[str, bytes], path: Path
) -> list[tuple[bytes, bytes]]:
    """Merges given as printable names: left, right, left, right, …

    One flat list instead of 100,000 short ones: those cost more in the garbage collector than
    all the rest of reading.

    Raises:
        InvalidTokenizer: a name that the vocab lacks.
    """
    try:
        tokens = list(map(bytes_of.__getitem__, names))
    except (KeyError, TypeError):
        name = next(n for n in names if not isinstance(n, str) or n not in bytes_of)
        refuse(
            path,
            f"holds a merge of {shown(name)}, which the vocab lacks",
            "each merge joins two tokens of the vocab",
        )
    return list(zip(tokens[::2], tokens[1::2], strict=True))


def split_merges_txt(content: bytes, path: Path) -> list[str]:
    """The names in a merges.txt: left, right, left, right, …; its header is optional.

    Raises:
        InvalidTokenizer: not UTF-8, or a line that is not two names and a space between.
    """
    if content.startswith(b"#version"):
        content = content.partition(b"\n")[2]
    content = content.replace(b"\r\n", b"\n").removesuffix(b"\n")
    if not content:
        return []
    letters = np.frombuffer(content, np.uint8)
    separators = letters[(letters == ord(" ")) | (letters == ord("\n"))]
    names = text_of(content, path).replace("\n", " ").split(" ")
    alternate = (separators[::2] == ord(" ")).all() and (separators[1::2] == ord("\n")).all()
    if not alternate or len(separators) % 2 == 0 or "" in names:
        lines = content.split(b"\n")
        number = next(i for i, line in enumerate(lines) if not _is_pair(line))
        refuse(path, f"has no pair of tokens at merge {number}: {shown(lines[number])}")
    return names


def _is_pair(line: bytes) -> bool:
    return [bool(name) for name in line.split(b" ")] == [True, True]
