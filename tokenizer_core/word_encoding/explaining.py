"""How the words of a text came to their tokens, decision by decision; knows no algorithm's rules.

For people. The folder of each companion algorithm has a module with ``explained``, see `Decide`,
and with ``words_of`` where its words are not those of the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from bpeline.tokenizer_core.companions import COMPANIONS
from bpeline.tokenizer_core.encoding import Encoder, MergeTree, PreparedEncoder, TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.splitting import pre_tokens
from bpeline.tokenizer_core.text import Text, utf8_of
from bpeline.tokenizer_core.vocabulary import TokenizerSpec
from bpeline.tokenizer_core.word_encoding.word_encoder import WordEncoder


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
    """Each word of a text, as the tokenizer prepares the text and its pattern cuts it.

    Special tokens are ordinary, but for the added tokens of an imported tokenizer, which it finds.
    The ids joined are those of `Tokenizer.encode`.

    Raises:
        InvalidOption: its algorithm does not explain itself here.
    """
    spec = tokenizer.spec
    companion = COMPANIONS.get(spec.algorithm.name)
    if companion is None:
        known = ", ".join(COMPANIONS)
        raise InvalidOption(
            f"{spec.algorithm.name} joins bytes, not characters",
            f"explained here are {known}",
            "type `bpeline explain REF TEXT`, or tokenizer.explain(text), which shows its merges",
        )
    module = companion.part("explained")
    decide: Decide = module.explained(spec)
    words_of = getattr(module, "words_of", partial(pre_tokens, pattern=spec.pattern))
    encoder, parts = tokenizer.encoder, [(utf8_of(text), -1, b"")]
    if isinstance(encoder, PreparedEncoder):
        parts = encoder.prepared(parts[0][0])
        encoder = encoder.inner
    explained: list[ExplainedWord] = []
    for content, behind, _ in parts:
        for word in words_of(content.decode()):
            ids = _ids_of(encoder, word)
            explained.append(ExplainedWord(word, tuple(decide(word)), ids, _named(spec, ids)))
        if behind >= 0:
            found = _named(spec, (behind,))
            step = Decision("an added token, found in the text", found, found)
            explained.append(ExplainedWord(found[0], (step,), (behind,), found))
    return explained


def merge_tree(merges: Sequence[tuple[bytes, bytes]], token: bytes) -> MergeTree:
    """How merges make a token, the first that makes each; a token that none makes has no parts."""
    made: dict[bytes, tuple[int, bytes, bytes]] = {}
    for rank, (left, right) in enumerate(merges):
        made.setdefault(left + right, (rank, left, right))

    def tree(part: bytes) -> MergeTree:
        if part not in made:
            return MergeTree(part)
        rank, left, right = made[part]
        return MergeTree(part, rank, (tree(left), tree(right)))

    return tree(token)


def _ids_of(encoder: Encoder, word: str) -> tuple[int, ...]:
    """A word's ids, and none of what is put around sentences."""
    content = word.encode()
    if isinstance(encoder, WordEncoder):
        return tuple(encoder.encode_words([content])[0].tolist())
    whole = np.array([[0, len(content)]], np.int64), np.full(1, -1, np.int64)
    return tuple(encoder.encode(Text.of(content), *whole)[0].tolist())


def _named(spec: TokenizerSpec, ids: tuple[int, ...]) -> tuple[str, ...]:
    specials = {id_: token for token, id_ in spec.special_tokens.items()}
    return tuple(
        specials[id_] if id_ in specials else spec.vocab[id_].decode(errors="replace")
        for id_ in ids
    )
