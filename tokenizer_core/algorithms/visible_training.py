"""Step-by-step training for small inputs: each merge, its count and the tokens.

The trainers learn the merges; this module applies them one by one in plain Python and recounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from bpeline.tokenizer_core.algorithms.reference import count_pairs, count_tokens, score_of
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.merging import CheckpointPolicy, words_that_go_on
from bpeline.tokenizer_core.training import learn_merges, merged
from bpeline.tokenizer_core.vocabulary import byte_order, to_printable, token_bytes

if TYPE_CHECKING:
    from bpeline.tokenizer_core.algorithms.wordpiece import Score

_MOST_SHOWN = 12  # words and pairs in text output; JSON has all of them
LARGEST = 100_000  # bytes of distinct words; longer output would be unreadable

ALGORITHMS = ("byte-bpe", "char-bpe", "wordpiece", "frequency-bpe")


class VisibleMerge(NamedTuple):
    left: str
    right: str
    made: str


@dataclass(frozen=True, slots=True)
class VisibleStep:
    """The words after some merges."""

    number: int  # number of merges; 0 before the first
    merge: VisibleMerge | None  # the last merge; None before the first
    count: int  # the count of its pair before the merge; ``aaa`` counts (a, a) twice
    # Everything below is in order of first occurrence.
    tokens: dict[str, int]  # token → count now
    words: tuple[tuple[tuple[str, ...], int], ...] = ()  # the tokens and the count of each word
    pairs: dict[tuple[str, str], int] = field(default_factory=dict)  # count of neighbours now
    # the criterion of the next merge: equals ``pairs``, except in WordPiece
    scores: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def times(self) -> str:
        """The count as text; of ``aaa`` only one (a, a) can be merged."""
        overlaps = self.merge is not None and self.merge.left == self.merge.right
        return f"{self.count:,} times" + ", overlaps included" * overlaps

    @property
    def best_pairs(self) -> list[tuple[str, str]]:
        """The pairs by score, the best first; ties in order of first occurrence."""
        return sorted(self.pairs, key=self.scores.__getitem__, reverse=True)


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
    """Train on small counts and yield each step.

    Args:
        algorithm: one of `ALGORITHMS`. The other parameters are those of its trainer; None stands
            for the trainer's default.
        merges: the largest number of merges.

    Raises:
        InvalidOption: an unknown algorithm, words of more than `LARGEST` bytes, or as the trainer.
    """
    if len(counts.word_bytes) > LARGEST:
        raise InvalidOption(
            f"the distinct words hold {len(counts.word_bytes):,} bytes, too many to show each step",
            f"expected up to {LARGEST:,} bytes of distinct words",
            "show the steps on a few lines of the text",
        )
    words = counts.in_order_of_sight()
    texts = [(word.decode(errors="replace"), count) for word, count in words.items()]
    if min_count is None:
        min_count = 1 if algorithm == "frequency-bpe" else 2
    match algorithm:
        case "byte-bpe":
            order = tie_break or "smallest-ids"
            learned = learn_merges(words, merges, tie_break=order, min_count=min_count)
            tokens = list(map(to_printable, token_bytes(learned.pairs(), byte_order(order))))
            pairs = [(tokens[left], tokens[right]) for left, right in learned.pairs()]
            symbols = [([*to_printable(word)], count) for word, count in words.items()]
        case "char-bpe" | "frequency-bpe":
            from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe

            joined = joined and algorithm == "char-bpe"  # frequency-bpe has no such option
            tokenizer = train_char_bpe(
                words,
                merges,
                end_of_word=end_of_word,
                joined=joined,
                tie_break=tie_break or "first-seen",
                min_count=min_count,
            )
            pairs = [(left.decode(), right.decode()) for left, right in tokenizer.merges]
            mark = [] if joined else [end_of_word]
            last = end_of_word if joined else ""
            symbols = [([*text[:-1], text[-1] + last, *mark], count) for text, count in texts]
        case "wordpiece":
            from bpeline.tokenizer_core.algorithms.wordpiece import (
                WordPieceSettings,
                learn_wordpiece,
            )

            rows = words_that_go_on(words, continuation)
            settings = WordPieceSettings(score, min_count, 1)
            pairs = learn_wordpiece(words, rows, merges, settings, continuation, CheckpointPolicy())
            symbols = [
                ([text[0], *(continuation + c for c in text[1:])], count) for text, count in texts
            ]
        case _:
            raise InvalidOption(
                f"there is no algorithm {algorithm!r}",
                f"expected {', '.join(ALGORITHMS)}",
                "use 'char-bpe' for the examples of the papers",
            )
    inner = continuation if algorithm == "wordpiece" else ""
    steps = [VisibleMerge(left, right, left + right.removeprefix(inner)) for left, right in pairs]
    return visible_steps(symbols, steps, score if algorithm == "wordpiece" else None)


def visible_steps(
    words: Iterable[tuple[Sequence[str], int]],
    merges: Iterable[VisibleMerge],
    score: Score | None = None,
) -> Iterator[VisibleStep]:
    """Yield the state before the first merge and after each; None: score by counts."""
    present = [(list(symbols), count) for symbols, count in words]
    yield _step(0, None, 0, present, score)
    for number, merge in enumerate(merges, 1):
        pair = merge.left, merge.right
        count_before = sum(count * [*pairwise(symbols)].count(pair) for symbols, count in present)
        present = [(merged(symbols, pair, merge.made), count) for symbols, count in present]
        yield _step(number, merge, count_before, present, score)


def _step(
    number: int,
    merge: VisibleMerge | None,
    found: int,
    present: list[tuple[list[str], int]],
    score: Score | None,
) -> VisibleStep:
    tokens = count_tokens(present)
    pairs = count_pairs(present)
    scores: dict[tuple[str, str], float] = dict(pairs)
    if score is not None:
        total = sum(tokens.values())
        for pair, together in pairs.items():
            scores[pair] = score_of(score, present, pair, together, tokens, total)
    words = tuple((tuple(symbols), count) for symbols, count in present)
    return VisibleStep(number, merge, found, tokens, words, pairs, scores)


def lines_of(step: VisibleStep) -> list[str]:
    tokens = ", ".join(f"{token} {count}" for token, count in step.tokens.items())
    words = [f"{' '.join(symbols)} {count}" for symbols, count in step.words[:_MOST_SHOWN]]
    words += [f"and {len(step.words) - _MOST_SHOWN:,} more"] * (len(step.words) > _MOST_SHOWN)
    best = step.best_pairs
    pairs = [_shown(step, pair) for pair in best[:_MOST_SHOWN]]
    pairs += [f"and {len(best) - _MOST_SHOWN:,} more"] * (len(best) > _MOST_SHOWN)
    head = "start"
    if step.merge is not None:
        left, right, joined = step.merge
        head = f"merge {step.number}: {left} + {right} = {joined}, which occurs {step.times}"
    return [
        head,
        f"  words: {', '.join(words)}",
        f"  tokens: {tokens}",
        f"  number of tokens: {len(step.tokens)}",
        f"  pairs: {', '.join(pairs) or 'none'}",
    ]


def _shown(step: VisibleStep, pair: tuple[str, str]) -> str:
    count, score = step.pairs[pair], step.scores[pair]
    scored = "" if score == count else f" (score {score:.4g})"
    return f"{pair[0]} + {pair[1]} {count}{scored}"
