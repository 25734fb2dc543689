"""Train one tokenizer for several languages, or one for each, and summarize what they cost."""

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
        languages: name → paths. They are read in this order.
        choice: ``joint`` registers one tokenizer under ``name``, ``separate`` one for each under
            ``name-language``.
        train: runs `train_tokenizer` with the parameters it is given.
        parameters: further ones of `train_tokenizer`; the same vocabulary size or number of merges
            for the joint and for each separate tokenizer.

    Raises:
        InvalidOption: less than two languages, or an algorithm other than char-bpe and byte-bpe.
        BpelineError: see `train_tokenizer`. What was finished is kept; the same call goes on.
    """
    _check(languages, parameters.get("algorithm", BYTE_BPE), parameters)
    together = [path for paths in languages.values() for path in paths]
    asked = {
        language: {**parameters, "name": validate_name(f"{name}-{language}"), "paths": paths}
        for language, paths in languages.items()
    }
    jointly = {**parameters, "name": name, "paths": together}
    trained = [jointly] if choice == "joint" else list(asked.values())
    trainings = tuple(train(one) for one in trained)
    registry = open_registry(parameters.get("workspace"))
    with registry.workspace.lock(f"comparing the languages of {name!r}"):
        words, separate = {}, {}
        for language, one in asked.items():
            words[language], separate[language] = learned_from(one, registry)
        _, joint = learned_from(jointly, registry)
        compared = compare_choices(words, joint, separate)
        if choice == "joint":
            keep_choice(registry, name, joint, words, choice, compared)
        else:
            for language, tokenizer in separate.items():
                own, counts = asked[language]["name"], {language: words[language]}
                keep_choice(registry, own, tokenizer, counts, choice, compared)
    return LanguagesSummary(choice, trainings, compared)


def _check(
    languages: Mapping[str, list[str]], algorithm: str, parameters: Mapping[str, Any]
) -> None:
    for language in languages:
        validate_name(language)
    if parameters.get("vocab_size") == AUTO or parameters.get("largest_size"):
        raise InvalidOption(
            "the number of ids of several languages' vocabularies was to be chosen",
            "one number for the joint and for each separate vocabulary: they are compared at the "
            "same number of ids",
            "type a number, `--vocab-size 32000`; or let one for all be chosen: `bpeline train "
            "--source src=FILES --source tgt=FILES --name NAME --vocab-size auto "
            "--model-shape llama-3.2-1b`",
        )
    if len(languages) < 2:
        raise InvalidOption(
            f"{len(languages)} language was named",
            "two or more, each as LANGUAGE=FILES",
            "type `--joint src=FILES --joint tgt=FILES`",
        )
    if algorithm not in ALGORITHMS:
        raise InvalidOption(
            f"joint and separate vocabularies were asked for with {algorithm}",
            f"accepted: {', '.join(ALGORITHMS)}",
            f"type `--algorithm {CHARACTER_BPE}`",
        )
