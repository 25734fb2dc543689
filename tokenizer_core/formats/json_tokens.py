"""Vocabs and merges in JSON and merges.txt, as text or in GPT-2's printable characters.

In printable characters each byte is one character; special tokens stand in such a vocab as they
are.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import json_of, read_bounded, refuse, text_of
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.tokenizer_spec import TokenizerSpec
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

_FILES_OF_TOKENS = ("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json")
_FLAGS = ("single_word", "lstrip", "rstrip")
_POWERS = tuple(float(f"1e{power}") for power in range(309))


def number_as_serde(literal: str) -> float:
    """The float that serde_json, which ``tokenizers`` reads with, makes of a literal of JSON.

    It is rounded twice, so that of 17 digits the last may be another one than Python's.
    """
    number, _, power = literal.lower().partition("e")
    whole, _, behind = number.partition(".")
    significand, exponent = int(whole + behind), int(power or 0) - len(behind)
    while abs(significand) >= 1 << 64:  # digits beyond are left out
        significand = int(str(significand)[:-1])
        exponent += 1
    made = float(significand)
    if exponent >= 0:
        return made * _POWERS[exponent] if exponent < len(_POWERS) else made * math.inf
    while made and exponent <= -len(_POWERS):
        made, exponent = made / _POWERS[-1], exponent + len(_POWERS) - 1
    return made / _POWERS[-exponent] if made else made


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
