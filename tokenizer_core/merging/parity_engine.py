"""Merge engine for several languages: improves the one with the worst compression.

Implements the rules of Foroutan, Meister et al. 2025 (arXiv 2508.04796) on the kernel
`merge_sources`. All words share the cells; each language has its own pairs and queue.
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
    """How the next language is chosen.

    Attributes:
        window: size of the window of recent choices; 0 for none (the published ``base``).
        alpha: with a window, a language is skipped while its share of the recent choices exceeds
            alpha divided by the number of languages.
        global_merges: number of first merges that use the summed counts of all languages (the
            published hybrid).
        ratios: without development texts, divisors of each language's compression before the
            lowest is chosen; empty: 1 for all.
    """

    window: int = 0
    alpha: float = 2.0
    global_merges: int = 0
    ratios: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks.set_whole_numbers(self, window=0, global_merges=0)
        checks.number("alpha", self.alpha)
        ratios = checks.rows("ratios", self.ratios, "numbers")
        numbers = (checks.number("an item of ratios", ratio) for ratio in ratios)
        object.__setattr__(self, "ratios", tuple(numbers))


class ParityEngine:
    """Merges pairs over the words of several languages, as `MergeEngine` does for one.

    The chosen language is the one whose development words take the most tokens, which is
    comparable if these texts have the same content in each language. Without development words it
    is the one whose own words are compressed least: bytes divided by tokens now. Ties go to the
    first language. A language without a pair that occurs ``min_count`` times is excluded for good.
    If the window skips every language, the worst one is chosen.

    Args:
        languages, development: words of each language to learn from, and to measure on.
        tie_break, min_count, max_length: as for `MergeEngine`, for each language.
        given: number of first merges that are applied without a choice of language.
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
                f"the words of a language hold {max(before)} symbols, counts included",
                f"expected Σ count · length of at most {merge_engine.MOST_COUNTED}",
                "divide all counts of that language by the same number",
            )
        self._base_tokens = languages[0].base_tokens
        self.base = len(self._base_tokens)
        self._rule, self._given = rule, given

        self._limits = merge_engine.limits_for(
            tie_break, min_count, max_length, self.base, free_application=True
        )
        shared, starts = merge_engine.initial_state(several, self._limits.order)
        # One set of pairs per language, and last, while it is needed, one for all together.
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
            languages_of_token=np.zeros((tokens, -(-len(several) // MASK)), np.uint64),
            rows=np.empty(len(several), np.int64),
            chosen_languages=np.full(tokens, merge_sources.NOBODY, np.int32),
        )
        for number, pair_set in enumerate(self._sets[:-1]):
            keys = pair_set.pairs[: pair_set.sizes[merge_state.PAIRS], pair_tables.KEY]
            token_ids = np.unique(np.concatenate([keys >> 32, keys & 0xFFFFFFFF]))
            self._sources.languages_of_token[token_ids, number // MASK] |= np.uint64(
                1 << number % MASK
            )
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
        """[merges_done]: index of the language each merge was made for; −1 for none."""
        return self._sources.chosen_languages[self.base : self.base + self.merges_done]

    def token(self, token: int) -> bytes:
        return merge_engine.spelled(token, self._base_tokens, self.learned)

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; return False if no pair is left before."""
        return self._merge(np.zeros((0, 2), np.int64), goal)

    def apply(self, given: NDArray[np.int64], goal: int) -> None:
        """Apply merges [n, 2] until there are ``goal``, with the same choices of language."""
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
        """Enter the stage of the next merge; return the number of merges at which it ends."""
        together = self._given + self._rule.global_merges
        if self.merges_done < self._given:
            return self._given
        if self.merges_done < together:
            learning = self._sets[: self._sources.learning]
            self._enter(merge_sources.TOGETHER, sum(len(one.pairs) for one in learning))
            return together
        self._enter(merge_sources.LEAST_COMPRESSED, 0)  # frees the pairs of all languages together
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
        languages_of_token, chosen_languages = (
            self._sources.languages_of_token,
            self._sources.chosen_languages,
        )
        tokens = len(self._state.token_lengths)
        self._sources = self._sources._replace(
            languages_of_token=merge_engine.grown(languages_of_token, known, tokens),
            chosen_languages=merge_engine.grown(chosen_languages, known, tokens),
        )
        self._sources.languages_of_token[known:] = 0


def _described(arrays: MergeState) -> NDArray[np.int64]:
    return described([getattr(arrays, name) for name in merge_sources.OWN])
