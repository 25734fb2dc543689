"""Vocab and merges in GPT-2's printable characters, as vocab.json, merges.txt and others hold them.

Special tokens stand in such a vocab as they are; all other tokens one character per byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import refuse, text_of
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats.plain_tokens import json_text, require_names
from bpeline.tokenizer_core.vocabulary import (
    MAX_ID,
    MergeList,
    TokenTable,
    find_merges,
    printable_bytes,
    refuse_wrong_ids,
    shown,
    validate_special_tokens,
)

_HEADER = "#version: 0.2"
_TO_PRINTABLE = dict(printable_bytes())
_NO_BYTE = 256
# By code point; the last entry is for all that are higher.
_FROM_PRINTABLE = np.full(max(map(ord, printable_bytes().values())) + 2, _NO_BYTE, np.uint16)
_FROM_PRINTABLE[list(map(ord, printable_bytes().values()))] = list(printable_bytes())


def printable_tokens(tokens: Iterable[bytes]) -> list[str]:
    """Each token in printable characters, one per byte."""
    return [token.decode("latin-1").translate(_TO_PRINTABLE) for token in tokens]


def tokens_of_printable(names: Sequence[str]) -> list[bytes] | None:
    """The tokens that `printable_tokens` wrote, or None when a character stands for no byte."""
    values = _bytes_of_points(_code_points("".join(names)))
    if values.max(initial=0) == _NO_BYTE:
        return None
    content = values.astype(np.uint8).tobytes()
    edges = accumulate(map(len, names), initial=0)
    return [content[begin:end] for begin, end in pairwise(edges)]


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _bytes_of_points(points: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """The byte that each character stands for, or `_NO_BYTE`."""
    return _FROM_PRINTABLE[np.minimum(points, len(_FROM_PRINTABLE) - 1)]


def named_vocab(
    tokenizer: TokenizerParts, vocab: Mapping[int, bytes] | None = None
) -> dict[str, int]:
    """Printable token → id, ordered by id; special tokens as they are.

    Args:
        vocab: the part of the tokenizer's vocab that is named; None: all of it.

    Raises:
        InvalidTokenizer: a special token reads like an ordinary one.
    """
    vocab = tokenizer.spec.spelled_vocab if vocab is None else vocab
    ids = sorted(vocab)
    special_names = {id_: token for token, id_ in tokenizer.spec.found_whole.items()}
    names = printable_tokens(vocab[id_] for id_ in ids)
    named = {special_names.get(id_, name): id_ for id_, name in zip(ids, names, strict=True)}
    if len(named) != len(ids):
        taken = next(
            token
            for token, id_ in tokenizer.spec.special_tokens.items()
            if named.get(token, id_) != id_
            or token in printable_tokens(vocab[i] for i in ids if i != id_)
        )
        raise InvalidTokenizer(
            f"the special token {taken!r} reads like an ordinary token in printable characters",
            "in vocab.json each name is one token",
            "choose another special token such as '<|end|>'",
        )
    return named


def vocab_json(tokenizer: TokenizerParts) -> bytes:
    """vocab.json: printable token → id."""
    return json_text(named_vocab(tokenizer), indent=0)


def printable_merges(tokenizer: TokenizerParts) -> list[tuple[str, str]]:
    """Both sides of each merge in printable characters, by rank."""
    merges = tokenizer.spec.merges
    first = printable_tokens(left for left, _ in merges)
    second = printable_tokens(right for _, right in merges)
    return list(zip(first, second, strict=True))


def merges_txt(tokenizer: TokenizerParts) -> bytes:
    """merges.txt: a header, then one merge per line."""
    lines = [f"{left} {right}" for left, right in printable_merges(tokenizer)]
    return "\n".join([_HEADER, *lines, ""]).encode()


def read_vocab(named: Any, special_tokens: Collection[str], path: Path) -> Mapping[int, bytes]:
    """The vocab of printable names: id → bytes; a `TokenTable` unless two tokens are equal.

    Args:
        named: what a JSON parser gave.
        special_tokens: names that stand for their own UTF-8.

    Raises:
        InvalidTokenizer: not a mapping of strings to distinct ids, or a name that is no token.
        InvalidSpecialToken: an empty special token, or one with a lone surrogate.
    """
    validate_special_tokens(list(special_tokens))
    require_names(named, path)
    if set(map(type, named.values())) - {int}:
        name = next(name for name, id_ in named.items() if type(id_) is not int)
        refuse(path, f"gives {shown(name)} the id {shown(named[name])}", "ids are whole numbers")
    ordinary = dict(named)
    specials = {name: ordinary.pop(name) for name in special_tokens if name in ordinary}
    values = _bytes_of_points(_code_points("".join(ordinary)))
    if values.max(initial=0) == _NO_BYTE:
        name = next(name for name in ordinary if tokens_of_printable([name]) is None)
        refuse(
            path,
            f"holds the token {shown(name)}, which is not in GPT-2's printable characters",
            "byte-level vocabs write each byte as one printable character",
            "name it as a special token if it is one",
        )
    tokens = b"".join((values.astype(np.uint8).tobytes(), *map(str.encode, specials)))
    sizes = [*map(len, ordinary), *(len(name.encode()) for name in specials)]
    ids = [*ordinary.values(), *specials.values()]
    if ids and min(ids) >= 0 and max(ids) <= MAX_ID:
        table = TokenTable.sound(tokens, np.array(sizes, np.int64), np.array(ids, np.int64))
        if table is not None:
            return table
    edges = accumulate(sizes, initial=0)
    vocab = {id_: tokens[a:b] for id_, (a, b) in zip(ids, pairwise(edges), strict=True)}
    if len(vocab) != len(named):
        id_, _ = Counter(named.values()).most_common(1)[0]
        refuse(path, f"gives the id {id_} to two tokens", "each id is one token")
    return vocab


def read_merges(names: Sequence[str], vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges given as printable names: left, right, left, right, …

    Args:
        names: one flat list instead of 100,000 short ones: those cost more in the garbage
            collector than all the rest of reading.
        vocab: what `read_vocab` gave.

    Raises:
        InvalidTokenizer: a name that the vocab lacks, or makes with another what the vocab lacks.
    """
    if set(map(type, names)) - {str} or "" in names:
        _refuse_name(next(n for n in names if not isinstance(n, str) or not n), path)
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    return _merges_of_points(_code_points("".join(names)), lengths, vocab, path)


def read_merges_txt(text: str, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges as `merges_text` gives them, without a string for each name; see `read_merges`."""
    points = _code_points(text)
    gaps = (points == ord(" ")) | (points == ord("\n"))
    edges = np.flatnonzero(gaps) if text else np.zeros(0, np.int64)
    lengths = np.diff(edges, prepend=-1, append=len(points)) - 1
    return _merges_of_points(points[~gaps], lengths if text else edges, vocab, path)


def _merges_of_points(
    points: NDArray[np.uint32], lengths: NDArray[np.int64], vocab: Mapping[int, bytes], path: Path
) -> MergeList:
    """Merges of names in code points: left, right, left, right, …; and the length of each name."""
    values = _bytes_of_points(points)
    ends = np.cumsum(lengths)
    foreign = np.flatnonzero(values == _NO_BYTE)
    if len(foreign):
        number = int(np.searchsorted(ends, foreign[0], "right"))
        name = points[ends[number] - lengths[number] : ends[number]].tobytes()
        _refuse_name(name.decode("utf-32-le", "surrogatepass"), path)
    if not isinstance(vocab, TokenTable):
        refuse_wrong_ids(vocab)
    parts = values.astype(np.uint8).tobytes()
    left, right, results = find_merges(vocab, parts, lengths)
    unknown = np.flatnonzero(np.column_stack((left, right)) < 0)
    if len(unknown):
        end = int(ends[unknown[0]])
        name = parts[end - int(lengths[unknown[0]]) : end]
        _refuse_name(printable_tokens([name])[0], path)
    if results.min(initial=0) < 0:
        rank = int(np.argmin(results))
        token = vocab[int(left[rank])] + vocab[int(right[rank])]
        refuse(
            path,
            f"holds merge {rank}, which makes {shown(token)}, which the vocab lacks",
            "the result of a merge is an ordinary token of the vocab",
        )
    return MergeList(vocab, left, right, results)


def _refuse_name(name: object, path: Path) -> NoReturn:
    refuse(
        path,
        f"holds a merge of {shown(name)}, which the vocab lacks",
        "each merge joins two tokens of the vocab",
    )


def merges_text(content: bytes, path: Path) -> str:
    """The lines of a merges.txt, each two names and a space between; its header is optional.

    Raises:
        InvalidTokenizer: not UTF-8, or a line that is not two names and a space between.
    """
    if content.startswith(b"#version"):
        content = content.partition(b"\n")[2]
    content = content.replace(b"\r\n", b"\n").removesuffix(b"\n")
    if not content:
        return ""
    letters = np.frombuffer(content, np.uint8)
    places = np.flatnonzero((letters == ord(" ")) | (letters == ord("\n")))
    separators = letters[places]
    alternate = (separators[::2] == ord(" ")).all() and (separators[1::2] == ord("\n")).all()
    nameless = np.diff(places, prepend=-1, append=len(letters)).min() < 2
    if not alternate or len(separators) % 2 == 0 or nameless:
        lines = content.split(b"\n")
        number = next(i for i, line in enumerate(lines) if not _is_pair(line))
        refuse(path, f"has no pair of tokens at merge {number}: {shown(lines[number])}")
    return text_of(content, path)


def _is_pair(line: bytes) -> bool:
    return [bool(name) for name in line.split(b" ")] == [True, True]
