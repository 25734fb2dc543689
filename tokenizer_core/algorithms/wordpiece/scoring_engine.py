"""The merge engine with another choice of the next pair: by a score of `merge_score`."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.algorithms.wordpiece.kernels import likelihood, merge_score
from bpeline.tokenizer_core.algorithms.wordpiece.kernels.merge_groups import Groups, Ordered
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.kernels.merging import merge_state, merge_step
from bpeline.tokenizer_core.kernels.merging.merge_state import Integer
from bpeline.tokenizer_core.kernels.tables.pair_tables import EMPTY
from bpeline.tokenizer_core.merging import MergeEngine, SymbolWords, grown

Score = Literal["ratio", "gain", "likelihood"]
SCORE_NAMES: tuple[str, ...] = get_args(Score)
_KINDS = {"ratio": merge_score.RATIO, "gain": merge_score.GAIN}

_MORE_GROUPS = 1 << 16  # than there are pairs and tokens


def validate_score(score: str) -> None:
    """Refuse a score of another name.

    Raises:
        InvalidOption: naming those there are.
    """
    if score not in SCORE_NAMES:
        raise InvalidOption(
            f"there is no score {score!r}", f"accepted: {', '.join(SCORE_NAMES)}", "use 'gain'"
        )


class TokenCountingEngine(MergeEngine):
    """Knows how often each token occurs, which scores ask for beside the counts of pairs.

    Args:
        words: what to merge in.
        min_count: pairs whose count is smaller are not learned; at least 1.

    Raises:
        CorpusError: see `check_bounds` of the engine.
    """

    def __init__(self, words: SymbolWords, *, min_count: int) -> None:
        super().__init__(words, tie_break="smallest-ids", min_count=min_count)
        self.see_all()
        self._alone = _standing_alone(words)
        self._counts = np.zeros(0, np.int64)  # of all tokens, from the first merge by score on

    def _count_tokens(self) -> None:
        """Count the tokens as they stand, behind all merges that were applied."""
        self._counts = np.zeros(len(self._state.token_lengths), np.int64)
        self._counts[: self.base] = self._alone
        merge_score.count_tokens(self._state, self._counts)
        self._total = np.array([self._counts.sum()], np.int64)


class LikelihoodEngine(TokenCountingEngine):
    """Merges the pair after which a unigram model, estimated anew, finds the words likeliest."""

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        if not len(self._counts):
            self._count_tokens()
        while True:
            tokens = len(self._state.token_lengths)
            self._counts = grown(self._counts, min(len(self._counts), tokens), tokens)
            counted = self._counts, np.empty(tokens, np.int64), self._total
            status = likelihood.learn_by_likelihood(
                self._state, self._limits, *counted, self.base + goal
            )
            if status in (merge_step.DONE, merge_step.EXHAUSTED):
                return bool(status == merge_step.DONE)
            self._grow(status)


class ScoringEngine(TokenCountingEngine):
    """Merges the pair of the best score, again and again.

    Args:
        words: what to merge in.
        score: ``ratio`` or ``gain``.
        min_count: pairs whose count is smaller are not learned; at least 1.

    Raises:
        CorpusError: see `check_bounds` of the engine.
    """

    def __init__(self, words: SymbolWords, *, score: Score, min_count: int) -> None:
        super().__init__(words, min_count=min_count)
        self._kind = _KINDS[score]
        self._groups: Groups | None = None

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        if not len(self._counts):
            self._count_tokens()
        while True:
            if self._groups is None:
                self._groups = self._grouped()
            counted = self._kind, self._counts, self._total
            status = merge_score.learn_by_score(
                self._state, self._limits, self._groups, *counted, self.base + goal
            )
            if status == merge_step.DONE:
                return True
            if status == merge_step.EXHAUSTED:
                return False
            if status == merge_score.NEEDS_GROUPS:
                self._groups = None  # most have become empty: begin anew with those that have not
            else:
                self._grow(status)

    def _grouped(self) -> Groups:
        """All pairs, waiting in levels."""
        state = self._state
        size, tokens = int(state.sizes[merge_state.PAIRS]), len(self._counts)
        # At most a group and a level for each pair, and as many again until it is full.
        pairs, capacity = len(state.pairs), 4 * size + 8 * tokens + _MORE_GROUPS
        groups = Groups(
            pairs=_unordered(pairs),
            group_of=np.empty(pairs, np.int32),
            alike=np.empty(pairs, np.int32),
            first_alike=np.full(tokens, EMPTY, np.int32),
            groups=_unordered(capacity),
            counts=np.empty(capacity, np.int64),
            parts=np.empty(capacity, np.int32),
            levels=np.empty(capacity, np.int32),
            firsts=np.empty(capacity, np.int32),
            sharing=np.empty(capacity, np.int32),
            first_sharing=np.full(tokens, EMPTY, np.int32),
            waiting=np.empty(capacity, np.int32),
            promises=np.empty(capacity, np.float64),
            floors=np.empty(capacity, np.float64),
            queue=np.empty(capacity, np.int32),
            places=np.empty(capacity, np.int32),
            slots=np.full(1 << (2 * capacity - 1).bit_length(), EMPTY, np.int32),
            hash_key=state.hash_key,
            sizes=np.zeros(2, np.int64),
        )
        merge_score.wait_in_levels(state, self._limits, groups, self._kind, self._total[0], 0, size)
        return groups

    def _grow(self, status: Integer) -> None:
        super()._grow(status)
        groups, known = self._groups, len(self._counts)
        if groups is None:
            return
        pairs, tokens = len(self._state.pairs), len(self._state.token_lengths)
        if status == merge_step.NEEDS_TOKENS:
            self._counts = grown(self._counts, known, tokens)
            self._groups = groups._replace(
                first_alike=grown(groups.first_alike, known, tokens),
                first_sharing=grown(groups.first_sharing, known, tokens),
            )
        else:
            known = len(groups.group_of)
            links, weights, keys = groups.pairs
            self._groups = groups._replace(
                pairs=Ordered(
                    grown(links, known, pairs),
                    grown(weights, known, pairs),
                    grown(keys, known, pairs),
                ),
                group_of=grown(groups.group_of, known, pairs),
                alike=grown(groups.alike, known, pairs),
            )


def _unordered(members: int) -> Ordered:
    return Ordered(
        np.empty((members, 3), np.int32),
        np.empty(members, np.float64),
        np.empty(members, np.int64),
    )


def _standing_alone(words: SymbolWords) -> NDArray[np.int64]:
    """How often each base token is a word of its own: such words are not merged in."""
    counts = np.zeros(len(words.base_tokens), np.int64)
    single = np.flatnonzero(np.diff(words.offsets) == 1)
    tokens = words.ids[words.content[words.offsets[single]]]
    np.add.at(counts, tokens, words.counts[single])
    return counts
