"""Merging for several languages at once: each merge serves the one that is worst off.

One `MergeEngine` for the words of each language, all of which merge the same pairs, so their
tokens have the same ids; the queue of the language that is chosen says which pair. Knows nothing
of names, files or vocabularies. The rules are those of Foroutan, Meister et al. 2025
(arXiv 2508.04796).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.merging.merge_engine import MergeEngine, SymbolWords, grown

_NEVER = (1 << 63) - 1  # a count that no pair reaches: nothing is queued
_FIRST_MERGES = 1024


@dataclass(frozen=True, slots=True)
class ParityRule:
    """Which language comes next.

    Attributes:
        window: so many of the last choices are looked at; 0: not (the published ``base``).
        alpha: with a window, a language is passed over while its part of these choices is more
            than alpha divided by the number of languages.
        global_merges: so many first merges go by the counts of all languages together (the
            published hybrid).
        ratios: without development texts, what the compression of each language is divided by
            before the lowest is chosen; empty: 1 for all.
    """

    window: int = 0
    alpha: float = 2.0
    global_merges: int = 0
    ratios: tuple[float, ...] = ()


class ParityEngine:
    """Merges pairs over the words of several languages, as `MergeEngine` does over one.

    Which language is worst off, its development words say: it is the one whose words take the most
    tokens. (Texts that say the same in each language, or as much, make these numbers comparable.)
    Without development words it is the one whose own words are least compressed: bytes before any
    merge, by tokens now. Of several, the first. A language of which no pair is left that occurs
    ``min_count`` times is out for good. Where all others are passed over because of the window, the
    one that is worst off comes all the same.

    Args:
        languages: words to learn from, of each language.
        rule: which comes next.
        development: words to measure on, of each language; None: those to learn from.
        together: the words of all languages, where ``rule.global_merges`` are wanted.
        tie_break, min_count, max_length: as for `MergeEngine`, for each language.
        given: so many first merges are applied and chosen by nobody.

    Attributes:
        base: how many base tokens there are.
        chosen: of each merge the number of the language that it was made for; −1 for none.

    Raises:
        CorpusError: see `check_bounds`.
    """

    def __init__(
        self,
        languages: Sequence[SymbolWords],
        rule: ParityRule,
        *,
        development: Sequence[SymbolWords] | None = None,
        together: SymbolWords | None = None,
        tie_break: str,
        min_count: int,
        max_length: int | None = None,
        given: int = 0,
    ) -> None:
        def engine(words: SymbolWords, least: int) -> MergeEngine:
            return MergeEngine(
                words,
                tie_break=tie_break,
                min_count=least,
                max_length=max_length,
                free_application=True,
            )

        self._engines = [_Merging(engine(words, min_count), words) for words in languages]
        self._lengths = np.array([_length_of(words) for words in languages], np.int64)
        self._before = self._lengths.copy()
        self._measured: list[_Merging] = []
        if development is not None:
            self._measured = [_Merging(engine(words, _NEVER), words) for words in development]
            self._needs = np.array([_length_of(words) for words in development], np.int64)
        self._together = None
        if together is not None:
            self._together = _Merging(engine(together, min_count), together)
        self._rule, self._given = rule, given
        self._ratios = np.array(rule.ratios or [1.0] * len(languages))
        self._left_out = np.zeros(len(languages), np.bool_)
        self._last: deque[int] = deque(maxlen=rule.window or None)
        self._often = np.zeros(len(languages), np.int64)  # of each in the window
        self._rows = np.zeros((_FIRST_MERGES, 3), np.int64)
        self.base = len(languages[0].base_tokens)
        self._base_tokens = languages[0].base_tokens
        self.chosen: list[int] = []

    @property
    def merges_done(self) -> int:
        return len(self.chosen)

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count in all languages when merged."""
        return self._rows[: self.merges_done]

    @property
    def compression(self) -> list[float]:
        """Of each language bytes per token of the words it learns from."""
        return [float(one) for one in self._before / self._lengths]

    def token(self, token: int) -> bytes:
        """The bytes of a token."""
        if token < self.base:
            return self._base_tokens[token]
        left, right, _ = self._rows[token - self.base].tolist()
        return self.token(left) + self.token(right)

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        while self.merges_done < goal:
            found = self._next()
            if found is None:
                return False
            self._merge(*found)
        return True

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2] until ``goal`` have been made; goal ≤ n.

        Those behind the first ones, which nobody chose, are merges that this engine learned
        before: languages are chosen as they were then.
        """
        while self.merges_done < goal:
            left, right = given[self.merges_done].tolist()
            found = self._next() if self.merges_done >= self._given else None
            self._merge(left, right, -1 if found is None else found[2])

    def _next(self) -> tuple[int, int, int] | None:
        """Left id, right id, language of the next merge."""
        if self._together is not None:
            if self.merges_done < self._given + self._rule.global_merges:
                best = self._together.engine.best()
                return None if best is None else (best[0], best[1], -1)
            self._together = None  # its memory is free from here on
        while not self._left_out.all():
            language = self._worst_off()
            self._remember(language)
            best = self._engines[language].engine.best()
            if best is not None:
                return best[0], best[1], language
            self._left_out[language] = True
        return None

    def _worst_off(self) -> int:
        """The language to serve: among those that are not left out."""
        if self._measured:
            needs = self._needs.astype(np.float64)
        else:
            needs = -(self._before / self._lengths / self._ratios)
        needs[self._left_out] = -np.inf
        if self._rule.window:
            most = self._rule.alpha / len(self._engines)
            allowed = np.where(self._often / self._rule.window > most, -np.inf, needs)
            if np.isfinite(allowed).any():
                needs = allowed
        return int(np.argmax(needs))

    def _remember(self, language: int) -> None:
        if not self._rule.window:
            return
        if len(self._last) == self._rule.window:
            self._often[self._last[0]] -= 1
        self._last.append(language)
        self._often[language] += 1

    def _merge(self, left: int, right: int, language: int) -> None:
        if self.merges_done == len(self._rows):
            self._rows = grown(self._rows, len(self._rows), 2 * len(self._rows))
        rows, row = self._rows, self.merges_done
        rows[row] = left, right, 0
        for number, merging in enumerate(self._engines):
            if merging.may_hold(left, right):
                removed, count = merging.merge(rows, row + 1)
                self._lengths[number] -= removed
                rows[row, 2] += count
        for number, merging in enumerate(self._measured):
            if merging.may_hold(left, right):
                self._needs[number] -= merging.merge(rows, row + 1)[0]
        if self._together is not None and self._together.may_hold(left, right):
            self._together.merge(rows, row + 1)
        self.chosen.append(language)


class _Merging:
    """An engine, and which tokens there are in its words: what is in none of them costs nothing.

    Most pairs of a language are in no word of one that is written in other characters.
    """

    def __init__(self, engine: MergeEngine, words: SymbolWords) -> None:
        self.engine = engine
        numbers = words.ids[np.unique(words.content)]
        self._present = set(numbers.tolist())

    def may_hold(self, left: int, right: int) -> bool:
        """False where the pair surely occurs nowhere."""
        return left in self._present and right in self._present

    def merge(self, rows: NDArray[np.int64], goal: int) -> tuple[int, int]:
        """As `MergeEngine.merge`."""
        removed, count = self.engine.merge(rows, goal)
        if removed:
            self._present.add(self.engine.base + goal - 1)
        return removed, count


def _length_of(words: SymbolWords) -> int:
    """How many base tokens all words take, each as often as it occurs."""
    lengths = np.diff(words.offsets)
    estimate = float(np.dot(words.counts.astype(np.float64), lengths.astype(np.float64)))
    if estimate < 2.0**62:
        return int(np.dot(words.counts, lengths))
    return sum(map(int.__mul__, words.counts.tolist(), lengths.tolist()))
