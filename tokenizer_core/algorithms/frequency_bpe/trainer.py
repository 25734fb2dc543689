"""Frequency BPE trained: word counts in, a tokenizer out, on the one merge engine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from bpeline.tokenizer_core.algorithms.frequency_bpe.codec import PADDING, FrequencyBpe
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.merging import (
    END_OF_WORD,
    CharacterSettings,
    Checkpoint,
    Course,
    OnProgress,
    learn_characters,
    numbered,
    pairs_of_texts,
    prune,
    words_with_ends,
)
from bpeline.tokenizer_core.splitting import Punkt
from bpeline.tokenizer_core.text import Text
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.word_encoding import by_rank


@checked
def train_frequency_bpe(
    counts: WordCounts,
    merges: int,
    *,
    end_of_word: str = END_OF_WORD,
    min_count: int = 1,
    min_word_count: int = 1,
    sentences: str = "punkt",
    word_sentences: Literal["sentences", "text"] = "sentences",
    parts: Literal["all", "none"] = "all",
    min_sentence_characters: int = 1,
    resume_from: Path | str | Checkpoint | None = None,
    checkpoint: Path | str | None = None,
    on_progress: OnProgress | None = None,
) -> Tokenizer:
    """Train frequency BPE: character BPE whose merges are applied by their frequency.

    Ids: tokens by how often they stand in the distinct words once all merges are applied, each
    word counted once, and the four marks as if they stood there once, ties in order of sight; then
    what is only part of longer tokens, the most frequent merge first. Frequencies: those numbers,
    and of each text that was merged how often it was, all its merges together.

    Args:
        counts: word counts, by ``wordpunct`` as a rule; where Punkt finds sentences, words within
            them: ``count_words(…, "wordpunct", sentences="punkt")``.
        merges: how many at most.
        end_of_word: the symbol behind the last character of a word; words may hold it, see
            `merging.words_with_ends`.
        min_count, min_word_count: rarer pairs and rarer words are left out.
        sentences: how the tokenizer finds sentences: ``none``, ``lines``, ``punkt``,
            ``punkt:LANGUAGE`` or ``punkt:DIRECTORY``; see `FrequencyBpe` and `Punkt`.
        word_sentences: ``text`` takes word counts of the whole text with Punkt, too.
        parts: ``none`` gives no ids to what is only part of longer tokens, as the program that this
            follows: it is encoded as unknown.
        min_sentence_characters: it leaves shorter ones out; 2 leaves out those of one character.
        resume_from, checkpoint, on_progress: see `Course`.

    Raises:
        InvalidOption: a parameter out of range, sentences by a library
            that is not installed, counts of words read in another way, or a checkpoint of other
            counts or settings.
        EmptyCorpus, CorpusError: no words, or too many for 64 bits.
        CorruptFile, DiskFull: see `learn_with`.
    """
    if min_sentence_characters < 1 or (min_sentence_characters > 1 and sentences == "none"):
        raise InvalidOption(
            f"min_sentence_characters is {min_sentence_characters}, sentences are {sentences}",
            "a number from 1 on, and other sentences than 'none' where it is above 1",
            "leave it out to encode all sentences",
        )
    punkt = Punkt.asked(sentences)
    _require_counts_within(punkt if word_sentences == "sentences" else None, counts)
    frequent = prune(counts, min_word_count)[0].in_order_of_sight()
    words = words_with_ends(frequent, end_of_word)
    settings = CharacterSettings(end_of_word, False, "first-seen", min_count, min_word_count)
    course = Course(resume_from, checkpoint, on_progress=on_progress)
    learned = learn_characters(counts, words, merges, settings, course)
    pairs = pairs_of_texts(words, learned)
    made = [left + right for left, right in pairs]
    frequencies: Counter[str] = Counter()
    for token, count in zip(made, learned.counts.tolist(), strict=True):
        frequencies[token] += count
    tokens = list(dict.fromkeys([*words.tokens, *made]))
    ids = {token: id_ for id_, token in enumerate(tokens)}
    merged = by_rank(ids, pairs, len(ids), end_of_word)
    text = Text.of(frequent.word_bytes.tobytes())
    pieces = merged.pieces_of(text, frequent.offsets[:-1].copy(), frequent.lengths)
    distinct, firsts, numbers = np.unique(pieces.ids, return_index=True, return_counts=True)
    seen = np.argsort(firsts)
    found = zip(distinct[seen].tolist(), numbers[seen].tolist(), strict=True)
    standing = {tokens[id_]: number for id_, number in found}
    standing |= dict.fromkeys(_marks_of_frequency_bpe(), 1)
    first = sorted(standing, key=lambda token: -standing[token])
    rest = [] if parts == "none" else sorted(tokens, key=lambda token: -frequencies[token])
    by_frequency = tuple({**standing, **frequencies}.items())
    return Tokenizer(
        numbered(first, rest),
        [],
        pattern=counts.pattern.within(None),
        algorithm=FrequencyBpe(
            end_of_word,
            frequencies=by_frequency,
            min_sentence_characters=min_sentence_characters,
        ).with_sentences(sentences),
    )


def _require_counts_within(punkt: Punkt | None, counts: WordCounts) -> None:
    """Refuse counts of words that were not read as the tokenizer will read them."""
    within = counts.pattern.sentences
    if within != punkt:
        raise InvalidOption(
            f"the words were counted in {_of(within)}",
            f"words counted in {_of(punkt)}, in which the tokenizer finds them",
            'count_words(…, "wordpunct", sentences="punkt"), or word_sentences="text"',
        )


def _of(punkt: Punkt | None) -> str:
    return "the whole text" if punkt is None else f"sentences by {punkt.name[:14]}"


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
