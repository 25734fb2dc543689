"""The encoder of byte-level BPE for a tokenizer's value; knows no other algorithm."""

from __future__ import annotations

from bpeline.tokenizer_core.encoding.merge_encoding import DEFAULT_CACHE_WORDS, BytePairEncoder
from bpeline.tokenizer_core.encoding.reachability import tokens_not_made_by_merges
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
    encoder = BytePairEncoder(spec.byte_ids, *spec.merge_ids, spec.pattern, cache_words=cache_words)
    if spec.ignore_merges:
        encoder.take_whole(dict(tokens_not_made_by_merges(encoder, spec.ids)))
    return encoder
