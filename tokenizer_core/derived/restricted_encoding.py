"""Encoding with a part of the tokens: others are undone into the two that were merged for them.

What ``subword-nmt`` does with a vocabulary and a threshold, for every tokenizer with merges: of a
tokenizer of several languages, a text of one language then holds no token that is rare in it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer


class RestrictedEncoding:
    """Encodes with tokens that occurred often enough; the smallest parts always stay.

    Args:
        tokenizer: one with merges.
        counts: of each id, such as `token_counts` gives.
        threshold: tokens that occurred less often are undone. Of several merges that make one
            token, the first is undone.

    Raises:
        InvalidOption: the tokenizer has no merges, or counts of other ids.
    """

    @checked
    def __init__(self, tokenizer: Tokenizer, counts: NDArray[np.int64], threshold: int) -> None:
        if not tokenizer.merges:
            raise InvalidOption(
                f"this tokenizer follows {tokenizer.algorithm.name} and has no merges to undo",
                "tokens of byte-bpe and char-bpe can be undone",
                "encode without a vocabulary",
            )
        size = tokenizer.spec.largest_id + 1
        if len(counts) != size:
            raise InvalidOption(
                f"{len(counts)} tokens are counted, and ids go up to {size - 1}",
                "the counts of this tokenizer's own tokens",
                "count with token_counts(tokenizer, words)",
            )
        self.tokenizer = tokenizer
        parts = _parts(tokenizer)
        instead = {id_: [id_] for id_ in tokenizer.vocab}
        # Parts are shorter than what they make, so theirs is known first.
        for made in sorted(parts, key=lambda id_: len(tokenizer.vocab[id_])):
            if counts[made] < threshold:
                left, right = parts[made]
                instead[made] = instead[left] + instead[right]
        self._sizes = np.ones(size, np.int64)
        for id_, ids in instead.items():
            self._sizes[id_] = len(ids)
        listed = [id_ for known in range(size) for id_ in instead.get(known, [known])]
        self._ids = np.array(listed, np.uint32)
        self._begins = np.cumsum(self._sizes) - self._sizes

    def restrict(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Ids with those that are too rare undone."""
        sizes = self._sizes[ids]
        ends = np.cumsum(sizes)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - sizes, sizes)
        restricted: NDArray[np.uint32] = self._ids[np.repeat(self._begins[ids], sizes) + within]
        return restricted

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; special tokens in it are text."""
        ids: list[int] = self.restrict(self.tokenizer.encode_to_numpy(text)).tolist()
        return ids


def _parts(tokenizer: Tokenizer) -> dict[int, tuple[int, int]]:
    """Token → the two that are merged for it, by the first merge."""
    ids: dict[bytes, int] = {
        token: id_ for id_, token in tokenizer.vocab.items() if not tokenizer.is_special(id_)
    }
    return {
        ids[left + right]: (ids[left], ids[right]) for left, right in reversed(tokenizer.merges)
    }
