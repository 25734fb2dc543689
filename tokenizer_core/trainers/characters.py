"""Training over characters: character BPE, WordPiece and frequency BPE on the one merge engine.

`tokenizer_core.reference_training` is the same in plain Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bpeline.tokenizer_core.algorithms import by_rank
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.trainers.checkpoint import Checkpoint
from bpeline.tokenizer_core.trainers.learning import (
    Course,
    LearnedMerges,
    learn_with,
    prune,
    validate_options,
)
from bpeline.tokenizer_core.trainers.merge_engine import MergeEngine
from bpeline.tokenizer_core.trainers.progress import OnProgress
from bpeline.tokenizer_core.trainers.scoring_engine import Score, ScoringEngine, validate_score
from bpeline.tokenizer_core.trainers.symbol_words import (
    CharacterWords,
    words_that_go_on,
    words_with_ends,
)
from bpeline.tokenizer_core.vocabulary import (
    CharacterBpe,
    FrequencyBpe,
    GreedyLongest,
    Sentences,
    WordPiece,
    validate_special_tokens,
)

PADDING = "<pad>"
END_OF_WORD = "</w>"
_CHARACTERS = "char-bpe 1"  # to be counted up when the same settings learn other merges
_WORDPIECE = "wordpiece 1"


@dataclass(frozen=True, slots=True)
class CharacterSettings:
    """What decides, besides the word counts, which merges character BPE learns.

    The names are those of `train_char_bpe`. Frequency BPE learns the same merges.
    """

    end_of_word: str
    joined: bool
    tie_break: str
    min_count: int
    min_word_count: int

    @property
    def digest(self) -> str:
        return digest_of({"algorithm": _CHARACTERS, **asdict(self)})


@dataclass(frozen=True, slots=True)
class WordPieceSettings:
    """What decides, besides the word counts, which merges WordPiece learns.

    The names are those of `train_wordpiece`.
    """

    score: Score
    min_count: int
    min_word_count: int

    @property
    def digest(self) -> str:
        return digest_of({"algorithm": _WORDPIECE, **asdict(self)})


def train_char_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = END_OF_WORD,
    joined: bool = False,
    tie_break: str = "first-seen",
    min_count: int = 2,
    min_word_count: int = 1,
    unknown: str = "<unk>",
    special_tokens: Sequence[str] = (),
    resume_from: Path | Checkpoint | None = None,
    checkpoint: Path | None = None,
    on_progress: OnProgress | None = None,
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
            greatest pair of texts); see `tokenizer_core.vocabulary.numbering.TIE_BREAKS`.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        unknown: the token of unknown characters.
        special_tokens: further tokens.
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, a mark that a word holds, or a checkpoint of other
            counts or settings.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    specials = validate_special_tokens(special_tokens)
    words = words_with_ends(prune(counts, min_word_count)[0], end_of_word)
    settings = CharacterSettings(end_of_word, joined, tie_break, min_count, min_word_count)
    course = Course(resume_from, checkpoint, on_progress=on_progress)
    learned = _learn_characters(counts, words, merges, settings, course)
    pairs = _pairs_of_texts(words, learned)[len(words.ends) if joined else 0 :]
    first = _first_of_characters(words, end_of_word, joined, unknown, specials)
    return Tokenizer(
        _numbered(first, (left + right for left, right in pairs)),
        [(left.encode(), right.encode()) for left, right in pairs],
        specials,
        counts.pattern,
        algorithm=CharacterBpe(end_of_word, joined, unknown),
    )


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
    algorithm = tokenizer.algorithm
    if not isinstance(algorithm, CharacterBpe):
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
    resume_from: Path | Checkpoint | None = None,
    checkpoint: Path | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train WordPiece: the pair of the best score becomes one token, again and again.

    ``ratio`` is n_ab / (n_a · n_b), ``gain`` n_ab · log(n_ab · N / (n_a · n_b)), with the counts of
    the present segmentation, N tokens in all. Ties go to the more frequent pair, then to the one
    of the rarest parts, then of the smallest ids. Ids: the unknown token, the special tokens, the
    characters, the merges.

    Args:
        counts: word counts.
        vocab_size: all tokens together; fewer when no pair occurs ``min_count`` times.
        score: ``ratio`` loves rare pairs, so it wants a ``min_count`` above 2 on large corpora.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        continuation, unknown, max_word_characters: see `WordPiece`. Training sees all words.
        special_tokens: further tokens.
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, a vocabulary that cannot hold the characters, or
            a checkpoint of other counts or settings.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    words = words_that_go_on(prune(counts, min_word_count)[0], continuation)
    specials = validate_special_tokens(special_tokens)
    first = list(dict.fromkeys([unknown, *specials, *words.tokens]))
    merges = vocab_size - len(first)
    if merges < 0:
        raise InvalidOption(
            f"a vocabulary of {vocab_size} has no room for {len(words.tokens)} characters and "
            f"{len(first) - len(words.tokens)} marks and special tokens",
            f"vocab_size is a whole number from {len(first)} on",
            "leave out rare words with min_word_count, or ask for more",
        )
    settings = WordPieceSettings(score, min_count, min_word_count)
    course = Course(resume_from, checkpoint, on_progress=on_progress)
    pairs = learn_wordpiece(counts, words, merges, settings, continuation, course)
    made = [left + right.removeprefix(continuation) for left, right in pairs]
    return Tokenizer(
        _numbered(first, made),
        [],
        specials,
        counts.pattern,
        algorithm=WordPiece(continuation, unknown, max_word_characters),
    )


def character_base(
    counts: WordCounts,
    min_word_count: int = 1,
    *,
    end_of_word: str = END_OF_WORD,
    joined: bool = False,
    unknown: str = "<unk>",
    special_tokens: Sequence[str] = (),
) -> list[str]:
    """The tokens that `train_char_bpe` begins with: its least vocabulary.

    Raises:
        InvalidOption, EmptyCorpus: as `train_char_bpe`.
    """
    words = words_with_ends(prune(counts, min_word_count)[0], end_of_word)
    return _first_of_characters(words, end_of_word, joined, unknown, special_tokens)


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
    return list(dict.fromkeys([unknown, *special_tokens, *words.tokens]))


def learn_wordpiece(
    counts: WordCounts,
    words: CharacterWords,
    merges: int,
    settings: WordPieceSettings,
    continuation: str,
    course: Course,
) -> list[tuple[str, str]]:
    """The pairs that WordPiece joins, in order, as texts; see `train_wordpiece`."""
    validate_options(merges, "smallest-ids", settings.min_count, settings.min_word_count)
    validate_score(settings.score)
    engine = partial(ScoringEngine, words.words, score=settings.score, min_count=settings.min_count)
    learned = learn_with(engine, merges, counts, settings.digest, course)
    return _pairs_of_texts(words, learned, continuation)


def train_frequency_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = END_OF_WORD,
    min_count: int = 1,
    min_word_count: int = 1,
    sentences: Sentences = "punkt",
    resume_from: Path | Checkpoint | None = None,
    checkpoint: Path | None = None,
    on_progress: OnProgress | None = None,
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
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, a mark that a word holds, sentences by a library
            that is not installed, or a checkpoint of other counts or settings.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    frequent = prune(counts, min_word_count)[0].in_order_of_sight()
    words = words_with_ends(frequent, end_of_word)
    settings = CharacterSettings(end_of_word, False, "first-seen", min_count, min_word_count)
    course = Course(resume_from, checkpoint, on_progress=on_progress)
    learned = _learn_characters(counts, words, merges, settings, course)
    pairs = _pairs_of_texts(words, learned)
    made = [left + right for left, right in pairs]
    frequencies: Counter[str] = Counter()
    for token, count in zip(made, learned.counts.tolist(), strict=True):
        frequencies[token] += count
    tokens = list(dict.fromkeys([*words.tokens, *made]))
    ids = {token: id_ for id_, token in enumerate(tokens)}
    merged = by_rank(CharacterBpe(end_of_word), ids, pairs, len(ids))
    text = Text.of(frequent.word_bytes.tobytes())
    pieces = merged.pieces_of(text, frequent.offsets[:-1].copy(), frequent.lengths)
    distinct, firsts, numbers = np.unique(pieces.ids, return_index=True, return_counts=True)
    seen = np.argsort(firsts)
    found = zip(distinct[seen].tolist(), numbers[seen].tolist(), strict=True)
    standing = {tokens[id_]: number for id_, number in found}
    standing |= dict.fromkeys(_marks_of_frequency_bpe(), 1)
    first = sorted(standing, key=lambda token: -standing[token])
    rest = sorted(tokens, key=lambda token: -frequencies[token])
    by_frequency = tuple(frequencies.most_common())
    return Tokenizer(
        _numbered(first, rest),
        [],
        pattern=counts.pattern,
        algorithm=FrequencyBpe(end_of_word, sentences=sentences, frequencies=by_frequency),
    )


def frequency_base(
    counts: WordCounts, min_word_count: int = 1, *, end_of_word: str = END_OF_WORD
) -> list[str]:
    """The tokens that `train_frequency_bpe` begins with: its least vocabulary.

    Raises:
        InvalidOption, EmptyCorpus: as `train_frequency_bpe`.
    """
    words = words_with_ends(prune(counts, min_word_count)[0], end_of_word)
    return list(dict.fromkeys([*_marks_of_frequency_bpe(), *words.tokens]))


def _marks_of_frequency_bpe() -> tuple[str, str, str, str]:
    marks = FrequencyBpe()
    return marks.line_begin, marks.line_end, PADDING, marks.unknown


def _learn_characters(
    counts: WordCounts,
    words: CharacterWords,
    merges: int,
    settings: CharacterSettings,
    course: Course,
) -> LearnedMerges:
    """The merges; where the mark is joined to the last characters, these merges come first."""
    validate_options(merges, settings.tie_break, settings.min_count, settings.min_word_count)
    given = words.ends.astype(np.int32) if settings.joined else None
    engine = partial(
        MergeEngine,
        words.words,
        tie_break=settings.tie_break,
        min_count=settings.min_count,
        free_application=settings.joined,
    )
    goal = merges + (0 if given is None else len(given))
    return learn_with(engine, goal, counts, settings.digest, course, given=given)


def _pairs_of_texts(
    words: CharacterWords, learned: LearnedMerges, continuation: str = ""
) -> list[tuple[str, str]]:
    """The texts of both parts of each merge; the right one's mark vanishes inside the whole."""
    tokens, pairs = list(words.tokens), []
    for left, right in learned.pairs():
        pair = tokens[left], tokens[right]
        pairs.append(pair)
        tokens.append(pair[0] + pair[1].removeprefix(continuation))
    return pairs


def _first_of_characters(
    words: CharacterWords, end_of_word: str, joined: bool, unknown: str, specials: Sequence[str]
) -> list[str]:
    """All symbols, or with ``joined`` the characters and those that end words."""
    base = list(words.tokens)
    if joined:
        base.remove(end_of_word)
        base += [words.tokens[left] + words.tokens[right] for left, right in words.ends.tolist()]
    return list(dict.fromkeys([unknown, *specials, *base]))


def _numbered(first: Iterable[str], then: Iterable[str]) -> dict[int, bytes]:
    """Each token once, in order."""
    distinct = dict.fromkeys([*first, *then])
    return {id_: token.encode() for id_, token in enumerate(distinct)}
