"""The normalizer Precompiled: rules that SentencePiece compiled into a double-array trie.

It does what `tokenizers` does with them, not what SentencePiece does. Knows no JSON around it.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from bpeline.tokenizer_core.errors import InvalidTokenizer
from bpeline.tokenizer_core.normalization.unicode_tables import (
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
_CLUSTERS_REMEMBERED = 1 << 14


@dataclass(frozen=True)
class Precompiled:
    """The rules of a charsmap, by `tokenizers`' reading of them.

    A grapheme cluster of fewer than 6 bytes is replaced as a whole when any key begins it, by what
    stands for the shortest such key; else each character of a cluster is replaced so by itself.

    Attributes:
        charsmap: the base64 text of a tokenizer.json.

    Raises:
        InvalidTokenizer: malformed, or of a size that no real one has.
    """

    charsmap: str
    name: ClassVar[str] = "Precompiled"
    local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _ = self._rules

    def __getstate__(self) -> dict[str, str]:
        return {"charsmap": self.charsmap}

    @property
    def growth(self) -> float:
        return self._rules.longest

    def described(self) -> dict[str, Any]:
        return {"type": "Precompiled", "precompiled_charsmap": self.charsmap}

    @cached_property
    def _rules(self) -> _Rules:
        return _rules(self.charsmap)

    def text(self, text: str) -> str:
        rules = self._rules
        characters, clusters = rules.characters, rules.clusters
        out: list[str] = []
        last = 0
        for near in _joining().finditer(text):
            # Two characters that join nothing are always apart, so clusters begin before.
            for found in _clusters().finditer(text, max(near.start() - 1, last), near.end() + 1):
                begin, end = found.span()
                # None where the cluster is too long or no key begins it.
                if end - begin < _SHORT and (whole := clusters[found.group()]) is not None:
                    out += (text[last:begin].translate(characters), whole)
                    last = end
        out.append(text[last:].translate(characters))
        changed = "".join(out)
        return text if changed == text else changed


class _Clusters(dict[str, str | None]):
    """What stands for clusters, found when they come, and forgotten when there are many."""

    def __init__(self, rules: _Rules) -> None:
        self._rules = rules

    def __missing__(self, cluster: str) -> str | None:
        if len(self) >= _CLUSTERS_REMEMBERED:
            self.clear()
        found = self[cluster] = self._rules.shortest(cluster)
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
        self.clusters = _Clusters(self)

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
