"""WordPiece trained: word counts in, a tokenizer out, on the merge engine that goes by scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bpeline.tokenizer_core.algorithms.wordpiece.codec import WordPiece
from bpeline.tokenizer_core.algorithms.wordpiece.scoring_engine import (
    LikelihoodEngine,
    Score,
    ScoringEngine,
    validate_score,
)
from bpeline.tokenizer_core.arguments import checked, whole_number
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.merging import (
    CharacterWords,
    Checkpoint,
    Course,
    OnProgress,
    learn_with,
    numbered,
    pairs_of_texts,
    prune,
    validate_options,
    words_that_go_on,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import refuse_special_tokens_in_words
from bpeline.tokenizer_core.vocabulary import validate_special_tokens

_WORDPIECE = "wordpiece 1"  # to be counted up when the same settings learn other merges


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


@checked
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
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train WordPiece: the pair of the best score becomes one token, again and again.

    ``ratio`` is n_ab / (n_a · n_b), ``gain`` n_ab · log(n_ab · N / (n_a · n_b)), with the counts of
    the present segmentation, N tokens in all. ``likelihood`` is exact: what the log-likelihood of
    the words gains by the merge under a unigram model of tokens that is estimated anew; ``gain``
    is that gain while n_a, n_b and N are taken to stay as they are. Ties go to the more frequent
    pair, then to the one of the rarest parts, then of the smallest ids. Ids: the unknown token,
    the special tokens, the characters, the merges.

    Args:
        counts: word counts.
        vocab_size: all tokens together; fewer when no pair occurs ``min_count`` times.
        score: ``ratio`` loves rare pairs, so it wants a ``min_count`` above 2 on large corpora;
            ``likelihood`` looks at every pair before every merge, which takes long on large ones.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        continuation, unknown, max_word_characters: see `WordPiece`. Training sees all words.
        special_tokens: further tokens.
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, a vocabulary that cannot hold the characters, or
            a checkpoint of other counts or settings.
        InvalidSpecialToken: empty, duplicate, or occurring in the words.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    whole_number("max_word_characters", max_word_characters, 1)
    words = words_that_go_on(prune(counts, min_word_count)[0], continuation)
    specials = validate_special_tokens(special_tokens)
    refuse_special_tokens_in_words(specials, counts)
    first = list(dict.fromkeys([unknown, *specials, *words.tokens]))
    if vocab_size < len(first):
        raise InvalidOption(
            f"a vocabulary of {vocab_size!r} has no room for {len(words.tokens)} characters and "
            f"{len(first) - len(words.tokens)} marks and special tokens",
            f"vocab_size is a whole number from {len(first)} on",
            "leave out rare words with min_word_count, or ask for more",
        )
    merges = vocab_size - len(first)
    settings = WordPieceSettings(score, min_count, min_word_count)
    course = Course(resume_from, checkpoint, on_progress=on_progress)
    pairs = learn_wordpiece(counts, words, merges, settings, continuation, course)
    made = [left + right.removeprefix(continuation) for left, right in pairs]
    return Tokenizer(
        numbered(first, made),
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
    least, score = settings.min_count, settings.score
    engine = (
        partial(LikelihoodEngine, words.words, min_count=least)
        if score == "likelihood"
        else partial(ScoringEngine, words.words, score=score, min_count=least)
    )
    learned = learn_with(engine, merges, counts, settings.digest, course)
    return pairs_of_texts(words, learned, continuation)
