"""Greedy encoding by the longest token: encoder, training, token lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from bpeline.tokenizer_core import checks, word_encoding
from bpeline.tokenizer_core.algorithms.kernels.words import SCRATCH_OF_ANYWHERE, match_anywhere
from bpeline.tokenizer_core.bounded_files import read_bounded, refuse, text_of
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.encoding import TokenizerParts
from bpeline.tokenizer_core.errors import InvalidOption, InvalidTokenizer
from bpeline.tokenizer_core.formats import nothing_left_out
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.tokenizer_spec import Algorithm, TokenizerSpec
from bpeline.tokenizer_core.vocabulary import shown
from bpeline.tokenizer_core.word_encoding import Decide, Decision, WordAlgorithm, WordCoders


@dataclass(frozen=True, slots=True)
class GreedyLongest(Algorithm):
    """The longest token anywhere in a word first, then the same left and right of it.

    Length counts characters; the end-of-word mark counts as one. Among equally long tokens the
    smaller id wins. A stretch that no token covers becomes one unknown token.

    Attributes:
        end_of_word: the text that marks the end of a word in tokens.
        unknown: the token for stretches that no other token covers.
        known: (word, its tokens) for words with a fixed split.
    """

    name: ClassVar[str] = "greedy-longest"
    end_of_word: str = "</w>"
    unknown: str = "</u>"
    known: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def described(self) -> dict[str, Any]:
        known = {word: list(tokens) for word, tokens in self.known}
        plain = {"name": self.name, "end_of_word": self.end_of_word, "unknown": self.unknown}
        return {**plain, "known": known} if known else plain

    @classmethod
    def of_description(cls, given: Mapping[str, Any]) -> Self | None:
        known = given.get("known", {})
        sound = isinstance(known, dict) and all(
            word and isinstance(tokens, list) and all(type(token) is str for token in tokens)
            for word, tokens in known.items()
        )
        if not sound:
            return None
        listed = tuple((word, tuple(tokens)) for word, tokens in known.items())
        # No bare `super()`: a dataclass with slots is a copy of the class that it would refer to.
        return super(GreedyLongest, cls).of_description({**given, "known": listed})


KIND = GreedyLongest


def coders(spec: TokenizerSpec) -> WordCoders:
    algorithm = spec.algorithm
    assert isinstance(algorithm, GreedyLongest)
    tokens = word_encoding.spelled_tokens(spec)
    end = algorithm.end_of_word
    spelled = [(word_encoding.spellings_of(token, end), id_) for token, id_ in tokens.ids.items()]
    spelled.sort(key=lambda token: (-len(token[0][0]), token[1]))
    id_of_rank = np.array([id_ for _, id_ in spelled], np.uint32)
    by_length = [
        (characters, False, rank)
        for rank, (spellings, _) in enumerate(spelled)
        for characters in spellings
    ]
    known = (
        id_of_rank,
        *word_encoding.symbol_table(word_encoding.trie_rows(by_length)),
        tokens.marks["unknown"],
    )
    words = WordAlgorithm(match_anywhere, known, SCRATCH_OF_ANYWHERE)
    if algorithm.known:
        splits = {word: _split(word, parts, tokens.ids, end) for word, parts in algorithm.known}
        words = _WithKnownWords(
            words.kernel,
            known,
            words.scratch,
            splits={word.encode(): split for word, split in splits.items()},
        )
    texts = word_encoding.without_ends(spec.vocab, end, tokens)
    return word_encoding.coders_of_words(words, texts, spec.pattern)


@dataclass(frozen=True, slots=True, eq=False)
class _WithKnownWords(WordAlgorithm):
    """Uses fixed splits for some words."""

    # word → its ids, and the byte offset where each ends
    splits: Mapping[bytes, tuple[list[int], list[int]]] = field(default_factory=dict)

    def pieces_of(
        self, text: Text, places: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> word_encoding.Pieces:
        cut = WordAlgorithm.pieces_of(self, text, places, lengths)
        stands = zip(places.tolist(), lengths.tolist(), strict=True)
        known_splits = [self.splits.get(text.bytes(place, place + size)) for place, size in stands]
        if not any(known_splits):
            return cut
        ids, ends, edges = cut.ids.tolist(), cut.ends.tolist(), cut.edges.tolist()
        each = [
            (ids[first:last], ends[first:last]) if split is None else split
            for split, (first, last) in zip(known_splits, pairwise(edges), strict=True)
        ]
        return word_encoding.Pieces(
            np.array(list(chain.from_iterable(ids for ids, _ in each)), np.uint32),
            np.array(list(chain.from_iterable(ends for _, ends in each)), np.uint32),
            np.cumsum([0, *(len(ids) for ids, _ in each)]),
        )


def _split(
    word: str, parts: tuple[str, ...], ids: Mapping[str, int], end: str
) -> tuple[list[int], list[int]]:
    """The ids of a word's tokens, and the byte offset where each ends."""
    if "".join(parts) != word + end or not ids.keys() >= set(parts):
        raise InvalidTokenizer(
            f"the word {shown(word)} has the tokens {', '.join(parts)[:80]}",
            "expected tokens of the vocab that spell the word and its end-of-word mark",
            word_encoding.RETRAIN,
        )
    size = len(word.encode())
    ends = np.cumsum([len(part.encode()) for part in parts])
    return [ids[part] for part in parts], np.minimum(ends, size).tolist()


def greedy_longest(
    tokenizer: Tokenizer, counts: WordCounts, unknown: str = "</u>", *, as_trained: bool = False
) -> Tokenizer:
    """Build a greedy tokenizer with the same tokens; its merges are dropped.

    Ids: the unknown token, the special tokens, then all others by frequency in the fully merged
    words, so the more frequent of equally long tokens wins. Tokens that only occur inside longer
    ones come last and can still match.

    Args:
        tokenizer: a character BPE tokenizer.
        counts: the words it was trained on.
        unknown: the token for stretches that no other token covers.
        as_trained: reproduce programs that do not separate training from encoding: words of
            ``counts`` keep their split from training, and only others are split greedily; tokens
            that later merges replaced everywhere are dropped; ties of length and frequency go to
            the token seen first in the words.

    Raises:
        InvalidOption: the tokenizer uses another algorithm.
    """
    checks.instance("tokenizer", tokenizer, Tokenizer)
    checks.instance("counts", counts, WordCounts)
    checks.text("unknown", unknown)
    as_trained = checks.flag("as_trained", as_trained)
    algorithm: Any = tokenizer.algorithm
    if algorithm.name != "char-bpe":
        raise InvalidOption(
            f"this tokenizer uses {algorithm.name}",
            "expected a tokenizer of char-bpe",
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
        encoded, ends = tokenizer.encoder.encode_words(words)
        cuts = pairwise([0, *ends.tolist()])
        splits = [encoded[begin:end].tolist() for begin, end in cuts]
        seen = {id_: place for place, id_ in enumerate(dict.fromkeys(encoded.tolist()))}
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
    # Store only the splits that greedy encoding would change.
    ids, ends = greedy.encoder.encode_words(words)
    trained_splits: dict[str, tuple[str, ...]] = {}
    for word, split, (begin, end) in zip(words, splits, pairwise([0, *ends.tolist()]), strict=True):
        trained = [tokenizer.vocab[id_] for id_ in split]
        if trained != [vocab[id_] for id_ in ids[begin:end].tolist()]:
            trained_splits[word.decode()] = tuple(token.decode() for token in trained)
    return made(trained_splits)


def explained(spec: TokenizerSpec) -> Decide:
    algorithm = spec.algorithm
    assert isinstance(algorithm, GreedyLongest)
    end = algorithm.end_of_word
    tokens = [token.decode(errors="replace") for _, token in sorted(spec.vocab.items())]
    spelled = [_spelled(token, end) for token in tokens if token != algorithm.unknown]
    spelled.sort(key=len, reverse=True)  # stable: smaller ids stay first among equal lengths

    known = dict(algorithm.known)

    def decide(word: str) -> Iterator[Decision]:
        if word in known:
            yield Decision("split as in training", known[word], known[word])
            return
        symbols: list[str | tuple[str, ...]] = [*word, end]
        for token in spelled:
            place = 0
            while place + len(token) <= len(symbols):
                if tuple(symbols[place : place + len(token)]) == token:
                    symbols[place : place + len(token)] = [token]
                    shown = tuple("".join(symbol) for symbol in symbols)
                    yield Decision(f"{len(token)} characters long", ("".join(token),), shown)
                place += 1

    return decide


def _spelled(token: str, end_of_word: str) -> tuple[str, ...]:
    if token.endswith(end_of_word):
        return (*token.removesuffix(end_of_word), end_of_word)
    return tuple(token)


def save(tokenizer: TokenizerParts, path: Path) -> NoReturn:
    """Raise: a token list holds neither the split pattern nor the unknown token."""
    raise InvalidOption(
        "the format greedy is read-only",
        "expected a format that holds the whole tokenizer",
        "save it as 'bpeline', which keeps every tokenizer",
    )


left_out = nothing_left_out


def load(
    path: Path,
    *,
    end_of_word: str = GreedyLongest().end_of_word,
    unknown: str = GreedyLongest().unknown,
    pattern: SplitPattern | str = GreedyLongest.default_pattern,
) -> TokenizerSpec:
    """Read a list of tokens; the id of a token is its line number, from 0.

    A missing unknown token is appended.
    """
    content = text_of(read_bounded(path), path).replace("\r\n", "\n").removesuffix("\n")
    tokens = content.split("\n")
    if "" in tokens or len({*tokens}) != len(tokens):
        refuse(path, "has an empty line or a token twice", "expected one distinct token per line")
    listed = dict.fromkeys([*tokens, unknown])
    vocab = {id_: token.encode() for id_, token in enumerate(listed)}
    return TokenizerSpec.checked(
        vocab, [], pattern=pattern, algorithm=GreedyLongest(end_of_word, unknown)
    )
