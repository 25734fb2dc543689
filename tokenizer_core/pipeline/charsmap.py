"""SentencePiece's normalization: its map of characters, and the white space around it.

`tokenizers` reads the map in one way (Precompiled), SentencePiece itself in another.
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

MOST_BYTES = 1 << 22  # of a charsmap; the largest that are published have 0.3 MB
LONGEST_REPLACEMENT = 256  # bytes
_SHORT = 6  # clusters of fewer bytes are looked up whole
_LEAF = 1 << 31
_HAS_LEAF = 1 << 8
_VALUE = _LEAF - 1
_LABEL = _LEAF | 0xFF
_STRETCHES_REMEMBERED = 1 << 14
_FAR = 0x10000
_LONGEST_REMEMBERED = 32  # characters


@dataclass(frozen=True)
class Precompiled(NormalizerStep):
    """The rules of a charsmap, by `tokenizers`' reading of them.

    A grapheme cluster of fewer than 6 bytes is replaced as a whole when any key begins it, by what
    stands for the shortest such key; else each character of a cluster is replaced so by itself.

    Attributes:
        precompiled_charsmap: in base64.

    Raises:
        InvalidTokenizer: malformed, or of a size that no real one has.
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
        for near in _joining().finditer(text):
            # Two characters that join nothing are always apart, so clusters begin before.
            begin, end = max(near.start() - 1, 0), near.end() + 1
            stretch = text[begin:end]
            kept = end - begin <= _LONGEST_REMEMBERED
            written = rules.stretches[stretch] if kept else rules.written(stretch)
            if written is not None:
                out += (rules.by_character(text[last:begin]), written)
                last = begin + len(stretch)
        out.append(rules.by_character(text[last:]))
        changed = "".join(out)
        return text if changed == text else changed


class _Stretches(dict[str, str | None]):
    """What stands for stretches, found when they come, and forgotten when there are many."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __missing__(self, stretch: str) -> str | None:
        if len(self) >= _STRETCHES_REMEMBERED:
            self.clear()
        found = self[stretch] = self._rules.written(stretch)
        return found


class _Characters(dict[int, str]):
    """For `str.translate`: what stands for characters, found when they come."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __missing__(self, point: int) -> str:
        character = chr(point)
        found = None if 0xD800 <= point < 0xE000 else self._rules.shortest(character)
        self[point] = character if found is None else found
        return self[point]


class _Rules:
    """The trie and the replacements, every step in which is known to stay inside."""

    def __init__(self, units: list[int], replacements: bytes, longest: int) -> None:
        self._units = units
        self._replacements = replacements
        self.longest = longest  # bytes of a replacement
        self.characters = _Characters(self)
        self.stretches = _Stretches(self)

    def written(self, text: str) -> str | None:
        """A text with what stands for its clusters; None where characters alone give the same."""
        out: list[str] = []
        last = 0
        for found in _clusters().finditer(text):
            begin, end = found.span()
            # None where the cluster is too long or no key begins it.
            if end - begin < _SHORT and (whole := self.shortest(found.group())) is not None:
                out += (self.by_character(text[last:begin]), whole)
                last = end
        out.append(self.by_character(text[last:]))
        made = "".join(out)
        return None if made == self.by_character(text) else made

    def by_character(self, text: str) -> str:
        """A text with what stands for each of its characters by itself."""
        if text.isascii():
            return text.translate(self.characters)
        return self._changing.sub(lambda found: self.characters[ord(found.group())], text)

    @cached_property
    def _changing(self) -> re.Pattern[str]:
        """One character that may be replaced; it is found three times as fast as by `translate`."""
        near = (*range(0xD800), *range(0xE000, _FAR))
        changed = [point for point in near if self.shortest(chr(point)) not in (None, chr(point))]
        return re.compile(f"[{inside_set(changed)}{chr(_FAR)}-\U0010ffff]")

    def shortest(self, text: str) -> str | None:
        """What stands for the shortest key that begins ``text``, where that has under 6 bytes."""
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
                found = self._replacements[begin : end if end >= 0 else None]
                return found.decode()
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
        _refuse("whose trie is not as long as it says")
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.int64)
    replacements = content[4 + size :]
    try:
        replacements.decode()
    except UnicodeDecodeError:
        _refuse("with replacements that are not UTF-8")
    return _Rules(units.tolist(), replacements, _longest(units, replacements))


def _longest(units: np.ndarray[Any, np.dtype[np.int64]], replacements: bytes) -> int:
    """Bytes of the longest replacement; a trie that leads outside, or to none, is refused."""
    nodes = np.flatnonzero(units & _LEAF == 0)
    inner = units[nodes]
    bases = nodes ^ (inner >> 10 << ((inner & 1 << 9) >> 6))
    if not (bases | 0xFF < units.size).all():
        _refuse("with a trie that leads outside of itself")
    values = units[bases[inner & _HAS_LEAF > 0]] & _VALUE
    raw = np.frombuffer(replacements, np.uint8)
    if not (values <= raw.size).all():
        _refuse("with a trie that leads beyond the replacements")
    ended = np.append(raw, 0)
    ends = np.flatnonzero(ended == 0)
    lengths = ends[np.searchsorted(ends, values)] - values
    if (ended[values] & 0xC0 == 0x80).any() or (lengths > LONGEST_REPLACEMENT).any():
        _refuse(f"with replacements of half characters or of over {LONGEST_REPLACEMENT} bytes")
    return int(lengths.max(initial=1))


def _refuse(what: str) -> NoReturn:
    raise InvalidTokenizer(
        f"the normalizer Precompiled has a charsmap {what}",
        f"the size of a trie, the trie and replacements, up to {MOST_BYTES >> 20} MB in base64",
        "fetch the file again",
    )


@functools.cache
def _joining() -> re.Pattern[str]:
    """Stretches in which no two characters beside each other are sure to be apart."""
    jamo = [
        point
        for _, begin, end in class_runs({0: r"[\p{GCB=L}\p{GCB=V}\p{GCB=T}]"})
        for point in range(begin, end)
    ]
    joins = one_of(sorted({*joined(), *prepended(), *jamo, ord("\r")}))
    return re.compile(f"{joins}(?:(?:{joins})|[\\s\\S](?:{joins}))*")


@functools.cache
def _clusters() -> re.Pattern[str]:
    """Grapheme clusters of several characters, as far as those of under 6 bytes need it.

    Flags (two characters of 4 bytes) are left out: nothing with one of them is short.
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
    sets = {name: f"[{inside_set(found)}]" for name, found in points.items()}
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
MOST_RULES = 1 << 19  # and beginnings of their keys
LONGEST_KEY = 64  # bytes
_TOGETHER = 1 << 12  # nodes of a trie that are looked at together
_LEAF_BIT = np.uint32(1 << 31)
_LABEL_BITS = np.uint32(1 << 31 | 0xFF)


@dataclass(frozen=True)
class SentencePieceText(NormalizerStep):
    """What SentencePiece does with a text by itself; no step of `tokenizers`.

    Attributes:
        charsmap: the rules, in base64; "" for none.
        add_dummy_prefix: whether a mark stands before the text (behind it, with the next but two).
        remove_extra_whitespaces: whether spaces at both ends go, and of several in a row all but
            one.
        escape_whitespaces: whether spaces become ``▁``, and the mark is one.
        space_is_suffix: whether the mark stands behind the text.
        user_defined: what passes the rules untouched, the longest first.

    Raises:
        InvalidTokenizer: rules that are malformed, or write several spaces in a row.
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
        several = next((one for one in self._rules.values() if "  " in one), None)
        several = several or next((one for one in self.user_defined if " " in one), None)
        if several is not None:
            _refuse_map(f"writes {several[:40]!r}, with spaces")

    def __getstate__(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def growth(self) -> float:
        """How many times as many characters a text may have after the step."""
        return max(2, *map(len, self._rules.values()), 2)

    def text(self, text: str) -> str:
        """``text`` as SentencePiece sees it: the same string where nothing changes."""
        if not text:
            return text
        made = self._mapped(text)
        if self.remove_extra_whitespaces:
            if not made.strip(" ") and self._is_all_spaces(text):
                return ""
            made = _SPACES.sub(" ", made).lstrip(" ")
        if self.add_dummy_prefix and not self.space_is_suffix:
            made = " " + made
        space = MARK if self.escape_whitespaces else " "
        made = made.replace(" ", space)
        if self.remove_extra_whitespaces:
            made = made.rstrip(space)
        if self.add_dummy_prefix and self.space_is_suffix:
            made += space
        return text if made == text else made

    def _mapped(self, text: str) -> str:
        """``text`` with the rules applied."""
        if not self._rules:
            return text
        parts: list[str] = []
        last = at = 0
        while (found := self._several.search(text, at)) is not None:
            begin = found.start()
            if found.lastgroup == "untouched":
                end, written = found.end(), found.group()
            else:
                end, written = self._longest(text, begin)
            if end == begin:
                at = begin + 1
                continue
            parts += (text[last:begin].translate(self._single), written)
            last = at = end
        parts.append(text[last:].translate(self._single))
        return "".join(parts)

    def _longest(self, text: str, begin: int) -> tuple[int, str]:
        """Where the longest key of several characters ends, and what is written for it."""
        for length in self._lengths:
            written = self._rules.get(text[begin : begin + length])
            if written is not None and begin + length <= len(text):
                return begin + length, written
        return begin, ""

    def _is_all_spaces(self, text: str) -> bool:
        """Whether each character, or key of the rules, is written as one space."""
        at = 0
        while at < len(text):
            if (plain := self._plain_spaces.match(text, at)) is not None:
                at = plain.end()
                continue
            end, written = self._longest(text, at)
            if end == at:
                end, written = at + 1, self._rules.get(text[at], text[at])
            if written != " ":
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
        """Finds characters that are written as one space and begin no longer key."""
        longer = {key[0] for key in self._rules if len(key) > 1}
        spaces = {key for key, written in {" ": " ", **self._rules}.items() if written == " "}
        plain = [ord(key) for key in spaces - longer if len(key) == 1]
        return re.compile(f"(?:{one_of(plain)})+" if plain else r"(?!)")

    @cached_property
    def _several(self) -> re.Pattern[str]:
        """What finds user-defined symbols, and where a key of several characters may begin."""
        longest_first = sorted(self.user_defined, key=len, reverse=True)
        untouched = "|".join(map(re.escape, longest_first))
        options = [f"(?P<untouched>{untouched})"] if untouched else []
        several = [key for key in self._rules if len(key) > 1]
        if several:
            first, second = (one_of(sorted({ord(key[i]) for key in several})) for i in (0, 1))
            options.append(f"{first}(?={second})")
        return re.compile("|".join(options) if options else r"(?!)")


_SPACES = re.compile(" {2,}")


@functools.lru_cache(maxsize=4)  # spm_train's own have 225,000 rules, which take two seconds
def _rules_of(charsmap: str) -> dict[str, str]:
    """Key → what is written for it, of a double-array trie in base64."""
    try:
        content = base64.b64decode(charsmap, validate=True)
    except (binascii.Error, ValueError):
        _refuse_map("is no base64")
    size = int.from_bytes(content[:4], "little")
    if len(content) < 4 or size % 4 or not 0 < size <= len(content) - 4:
        _refuse_map("has no trie")
    units = np.frombuffer(content, "<u4", size // 4, 4).astype(np.uint32)
    written = content[4 + size :]
    rules = {}
    for key, place in _keys_of(units):
        end = written.find(b"\0", place)
        if not 0 <= place < len(written) or end < 0 or end - place > LONGEST_REPLACEMENT:
            _refuse_map(f"has a rule whose text lies at {place}")
        try:
            rules[key.decode()] = written[place:end].decode()
        except UnicodeDecodeError:
            _refuse_map("has a rule that is not UTF-8")
    return rules


def _keys_of(units: NDArray[np.uint32]) -> list[tuple[bytes, int]]:
    """The keys of a double-array trie and their values, breadth first."""
    found: list[tuple[bytes, int]] = []
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
        taken = units[here]
        keys = [keys[row] + bytes([column + 1]) for row, column in zip(rows, columns, strict=True)]
        nodes = _children_base(taken, here)
        ending = np.flatnonzero((taken >> np.uint32(8)) & np.uint32(1))
        for index in ending.tolist():
            value = units[nodes[index]] if nodes[index] < len(units) else np.uint32(0)
            if not value & _LEAF_BIT:
                _refuse_map("has a key without a value")
            found.append((keys[index], int(value & ~_LEAF_BIT)))
    return found


def _children_of(
    units: NDArray[np.uint32], nodes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Of each child of some nodes: the number of its node, its label less one, its place."""
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
        "rules as spm_train writes them",
        "train or export the model again",
    )
