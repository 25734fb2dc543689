"""Joint or separate tokenizers for several languages, and their costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bpeline.flows.learning import learned_from
from bpeline.flows.publishing import TrainingSummary
from bpeline.flows.requests import AUTO, BYTE_BPE, CHARACTER_BPE
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import validate_name
from bpeline.registry.versions import keep_languages
from bpeline.tokenizer_core.algorithms import SubwordText
from bpeline.tokenizer_core.counting import WordCounts
from bpeline.tokenizer_core.derived import token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import LanguageChoices, compare_choices
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.vocabulary import to_printable

Choice = Literal["joint", "separate"]


@dataclass(frozen=True, slots=True)
class LanguagesSummary:
    """The trainings of several languages."""

    choice: Choice
    trainings: tuple[TrainingSummary, ...]
    compared: LanguageChoices

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        trained = [training.as_dict() for training in self.trainings]
        return {"choice": self.choice, "trainings": trained, "compared": self.compared.as_dict()}

    def as_text(self) -> str:
        """Return text for a terminal."""
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
    """Store a version's figures by language, joint and separate."""
    keep_languages(
        registry,
        name,
        tokenizer,
        {"choice": choice, **compared.as_dict()},
        {language: token_counts(tokenizer, counts) for language, counts in words.items()},
        {language: vocabulary_of(tokenizer, counts) for language, counts in words.items()},
    )


def vocabulary_of(tokenizer: Tokenizer, words: WordCounts) -> str:
    """Return the tokens in a language's words with their counts, most frequent first.

    For character BPE in the format of ``subword-nmt --vocabulary``, for byte-level BPE in the
    printable mapping of vocab.json. Ties keep the order of first occurrence, or of ids.
    """
    if tokenizer.algorithm.name == CHARACTER_BPE:
        seen = SubwordText(tokenizer).vocabulary(words)
    else:
        counts = enumerate(token_counts(tokenizer, words).tolist())
        seen = [(to_printable(tokenizer.vocab[id_]), count) for id_, count in counts if count]
    ordered = sorted(seen, key=lambda entry: -entry[1])
    return "".join(f"{token} {count}\n" for token, count in ordered)


ALGORITHMS = (CHARACTER_BPE, BYTE_BPE)


def train_languages(
    languages: Mapping[str, list[str]],
    choice: Choice,
    name: str,
    train: Callable[[dict[str, Any]], TrainingSummary],
    **parameters: Any,
) -> LanguagesSummary:
    """Train on several languages and compare joint with separate vocabularies.

    Args:
        choice: ``joint`` registers one tokenizer under ``name``, ``separate`` one per language
            under ``name-language``.
    """
    _check(languages, parameters.get("algorithm", BYTE_BPE), parameters)
    together = [path for paths in languages.values() for path in paths]
    separately = {
        language: {**parameters, "name": validate_name(f"{name}-{language}"), "paths": paths}
        for language, paths in languages.items()
    }
    together_parameters = {**parameters, "name": name, "paths": together}
    trained = [together_parameters] if choice == "joint" else list(separately.values())
    trainings = tuple(train(single) for single in trained)
    registry = open_registry(parameters.get("workspace"))
    with registry.workspace.lock(f"comparing the languages of {name!r}"):
        words, separate = {}, {}
        for language, single in separately.items():
            words[language], separate[language] = learned_from(single, registry)
        _, joint = learned_from(together_parameters, registry)
        compared = compare_choices(words, joint, separate)
        if choice == "joint":
            keep_choice(registry, name, joint, words, choice, compared)
        else:
            for language, tokenizer in separate.items():
                own, counts = separately[language]["name"], {language: words[language]}
                keep_choice(registry, own, tokenizer, counts, choice, compared)
    return LanguagesSummary(choice, trainings, compared)


def _check(
    languages: Mapping[str, list[str]], algorithm: str, parameters: Mapping[str, Any]
) -> None:
    for language in languages:
        validate_name(language)
    if parameters.get("vocab_size") == AUTO or parameters.get("largest_size"):
        raise InvalidOption(
            "the vocab size of several languages cannot be chosen automatically",
            "expected one size: joint and separate vocabularies are compared at the same number "
            "of ids",
            "type a number, `--vocab-size 32000`; or choose one size for all: `bpeline train "
            "--source src=FILES --source tgt=FILES --name NAME --vocab-size auto "
            "--model-shape llama-3.2-1b`",
        )
    if len(languages) < 2:
        raise InvalidOption(
            f"{len(languages)} language was named",
            "expected two or more, each as LANGUAGE=FILES",
            "type `--joint src=FILES --joint tgt=FILES`",
        )
    if algorithm not in ALGORITHMS:
        raise InvalidOption(
            f"joint and separate vocabularies were requested with {algorithm}",
            f"expected {' or '.join(ALGORITHMS)}",
            f"type `--algorithm {CHARACTER_BPE}`",
        )
