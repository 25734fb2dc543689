"""Vocab and merges in GPT-2's printable characters, as vocab.json, merges.txt and others hold them.

Special tokens stand in such a vocab as they are; all other tokens one character per byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.bounded_files import MAX_PARTS, parse_json, refuse, text_of
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.formats.plain_tokens import json_text, require_names
from bpeline.tokenizer_core.kernels.scanning.json_merges import (
    NO_BYTE,
    spell_merge_lines,
    spell_merges,
)
from bpeline.tokenizer_core.kernels.scanning.json_vocab import spell_vocab
from bpeline.tokenizer_core.vocabulary import (
    MergeList,
    TokenTable,
    find_merges,
    printable_bytes,
    refuse_wrong_ids,
    shown,
    validate_special_tokens,
)

_HEADER = "#version: 0.2"
_SMALL = 1 << 18  # bytes: parsed sooner than a kernel is loaded
_PARTS_OF_MERGE = 3  # of JSON: a list of two
_MOST_OTHERS = 1 << 16  # names in other characters, beyond which a parser reads the vocab
_TO_PRINTABLE = dict(printable_bytes())
# By code unit of UTF-16.
_NO_BYTE = NO_BYTE
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


@dataclass(frozen=True, slots=True, eq=False)
class SpelledMerges:
    """Merges as a file spells them: left, right, left, right, …

    Attributes:
        parts: the bytes of them all, joined.
        lengths: int64 ``[2n]`` of each.
    """

    parts: bytes
    lengths: NDArray[np.int64]


def cut_out_merges(content: bytes) -> tuple[bytes, SpelledMerges] | None:
    """A tokenizer.json with an empty list of merges, and its merges.

    None where it is small, or does not hold merges as nearly all such files do: then a parser of
    JSON reads it whole, and refuses what is to be refused.
    """
    if len(content) < _SMALL:
        return None
    names = np.empty(len(content), np.uint8)
    lengths = np.empty(content.count(b'"'), np.int64)
    place = np.zeros(2, np.int64)
    text = np.frombuffer(content, np.uint8)
    number = spell_merges(text, _FROM_PRINTABLE, names, lengths, place)
    parts = names[: lengths[:number].sum()].tobytes()
    # A version may stand first, which is no merge; it is sought where it could be anything.
    if number == 0 or b"#version" in parts or _PARTS_OF_MERGE * number > 2 * MAX_PARTS:
        return None
    begin, end = place.tolist()
    rest = b"".join((content[:begin], b"[]", content[end:]))
    return rest, SpelledMerges(parts, lengths[:number].copy())


class SpelledVocab(Mapping[str, int]):
    """The vocab of a JSON file that no parser has read: name → id.

    Attributes:
        table: tokens whose names are in printable characters.
        others: all other names, none of them empty.
    """

    __slots__ = ("others", "table")

    def __init__(self, table: TokenTable, others: dict[str, int]) -> None:
        self.table = table
        self.others = others

    def __getitem__(self, name: str) -> int:
        if name in self.others:
            return self.others[name]
        token = tokens_of_printable([name])
        id_ = -1 if token is None else self.table.id_of(token[0])
        if id_ < 0:
            raise KeyError(name)
        return id_

    def __iter__(self) -> Iterator[str]:
        yield from printable_tokens(self.table.values())
        yield from self.others

    def __len__(self) -> int:
        return len(self.table) + len(self.others)

    def parsed(self) -> dict[str, int]:
        """What a parser gives, in another order."""
        names = printable_tokens(self.table.values())
        return dict(zip(names, self.table.ids.tolist(), strict=True)) | self.others

    def tokens(self, special_tokens: Collection[str]) -> TokenTable | None:
        """`read_vocab`; None where a name or an id has to be looked at more closely."""
        if self.others.keys() - special_tokens:
            return None
        if not all(map(str.isascii, self.table_names(special_tokens))):
            return None  # as a special token it stands for other bytes
        return self.table.with_tokens({id_: name.encode() for name, id_ in self.others.items()})

    def table_names(self, names: Iterable[str]) -> list[str]:
        """Which of these are names of the table."""
        return [name for name in names if name not in self.others and name in self]


def cut_out_vocab(content: bytes, in_model: bool) -> tuple[bytes, SpelledVocab] | None:
    """A tokenizer.json with an empty vocab, and its vocab; or a vocab.json that is one.

    None where it is small, or does not hold ids and names as nearly all such files do: then a
    parser of JSON reads it whole, and refuses what is to be refused.
    """
    if len(content) < _SMALL:
        return None
    names, place = np.empty(len(content), np.uint8), np.zeros(3, np.int64)
    lengths, ids = np.empty((2, content.count(b":")), np.int64)
    found = np.empty((_MOST_OTHERS, 3), np.int64)
    text = np.frombuffer(content, np.uint8)
    number = spell_vocab(text, in_model, _FROM_PRINTABLE, names, lengths, ids, found, place)
    if number == 0 or number > MAX_PARTS:
        return None
    begin, end, count = place.tolist()
    others = dict[str, int]()
    for first, last, id_ in found[:count].tolist():
        try:
            name = parse_json(content[first:last])
        except ValueError:
            return None
        if not name or tokens_of_printable([name]) is not None or name in others:
            return None
        others[name] = id_
    lengths = lengths[:number].copy()
    table = TokenTable.sound(names[: lengths.sum()].tobytes(), lengths, ids[:number].copy())
    if table is None:
        return None
    return b"".join((content[:begin], b"{}", content[end:])), SpelledVocab(table, others)


def spelled_lines(content: bytes) -> SpelledMerges | None:
    """The merges of a merges.txt; None where `merges_text` has to look at it."""
    if len(content) < _SMALL:
        return None
    begin = content.find(b"\n") + 1 if content.startswith(b"#version") else 0
    names = np.empty(len(content), np.uint8)
    lengths = np.empty(2 * content.count(b"\n"), np.int64)
    text = np.frombuffer(content, np.uint8)
    number = spell_merge_lines(text, begin, _FROM_PRINTABLE, names, lengths)
    if number == 0:
        return None
    lengths = lengths[:number].copy()
    return SpelledMerges(names[: lengths.sum()].tobytes(), lengths)


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
    """The vocab of printable names: id → bytes.

    Args:
        named: what a JSON parser gave, or `cut_out_vocab`.
        special_tokens: names that stand for their own UTF-8.

    Raises:
        InvalidTokenizer: not a mapping of strings to distinct ids, or a name that is no token.
        InvalidSpecialToken: an empty special token, or one with a lone surrogate.
    """
    validate_special_tokens(list(special_tokens))
    if isinstance(named, SpelledVocab):
        table = named.tokens(special_tokens)
        if table is not None:
            return table
        named = named.parsed()
    require_names(named, path)
    if set(map(type, named.values())) - {int}:
        name = next(name for name, id_ in named.items() if type(id_) is not int)
        refuse(path, f"gives {shown(name)} the id {shown(named[name])}", "ids are whole numbers")
    ordinary = dict(named)
    for name in special_tokens:
        ordinary.pop(name, None)
    tokens = tokens_of_printable(list(ordinary))
    if tokens is None:
        name = next(name for name in ordinary if tokens_of_printable([name]) is None)
        refuse(
            path,
            f"holds the token {shown(name)}, which is not in GPT-2's printable characters",
            "byte-level vocabs write each byte as one printable character",
            "name it as a special token if it is one",
        )
    vocab = dict(zip(ordinary.values(), tokens, strict=True))
    vocab |= {named[name]: name.encode() for name in special_tokens if name in named}
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
    return find_spelled(_spelled(_code_points("".join(names)), lengths, path), vocab, path)


def read_merges_txt(text: str, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges as `merges_text` gives them, without a string for each name; see `read_merges`."""
    points = _code_points(text)
    gaps = (points == ord(" ")) | (points == ord("\n"))
    edges = np.flatnonzero(gaps) if text else np.zeros(0, np.int64)
    lengths = np.diff(edges, prepend=-1, append=len(points)) - 1
    return find_spelled(_spelled(points[~gaps], lengths if text else edges, path), vocab, path)


def read_merges_file(content: bytes, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """The merges of a merges.txt; errors of `merges_text` and of `read_merges`."""
    spelled = spelled_lines(content)
    if spelled is None:
        return read_merges_txt(merges_text(content, path), vocab, path)
    return find_spelled(spelled, vocab, path)


def _spelled(points: NDArray[np.uint32], lengths: NDArray[np.int64], path: Path) -> SpelledMerges:
    """Merges given as code points of left, right, left, right, …; and how many each has."""
    values = _bytes_of_points(points)
    foreign = np.flatnonzero(values == _NO_BYTE)
    if len(foreign):
        ends = np.cumsum(lengths)
        number = np.searchsorted(ends, foreign[0], "right")
        name = points[ends[number] - lengths[number] : ends[number]].tobytes()
        _refuse_name(name.decode("utf-32-le", "surrogatepass"), path)
    return SpelledMerges(values.astype(np.uint8).tobytes(), lengths)


def find_spelled(spelled: SpelledMerges, vocab: Mapping[int, bytes], path: Path) -> MergeList:
    """Merges of which the names are bytes; errors of `read_merges`."""
    if not isinstance(vocab, TokenTable):
        refuse_wrong_ids(vocab)
    left, right, results = find_merges(vocab, spelled.parts, spelled.lengths)
    unknown = np.flatnonzero(np.column_stack((left, right)) < 0)
    if len(unknown):
        end = int(spelled.lengths[: unknown[0] + 1].sum())
        name = spelled.parts[end - int(spelled.lengths[unknown[0]]) : end]
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
