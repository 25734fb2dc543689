"""Merging for several languages at once: each merge serves the one that is worst off.

Owns the arrays that `kernels.merging.merge_sources` works on: one collection of words after the
other in the same cells, and for each its own pairs and queue. The rules are those of Foroutan,
Meister et al. 2025 (arXiv 2508.04796).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks
from bpeline.tokenizer_core.errors import CorpusError
from bpeline.tokenizer_core.kernels.memory.records import described
from bpeline.tokenizer_core.kernels.merging import merge_sources, merge_state, merge_step
from bpeline.tokenizer_core.kernels.merging.merge_sources import MASK, Choice, Sources
from bpeline.tokenizer_core.kernels.merging.merge_state import MergeState
from bpeline.tokenizer_core.kernels.tables import pair_tables
from bpeline.tokenizer_core.merging import merge_engine


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

    def __post_init__(self) -> None:
        checks.set_whole_numbers(self, window=0, global_merges=0)
        checks.number("alpha", self.alpha)
        ratios = checks.rows("ratios", self.ratios, "numbers")
        numbers = (checks.number("an item of ratios", one) for one in ratios)
        object.__setattr__(self, "ratios", tuple(numbers))


class ParityEngine:
    """Merges pairs over the words of several languages, as `MergeEngine` does over one.

    Which language is worst off, its development words say: it is the one whose words take the most
    tokens. (Texts that say the same in each language, or as much, make these numbers comparable.)
    Without development words it is the one whose own words are least compressed: bytes before any
    merge, by tokens now. Of several, the first. A language of which no pair is left that occurs
    ``min_count`` times is out for good. Where all others are passed over because of the window, the
    one that is worst off comes all the same. The first ``rule.global_merges`` go by the sum of all
    counts.

    Args:
        languages: words to learn from, of each language.
        rule: which comes next.
        development: words to measure on, of each language; None: those to learn from.
        tie_break, min_count, max_length: as for `MergeEngine`, for each language.
        given: so many first merges are applied and chosen by nobody.

    Attributes:
        base: how many base tokens there are.

    Raises:
        CorpusError: see `check_bounds`, for all words together; the symbols of a language, counted,
            reach 2⁶³.
    """

    def __init__(
        self,
        languages: Sequence[merge_engine.SymbolWords],
        rule: ParityRule,
        *,
        development: Sequence[merge_engine.SymbolWords] | None = None,
        tie_break: str,
        min_count: int,
        max_length: int | None = None,
        given: int = 0,
    ) -> None:
        several = [*languages, *(development or ())]
        merge_engine.check_bounds(*several)
        before = [merge_engine.exact_dot(words.counts, np.diff(words.offsets)) for words in several]
        if max(before) > merge_engine.MOST_COUNTED:
            raise CorpusError(
                f"the words of a language hold {max(before)} symbols, counted as often as they "
                "occur",
                f"Σ count · length may be at most {merge_engine.MOST_COUNTED}",
                "divide all counts of that language by the same number",
            )
        self._base_tokens = languages[0].base_tokens
        self.base = len(self._base_tokens)
        self._rule, self._given = rule, given

        self._limits = merge_engine.limits_for(
            tie_break, min_count, max_length, self.base, free_application=True
        )
        shared, starts = merge_engine.laid_out(several, self._limits.order)
        # The pairs of each, and at the end, while it is needed, those of all together.
        self._sets = [
            merge_engine.with_first_pairs(shared, self._limits, begin, end + 1)
            for begin, end in pairwise(starts.tolist())
        ]
        self._state = shared._replace(noted=max((one.noted for one in self._sets), key=np.size))
        self._sets.append(merge_engine.without_pairs(shared, 0))
        tokens = len(shared.token_lengths)
        self._sources = Sources(
            sets=np.stack([_described(one) for one in self._sets]),
            learning=len(languages),
            tokens=np.array(before, np.int64),
            holders=np.zeros((tokens, -(-len(several) // MASK)), np.uint64),
            rows=np.empty(len(several), np.int64),
            servants=np.full(tokens, merge_sources.NOBODY, np.int32),
        )
        for number, own in enumerate(self._sets[:-1]):
            keys = own.pairs[: own.sizes[merge_state.PAIRS], pair_tables.KEY]
            held = np.unique(np.concatenate([keys >> 32, keys & 0xFFFFFFFF]))
            self._sources.holders[held, number // MASK] |= np.uint64(1 << number % MASK)
        self._choice = Choice(
            measured=development is not None,
            before=self._sources.tokens[: len(languages)].copy(),
            ratios=np.array(rule.ratios or [1.0] * len(languages), np.float64),
            needs=np.zeros(len(languages), np.float64),
            left_out=np.zeros(len(languages), np.bool_),
            recent=np.zeros(rule.window, np.int64),
            often=np.zeros(len(languages), np.int64),
            turns=np.zeros(1, np.int64),
            most=rule.alpha / len(languages),
        )
        self._stage = merge_sources.GIVEN

    @property
    def merges_done(self) -> int:
        return int(self._state.sizes[merge_state.TOKENS]) - self.base

    @property
    def learned(self) -> NDArray[np.int64]:
        """[merges_done, 3]: left id, right id, count in all languages when merged."""
        return self._state.learned[self.base : self.base + self.merges_done]

    @property
    def chosen(self) -> NDArray[np.int32]:
        """[merges_done]: the number of the language each merge was made for; −1 for none."""
        return self._sources.servants[self.base : self.base + self.merges_done]

    def token(self, token: int) -> bytes:
        """The bytes of a token."""
        return merge_engine.spelled(token, self._base_tokens, self.learned)

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        return self._merge(np.zeros((0, 2), np.int64), goal)

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply the merges ``given`` [n, 2] until ``goal`` have been made; goal ≤ n.

        Those behind the first ones, which nobody chose, are merges that this engine learned
        before: languages are chosen as they were then.
        """
        self._merge(np.ascontiguousarray(given), goal)

    def _merge(self, given: NDArray[np.int64], goal: int) -> bool:
        while self.merges_done < goal:
            end = self._stage_until()
            status, number = merge_sources.merge_for_sources(
                self._state,
                self._limits,
                self._sources,
                self._choice,
                given,
                self._stage,
                self.base + (goal if end is None else min(goal, end)),
            )
            if status == merge_step.EXHAUSTED:
                return False
            if status == merge_step.NEEDS_TOKENS:
                self._make_room_for_tokens()
            elif status == merge_step.NEEDS_PAIRS:
                self._put(number, merge_engine.with_more_pairs(self._sets[number]))
        return True

    def _stage_until(self) -> int | None:
        """See to it that who says what is merged next has a queue; up to how many merges."""
        together = self._given + self._rule.global_merges
        if self.merges_done < self._given:
            return self._given
        if self.merges_done < together:
            learning = self._sets[: self._sources.learning]
            self._enter(merge_sources.TOGETHER, sum(len(one.pairs) for one in learning))
            return together
        self._enter(merge_sources.WORST_OFF, 0)  # the memory of all together is free from here on
        return None

    def _enter(self, stage: int, pairs_of_all: int) -> None:
        if self._stage != stage:
            self._stage = stage
            self._put(-1, merge_engine.without_pairs(self._state, pairs_of_all))
            merge_sources.enter_stage(self._state, self._limits, self._sources, self._choice, stage)

    def _put(self, number: int, arrays: MergeState) -> None:
        self._sets[number] = arrays
        self._sources.sets[number] = _described(arrays)

    def _make_room_for_tokens(self) -> None:
        known = len(self._state.token_lengths)
        self._state = merge_engine.with_more_tokens(self._state)
        holders, servants = self._sources.holders, self._sources.servants
        tokens = len(self._state.token_lengths)
        self._sources = self._sources._replace(
            holders=merge_engine.grown(holders, known, tokens),
            servants=merge_engine.grown(servants, known, tokens),
        )
        self._sources.holders[known:] = 0


def _described(arrays: MergeState) -> NDArray[np.int64]:
    return described([getattr(arrays, name) for name in merge_sources.OWN])
