"""The merge engine with another choice of the next pair: by a score of `kernels.merge_score`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenizer_core.kernels import merge_score, merge_step
from tokenizer_core.trainers.merge_engine import MergeEngine


class ScoringEngine(MergeEngine):
    """A `MergeEngine` that is not asked to `learn`: its queue knows counts alone."""

    def learn_by_score(self, kind: int, counts: NDArray[np.int64], goal: int) -> bool:
        """Merge the pairs of the best scores until there are ``goal`` merges.

        Args:
            kind: `RATIO` or `GAIN`.
            counts: int64, how often each base token occurs, with room for all tokens; kept up to
                date.

        Returns:
            False when no further pair may be merged.
        """
        total = np.array([counts.sum()], np.int64)
        while True:
            status = merge_score.learn_by_score(
                self._state, self._limits, kind, counts, total, self._base + goal
            )
            if status == merge_step.DONE:
                return True
            if status == merge_step.EXHAUSTED:
                return False
            self._grow(status)
