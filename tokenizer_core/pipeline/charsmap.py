"""SentencePiece's normalization: its character map, and white space.

``tokenizers`` (`Precompiled`) and SentencePiece (`SentencePieceText`) apply the map differently.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.pipeline.stages import NormalizerStep
from bpeline.tokenizer_core.pipeline.unicode_tables import (
    controls,
    inside_set,
    joined,
    one_of,
    prepended,
)
from bpeline.tokenizer_core.splitting import class_runs

MOST_BYTES = 1 << 22  # of a charsmap; published ones have up to 0.3 MB
LONGEST_REPLACEMENT = 256  # bytes
_SHORT = 6  # grapheme clusters of fewer bytes are looked up as a whole
_LEAF = 1 << 31
_HAS_LEAF = 1 << 8
_VALUE = _LEAF - 1
_LABEL = _LEAF | 0xFF
_STRETCHES_REMEMBERED = 1 << 14
_FAR = 0x10000
_LONGEST_REMEMBERED = 32  # characters


@dataclass(frozen=True)
class Precompiled(NormalizerStep):
    """The rules of a charsmap as ``tokenizers`` applies them.

    A grapheme cluster of fewer than 6 bytes that begins with a key is replaced by the value of the
    shortest such key. Otherwise each of its characters is replaced separately.

    Attributes:
        precompiled_charsmap: base64.
    """

    kind = "Precompiled"
    precompiled_charsmap: str

    def __post_init__(self) -> None:
        _ = self._rules

    def __getstate__(self) -> dict[str, str]:
        return {"precompiled_charsmap": self.precompiled_charsmap}

    @property
    def growth(self) -> float:
        return self._rules.longest

    @cached_property
    def _rules(self) -> _Rules:
        return _rules(self.precompiled_charsmap)

    def text(self, text: str) -> str:
        rules = self._rules
        out: list[str] = []
        last = 0
        for match in _joining().finditer(text):
            # Add a character on both sides: clusters may begin before and end after the match.
            begin, end = max(match.start() - 1, 0), match.end() + 1
            stretch = text[begin:end]
            is_cached = end - begin <= _LONGEST_REMEMBERED
            replacement = rules.stretches[stretch] if is_cached else rules.written(stretch)
            if replacement is not None:
                out += (rules.by_character(text[last:begin]), replacement)
                last = begin + len(stretch)
        out.append(rules.by_character(text[last:]))
        changed = "".join(out)
        return text if changed == text else changed


class _Stretches(dict[str, str | None]):
    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __missing__(self, stretch: str) -> str | None:
        if len(self) >= _STRETCHES_REMEMBERED:
            self.clear()
        replacement = self[stretch] = self._rules.written(stretch)
        return replacement


class _Characters(dict[int, str]):
    """Table for `str.translate`, filled on demand."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __missing__(self, point: int) -> str:
        character = chr(point)
        replacement = None if 0xD800 <= point < 0xE000 else self._rules.shortest(character)
        self[point] = character if replacement is None else replacement
        return self[point]


class _Rules:
    def __init__(self, units: list[int], replacements: bytes, longest: int) -> None:
        self._units = units
        self._replacements = replacements
        self.longest = longest  # bytes of a replacement
        self.characters = _Characters(self)
        self.stretches = _Stretches(self)

    def written(self, text: str) -> str | None:
        """``text`` with its clusters replaced; None if `by_character` gives the same."""
        out: list[str] = []
        last = 0
        for match in _clusters().finditer(text):
            begin, end = match.span()
            if end - begin < _SHORT and (whole := self.shortest(match.group())) is not None:
                out += (self.by_character(text[last:begin]), whole)
                last = end
        out.append(self.by_character(text[last:]))
        replaced = "".join(out)
        return None if replaced == self.by_character(text) else replaced

    def by_character(self, text: str) -> str:
        if text.isascii():
            return text.translate(self.characters)
        return self._changing.sub(lambda match: self.characters[ord(match.group())], text)

    @cached_property
    def _changing(self) -> re.Pattern[str]:
        """Finds characters with a replacement; three times as fast as `str.translate`."""
        near = (*range(0xD800), *range(0xE000, _FAR))
        changed = [point for point in near if self.shortest(chr(point)) not in (None, chr(point))]
        return re.compile(f"[{inside_set(changed)}{chr(_FAR)}-\U0010ffff]")

    def shortest(self, text: str) -> str | None:
        """The value of the shortest key that ``text`` begins with, if below 6 bytes."""
        key = text.encode()
        if len(key) >= _SHORT:
            return None
        units = self._units
        at = _offset(units[0])
        for byte in key:
            if byte == 0:
                break
            at ^= byte
            unit = units[at]
            if unit & _LABEL != byte:
                break
            at ^= _offset(unit)
            if unit & _HAS_LEAF:
                begin = units[at] & _VALUE
                end = self._replacements.find(b"\0", begin)
                replacement = self._replacements[begin : end if end >= 0 else None]
                return replacement.decode()
        return None


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)


@functools.lru_cache(maxsize=4)
def _rules(charsmap: str) -> _Rules:
    if len(charsmap) > MOST_BYTES * 4 // 3 + 4:
        _refuse(f"of {len(charsmap)} characters")
    try:
        content = base64.b64decode(charsmap.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        _refuse("that is not base64")
    if base64.b64encode(content).decode() != charsmap:
        _refuse("that is not base64")
    size = int.from_bytes(content[:4], "little")
    if len(content) < 4 or size % 4 or not 1024 <= size <= len(content) - 4:
        _refuse("with a trie of the wrong size")
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
    replacements = content[4 + size :]
    try:
        replacements.decode()
    except UnicodeDecodeError:
        _refuse("with replacements that are not UTF-8")
    return _Rules(units.tolist(), replacements, _longest(units, replacements))


def _longest(units: np.ndarray[Any, np.dtype[np.int64]], replacements: bytes) -> int:
    """Bytes of the longest replacement; refuses tries that point outside of the data."""
    nodes = np.flatnonzero(units & _LEAF == 0)
    inner = units[nodes]
    bases = nodes ^ (inner >> 10 << ((inner & 1 << 9) >> 6))
    if not (bases | 0xFF < units.size).all():
        _refuse("with a trie that points outside of itself")
    values = units[bases[inner & _HAS_LEAF > 0]] & _VALUE
    raw = np.frombuffer(replacements, np.uint8)
    if not (values <= raw.size).all():
        _refuse("with a trie that points beyond the replacements")
    ended = np.append(raw, 0)
    ends = np.flatnonzero(ended == 0)
    lengths = ends[np.searchsorted(ends, values)] - values
    if (ended[values] & 0xC0 == 0x80).any() or (lengths > LONGEST_REPLACEMENT).any():
        _refuse(f"with replacements of partial characters or over {LONGEST_REPLACEMENT} bytes")
    return int(lengths.max(initial=1))


def _refuse(what: str) -> NoReturn:
    raise InvalidTokenizer(
        f"the normalizer Precompiled has a charsmap {what}",
        f"expected base64 of a trie and its replacements, up to {MOST_BYTES >> 20} MB",
        "fetch the file again",
    )


@functools.cache
def _joining() -> re.Pattern[str]:
    """Stretches of characters that may belong to a grapheme cluster."""
    jamo = [
        point
        for _, begin, end in class_runs({0: r"[\p{GCB=L}\p{GCB=V}\p{GCB=T}]"})
        for point in range(begin, end)
    ]
    joins = one_of(sorted({*joined(), *prepended(), *jamo, ord("\r")}))
    return re.compile(f"{joins}(?:(?:{joins})|[\\s\\S](?:{joins}))*")


@functools.cache
def _clusters() -> re.Pattern[str]:
    """Grapheme clusters of several characters; only those below 6 bytes need be exact.

    Flags (two characters of 4 bytes) are left out.
    """
    named = {
        "consonant": r"\p{InCB=Consonant}",
        "linker": r"\p{InCB=Linker}",
        "extend": r"[\p{InCB=Extend}\p{InCB=Linker}]",
        "only_extend": r"\p{InCB=Extend}",
        "picture": r"\p{Extended_Pictographic}",
        "spacing": r"\p{GCB=SpacingMark}",
        "l": r"\p{GCB=L}",
        "v": r"\p{GCB=V}",
        "t": r"\p{GCB=T}",
        "lv": r"\p{GCB=LV}",
        "lvt": r"\p{GCB=LVT}",
    }
    points: dict[str, list[int]] = {name: [] for name in named}
    for index, begin, end in class_runs(dict(enumerate(named.values()))):
        points[list(named)[index]].extend(range(begin, end))
    sets = {name: f"[{inside_set(code_points)}]" for name, code_points in points.items()}
    after, before = joined(), prepended()
    a, p = f"[{inside_set(after)}]", f"[{inside_set(before)}]"
    x = f"[{inside_set(sorted({*after} - {*points['spacing']}))}]"
    alone = f"[^{inside_set(sorted({*controls(), *after, *before}))}]"
    c, k, e, o = (sets[name] for name in ("consonant", "linker", "extend", "only_extend"))
    l, v, t, lv, lvt = (sets[name] for name in ("l", "v", "t", "lv", "lvt"))  # noqa: E741
    picture = sets["picture"]
    conjunct = f"{c}(?:(?={o}*{k}){e}+{c})+"
    pictures = f"{picture}(?:{x}*\u200d{picture})+"
    hangul = f"(?:{l}+(?:{v}+{t}*|{lv}{v}*{t}*|{lvt}{t}*)?|{lv}{v}*{t}*|{v}+{t}*|{lvt}{t}*|{t}+)"
    core = f"(?:{conjunct}|{pictures}|{hangul}|{alone})"
    return re.compile(
        f"\r\n|{p}+(?:{core}{a}*|{a}+)|{conjunct}{a}*|{pictures}{a}*|{hangul}{a}*|{alone}{a}+"
        f"|{p}{{2,}}|{a}{{2,}}"
    )


MARK = "▁"
MOST_RULES = 1 << 19  # keys and their prefixes
LONGEST_KEY = 64  # bytes
_TOGETHER = 1 << 12  # trie nodes per batch
_LEAF_BIT = np.uint32(1 << 31)
_LABEL_BITS = np.uint32(1 << 31 | 0xFF)


@dataclass(frozen=True)
class SentencePieceText(NormalizerStep):
    """Normalization by SentencePiece itself; not a step of ``tokenizers``.

    Attributes:
        charsmap: the rules, in base64; "" for none.
        add_dummy_prefix: add a mark before the text, or after it if ``space_is_suffix``.
        remove_extra_whitespaces: strip spaces from both ends, and collapse runs of spaces.
        escape_whitespaces: replace spaces by ``▁``, which is then also the mark.
        user_defined: strings that the rules leave unchanged, longest first.

    Raises:
        InvalidTokenizer: malformed rules, or rules that write several spaces in a row.
    """

    charsmap: str = ""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True
    space_is_suffix: bool = False
    user_defined: tuple[str, ...] = ()
    kind = "SentencePiece"
    local: ClassVar[bool] = False

    def __post_init__(self) -> None:
        with_spaces = next((text for text in self._rules.values() if "  " in text), None)
        with_spaces = with_spaces or next((text for text in self.user_defined if " " in text), None)
        if with_spaces is not None:
            _refuse_map(f"writes {with_spaces[:40]!r}, with spaces")

    def __getstate__(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def growth(self) -> float:
        return max(2, *map(len, self._rules.values()), 2)

    def text(self, text: str) -> str:
        """Normalize ``text``; returns the same string if nothing changes."""
        if not text:
            return text
        normalized = self._mapped(text)
        if self.remove_extra_whitespaces:
            if not normalized.strip(" ") and self._is_all_spaces(text):
                return ""
            normalized = _SPACES.sub(" ", normalized).lstrip(" ")
        if self.add_dummy_prefix and not self.space_is_suffix:
            normalized = " " + normalized
        space = MARK if self.escape_whitespaces else " "
        normalized = normalized.replace(" ", space)
        if self.remove_extra_whitespaces:
            normalized = normalized.rstrip(space)
        if self.add_dummy_prefix and self.space_is_suffix:
            normalized += space
        return text if normalized == text else normalized

    def _mapped(self, text: str) -> str:
        if not self._rules:
            return text
        parts: list[str] = []
        last = at = 0
        while (match := self._several.search(text, at)) is not None:
            begin = match.start()
            if match.lastgroup == "untouched":
                end, replacement = match.end(), match.group()
            else:
                end, replacement = self._longest(text, begin)
            if end == begin:
                at = begin + 1
                continue
            parts += (text[last:begin].translate(self._single), replacement)
            last = at = end
        parts.append(text[last:].translate(self._single))
        return "".join(parts)

    def _longest(self, text: str, begin: int) -> tuple[int, str]:
        for length in self._lengths:
            replacement = self._rules.get(text[begin : begin + length])
            if replacement is not None and begin + length <= len(text):
                return begin + length, replacement
        return begin, ""

    def _is_all_spaces(self, text: str) -> bool:
        """Whether each character or key is replaced by one space."""
        at = 0
        while at < len(text):
            if (plain := self._plain_spaces.match(text, at)) is not None:
                at = plain.end()
                continue
            end, replacement = self._longest(text, at)
            if end == at:
                end, replacement = at + 1, self._rules.get(text[at], text[at])
            if replacement != " ":
                return False
            at = end
        return True

    @cached_property
    def _rules(self) -> dict[str, str]:
        return _rules_of(self.charsmap) if self.charsmap else {}

    @cached_property
    def _single(self) -> dict[int, str]:
        return {ord(key): value for key, value in self._rules.items() if len(key) == 1}

    @cached_property
    def _lengths(self) -> list[int]:
        return sorted({len(key) for key in self._rules if len(key) > 1}, reverse=True)

    @cached_property
    def _plain_spaces(self) -> re.Pattern[str]:
        """Characters that are replaced by one space and begin no longer key."""
        longer = {key[0] for key in self._rules if len(key) > 1}
        spaces = {
            key for key, replacement in {" ": " ", **self._rules}.items() if replacement == " "
        }
        plain = [ord(key) for key in spaces - longer if len(key) == 1]
        return re.compile(f"(?:{one_of(plain)})+" if plain else r"(?!)")

    @cached_property
    def _several(self) -> re.Pattern[str]:
        """User-defined symbols, and positions where a key of several characters may begin."""
        longest_first = sorted(self.user_defined, key=len, reverse=True)
        untouched = "|".join(map(re.escape, longest_first))
        options = [f"(?P<untouched>{untouched})"] if untouched else []
        several = [key for key in self._rules if len(key) > 1]
        if several:
            first, second = (one_of(sorted({ord(key[i]) for key in several})) for i in (0, 1))
            options.append(f"{first}(?={second})")
        return re.compile("|".join(options) if options else r"(?!)")


_SPACES = re.compile(" {2,}")


@functools.lru_cache(maxsize=4)  # the rules of spm_train take two seconds
def _rules_of(charsmap: str) -> dict[str, str]:
    """Key → value, from a double-array trie in base64."""
    try:
        content = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, ValueError):
        _refuse_map("is not base64")
    size = int.from_bytes(content[:4], "little")
    if len(content) < 4 or size % 4 or not 0 < size <= len(content) - 4:
        _refuse_map("has no trie")
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.uint32)
    replacements = content[4 + size :]
    rules = {}
    for key, place in _keys_of(units):
        end = replacements.find(b"\0", place)
        if not 0 <= place < len(replacements) or end < 0 or end - place > LONGEST_REPLACEMENT:
            _refuse_map(f"has a rule with an invalid offset {place}")
        try:
            rules[key.decode()] = replacements[place:end].decode()
        except UnicodeDecodeError:
            _refuse_map("has a rule that is not UTF-8")
    return rules


def _keys_of(units: NDArray[np.uint32]) -> list[tuple[bytes, int]]:
    """Keys of a double-array trie and their values, breadth first."""
    entries: list[tuple[bytes, int]] = []
    keys = [b""]
    nodes = _children_base(units[:1], np.zeros(1, np.int64))
    visited = 0
    while len(nodes):
        parts = [
            _children_of(units, nodes[begin : begin + _TOGETHER])
            for begin in range(0, len(nodes), _TOGETHER)
        ]
        rows = np.concatenate([part[0] + i * _TOGETHER for i, part in enumerate(parts)])
        columns, here = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
        visited += len(rows)
        if visited > MOST_RULES or (len(rows) and len(keys[0]) == LONGEST_KEY):
            _refuse_map("has too many rules, or too long ones")
        child_units = units[here]
        keys = [keys[row] + bytes([column + 1]) for row, column in zip(rows, columns, strict=True)]
        nodes = _children_base(child_units, here)
        ending = np.flatnonzero((child_units >> np.uint32(8)) & np.uint32(1))
        for index in ending.tolist():
            value = units[nodes[index]] if nodes[index] < len(units) else np.uint32(0)
            if not value & _LEAF_BIT:
                _refuse_map("has a key without a value")
            entries.append((keys[index], int(value & ~_LEAF_BIT)))
    return entries


def _children_of(
    units: NDArray[np.uint32], nodes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    labels = np.arange(1, 256, dtype=np.int64)
    places = nodes[:, None] ^ labels
    inside = places < len(units)
    child = units[np.where(inside, places, 0)]
    rows, columns = np.nonzero(inside & ((child & _LABEL_BITS) == labels.astype(np.uint32)))
    return rows, columns, places[rows, columns]


def _children_base(units: NDArray[np.uint32], places: NDArray[np.int64]) -> NDArray[np.int64]:
    units = units.astype(np.int64)
    return places ^ ((units >> 10) << ((units & (1 << 9)) >> 6))


def _refuse_map(problem: str) -> NoReturn:
    raise InvalidTokenizer(
        f"the normalizer of a SentencePiece model {problem}",
        "expected rules as spm_train writes them",
        "train or export the model again",
    )
