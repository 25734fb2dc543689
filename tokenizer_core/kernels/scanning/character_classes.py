"""The classes of characters, as numbers of three bits; knows no character."""

from __future__ import annotations

# A mask for each of the three bits is all that must be collected; letters are those with the
# highest.
OTHER, NUMBER, WHITE_SPACE, MARK, CASELESS, UPPER, LOWER = range(7)
