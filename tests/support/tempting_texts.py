"""Texts made to be cut wrongly: every class of characters, contractions, edges of blocks.

Endless and reproducible: the same seed gives the same texts, as many as are asked for.
"""

from __future__ import annotations

import functools
import random
import sys
import unicodedata
from collections.abc import Iterator

WHITE_SPACE = [
    *map(chr, (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B))),
    *map(chr, (0x2028, 0x2029, 0x202F, 0x205F, 0x3000)),
]
LOOKS_WHITE = list("\x1c\x1d\x1e\x1f\u180e\u200b\u2060\ufeff\x00\x7f")
CONTRACTIONS = [
    apostrophe + spelled
    for apostrophe in ("'", "'", "'", "’")
    for letters in ("s", "t", "re", "ve", "m", "ll", "d", "ſ", "l", "v", "r", "e")
    for spelled in sorted({letters, letters.upper(), letters.title(), letters.swapcase()})
]
CAMELS = [
    *("a", "A", "bc", "BC", "Dz", "É", "é", "ß", "ǅ", "ʰ", "ª", "漢", "か", "א", "ا", "한"),
    *("\u0301", "\u0941", "\u20dd", "Ж", "ж", "Ω", "ω", "Ā", "ā", "Ⲁ", "ⲁ", "Ạ", "ạ"),
]
NUMBERS = [*"0179٣३²½Ⅷ①〇๓", "𝟘", "𐒠", "ↈ", "㉈"]
PUNCTUATION = [*"!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~", *"…—«»“”‘’。，、「」（）؟،।", "\u00ad"]
EMOJI = [
    "👩",
    "👍🏽",
    "👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "❤\ufe0f",
    "🇺🇳",
    "1\ufe0f\u20e3",
    "\u200d",
    "\ufe0f",
]
WIDE = [
    *"漢字仮名交じり文ひらがなカタカナー・々〇〆한글조합ㄱᄒ",
    "\u3099",
    "\uff76\uff9e",
    "\U00020000",
]
CODE = ["foo", "Bar", "baz_qux", "if", "(", ")", "{", "}", "\n", "    ", "\t", "//", "/*", "*/",
        "->", "::", "0x1F", "3.14", ";", "\r\n", " ", "'", '"', "don't", "it's"]  # fmt: skip


@functools.cache
def of_every_category() -> list[str]:
    """A dozen characters of each general category, the first and the last ones among them."""
    members: dict[str, list[str]] = {}
    for point in range(sys.maxunicode + 1):
        members.setdefault(unicodedata.category(chr(point)), []).append(chr(point))
    members.pop("Cs")
    generator = random.Random(1)
    return [
        character
        for _, characters in sorted(members.items())
        for character in sorted(
            {
                characters[0],
                characters[-1],
                *generator.sample(characters, min(10, len(characters))),
            }
        )
    ]


def _broken(generator: random.Random) -> str:
    """What a decoder that replaces makes of bytes that are not UTF-8."""
    whole = "".join(generator.choices([*WIDE, *CAMELS, " ", "\n"], k=12)).encode()
    damaged = bytearray(whole)
    for _ in range(generator.randint(1, 6)):
        damaged[generator.randrange(len(damaged))] = generator.randrange(256)
    return bytes(damaged).decode(errors="replace")


def _anywhere(generator: random.Random) -> str:
    points = (generator.randrange(1 << generator.randint(7, 20)) for _ in range(8))
    return "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)


def tempting_texts(seed: int) -> Iterator[str]:
    """Texts of up to some 170 characters, most of them short."""
    generator = random.Random(seed)
    moods = [
        [*WHITE_SPACE, *LOOKS_WHITE, "a", "1", "!", "漢"],
        [*" \n\r\t\u3000", "a", "!", "'s", "/"],
        [*CONTRACTIONS, "a", "B", " ", "!", "it", "\n"],
        [*CAMELS, *CAMELS, "'s", "'LL", "'", " "],
        [*CAMELS, *PUNCTUATION, " ", "\n"],
        [*NUMBERS, "1", "2", "345", "a", " ", ","],
        [*PUNCTUATION, "\n", "/", "\u0301", " ", "a"],
        [*EMOJI, "a", " ", "!", "漢"],
        [*WIDE, *"。，！？ \n", "abc", "12"],
        CODE,
        [*WHITE_SPACE, *CONTRACTIONS, *CAMELS, *NUMBERS, *PUNCTUATION, *EMOJI, *WIDE],
        of_every_category(),
    ]
    fillers = [
        "a",
        "A",
        " ",
        "\n",
        "!",
        "7",
        "漢",
        "\u3000",
        "'",
        "٣",
        "é",
        "\u0301",
        "/",
        "!\n",
        "👍",
    ]
    while True:
        kind = generator.random()
        if kind < 0.03:
            yield _broken(generator)
            continue
        if kind < 0.06:
            yield _anywhere(generator)
            continue
        mood = generator.choice(moods)
        if generator.random() < 0.6:
            mood = generator.sample(mood, min(len(mood), generator.randint(2, 6)))
        text = "".join(generator.choices(mood, k=generator.randint(0, 14)))
        if generator.random() < 0.25:  # so that it lies across the edges of blocks
            filler = generator.choice(fillers)
            size = generator.choice((61, 62, 63, 64, 65, 66, 126, 127, 128, 129, 130))
            text = filler * max(0, (size - generator.randint(0, 6)) // len(filler.encode())) + text
        yield text


def odd_texts(seed: int) -> Iterator[str]:
    """Long and strange texts among `tempting_texts`: NULs, one class alone, CRLF, no spaces."""
    generator, others = random.Random(seed), tempting_texts(seed)
    alone = ["\0", " ", "\r\n", "\n\r", "\r", "\u2028", "\x85", "\t", "\u3000", "a", "é", "ж", "漢",
             "e\u0301", "\u0301", "👍", "1", "na ", "a: ", "of the ", "\ufeff"]  # fmt: skip
    while True:
        kind = generator.random()
        if kind < 0.3:
            yield generator.choice(alone) * generator.randint(1, 400)
        elif kind < 0.5:
            yield "\r\n".join(generator.choices(["of the", "na na", "", "漢字 か", "x: y"], k=20))
        else:
            yield next(others) + generator.choice(("", " ", "\r\n", "\0")) + next(others)
