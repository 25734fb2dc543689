"""Tokens of character BPE put in order for greedy encoding; learns nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bpeline.tokenizer_core.algorithms.greedy.codec import GreedyLongest
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.tokenizer import Tokenizer


@checked
def greedy_longest(
    tokenizer: Tokenizer, counts: WordCounts, unknown: str = "</u>", *, as_trained: bool = False
) -> Tokenizer:
    """A tokenizer of the same tokens that finds the longest ones first; its merges are dropped.

    Source: the greedy encoder that often goes with character BPE where its merges were not kept.

    Ids: the unknown token, the special tokens, then all others by how often they stand in the
    words once all merges are applied, so that of equally long tokens the more frequent one is
    found. Tokens that are only parts of longer ones come last; they are still found.

    With ``as_trained`` three things go as in the programs that do not separate training from
    encoding: words of ``counts`` keep the splits that training left them with, and only others are
    cut greedily; tokens that training merged away again are none; of equally long and frequent
    tokens that one comes first which is seen first, words being in order of sight.

    Args:
        tokenizer: of character BPE.
        counts: the words it was trained on.
        unknown: the token of what no other token covers.
        as_trained: see above.

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
    seen = {id_: id_ for id_ in rest}
    words = counts.in_order_of_sight().words() if as_trained else []
    splits: list[list[int]] = []
    if as_trained:
        found, ends = tokenizer.encoder.encode_words(words)
        cuts = pairwise([0, *ends.tolist()])
        splits = [found[begin:end].tolist() for begin, end in cuts]
        seen = {id_: place for place, id_ in enumerate(dict.fromkeys(found.tolist()))}
        rest = [id_ for id_ in rest if id_ in seen]
    rest.sort(key=lambda id_: (-int(times[id_]), seen[id_]))
    first = dict.fromkeys([unknown, *specials])
    tokens = [*(token.encode() for token in first), *(tokenizer.vocab[id_] for id_ in rest)]
    vocab = dict(enumerate(dict.fromkeys(tokens)))

    def made(known: dict[str, tuple[str, ...]]) -> Tokenizer:
        cutting = GreedyLongest(algorithm.end_of_word, unknown, tuple(known.items()))
        return Tokenizer(vocab, [], list(specials), counts.pattern, algorithm=cutting)

    greedy = made({})
    if not as_trained:
        return greedy
    # What is cut greedily as training left it need not be kept.
    ids, ends = greedy.encoder.encode_words(words)
    kept: dict[str, tuple[str, ...]] = {}
    for word, split, (begin, end) in zip(words, splits, pairwise([0, *ends.tolist()]), strict=True):
        trained = [tokenizer.vocab[id_] for id_ in split]
        if trained != [vocab[id_] for id_ in ids[begin:end].tolist()]:
            kept[word.decode()] = tuple(token.decode() for token in trained)
    return made(kept)
