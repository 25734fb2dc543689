"""A few texts made of a corpus's own words, for comparing encodings; holds no sentence of it.

Only words that occur again and again are taken: what stands in one document alone (a name, an
address, a key) never travels with a tokenizer.
"""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.counting.word_counts import WordCounts

LEAST_COUNT = 8
TEXTS, WORDS_IN_TEXT = 16, 32


def sample_texts(counts: WordCounts, between: str = "") -> list[str]:
    """Up to 16 texts of 32 words: first the most frequent words, then words of all frequencies.

    Args:
        counts: the words of a corpus; those that are no UTF-8 on their own are left out.
        between: what stands between two words; nothing where words carry their space.
    """
    frequent = np.flatnonzero(counts.counts >= LEAST_COUNT)
    order = np.lexsort((counts.first_positions[frequent], -counts.counts[frequent]))
    rows = frequent[order]
    wanted = TEXTS * WORDS_IN_TEXT
    places = np.arange(len(rows))
    if len(rows) > wanted:
        spread = np.linspace(wanted // 2, len(rows) - 1, wanted - wanted // 2)
        places = np.concatenate([places[: wanted // 2], spread.astype(np.int64)])
    words = []
    for row in rows[places].tolist():
        begin, end = counts.offsets[row : row + 2].tolist()
        try:
            words.append(counts.word_bytes[begin:end].tobytes().decode())
        except UnicodeDecodeError:
            continue
    groups = range(0, len(words), WORDS_IN_TEXT)
    return [between.join(words[begin : begin + WORDS_IN_TEXT]) for begin in groups]
