"""Whether tokens end where morphemes do, against a segmentation that somebody made by hand.

Precision and recall of boundaries inside words, as Morfessor's evaluation (Virpioja et al. 2011)
and MorphScore (Arnett et al. 2025) count them. Knows words and morphs; nothing of corpora.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.tokenizer_core.tokenizer import Tokenizer

LARGEST_FILE = 64 << 20  # bytes
_ACCEPTED = (
    "accepted is UTF-8 with a word, a tab and its morphs with spaces between them on each line, "
    "where the morphs together are the word: unhappiness<tab>un happi ness"
)


@dataclass(frozen=True, slots=True)
class GoldWord:
    """A word and the morphs it consists of; joined, these are the word."""

    word: str
    morphs: tuple[str, ...]

    @property
    def boundaries(self) -> frozenset[int]:
        """Bytes of the word before which a morph ends and another begins."""
        return frozenset(accumulate(len(morph.encode()) for morph in self.morphs[:-1]))


@dataclass(frozen=True, slots=True)
class BoundaryScores:
    """Boundaries inside words, counted over all words together (micro-averaged).

    Attributes:
        words: how many.
        gold: boundaries between morphs.
        found: places where a token ends inside a word.
        right: those of them that are boundaries between morphs.
        whole: words in one token.
    """

    words: int
    gold: int
    found: int
    right: int
    whole: int

    @property
    def precision(self) -> float:
        """right / found; NaN where no word is cut."""
        return self.right / self.found if self.found else float("nan")

    @property
    def recall(self) -> float:
        """right / gold; NaN where no word has two morphs."""
        return self.right / self.gold if self.gold else float("nan")

    @property
    def f1(self) -> float:
        """2 · right / (found + gold), the harmonic mean of both."""
        both = self.found + self.gold
        return 2 * self.right / both if both else float("nan")

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by their names; those that are known."""
        figures = {
            "morphology/boundary_precision": self.precision,
            "morphology/boundary_recall": self.recall,
            "morphology/boundary_f1": self.f1,
            "morphology/words_in_one_token": self.whole / self.words if self.words else self.f1,
            "morphology/words": float(self.words),
        }
        return {name: value for name, value in figures.items() if value == value}


def boundary_scores(tokenizer: Tokenizer, gold: Iterable[GoldWord]) -> BoundaryScores:
    """Encode each word as it stands in a text, behind a space, and compare its cuts with the gold.

    The space is no part of the word: where a tokenizer joins it to the first token, or makes it a
    token of its own, is no boundary. A token that ends within a character is one that is wrong.
    """
    words = morphs = found = right = whole = 0
    for one in gold:
        places = tokenizer.encode_with_offsets(f" {one.word}").byte_offsets
        size = len(one.word.encode())
        cuts = {end - 1 for end in places[:, 1].tolist()} & set(range(1, size))
        boundaries = one.boundaries
        words += 1
        morphs += len(boundaries)
        found += len(cuts)
        right += len(cuts & boundaries)
        whole += not cuts
    return BoundaryScores(words, morphs, found, right, whole)


def read_gold(path: Path) -> list[GoldWord]:
    """Read a segmentation; empty lines and those that begin with ``#`` are left out.

    Raises:
        InvalidOption: no such file, too large, not UTF-8, or a line that is something else.
    """
    try:
        lines = read_file(path, LARGEST_FILE, pipes=True).decode().split("\n")
    except (OSError, ValueError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or str(error)) from error
    gold = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, tab, segmented = line.rstrip("\r").partition("\t")
        morphs = tuple(segmented.split())
        if not tab or "".join(morphs) != word or not word:
            raise _unusable(path, f"line {number} is {line[:80]!r}")
        gold.append(GoldWord(word, morphs))
    if not gold:
        raise _unusable(path, "it has no word")
    return gold


def _unusable(path: Path, reason: str) -> InvalidOption:
    return InvalidOption(
        f"the morphs in {path} cannot be used: {reason}", _ACCEPTED, f"mend {path}"
    )
