"""How the words of a text came to their tokens, decision by decision; knows no algorithm's rules.

For people. An algorithm that explains itself has a module with ``explained``, see `Decide`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from bpeline.tokenizer_core.companions import COMPANIONS
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting import pre_tokens


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of encoding a word.

    Attributes:
        why: what decided, such as ``rank 3``.
        takes: the parts that were joined, or the token that was found.
        symbols: the word after it.
    """

    why: str
    takes: tuple[str, ...]
    symbols: tuple[str, ...]


# From a word to the decisions about it, in plain Python.
Decide = Callable[[str], Iterator[Decision]]


@dataclass(frozen=True, slots=True)
class ExplainedWord:
    """A word and its way to ids.

    Attributes:
        word: its text.
        steps: in their order; none where nothing applies.
        ids, tokens: what the encoder makes of it.
    """

    word: str
    steps: tuple[Decision, ...]
    ids: tuple[int, ...]
    tokens: tuple[str, ...]


def explain_words(tokenizer: TokenizerParts, text: str) -> list[ExplainedWord]:
    """Each word of a text, as the tokenizer's pattern cuts it; special tokens are ordinary.

    Raises:
        InvalidOption: its algorithm does not explain itself.
    """
    spec = tokenizer.spec
    companion = COMPANIONS.get(spec.algorithm.name)
    if companion is None or not companion.explains:
        known = ", ".join(name for name, one in COMPANIONS.items() if one.explains)
        raise InvalidOption(
            f"how {spec.algorithm.name} encodes words is not explained",
            f"explained are byte-bpe, {known}",
            "type `bpeline encode REF TEXT --offsets`, which says where each token stands",
        )
    decide: Decide = companion.part("explained").explained(spec)
    words = pre_tokens(text, spec.pattern)
    found, ends = tokenizer.encoder.encode_words([word.encode() for word in words])
    ids, edges = found.tolist(), pairwise([0, *ends.tolist()])
    return [
        ExplainedWord(
            word,
            tuple(decide(word)),
            tuple(ids[begin:end]),
            tuple(spec.vocab[id_].decode(errors="replace") for id_ in ids[begin:end]),
        )
        for word, (begin, end) in zip(words, edges, strict=True)
    ]
