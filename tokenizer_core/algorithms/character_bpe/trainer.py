"""Character BPE trained: word counts in, a tokenizer out, on the one merge engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bpeline.tokenizer_core.algorithms.character_bpe.codec import CharacterBpe
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.merging import (
    END_OF_WORD,
    CharacterSettings,
    CharacterWords,
    Checkpoint,
    Course,
    OnProgress,
    learn_characters,
    numbered,
    pairs_of_texts,
    prune,
    words_with_ends,
)
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import refuse_special_tokens_in_words
from bpeline.tokenizer_core.vocabulary import validate_special_tokens


@checked
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
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train character BPE (Sennrich et al. 2016).

    Ids: the unknown token, the special tokens, the characters (and with ``joined`` those that end
    words), the merges.

    Args:
        counts: word counts, by white space or another pattern.
        merges: how many at most; fewer when no pair occurs ``min_count`` times.
        end_of_word: the mark of the end of a word; words may hold it, see
            `merging.words_with_ends`.
        joined: whether it is part of the last character (``subword-nmt`` 0.2).
        tie_break: ``first-seen`` (the paper's program) or ``greatest-bytes`` (``subword-nmt``: the
            greatest pair of texts); see `tokenizer_core.vocabulary.numbering.TIE_BREAKS`.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        unknown: the token of unknown characters.
        special_tokens: further tokens.
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, or a checkpoint of other counts or settings.
        InvalidSpecialToken: empty, duplicate, or occurring in the words.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    specials = validate_special_tokens(special_tokens)
    refuse_special_tokens_in_words(specials, counts)
    words = words_with_ends(prune(counts, min_word_count)[0], end_of_word, joined)
    settings = CharacterSettings(end_of_word, joined, tie_break, min_count, min_word_count)
    course = Course(resume_from, checkpoint, on_progress=on_progress)
    learned = learn_characters(counts, words, merges, settings, course)
    pairs = pairs_of_texts(words, learned)[len(words.ends) if joined else 0 :]
    first = _first_of_characters(words, end_of_word, joined, unknown, specials)
    return Tokenizer(
        numbered(first, (left + right for left, right in pairs)),
        [(left.encode(), right.encode()) for left, right in pairs],
        specials,
        counts.pattern,
        algorithm=CharacterBpe(end_of_word, joined, unknown),
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
    words = words_with_ends(prune(counts, min_word_count)[0], end_of_word, joined)
    return _first_of_characters(words, end_of_word, joined, unknown, special_tokens)


def _first_of_characters(
    words: CharacterWords, end_of_word: str, joined: bool, unknown: str, specials: Sequence[str]
) -> list[str]:
    """All symbols, or with ``joined`` the characters and those that end words."""
    base = list(words.tokens)
    if joined:
        base.remove(end_of_word)
        base += [words.tokens[left] + words.tokens[right] for left, right in words.ends.tolist()]
    return list(dict.fromkeys([unknown, *specials, *base]))
