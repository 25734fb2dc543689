"""Several languages: one tokenizer for all or one for each, and what the other choice would be.

Both choices are learned, one is registered: words are counted once whatever is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bpeline.flows.languages_record import Choice, keep_choice
from bpeline.flows.languages_record import LanguagesSummary as LanguagesSummary
from bpeline.flows.requests import AUTO, BYTE_BPE, CHARACTER_BPE
from bpeline.flows.steps import TrainingSummary, learned_from
from bpeline.registry.opening import open_registry
from bpeline.registry.records import validate_name
from bpeline.tokenizer_core.arguments import checked
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import compare_choices

ALGORITHMS = (CHARACTER_BPE, BYTE_BPE)


@checked
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
