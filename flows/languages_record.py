"""What came of training on several languages: a summary, and what is kept with each version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bpeline.flows.requests import CHARACTER_BPE
from bpeline.flows.steps import TrainingSummary
from bpeline.registry.opening import Registry
from bpeline.registry.versions import keep_languages
from bpeline.tokenizer_core.algorithms import SubwordText
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.evaluation import LanguageChoices
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import to_printable

Choice = Literal["joint", "separate"]


@dataclass(frozen=True, slots=True)
class LanguagesSummary:
    """What came of it.

    Attributes:
        choice: what was registered.
        trainings: of all languages together, or of each.
        compared: both choices.
    """

    choice: Choice
    trainings: tuple[TrainingSummary, ...]
    compared: LanguageChoices

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        trained = [training.as_dict() for training in self.trainings]
        return {"choice": self.choice, "trainings": trained, "compared": self.compared.as_dict()}

    def as_text(self) -> str:
        """For a terminal."""
        return "\n".join(
            [*(training.as_text() for training in self.trainings), "", self.compared.as_text()]
        )


def keep_choice(
    registry: Registry,
    name: str,
    tokenizer: Tokenizer,
    words: Mapping[str, WordCounts],
    choice: Choice,
    compared: LanguageChoices,
) -> None:
    """Keep with a version what it makes of its languages, and the other choice."""
    keep_languages(
        registry,
        name,
        tokenizer,
        {"choice": choice, **compared.as_dict()},
        {language: token_counts(tokenizer, counts) for language, counts in words.items()},
        {language: vocabulary_of(tokenizer, counts) for language, counts in words.items()},
    )


def vocabulary_of(tokenizer: Tokenizer, words: WordCounts) -> str:
    """The tokens in the words of a language with their counts, the most frequent first.

    Of character BPE as ``subword-nmt`` writes them, for its ``--vocabulary``; of byte-level BPE in
    the printable mapping of vocab.json. Equally frequent ones stand in order of sight, or of ids.
    """
    if tokenizer.algorithm.name == CHARACTER_BPE:
        seen = SubwordText(tokenizer).vocabulary(words)
    else:
        counts = enumerate(token_counts(tokenizer, words).tolist())
        seen = [(to_printable(tokenizer.vocab[id_]), count) for id_, count in counts if count]
    ordered = sorted(seen, key=lambda entry: -entry[1])
    return "".join(f"{token} {count}\n" for token, count in ordered)
