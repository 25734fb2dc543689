"""A tokenizer of fewer merges served from a larger one: merges are a prefix order.

Knows which tokens a smaller size keeps; trains and encodes nothing.
"""

from __future__ import annotations

from itertools import takewhile

from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.derived.reserved_slots import slots_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer


@checked
def of_size(tokenizer: Tokenizer, vocab_size: int) -> Tokenizer:
    """The tokenizer that training with a smaller vocabulary would have made, with the same ids.

    It keeps special tokens, bytes (or characters) and the first merges, ``vocab_size`` tokens
    together, each under its id: what it encodes, the larger one decodes. Where special tokens have
    the first ids, as `bpeline train` numbers them, the ids are 0 … ``vocab_size`` − 1. Where they
    have the last, or stand anywhere else, they stay there, and ids have a gap: a model's table of
    embeddings needs rows up to the highest id. Reserved slots, which stand for nothing, go first.

    Args:
        tokenizer: byte-level or character BPE.
        vocab_size: tokens that are left; all of them is the tokenizer itself.

    Raises:
        InvalidOption: larger than the tokenizer or smaller than what no merge makes; the algorithm
            has no merges in order; or the tokenizer was imported, and lists merges in any order.
    """
    if not tokenizer.algorithm.has_merges:
        raise InvalidOption(
            f"{tokenizer.algorithm.name} has no merges in order, so no smaller size is part of it",
            "byte-level BPE and character BPE are served in smaller sizes",
            "leave the size out, or train the smaller size",
        )
    if tokenizer.spec.pipeline is not None:
        raise InvalidOption(
            "the tokenizer was imported, so its merges need not stand in the order of training",
            "tokenizers trained here are served in smaller sizes",
            "leave the size out, or train the smaller size",
        )
    made = [left + right for left, right in tokenizer.merges]
    slots = slots_of(tokenizer)
    distinct = dict.fromkeys([*made, *(name.encode() for name in slots)])
    least = tokenizer.vocab_size - len(distinct)
    if not least <= vocab_size <= tokenizer.vocab_size:
        raise InvalidOption(
            f"a size of {vocab_size:,} was asked for",
            f"accepted: {least:,} (no merges) to {tokenizer.vocab_size:,} (all of them)",
            f"choose a size in this range, or `bpeline extend` to get beyond "
            f"{tokenizer.vocab_size:,}",
        )
    if vocab_size == tokenizer.vocab_size:
        return tokenizer
    dropped = set(list(distinct)[vocab_size - least :])
    kept = takewhile(lambda merge: merge[0] + merge[1] not in dropped, tokenizer.merges)
    return Tokenizer(
        {id_: token for id_, token in tokenizer.vocab.items() if token not in dropped},
        list(kept),
        {
            name: id_
            for name, id_ in tokenizer.special_tokens.items()
            if name.encode() not in dropped
        },
        tokenizer.pattern,
        algorithm=tokenizer.algorithm,
        ignore_merges=tokenizer.ignore_merges,
    )
