"""Files that name the sources of a corpus, and the texts of an evaluation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bpeline.flows.requests.source_spelling import NamedSource, SourceKind, check_weight, is_file
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import LABELS

CORPUS = SourceKind(
    "source",
    "source",
    ("language", "domain", "weight", "text_field"),
    "type `--source 'german:language=de:weight=2=de/*.txt'`",
    "in place of paths a .toml file",
)


def corpus_sources(spellings: Iterable[str]) -> tuple[NamedSource, ...]:
    """The sources that were typed; those of one name are one source with all their files.

    Raises:
        InvalidOption: not an accepted spelling, or one name with different labels.
    """
    return CORPUS.joined(CORPUS.from_text(spelling) for spelling in spellings)


def read_corpus_file(path: Path) -> tuple[list[str], float | None]:
    """The sources of a corpus file as one would type them, and its temperature.

    Raises:
        InvalidOption: not such a file.
    """
    sources, others = CORPUS.from_file(path, {"temperature"})
    temperature = others.get("temperature")
    if isinstance(temperature, bool) or not isinstance(temperature, int | float | None):
        raise CORPUS.unusable(path, f"the temperature is {temperature!r}")
    spelt = [one for source in CORPUS.joined(sources) for one in source.spelt()]
    return spelt, None if temperature is None else float(temperature)


def is_version(paths: Sequence[str]) -> bool:
    """Whether a sweep of mixtures was given a version, whose sources it weighs, and no files."""
    return len(paths) == 1 and not is_file(paths[0])


def with_weights(
    sources: Sequence[NamedSource], weights: Mapping[str, float]
) -> tuple[NamedSource, ...]:
    """The same sources with other weights; those that are not named keep theirs.

    Raises:
        InvalidOption: no sources, one that is not there, or an impossible weight.
    """
    names = [source.name for source in sources]
    if not names:
        raise InvalidOption(
            "the corpus has no named sources",
            "a corpus file or `--source` options, or a version that was trained on named sources",
            "type `bpeline sweep corpus.toml --weights de=2 --sizes 32000`",
        )
    for name, weight in weights.items():
        if name not in names:
            raise InvalidOption(
                f"there is no source {name} to be weighed",
                f"the sources are {', '.join(names)}",
                f"type `--weights {names[0]}=2`",
            )
        check_weight(weight)
    return tuple(replace(one, weight=weights.get(one.name, one.weight)) for one in sources)


def check_temperature(temperature: float, sources: Sequence[NamedSource]) -> None:
    """Refuse a temperature that is impossible or has nothing to change.

    Raises:
        InvalidOption: such a temperature.
    """
    from bpeline.tokenizer_core.counting import weights_at

    weights_at([], [], temperature)
    if temperature != 1 and len(sources) < 2:
        raise InvalidOption(
            f"the temperature is {temperature}, and the corpus has no two named sources",
            "a temperature changes the shares of named sources",
            "name them: `--source 'en=en/*.txt' --source 'de=de/*.txt'`",
        )


EVALUATION = SourceKind(
    "evaluation source", "evaluation", LABELS, "type `--eval 'english=heldout/*.txt'`"
)


@dataclass(frozen=True, slots=True)
class EvaluationSources:
    """Everything to evaluate on; nothing when there are no sources.

    Attributes:
        sources: names differ.
        parallel: the texts of all languages say the same.
    """

    sources: tuple[NamedSource, ...] = ()
    parallel: bool = False


def evaluation_sources(spellings: Iterable[str]) -> EvaluationSources:
    """What was typed, with the tables of TOML files in their places.

    Sources of one name are one source with all their files.

    Raises:
        InvalidOption: not an accepted spelling, or one name with different labels.
    """
    sources: list[NamedSource] = []
    parallel = False
    for spelling in spellings:
        if is_file(spelling):
            listed, others = EVALUATION.from_file(Path(spelling), {"parallel"})
            said = others.get("parallel", False)
            if not isinstance(said, bool):
                refused = f"parallel is {said!r}, not true or false"
                raise EVALUATION.unusable(Path(spelling), refused)
            sources += listed
            parallel |= said
        else:
            sources.append(EVALUATION.from_text(spelling))
    return EvaluationSources(EVALUATION.joined(sources), parallel)


def is_named(spelling: str) -> bool:
    """Whether sources are named, here or in a TOML file; a file with `=` in its name is not."""
    return spelling.endswith(".toml") or ("=" in spelling and not os.path.lexists(spelling))
