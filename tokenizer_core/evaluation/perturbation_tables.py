"""What is shown instead of a character: tables of facts. Changes no text."""

from __future__ import annotations

from collections.abc import Mapping

MARKS_ADDED = "\u0300\u0301\u0302\u0303\u0308"  # grave, acute, circumflex, tilde, diaeresis
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
