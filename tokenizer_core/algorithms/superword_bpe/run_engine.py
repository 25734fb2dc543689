"""Merging of whole words over runs, until merges of words take all the room that is left.

A `MergeEngine` whose base tokens are words. Equally frequent pairs go by the bytes of their tokens,
which the engine compares as numbers: each token has one, and their order is that of the bytes.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.errors import CorruptFile
from bpeline.tokenizer_core.merging import MergeEngine, SymbolWords, grown

_NUMBERS = 1 << 62  # tokens are numbered below
_FIRST_MERGES = 1024


def least_count(recorded: NDArray[np.int64]) -> int:
    """What a pair must occur to be merged: more often than some merge of words did."""
    return min(recorded.tolist(), default=0) + 1


class RunEngine:
    """Merges pairs of whole words, as `MergeEngine` does symbols; see `merging.Merger`.

    Args:
        words: runs; base tokens in the order of their bytes.
        recorded: int64 ``[n]``: how often each merge of words occurred. A pair is merged while it
            occurs more often than the next of these, which else takes its place; and there are
            ``n`` merges of both kinds at most.

    Attributes:
        base: how many base tokens there are.
    """

    def __init__(self, words: SymbolWords, recorded: NDArray[np.int64]) -> None:
        self._words, self._recorded = words, recorded.tolist()
        self._least = least_count(recorded)
        self._word_merges = 0  # that went before
        self.base = len(words.base_tokens)
        self._texts = list(words.base_tokens)
        self._rows = np.zeros((_FIRST_MERGES, 3), np.int64)
        self._done = 0
        self._number_anew()

    @property
    def merges_done(self) -> int:
        return self._done

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count when merged."""
        return self._rows[: self._done]

    def token(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._texts[token]

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when words take what room is left."""
        while self._done < goal:
            best = self._engine.best()
            if best is None:
                return False
            waiting = len(self._recorded) - self._done
            while self._word_merges < waiting and self._recorded[self._word_merges] >= best[2]:
                self._word_merges += 1
            if self._word_merges >= waiting:
                return False
            self._merge(*best)
        return True

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2], which this engine learned before, until ``goal``."""
        while self._done < goal:
            best = self._engine.best()
            left, right = given[self._done].tolist()
            if best is None or best[:2] != (left, right):
                raise CorruptFile(
                    f"merge {self._done} of the checkpoint is not what these passages give",
                    "a checkpoint of merges of whole words, made from the same passages",
                    "remove the file whose name ends in .superwords-…, and train again",
                )
            self._merge(*best)

    def _merge(self, left: int, right: int, count: int) -> None:
        if self._done == len(self._rows):
            self._rows = grown(self._rows, self._done, 2 * self._done)
        text = self._texts[left] + self._texts[right]
        at = bisect_left(self._sorted, text)
        below = self._numbers[at - 1] if at else -1
        above = self._numbers[at] if at < len(self._numbers) else _NUMBERS
        if above - below < 2:
            self._number_anew()
            self._merge(left, right, count)
            return
        number = (below + above) // 2
        self._sorted.insert(at, text)
        self._numbers.insert(at, number)
        self._engine.tie_next(number)
        self._engine.learn(self._done + 1)
        self._rows[self._done] = left, right, count
        self._texts.append(text)
        self._done += 1

    def _number_anew(self) -> None:
        """Give all tokens numbers with equal room between, and begin again with the same merges."""
        texts = self._texts
        order = sorted(range(len(texts)), key=texts.__getitem__)
        gap = _NUMBERS // (len(texts) + 1)
        self._sorted = [texts[token] for token in order]
        self._numbers = [gap * (place + 1) for place in range(len(order))]
        ties = np.empty(len(texts), np.int64)
        ties[order] = self._numbers
        self._engine = MergeEngine(
            self._words, tie_break="given-ties", min_count=self._least, ties=ties[: self.base]
        )
        rows = np.ascontiguousarray(self._rows[:, :2])
        for done in range(self._done):
            self._engine.tie_next(int(ties[self.base + done]))
            self._engine.apply(rows, done + 1)
