"""What is typed, read or shown instead of a character: tables of facts. Changes no text."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise

# Rows of keys from the top; key i of a row lies below the keys i and i + 1 of the row above.
_KEYBOARDS = (
    ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm"),  # Latin, QWERTY
    ("", "йцукенгшщзхъ", "фывапролджэ", "ячсмитьбю"),  # Russian
    ("", " ςερτυθιοπ", "ασδφγηξκλ", "ζχψωβνμ"),  # Greek
)


def _neighbours() -> dict[str, str]:
    found: dict[str, str] = {}

    def beside(one: str, other: str) -> None:
        if " " not in (one, other):
            found[one] = found.get(one, "") + other
            found[other] = found.get(other, "") + one

    for rows in _KEYBOARDS:
        for row in rows:
            for one, other in pairwise(row):
                beside(one, other)
        for above, row in pairwise(rows):
            for place, key in enumerate(row):
                for one in above[place : place + 2]:
                    beside(one, key)
    return {key: "".join(sorted(keys)) for key, keys in found.items()}


NEIGHBOURING_KEYS: Mapping[str, str] = _neighbours()  # of letters and digits, in lower case

# What optical character recognition reads instead.
OCR_TWINS: Mapping[str, Sequence[str]] = {
    "l": "1I|", "I": "l1|", "1": "lI", "i": "1!l", "!": "1", "o": "0", "O": "0Q", "0": "oO",
    "s": "5", "S": "5$", "5": "S", "b": "6", "B": "8", "8": "B", "g": "9q", "q": "9g", "9": "g",
    "Z": "2", "z": "2", "2": "Z", "G": "6", "6": "b", "e": "c", "c": "e", "h": "b", "u": "v",
    "v": "u", "t": "f", "f": "t", "m": ("rn",), "w": ("vv",), "d": ("cl",),
}  # fmt: skip
OCR_PAIRS: Mapping[str, str] = {"rn": "m", "cl": "d", "ri": "n", "ll": "H"}

MARKS_ADDED = "\u0300\u0301\u0302\u0303\u0308"  # grave, acute, circumflex, tilde, diaeresis

_LOOKALIKES = {
    "a": "аα", "c": "сϲ", "d": "ԁ", "e": "е", "h": "һ", "i": "іι", "j": "јϳ", "l": "ӏ", "n": "ո",
    "o": "оοօ", "p": "рρ", "q": "ԛ", "s": "ѕ", "u": "υս", "v": "ν", "w": "ԝ", "x": "хχ", "y": "у",
    "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙ", "J": "Ј", "K": "КΚ",
    "M": "МΜ", "N": "Ν", "O": "ОΟ", "P": "РΡ", "S": "Ѕ", "T": "ТΤ", "X": "ХΧ", "Y": "ҮΥ", "Z": "Ζ",
}  # fmt: skip
# Letters of other scripts that look the same; those look like the Latin ones, too.
HOMOGLYPHS: Mapping[str, str] = _LOOKALIKES | {
    other: latin for latin, others in _LOOKALIKES.items() for other in others
}

# Of no width: spaces, joiners, the byte order mark, marks of direction.
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u200e\u200f\u061c"

STROKE = "\u0336"  # a long one through the character before


def _alphabet(
    upper: int, lower: int, digits: int | None, holes: Mapping[str, str]
) -> dict[str, str]:
    styled = {chr(65 + i): chr(upper + i) for i in range(26)}
    styled |= {chr(97 + i): chr(lower + i) for i in range(26)}
    if digits is not None:
        styled |= {chr(48 + i): chr(digits + i) for i in range(10)}
    return styled | dict(holes)


MATHEMATICAL_BOLD = _alphabet(0x1D400, 0x1D41A, 0x1D7CE, {})
# Some letters had been in Unicode before the rest of their alphabets; their places there are empty.
MATHEMATICAL_SCRIPT = _alphabet(
    0x1D49C,
    0x1D4B6,
    None,
    dict(zip("BEFHILMRego", "\u212c\u2130\u2131\u210b\u2110\u2112\u2133\u211b\u212f\u210a\u2134",
             strict=True)),
)  # fmt: skip
FULLWIDTH = {chr(point): chr(point + 0xFEE0) for point in range(0x21, 0x7F)}

_LATEX_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "%": r"\%", "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "ß": r"\ss{}",
    "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}",
    "ł": r"\l{}", "Ł": r"\L{}",
}  # fmt: skip
_LATEX_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u",
    "\u0307": ".", "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
    "\u0328": "k",
}  # fmt: skip


def latex_of(character: str) -> str:
    """How LaTeX writes a character: itself, a command, or an accent on an ASCII letter."""
    command = _LATEX_COMMANDS.get(character)
    if command is not None:
        return command
    parts = unicodedata.normalize("NFD", character)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in _LATEX_ACCENTS:
        return f"\\{_LATEX_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return character


# One code point; with a variation selector, a skin tone; joined; a flag; a keycap.
EMOJI = (
    "😀", "😂", "🔥", "🎉", "👍", "🙏", "🚀", "💯", "❤\ufe0f", "☀\ufe0f", "👍🏽",
    "👩\u200d💻", "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "🇺🇳", "1\ufe0f\u20e3",
)  # fmt: skip
