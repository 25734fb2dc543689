"""Which trainings are compared when sources count more or less: one for each choice of weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bpeline.flows.requests import (
    TrainingRequest,
    corpus_sources,
    decimal,
    is_file,
    read_corpus_file,
    with_weights,
)
from bpeline.flows.steps.trials import MOST_TRIALS
from bpeline.registry.lineage import Lineage
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.references import parse_registered
from bpeline.tokenizer_core.errors import InvalidOption

_HOW = {"workers", "table_memory", "rules"}  # of a version's request, what is not asked for again


def requests_of_mixtures(
    corpus: str,
    weights: Iterable[Mapping[str, float]],
    temperatures: Iterable[float],
    workspace: str | None,
    parameters: Mapping[str, Any],
) -> dict[str, TrainingRequest]:
    """Each choice by its title, the present one first; arguments as for `compare_mixtures`."""
    asked = _asked(corpus, parameters, workspace)
    requests = dict(_choices(asked, weights, temperatures))
    if not 2 <= len(requests) <= MOST_TRIALS:
        raise InvalidOption(
            f"there are {len(requests) - 1} choices to compare with what is",
            f"at least one, and at most {MOST_TRIALS - 1}",
            "type `--weights de=2,en=1 --weights de=4 --temperatures 2,5`",
        )
    return requests


def _asked(corpus: str, parameters: Mapping[str, Any], workspace: str | None) -> dict[str, Any]:
    """What a training of the corpus would be asked for, as it is."""
    if is_file(corpus):
        sources, temperature = read_corpus_file(Path(corpus))
        mine = {"sources": sources, "temperature": temperature, "name": Path(corpus).stem.lower()}
        return {"paths": [], **mine, **parameters}
    parsed = parse_registered(corpus)
    registry = open_registry(workspace, make=False)
    lineage = Lineage.of(registry, resolve(registry, parsed))
    request = {key: value for key, value in lineage.request.items() if key not in _HOW}
    if not request.get("sources"):
        raise InvalidOption(
            f"{lineage.version} was not trained on named sources",
            "a version that was, or a corpus file that names its sources",
            "type `bpeline mixtures corpus.toml --weights de=2 --temperatures 2,5`",
        )
    return {**request, **parameters}


def _choices(
    asked: Mapping[str, Any], weights: Iterable[Mapping[str, float]], temperatures: Iterable[float]
) -> Iterable[tuple[str, TrainingRequest]]:
    present = TrainingRequest.checked(**asked)
    yield "as it is", present
    for some in weights:
        changed = with_weights(corpus_sources(present.sources), some)
        spelt = tuple(spelling for one in changed for spelling in one.spelt())
        title = " ".join(f"{name}={decimal(weight)}" for name, weight in some.items())
        yield title, TrainingRequest.checked(**{**asked, "sources": spelt})
    for temperature in temperatures:
        if temperature != present.temperature:
            told = {"temperature": temperature, "sources": present.sources}
            yield f"T={decimal(temperature)}", TrainingRequest.checked(**{**asked, **told})
