"""Several languages: one tokenizer for all or one for each, and what the other choice would be.

Both choices are learned, one is registered: words are counted once whatever is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bpeline.flows.requests import BYTE_BPE, CHARACTER_BPE, TrainingRequest
from bpeline.flows.steps import TrainingSummary, add_up, count_words, learn, plan_chunks
from bpeline.registry.languages import keep_languages
from bpeline.registry.opening import open_registry
from bpeline.registry.references import validate_name
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.algorithms import SubwordText
from bpeline.tokenizer_core.encoding import token_counts
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import LanguageChoices, compare_choices
from bpeline.tokenizer_core.model import to_printable

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.tokenizer import Tokenizer

Choice = Literal["joint", "separate"]
ALGORITHMS = (CHARACTER_BPE, BYTE_BPE)


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
    _check(languages, parameters.get("algorithm", BYTE_BPE))
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
            words[language], separate[language] = _learned(one, registry)
        _, joint = _learned(jointly, registry)
        compared = compare_choices(words, joint, separate)
        kept = {name: (joint, words)}
        if choice == "separate":
            kept = {
                asked[language]["name"]: (separate[language], {language: words[language]})
                for language in languages
            }
        for registered, (tokenizer, of_languages) in kept.items():
            keep_languages(
                registry,
                registered,
                tokenizer,
                {"choice": choice, **compared.as_dict()},
                {one: token_counts(tokenizer, counts) for one, counts in of_languages.items()},
                {one: vocabulary_of(tokenizer, counts) for one, counts in of_languages.items()},
            )
    return LanguagesSummary(choice, trainings, compared)


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


def _check(languages: Mapping[str, list[str]], algorithm: str) -> None:
    for language in languages:
        validate_name(language)
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


def _learned(parameters: Mapping[str, Any], registry: Registry) -> tuple[WordCounts, Tokenizer]:
    """The words of a training and the tokenizer they make; what is known is not made again."""
    told = {key: value for key, value in parameters.items() if key != "workspace"}
    request, workspace = TrainingRequest.checked(**told), registry.workspace
    plan = plan_chunks(request, registry)
    corpus = count_words(plan, request, registry)
    counted = add_up(corpus, request, workspace)
    counts = WordCountStore(workspace).open_table(counted.table)
    return counts, learn(counted, request, workspace).tokenizer(request)
