"""The encoder of a byte-level tokenizer, as its spec asks for; merges nothing itself."""

from __future__ import annotations

import numpy as np

from bpeline.tokenizer_core.encoding.merge_encoding import DEFAULT_CACHE_WORDS, BytePairEncoder
from bpeline.tokenizer_core.encoding.reachability import tokens_not_made_by_merges
from bpeline.tokenizer_core.encoding.superword_encoding import SuperwordEncoder
from bpeline.tokenizer_core.vocabulary import TokenizerSpec


def byte_pair_encoder(
    spec: TokenizerSpec, cache_words: int = DEFAULT_CACHE_WORDS
) -> BytePairEncoder:
    """An encoder of its own, which takes words whole where the value says so.

    Args:
        spec: of byte-level BPE.
        cache_words: how many words all threads together remember; 0: none.

    Raises:
        InvalidOption: the cache size cannot be used.
    """
    byte_ids = spec.byte_ids.copy()
    absent = byte_ids < 0
    if absent.any():
        first = spec.largest_id + 1
        byte_ids[absent] = first + np.arange(absent.sum())  # never met: see AbsentBytes
    # Named patterns cut at spaces: under them no token holds several words.
    kind = BytePairEncoder if spec.pattern.cuts_at_spaces else SuperwordEncoder
    encoder = kind(byte_ids, *spec.merge_ids, spec.pattern, cache_words=cache_words)
    if spec.ignore_merges:
        encoder.take_whole(tokens_not_made_by_merges(encoder, spec.ids))
    return encoder
