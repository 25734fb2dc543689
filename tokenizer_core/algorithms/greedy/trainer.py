"""Tokens of character BPE put in order for greedy encoding; learns nothing."""

from __future__ import annotations

from typing import Any

from bpeline.tokenizer_core.algorithms.greedy.codec import GreedyLongest
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer


def greedy_longest(tokenizer: Tokenizer, counts: WordCounts, unknown: str = "</u>") -> Tokenizer:
    """A tokenizer of the same tokens that finds the longest ones first; its merges are dropped.

    Source: the greedy encoder that often goes with character BPE where its merges were not kept.

    Ids: the unknown token, the special tokens, then all others by how often they stand in the
    words once all merges are applied, so that of equally long tokens the more frequent one is
    found. Tokens that are only parts of longer ones come last; they are still found.

    Args:
        tokenizer: of character BPE.
        counts: the words it was trained on.
        unknown: the token of what no other token covers.

    Raises:
        InvalidOption: a tokenizer of another algorithm.
    """
    algorithm: Any = tokenizer.algorithm
    if algorithm.name != "char-bpe":
        raise InvalidOption(
            f"this tokenizer follows {algorithm.name}",
            "tokens of char-bpe can be found by their length",
            "train with train_char_bpe",
        )
    times = token_counts(tokenizer, counts)
    specials = tokenizer.special_tokens
    known = {specials.get(algorithm.unknown), tokenizer.token_to_id(algorithm.unknown)}
    rest = [id_ for id_ in tokenizer.vocab if id_ not in known | set(specials.values())]
    rest.sort(key=lambda id_: (-int(times[id_]), id_))
    first = dict.fromkeys([unknown, *specials])
    tokens = [*(token.encode() for token in first), *(tokenizer.vocab[id_] for id_ in rest)]
    return Tokenizer(
        dict(enumerate(dict.fromkeys(tokens))),
        [],
        list(specials),
        counts.pattern,
        algorithm=GreedyLongest(algorithm.end_of_word, unknown),
    )
