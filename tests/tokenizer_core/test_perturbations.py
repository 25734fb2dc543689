"""Every kind of perturbation against a plain reference, character by character, and its digest."""

from __future__ import annotations

import hashlib
import random
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from amounts import Amounts
from tempting_texts import tempting_texts

from bpeline.tokenizer_core.evaluation import perturbations as tables
from bpeline.tokenizer_core.evaluation.perturbations import (
    PERTURBATIONS,
    CharacterText,
    EditedText,
    Edits,
    Perturbation,
    _continues,
)

KINDS = {kind.name: kind for kind in PERTURBATIONS}


# The reference: a document at a time, a character at a time.


class Draws:
    """The random bits of one document."""

    def __init__(self, seed: int, kind: str, rate: float, document: str) -> None:
        digest = hashlib.sha256(document.encode()).digest()
        salted = hashlib.sha256(f"{seed}\0{kind}\0".encode() + digest).digest()
        self.key, self.rate = int.from_bytes(salted[:8], "big"), rate

    def _bits(self, place: int) -> int:
        mixed = (self.key + (place + 1) * 0x9E3779B97F4A7C15) % 2**64
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        return mixed ^ mixed >> 31

    def hit(self, place: int) -> bool:
        return self._bits(place) >> 32 < round(self.rate * 2**32)

    def one_of(self, place: int, many: int) -> int:
        return (self._bits(place) % 2**32) * many >> 32


Plain = Callable[[str, Draws], str]


def each(alternatives: Callable[[str, int], list[str]]) -> Plain:
    """Each character that has alternatives, in a text at a place, by one of them."""

    def plain(text: str, draws: Draws) -> str:
        made = ""
        for place, character in enumerate(text):
            offered = alternatives(text, place)
            if offered and draws.hit(place):
                made += offered[draws.one_of(place, len(offered))]
            else:
                made += character
        return made

    return plain


def by(change: Callable[[str], str]) -> Plain:
    return each(lambda text, i: [change(text[i])] if change(text[i]) != text[i] else [])


def words(text: str) -> list[range]:
    """Places of a letter and the letters and marks after it."""
    found, begin = [], None
    for i, character in enumerate(f"{text}\0"):
        if character.isalpha():
            begin = i if begin is None else begin
        elif begin is not None and unicodedata.category(character)[0] != "M":
            found.append(range(begin, i))
            begin = None
    return found


def hit_words(text: str, draws: Draws) -> list[range]:
    return [word for word in words(text) if len(word) > 1 and draws.hit(word.start)]


def put(text: str, pieces: dict[int, str]) -> str:
    return "".join(pieces.get(i, "") + character for i, character in enumerate(f"{text}\0"))[:-1]


def accented(text: str, i: int) -> list[str]:
    if text[i] not in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        return []
    return [unicodedata.normalize("NFC", text[i] + mark) for mark in tables.MARKS_ADDED]


def around(places: list[range], before: str, after: str) -> dict[int, str]:
    return {one.start: before for one in places} | {one.stop: after for one in places}


def of_table(table: dict[str, str]) -> Plain:
    return by(lambda one: table.get(one, one))


def letters_spaced(text: str, draws: Draws) -> str:
    inside = (i for word in hit_words(text, draws) for i in word[1:] if text[i].isalpha())
    return put(text, dict.fromkeys(inside, " "))


REFERENCE: dict[str, Plain] = {
    "case_flipped": by(str.swapcase),
    "lower_case": by(str.lower),
    "diacritic_added": each(accented),
    "nfd": lambda text, draws: unicodedata.normalize("NFD", text),
    "fullwidth": by(lambda one: chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one),
    "struck_through": each(lambda text, i: [f"{text[i]}\u0336"] * text[i].isalpha()),
    "mathematical_bold": of_table(tables.MATHEMATICAL_BOLD),
    "mathematical_script": of_table(tables.MATHEMATICAL_SCRIPT),
    "letters_spaced": letters_spaced,
    "latex_bold": lambda text, draws: put(text, around(hit_words(text, draws), "\\textbf{", "}")),
}


def perturbed(kind: Perturbation, documents: list[str], seed: int = 0) -> list[str]:
    text = CharacterText([document.encode() for document in documents])
    edited, edits = kind.apply(text, seed)
    assert np.all(np.diff(edits.begins) > 0)
    assert np.all(edits.begins <= edits.ends)
    assert np.all(edits.ends[:-1] <= edits.begins[1:])
    data, found, begin = edited.data.tobytes(), [], 0
    for end in edited.ends.tolist():
        assert data[end : end + 1] == b"\0"
        found.append(data[begin:end].decode())
        begin = end + 1
    assert begin == len(data)
    return found


# What the rules look for, densely; ends and beginnings of documents in all of it.
DENSE = [
    *("", "a", " ", "\n", "é", "_", "1", "\u0301", "\u0301a", "😀", "👩\u200d👧❤\ufe0f"),
    *("ab", "\u0336", "a\u0301bc\u0301 d\u0301", "rn", "crnlll", "clllrirnll ll", "rrnn milld"),
    *("foo_bar", "_foo", "foo_", "a_b_c_d", "aB", "fooBarBAZ Qux", "x_ßa ß_ŉ", "é_é1_a"),
    *("1234", "12", "1234567 1234 .1234 a1234 1_1234 1,234", "٣٤٥٦", "00001234", "1234"),
    *("a\nb\n", "\n", "\r\n", "a\r\nb\nc\r", "\n\n\r\n"),
    *("    a", "\ta", "     \t      b\n\t\t  c    d", "  \n    \n\t", "    ", "\t", "        x"),
    *("naïve Straße İstanbul ΣΊΣΥΦΟΣ ǅ ﬁ Ⅷ ① ½", "$5 & 10% of #1_{x}^~\\", "O0o 1Il! 5S m w d"),
    *("漢字かな カタカナ ﾊﾟ ｶﾞ 각 각 한국", "नमस्ते हिन्दी", "สวัสดี", "שָׁלוֹם سلامٌ", "Привет, Ёжик!"),
    *("a\u0323\u0307 a\u0307\u0323 q\u0307\u0323", "\u0f73\u0f72\u0f71", "\u1100\u1161\u11a8"),
    *("the quick brown fox jumps over the lazy dog " * 3, "THE END. ", "\0", "a\0b", "x\uffff"),
]  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("rate", [None, 0.4, 1.0])
def test_a_kind_does_what_its_reference_does(
    name: str, rate: float | None, amounts: Amounts, seed: int
) -> None:
    kind = KINDS[name]
    if rate is not None and kind.rate < 1:
        kind = replace(kind, rate=rate)
    documents = DENSE + list(islice(tempting_texts(seed), 4 * amounts.laws))
    expected = [
        REFERENCE[name](document, Draws(seed, name, kind.rate, document)) for document in documents
    ]
    assert perturbed(kind, documents, seed) == expected


def test_every_kind_finds_something_in_dense_texts() -> None:
    for kind in PERTURBATIONS:
        assert perturbed(replace(kind, rate=1.0), DENSE) != DENSE, kind.name


# Of texts in Unicode 14, by the rates of the table. Where one changes, so does `EDITION`.
DIGESTS = {
    "case_flipped": "18c78e37129d4b1c",
    "lower_case": "8ff95b5eb34e2a91",
    "diacritic_added": "8ce6662c47533e61",
    "nfd": "206655e2a14891e4",
    "fullwidth": "f62f0a6bf4520b9b",
    "struck_through": "e12a1ee22487bdd7",
    "mathematical_bold": "bc32fe4a8e3258b6",
    "mathematical_script": "08560812fddf37d8",
    "letters_spaced": "dfecaa73baa11bba",
    "latex_bold": "8eb082ab57e0b2ad",
}


def fixed_texts() -> list[str]:
    chance = random.Random(11)
    parts = [one for one in DENSE if one]
    return ["".join(chance.choices(parts, k=40)) for _ in range(40)]


@pytest.mark.parametrize("name", KINDS)
def test_the_same_texts_are_perturbed_alike_everywhere(name: str) -> None:
    joined = "\0".join(perturbed(KINDS[name], fixed_texts()))
    assert hashlib.sha256(joined.encode()).hexdigest()[:16] == DIGESTS[name]


def test_a_document_is_perturbed_alone_as_among_others() -> None:
    texts = fixed_texts()[:5]
    for kind in PERTURBATIONS:
        alone = [perturbed(kind, [text])[0] for text in texts]
        assert perturbed(kind, texts[::-1])[::-1] == alone, kind.name


def test_seed_kind_and_text_decide_together() -> None:
    """Two kinds with one rate hit other letters; so does the same kind by another seed."""
    text = ["the quick brown fox jumps over the lazy dog " * 40]
    flipped = perturbed(KINDS["case_flipped"], text)
    assert flipped == perturbed(KINDS["case_flipped"], text)
    assert flipped != perturbed(KINDS["case_flipped"], text, seed=1)
    other = replace(KINDS["case_flipped"], name="another")
    assert flipped != perturbed(other, text)


@pytest.mark.parametrize("name", [kind.name for kind in PERTURBATIONS if kind.rate < 1])
def test_the_rate_is_the_share_of_what_is_eligible(name: str) -> None:
    """Over 20,000 words, within five standard deviations."""
    chance = random.Random(3)
    text = " ".join("".join(chance.choices("abcdlmrn159", k=6)) for _ in range(20_000))
    kind = KINDS[name]
    data = CharacterText([text.encode()])
    hits, most = (len(replace(kind, rate=r).apply(data, 5)[1]) for r in (kind.rate, 1.0))
    if name in ("letters_spaced", "latex_bold"):
        assert 0 < hits < most  # several edits of one hit
    else:
        assert abs(hits - most * kind.rate) < 5 * (most * kind.rate * (1 - kind.rate)) ** 0.5


# Tables


def test_styled_letters_are_those_letters_to_compatibility_normalization() -> None:
    for table in (tables.MATHEMATICAL_BOLD, tables.MATHEMATICAL_SCRIPT, tables.FULLWIDTH):
        for plain, styled in table.items():
            assert unicodedata.normalize("NFKC", styled) == plain
            assert unicodedata.category(styled) != "Cn"


def test_vowels_and_final_consonants_of_hangul_continue_a_part() -> None:
    for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)):
        assert _continues(chr(point))


@pytest.mark.night
def test_whatever_composes_with_a_character_before_it_continues_a_part() -> None:
    """Over all of Unicode: the second characters of compositions, and all that are reordered."""
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if unicodedata.combining(character):
            assert _continues(character), hex(point)
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and parts[0][0] != "<":
            assert _continues(chr(int(parts[1], 16))), hex(point)


def test_the_page_names_every_kind_with_its_share() -> None:
    page = (Path(__file__).parents[2] / "docs/evaluation.md").read_text(encoding="utf-8")
    _, table = page.split("\n| --- | --- | --- | ---: |\n")
    rows = [row.split(" | ") for row in table.split("\n\n")[0].splitlines()]
    assert [(family, name, rate) for family, name, _, rate in rows] == [
        (f"| {k.family}", f"`{k.name}`", f"{k.rate:.0%} |") for k in PERTURBATIONS
    ]


# Where places go


def test_places_go_where_a_plain_reading_says(seed: int) -> None:
    """Random edits of random documents: what is kept keeps its bytes, the rest its edges."""
    for number in range(200):
        chance = random.Random(seed * 1_000 + number)
        documents = ["".join(chance.choices("aé漢😀 ", k=chance.randrange(12))) for _ in range(4)]
        text = CharacterText([document.encode() for document in documents])
        begins, ends, at = [], [], 0
        stops = set(text.ends.tolist())
        places = text.begins.tolist()
        while at < len(places) - 1:
            width = chance.randrange(3)
            inside = not any(place in stops for place in places[at : at + width])
            if chance.random() < 0.4 and at + width < len(places) and inside:
                begins.append(places[at])
                ends.append(places[at + width])
            at += max(1, width)
        pieces = [b"", b"x", "ö".encode(), b"yyy"]
        chosen = [chance.randrange(4) for _ in begins]
        edited = EditedText(
            text, Edits(np.array(begins, int), np.array(ends, int), np.array(chosen, int), pieces)
        )
        # Byte by byte.
        old, made = text.data.tobytes(), b""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        edits = dict(zip(begins, zip(ends, chosen, strict=True), strict=True))
        at = 0
        while at < len(old):
            first[at] = len(made)
            if at in edits:
                end, piece = edits[at]
                made += pieces[piece]
                if end > at:
                    last[at] = first[at]
                    at = end
                    continue
            last[at] = len(made)
            made += old[at : at + 1]
            at += 1
        assert edited.data.tobytes() == made
        assert edited.ends.tolist() == [last[end] for end in text.ends.tolist()]
        assert np.flatnonzero(edited.found).tolist() == sorted(first)
        marked = np.array([chance.random() < 0.3 for _ in made])
        there = edited.at_images(marked)
        assert [bool(there[place]) for place in sorted(first)] == [
            any(marked[first[place] : last[place] + 1]) for place in sorted(first)
        ]
