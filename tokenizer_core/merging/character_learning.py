"""Merges over characters, learned on the one merge engine; knows no vocab and no ids.

Character BPE and frequency BPE learn the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.merging.character_words import CharacterWords
from bpeline.tokenizer_core.merging.learning import (
    Course,
    LearnedMerges,
    learn_with,
    validate_options,
)
from bpeline.tokenizer_core.merging.merge_engine import MergeEngine

END_OF_WORD = "</w>"
_CHARACTERS = "char-bpe 1"  # to be counted up when the same settings learn other merges


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


def learn_characters(
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
        allows=words.allows,
    )
    goal = merges + (0 if given is None else len(given))
    return learn_with(engine, goal, counts, settings.digest, course, given=given)


def pairs_of_texts(
    words: CharacterWords, learned: LearnedMerges, continuation: str = ""
) -> list[tuple[str, str]]:
    """The texts of both parts of each merge; the right one's mark vanishes inside the whole."""
    tokens, pairs = list(words.tokens), []
    for left, right in learned.pairs():
        pair = tokens[left], tokens[right]
        pairs.append(pair)
        tokens.append(pair[0] + pair[1].removeprefix(continuation))
    return pairs


def numbered(first: Iterable[str], then: Iterable[str]) -> dict[int, bytes]:
    """Each token once, in order."""
    distinct = dict.fromkeys([*first, *then])
    return {id_: token.encode() for id_, token in enumerate(distinct)}
