"""The steps of each algorithm's training on small word counts, as `visible_steps` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.model import byte_order, to_printable, token_bytes
from bpeline.tokenizer_core.trainers.bpe import learn_merges
from bpeline.tokenizer_core.trainers.characters import (
    WordPieceSettings,
    learn_wordpiece,
    train_char_bpe,
)
from bpeline.tokenizer_core.trainers.learning import Course
from bpeline.tokenizer_core.trainers.scoring_engine import Score
from bpeline.tokenizer_core.trainers.symbol_words import words_that_go_on
from bpeline.tokenizer_core.trainers.visible_steps import VisibleMerge, VisibleStep, visible_steps

LARGEST = 100_000  # bytes of distinct words; beyond, nobody reads what is printed

ALGORITHMS = ("byte-bpe", "char-bpe", "wordpiece", "frequency-bpe")


def steps_of(
    algorithm: str,
    counts: WordCounts,
    merges: int,
    *,
    tie_break: str | None = None,
    min_count: int | None = None,
    end_of_word: str = "</w>",
    joined: bool = False,
    score: Score = "ratio",
    continuation: str = "##",
) -> Iterator[VisibleStep]:
    """Train on small counts and show each iteration.

    Args:
        algorithm: one of `ALGORITHMS`; the other parameters are those of its trainer, and its
            defaults hold where None is given.
        counts: words; shown in order of sight.
        merges: how many at most.

    Raises:
        InvalidOption: an algorithm of another name, words of more than `LARGEST` bytes, or what
            the trainer refuses.
        EmptyCorpus, CorpusError: as the trainer.
    """
    if len(counts.word_bytes) > LARGEST:
        raise InvalidOption(
            f"the distinct words hold {len(counts.word_bytes):,} bytes, too many to show each step",
            f"up to {LARGEST:,} bytes of distinct words",
            "show the steps on a few lines of the text",
        )
    words = counts.in_order_of_sight()
    texts = [(word.decode(errors="replace"), count) for word, count in words.items()]
    match algorithm:
        case "byte-bpe":
            least = 2 if min_count is None else min_count
            order = tie_break or "smallest-ids"
            learned = learn_merges(words, merges, tie_break=order, min_count=least)
            tokens = list(map(to_printable, token_bytes(learned.pairs(), byte_order(order))))
            pairs = [(tokens[left], tokens[right]) for left, right in learned.pairs()]
            symbols = [([*to_printable(word)], count) for word, count in words.items()]
        case "char-bpe" | "frequency-bpe":
            usual = 2 if algorithm == "char-bpe" else 1
            joined = joined and algorithm == "char-bpe"  # the other has no such choice
            tokenizer = train_char_bpe(
                words,
                merges,
                end_of_word=end_of_word,
                joined=joined,
                tie_break=tie_break or "first-seen",
                min_count=usual if min_count is None else min_count,
            )
            pairs = [(left.decode(), right.decode()) for left, right in tokenizer.merges]
            mark = [] if joined else [end_of_word]
            last = end_of_word if joined else ""
            symbols = [([*text[:-1], text[-1] + last, *mark], count) for text, count in texts]
        case "wordpiece":
            rows = words_that_go_on(words, continuation)
            settings = WordPieceSettings(score, 2 if min_count is None else min_count, 1)
            pairs = learn_wordpiece(words, rows, merges, settings, continuation, Course())
            symbols = [
                ([text[0], *(continuation + c for c in text[1:])], count) for text, count in texts
            ]
        case _:
            raise InvalidOption(
                f"there is no algorithm {algorithm!r}",
                f"accepted: {', '.join(ALGORITHMS)}",
                "use 'char-bpe' for the examples of the papers",
            )
    inner = continuation if algorithm == "wordpiece" else ""
    made = [VisibleMerge(left, right, left + right.removeprefix(inner)) for left, right in pairs]
    return visible_steps(symbols, made)
