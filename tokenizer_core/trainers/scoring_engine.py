"""The merge engine with another choice of the next pair: by a score of `kernels.merge_score`."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.errors import InvalidOption
from tokenizer_core.kernels import merge_score, merge_state, merge_step
from tokenizer_core.kernels.merge_groups import Groups
from tokenizer_core.kernels.merge_pairs import COUNT, EMPTY
from tokenizer_core.trainers.merge_engine import MergeEngine, SymbolWords

Score = Literal["ratio", "gain"]
SCORES = {"ratio": merge_score.RATIO, "gain": merge_score.GAIN}

_MORE_GROUPS = 1 << 16  # than there are different counts at first


def validate_score(score: str) -> None:
    """Refuse a score of another name.

    Raises:
        InvalidOption: naming those there are.
    """
    if score not in SCORES:
        raise InvalidOption(
            f"there is no score {score!r}", f"accepted: {', '.join(SCORES)}", "use 'gain'"
        )


class ScoringEngine(MergeEngine):
    """Merges the pair of the best score, again and again.

    Args:
        words: what to merge in.
        score: ``ratio`` or ``gain``.
        min_count: pairs whose count is smaller are not learned; at least 1.

    Raises:
        InvalidOption: a score of another name.
        CorpusError: see `check_bounds` of the engine.
    """

    def __init__(self, words: SymbolWords, *, score: Score, min_count: int) -> None:
        validate_score(score)
        super().__init__(words, tie_break="smallest-ids", min_count=min_count)
        self._kind = SCORES[score]
        self._alone = _standing_alone(words)
        self._counts = np.zeros(0, np.int64)  # of all tokens, from the first merge by score on
        self._groups: Groups | None = None

    def learn(self, goal: int) -> bool:
        """Learn merges until there are ``goal``; False when no further pair may be merged."""
        while True:
            if self._groups is None:
                self._count_tokens()
                self._groups = self._grouped()
            status = merge_score.learn_by_score(
                self._state,
                self._limits,
                self._groups,
                self._kind,
                self._counts,
                self._total,
                self._base + goal,
            )
            if status == merge_step.DONE:
                return True
            if status == merge_step.EXHAUSTED:
                return False
            if status != merge_score.NEEDS_GROUPS:
                self._grow(status)
            self._groups = None  # made anew, larger: room doubles, so that happens a few times

    def _count_tokens(self) -> None:
        """Have a count for each token there is room for; later ones are kept by merging."""
        tokens, known = len(self._state.token_lengths), len(self._counts)
        counts = np.zeros(tokens, np.int64)
        if known:
            counts[:known] = self._counts
        else:
            counts[: self._base] = self._alone
            merge_score.count_tokens(self._state, counts)
            self._total = np.array([counts.sum()], np.int64)
        self._counts = counts

    def _grouped(self) -> Groups:
        """All pairs, waiting in groups."""
        state = self._state
        size = int(state.sizes[merge_state.PAIRS])
        tokens, different = len(self._counts), len(np.unique(state.pairs[:size, COUNT]))
        groups = _no_groups(state.pairs, tokens, different + 4 * tokens + _MORE_GROUPS)
        merge_score.wait(groups, self._limits, self._kind, self._total[0], 0, size)
        return groups


def _no_groups(pairs: NDArray[np.int64], tokens: int, capacity: int) -> Groups:
    return Groups(
        pairs=pairs,
        products=np.empty(len(pairs), np.float64),
        group_of=np.empty(len(pairs), np.int32),
        links=np.empty((len(pairs), 3), np.int32),
        beside=np.empty((len(pairs), 2), np.int32),
        first_beside=np.full((tokens, 2), EMPTY, np.int32),
        counts=np.empty(capacity, np.int64),
        waiting=np.empty(capacity, np.int32),
        best=np.empty(capacity, np.int32),
        promises=np.empty(capacity, np.float64),
        queue=np.empty(capacity, np.int32),
        places=np.empty(capacity, np.int32),
        slots=np.full(1 << (2 * capacity - 1).bit_length(), EMPTY, np.int32),
        size=np.zeros(1, np.int64),
    )


def _standing_alone(words: SymbolWords) -> NDArray[np.int64]:
    """How often each base token is a word of its own: such words are not merged in."""
    counts = np.zeros(len(words.base_tokens), np.int64)
    single = np.flatnonzero(np.diff(words.offsets) == 1)
    tokens = words.ids[words.content[words.offsets[single]]]
    np.add.at(counts, tokens, words.counts[single])
    return counts
