"""Vocabs and merges in JSON and merges.txt, as text or printable characters.

GPT-2 writes each byte as one printable character, and special tokens as they are.
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
    """Parse a JSON number as serde_json (used by ``tokenizers``) does: rounded twice."""
    number, _, power = literal.lower().partition("e")
    whole, _, decimals = number.partition(".")
    significand, exponent = int(whole + decimals), int(power or 0) - len(decimals)
    while abs(significand) >= 1 << 64:  # serde_json drops further digits
        significand = int(str(significand)[:-1])
        exponent += 1
    value = float(significand)
    if exponent >= 0:
        return value * _POWERS[exponent] if exponent < len(_POWERS) else value * math.inf
    while value and exponent <= -len(_POWERS):
        value, exponent = value / _POWERS[-1], exponent + len(_POWERS) - 1
    return value / _POWERS[-exponent] if value else value


def json_text(value: Any, indent: int | None = None) -> bytes:
    """JSON with unescaped characters and a final line feed."""
    return (json.dumps(value, ensure_ascii=False, indent=indent) + "\n").encode()


def vocab_json_of_text(tokenizer: TokenizerParts) -> bytes:
    named = {tokenizer.spec.vocab[id_].decode(): id_ for id_ in sorted(tokenizer.spec.vocab)}
    return json_text(named, indent=0)


def merges_json(tokenizer: TokenizerParts) -> bytes:
    """[[left, right], …] as JSON in order of rank, one per line."""
    lines = [
        json.dumps([left.decode(), right.decode()], ensure_ascii=False)
        for left, right in tokenizer.spec.merges
    ]
    return ("[\n" + ",\n".join(lines) + "\n]\n").encode()


def require_names(named: Any, path: Path) -> None:
    """Raise `InvalidTokenizer` unless a vocab is an object."""
    if not isinstance(named, Mapping):
        refuse(path, "holds no vocab", "expected an object of token → id")


def add_names(named: Any, specials: Mapping[str, int], path: Path) -> None:
    """Add added tokens to a vocab; those already in it must have the same id."""
    require_names(named, path)
    for token, id_ in specials.items():
        if named.setdefault(token, id_) != id_:
            refuse(path, f"gives {token!r} two ids", "expected the same id in the vocab")


def read_plain_vocab(named: Any, path: Path) -> dict[int, bytes]:
    """id → UTF-8, from a JSON object of token → distinct id."""
    require_names(named, path)
    vocab: dict[int, bytes] = {}
    for token, id_ in named.items():
        if type(id_) is not int or id_ in vocab:
            refuse(
                path,
                f"gives {shown(token)} the id {shown(id_)}",
                "expected integers, each once",
            )
        vocab[id_] = plain_bytes(token, path)
    return vocab


def read_plain_merges(pairs: Any, path: Path) -> list[tuple[bytes, bytes]]:
    """Merges from a JSON list of pairs."""
    if not isinstance(pairs, list):
        refuse(path, "holds no merges", "expected a list of pairs")
    for rank, pair in enumerate(pairs):
        if not isinstance(pair, list) or list(map(type, pair)) != [str, str]:
            refuse(path, f"has no pair of tokens at merge {rank}: {shown(pair)}")
    return [(plain_bytes(left, path), plain_bytes(right, path)) for left, right in pairs]


def plain_bytes(token: str, path: Path) -> bytes:
    """A token in UTF-8; lone surrogates are refused."""
    try:
        return token.encode()
    except UnicodeEncodeError:
        refuse(path, f"holds {shown(token)}, which is not UTF-8")


def nothing_left_out(tokenizer: TokenizerParts) -> dict[str, Any]:
    """``left_out`` of a format that holds the whole tokenizer."""
    return {}


def pattern_left_out(tokenizer: TokenizerParts) -> str:
    """The split pattern for ``left_out``: its name, else its regex."""
    return tokenizer.spec.pattern.name or tokenizer.spec.pattern.regex


def refuse_other_algorithms(tokenizer: TokenizerParts, accepted: str, kind: type) -> None:
    """Raise `InvalidOption` if a format cannot hold the algorithm or the pipeline."""
    pipeline = tokenizer.spec.pipeline
    if pipeline is not None and (lost := pipeline.lost_without):
        raise InvalidOption(
            f"this tokenizer was imported with {lost}, which this format cannot hold",
            "expected hf, transformers or bpeline",
            "save it as 'hf' or 'bpeline'",
        )
    if not isinstance(tokenizer.spec.algorithm, kind):
        raise InvalidOption(
            f"this tokenizer uses the algorithm {tokenizer.spec.algorithm.name}",
            f"this format holds {accepted}",
            "save it as 'bpeline', which keeps every tokenizer",
        )


def refuse_tokens_beside(folder: Path, spec: TokenizerSpec) -> None:
    """Refuse tokens that transformers adds from files beside the vocab.

    Special tokens of the vocab may be listed, without flags that change where they are found.
    """
    for path in (folder / name for name in _FILES_OF_TOKENS):
        listed = json_of(read_bounded(path), path) if path.exists() else {}
        for token in _tokens_in(listed if isinstance(listed, Mapping) else {}, path.name):
            content, id_ = token.get("content"), token.get("id")
            vocab_id = spec.special_tokens.get(content) if isinstance(content, str) else None
            flags = [flag for flag in _FLAGS if token.get(flag)]
            if vocab_id is None or flags or (id_ is not None and str(id_) != str(vocab_id)):
                refuse(
                    path,
                    f"declares the token {shown(content)}{' with ' if flags else ''}"
                    f"{', '.join(flags)}, which differs from the vocab",
                    "expected special tokens of the vocab, without flags",
                    "load the tokenizer with transformers, write its tokenizer.json with "
                    "save_pretrained(FOLDER), and load that",
                )


def _tokens_in(listed: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    if name == _FILES_OF_TOKENS[0]:
        return [{"content": content, "id": id_} for content, id_ in listed.items()]
    declared = listed.get("added_tokens_decoder")
    tokens = declared.items() if isinstance(declared, dict) else ()
    declared_tokens = [{**token, "id": id_} for id_, token in tokens if isinstance(token, dict)]
    for key, value in listed.items():
        if key.endswith("_token") or key == "additional_special_tokens":
            values = value if isinstance(value, list) else [value]
            declared_tokens += [{"content": token} for token in values if isinstance(token, str)]
            declared_tokens += [token for token in values if isinstance(token, dict)]
    return declared_tokens


_HEADER = "#version: 0.2"
_TO_PRINTABLE = dict(printable_bytes())
_NO_BYTE = 256
# By code point; the last entry stands for all higher ones.
_FROM_PRINTABLE = np.full(max(map(ord, printable_bytes().values())) + 2, _NO_BYTE, np.uint16)
_FROM_PRINTABLE[list(map(ord, printable_bytes().values()))] = list(printable_bytes())


def printable_tokens(tokens: Iterable[bytes]) -> list[str]:
    """Each token in printable characters, one per byte."""
    return [token.decode("latin-1").translate(_TO_PRINTABLE) for token in tokens]


def tokens_of_printable(names: Sequence[str]) -> list[bytes] | None:
    """Inverse of `printable_tokens`; None if a character stands for no byte."""
    values = _bytes_of_points(_code_points("".join(names)))
    if values.max(initial=0) == _NO_BYTE:
        return None
    content = values.astype(np.uint8).tobytes()
    edges = accumulate(map(len, names), initial=0)
    return [content[begin:end] for begin, end in pairwise(edges)]


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _bytes_of_points(points: NDArray[np.uint32]) -> NDArray[np.uint16]:
    return _FROM_PRINTABLE[np.minimum(points, len(_FROM_PRINTABLE) - 1)]


def named_vocab(
    tokenizer: TokenizerParts, vocab: Mapping[int, bytes] | None = None
) -> dict[str, int]:
    """Printable token → id, in order of id; special tokens as they are.

    Args:
        vocab: default: all of the tokenizer's vocab.
    """
    vocab = tokenizer.spec.spelled_vocab if vocab is None else vocab
    ids = sorted(vocab)
    special_names = {id_: token for token, id_ in tokenizer.spec.found_whole.items()}
    names = printable_tokens(vocab[id_] for id_ in ids)
    named = {special_names.get(id_, name): id_ for id_, name in zip(ids, names, strict=True)}
    if len(named) != len(ids):
        ambiguous = next(
            token
            for token, id_ in tokenizer.spec.special_tokens.items()
            if named.get(token, id_) != id_
            or token in printable_tokens(vocab[i] for i in ids if i != id_)
        )
        raise InvalidTokenizer(
            f"the special token {ambiguous!r} looks like an ordinary token in printable characters",
            "expected a different name for each token in vocab.json",
            "choose another special token such as '<|end|>'",
        )
    return named


def vocab_json(tokenizer: TokenizerParts) -> bytes:
    """vocab.json: printable token → id."""
    return json_text(named_vocab(tokenizer), indent=0)


def printable_merges(tokenizer: TokenizerParts) -> list[tuple[str, str]]:
    """Both parts of each merge in printable characters, by rank."""
    merges = tokenizer.spec.merges
    first = printable_tokens(left for left, _ in merges)
    second = printable_tokens(right for _, right in merges)
    return list(zip(first, second, strict=True))


def merges_txt(tokenizer: TokenizerParts) -> bytes:
    """merges.txt: a header, then one merge per line."""
    lines = [f"{left} {right}" for left, right in printable_merges(tokenizer)]
    return "\n".join([_HEADER, *lines, ""]).encode()


def read_vocab(named: Any, special_tokens: Collection[str], path: Path) -> Mapping[int, bytes]:
    """id → bytes, from printable names; a `TokenTable` unless two tokens are equal.

    Args:
        named: parsed JSON.
        special_tokens: names that are read as UTF-8.
    """
    validate_special_tokens(list(special_tokens))
    require_names(named, path)
    if set(map(type, named.values())) - {int}:
        name = next(name for name, id_ in named.items() if type(id_) is not int)
        refuse(path, f"gives {shown(name)} the id {shown(named[name])}", "expected integers")
    ordinary = dict(named)
    specials = {name: ordinary.pop(name) for name in special_tokens if name in ordinary}
    values = _bytes_of_points(_code_points("".join(ordinary)))
    if values.max(initial=0) == _NO_BYTE:
        name = next(name for name in ordinary if tokens_of_printable([name]) is None)
        refuse(
            path,
            f"holds the token {shown(name)}, which is not in GPT-2's printable characters",
            "expected one printable character for each byte",
            "pass it as a special token if it is one",
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
        refuse(path, f"gives the id {id_} to two tokens", "expected one token for each id")
    return vocab


def read_merges(names: Sequence[str], vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges from printable names: left, right, left, right, …

    Args:
        names: one flat list: 100,000 short lists would cost more in garbage collection than all
            other parsing.
        vocab: from `read_vocab`.
    """
    if set(map(type, names)) - {str} or "" in names:
        _refuse_name(next(n for n in names if not isinstance(n, str) or not n), path)
    lengths = np.fromiter(map(len, names), np.int64, len(names))
    return _merges_of_points(_code_points("".join(names)), lengths, vocab, path)


def read_merges_txt(text: str, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """`read_merges` from the text of `merges_text`, without a string for each name."""
    points = _code_points(text)
    gaps = (points == ord(" ")) | (points == ord("\n"))
    edges = np.flatnonzero(gaps) if text else np.zeros(0, np.int64)
    lengths = np.diff(edges, prepend=-1, append=len(points)) - 1
    return _merges_of_points(points[~gaps], lengths if text else edges, vocab, path)


def _merges_of_points(
    points: NDArray[np.uint32], lengths: NDArray[np.int64], vocab: Mapping[int, bytes], path: Path
) -> MergeList:
    """Merges from the code points of all names and the length of each name."""
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
            f"holds merge {rank}, whose result {shown(token)} is not in the vocab",
            "expected an ordinary token of the vocab",
        )
    return MergeList(vocab, left, right, results)


def _refuse_name(name: object, path: Path) -> NoReturn:
    refuse(
        path,
        f"holds a merge of {shown(name)}, which is not in the vocab",
        "expected two tokens of the vocab",
    )


def merges_text(content: bytes, path: Path) -> str:
    """Validate a merges.txt and return its lines without the optional header."""
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
