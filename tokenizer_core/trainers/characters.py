"""Training over characters: character BPE, WordPiece and frequency BPE on the one merge engine.

`tokenizer_core.reference_training` is the same in plain Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tokenizer_core.algorithms import CharacterBpe, FrequencyBpe, Sentences, WordPiece
from tokenizer_core.algorithms.word_algorithms import by_rank
from tokenizer_core.errors import InvalidOption
from tokenizer_core.special_tokens import validate_special_tokens
from tokenizer_core.text import Text
from tokenizer_core.tokenizer import Tokenizer
from tokenizer_core.trainers.merge_engine import MergeEngine
from tokenizer_core.trainers.options import validate_options
from tokenizer_core.trainers.scoring_engine import Score, ScoringEngine
from tokenizer_core.trainers.symbol_words import (
    CharacterWords,
    words_that_go_on,
    words_with_ends,
)
from tokenizer_core.trainers.word_pruning import prune
from tokenizer_core.word_counts import WordCounts

PADDING = "<pad>"


def train_char_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = "</w>",
    joined: bool = False,
    tie_break: str = "first-seen",
    min_count: int = 2,
    min_word_count: int = 1,
    unknown: str = "<unk>",
    special_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Train character BPE (Sennrich et al. 2016).

    Ids: the unknown token, the special tokens, the characters (and with ``joined`` those that end
    words), the merges.

    Args:
        counts: word counts, by white space or another pattern.
        merges: how many at most; fewer when no pair occurs ``min_count`` times.
        end_of_word: the mark of the end of a word; no word may hold it.
        joined: whether it is part of the last character (``subword-nmt`` 0.2).
        tie_break: ``first-seen`` (the paper's program) or ``greatest-bytes`` (``subword-nmt``: the
            greatest pair of texts); see `tokenizer_core.vocabulary.TIE_BREAKS`.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        unknown: the token of unknown characters.
        special_tokens: further tokens.

    Raises:
        InvalidOption: a parameter out of range, or a mark that a word holds.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
    """
    validate_options(merges, tie_break, min_count, min_word_count, None, 1)
    words = words_with_ends(prune(counts, min_word_count)[0], end_of_word)
    given = words.ends if joined else words.ends[:0]
    engine = MergeEngine(
        words.words, tie_break=tie_break, min_count=min_count, free_application=joined
    )
    engine.apply(given, len(given))
    engine.learn(len(given) + merges)
    tokens = _token_texts(engine, words)
    learned = [(tokens[left], tokens[right]) for left, right, _ in engine.learned.tolist()]
    base = [token for token in words.tokens if not joined or token != end_of_word]
    base += [left + right for left, right in learned[: len(given)]]
    learned = learned[len(given) :]
    specials = validate_special_tokens(special_tokens)
    vocab = _numbered([unknown, *specials, *base], (left + right for left, right in learned))
    return Tokenizer(
        vocab,
        [(left.encode(), right.encode()) for left, right in learned],
        specials,
        counts.pattern,
        algorithm=CharacterBpe(end_of_word, joined, unknown),
    )


def train_wordpiece(
    counts: WordCounts,
    vocab_size: int,
    *,
    score: Score = "ratio",
    min_count: int = 2,
    min_word_count: int = 1,
    continuation: str = "##",
    unknown: str = "[UNK]",
    max_word_characters: int = 100,
    special_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Train WordPiece: the pair of the best score becomes one token, again and again.

    ``ratio`` is n_ab / (n_a · n_b), ``gain`` n_ab · log(n_ab · N / (n_a · n_b)), with the counts of
    the present segmentation, N tokens in all. Ties go to the more frequent pair, then to the one
    of the smallest ids. Ids: the unknown token, the special tokens, the characters, the merges.

    Args:
        counts: word counts.
        vocab_size: all tokens together; fewer when no pair occurs ``min_count`` times.
        score: ``ratio`` loves rare pairs, so it wants a ``min_count`` above 2 on large corpora.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        continuation, unknown, max_word_characters: see `WordPiece`. Training sees all words.
        special_tokens: further tokens.

    Raises:
        InvalidOption: a parameter out of range, or a vocabulary that cannot hold the characters.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
    """
    validate_options(0, "smallest-ids", min_count, min_word_count, None, 1)
    words = words_that_go_on(prune(counts, min_word_count)[0], continuation)
    specials = validate_special_tokens(special_tokens)
    first = _first_of_wordpiece(words, unknown, specials)
    merges = vocab_size - len(first)
    if merges < 0:
        raise InvalidOption(
            f"a vocabulary of {vocab_size} has no room for {len(words.tokens)} characters and "
            f"{len(first) - len(words.tokens)} marks and special tokens",
            f"vocab_size is a whole number from {len(first)} on",
            "leave out rare words with min_word_count, or ask for more",
        )
    pairs = learn_wordpiece(words, merges, score, min_count, continuation)
    made = [left + right.removeprefix(continuation) for left, right in pairs]
    return Tokenizer(
        _numbered(first, made),
        [],
        specials,
        counts.pattern,
        algorithm=WordPiece(continuation, unknown, max_word_characters),
    )


def wordpiece_base(
    counts: WordCounts,
    min_word_count: int = 1,
    *,
    continuation: str = "##",
    unknown: str = "[UNK]",
    special_tokens: Sequence[str] = (),
) -> list[str]:
    """The tokens that `train_wordpiece` begins with: its least vocabulary.

    Raises:
        InvalidOption, EmptyCorpus: as `train_wordpiece`.
    """
    words = words_that_go_on(prune(counts, min_word_count)[0], continuation)
    return _first_of_wordpiece(words, unknown, special_tokens)


def _first_of_wordpiece(
    words: CharacterWords, unknown: str, special_tokens: Sequence[str]
) -> list[str]:
    return list(dict.fromkeys([unknown, *special_tokens, *words.tokens]))


def learn_wordpiece(
    words: CharacterWords, merges: int, score: Score, min_count: int, continuation: str
) -> list[tuple[str, str]]:
    """The pairs that WordPiece joins, in order, as texts; see `train_wordpiece`.

    Raises:
        InvalidOption: a score of another name.
        CorpusError: too many words for 64 bits.
    """
    engine = ScoringEngine(words.words, score=score, min_count=min_count)
    engine.learn(merges)
    tokens = list(words.tokens)
    for left, right, _ in engine.learned.tolist():
        tokens.append(tokens[left] + tokens[right].removeprefix(continuation))
    return [(tokens[left], tokens[right]) for left, right, _ in engine.learned.tolist()]


def train_frequency_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = "</w>",
    min_count: int = 1,
    min_word_count: int = 1,
    sentences: Sentences = "punkt",
) -> Tokenizer:
    """Train frequency BPE: character BPE whose merges are applied by their frequency.

    Ids: tokens by how often they stand in the distinct words once all merges are applied, each
    word counted once, and the four marks as if they stood there once, ties in order of sight; then
    what is only part of longer tokens, the most frequent merge first.

    Args:
        counts: word counts, by ``wordpunct`` as a rule.
        merges: how many at most.
        end_of_word: the symbol behind the last character of a word; no word may hold it.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        sentences: how the tokenizer finds sentences; see `FrequencyBpe`.

    Raises:
        InvalidOption: a parameter out of range, a mark that a word holds, or sentences by a
            library that is not installed.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
    """
    validate_options(merges, "first-seen", min_count, min_word_count, None, 1)
    frequent = prune(counts, min_word_count)[0].in_order_of_sight()
    words = words_with_ends(frequent, end_of_word)
    engine = MergeEngine(words.words, tie_break="first-seen", min_count=min_count)
    engine.learn(merges)
    tokens = _token_texts(engine, words)
    learned = engine.learned.tolist()
    frequencies: dict[str, int] = {}
    for left, right, count in learned:
        text = tokens[left] + tokens[right]
        frequencies[text] = frequencies.get(text, 0) + count
    ids = {token: id_ for id_, token in enumerate(dict.fromkeys(tokens))}
    pairs = [(tokens[left], tokens[right]) for left, right, _ in learned]
    merged = by_rank(CharacterBpe(end_of_word), ids, pairs, len(ids))
    text = Text.of(frequent.word_bytes.tobytes())
    pieces = merged.pieces_of(text, frequent.offsets[:-1].copy(), frequent.lengths)
    standing, firsts, number = np.unique(pieces.ids, return_index=True, return_counts=True)
    in_order = list(ids)
    seen = [in_order[id_] for id_ in standing[np.argsort(firsts)].tolist()]
    counted = dict(zip([in_order[id_] for id_ in standing.tolist()], number.tolist(), strict=True))
    marks = FrequencyBpe(end_of_word)
    counted |= dict.fromkeys((marks.line_begin, marks.line_end, PADDING, marks.unknown), 1)
    first = sorted([*seen, marks.line_begin, marks.line_end, PADDING, marks.unknown],
                   key=lambda token: -counted[token])  # fmt: skip
    rest = sorted(ids, key=lambda token: -frequencies.get(token, 0))
    by_frequency = sorted(frequencies.items(), key=lambda entry: -entry[1])
    return Tokenizer(
        _numbered(first, rest),
        [],
        pattern=counts.pattern,
        algorithm=FrequencyBpe(end_of_word, sentences=sentences, frequencies=tuple(by_frequency)),
    )


def _token_texts(engine: MergeEngine, words: CharacterWords) -> list[str]:
    tokens = list(words.tokens)
    for left, right, _ in engine.learned.tolist():
        tokens.append(tokens[left] + tokens[right])
    return tokens


def _numbered(first: Iterable[str], then: Iterable[str]) -> dict[int, bytes]:
    """Each token once, in order."""
    distinct = dict.fromkeys([*first, *then])
    return {id_: token.encode() for id_, token in enumerate(distinct)}
