"""How often tokens occur in counted words; knows not what follows from that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.tokenizer import Tokenizer


@checked
def token_counts(tokenizer: Tokenizer, words: WordCounts) -> NDArray[np.int64]:
    """How often each token stands in counted words: int64 ``[largest id + 1]``."""
    counts = np.zeros(tokenizer.spec.largest_id + 1, np.int64)
    ids, ends = tokenizer.encoder.encode_words(words.words())
    np.add.at(counts, ids, np.repeat(words.counts, np.diff(ends, prepend=0)))
    return counts
