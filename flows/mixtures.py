"""What if sources counted more or less: weights and temperatures side by side, nothing registered.

Words are counted once; each choice costs the weighted sum, the merges and the measuring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.flows.mixtures_record import Choice, Mixtures
from bpeline.flows.requests import (
    CHAMPION,
    TrainingRequest,
    corpus_sources,
    decimal,
    is_file,
    read_corpus_file,
    with_weights,
)
from bpeline.flows.running import (
    COMBINE_COUNTS,
    COUNT_WORDS,
    EVALUATE,
    LEARN_MERGES,
    PLAN_CHUNKS,
    RECORD,
)
from bpeline.flows.steps import (
    Evaluated,
    SourceStatistics,
    combine_counts,
    corpus_inputs,
    count_words,
    curves_of,
    evaluate,
    evaluation_inputs,
    learn,
    metrics_of,
    plan_chunks,
    prepared,
    set_up_evaluation,
)
from bpeline.flows.sweep import MOST_COMBINATIONS, sweeping
from bpeline.registry.lineage import Lineage
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.references import parse_registered
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN

if TYPE_CHECKING:
    from bpeline.registry.records import CorpusInput

_HOW = {"workers", "table_memory", "rules"}  # of a version's request, what is not asked for again


def compare_mixtures(
    corpus: str,
    weights: Sequence[Mapping[str, float]] = (),
    temperatures: Sequence[float] = (),
    workspace: str | None = None,
    **parameters: Any,
) -> Mixtures:
    """Train with every choice of weights and every temperature, and measure each slice of the text.

    Args:
        corpus: a corpus file, or a registered version that was trained on named sources.
        weights: source → weight, for each choice; sources left out keep their weights.
        temperatures: each is a choice of its own, with the weights as they are.
        workspace, parameters: as for `train_tokenizer`: name, vocab_size, held_out, evaluation …
            Those of a version are its own, unless given.

    Raises:
        InvalidOption: no choice at all or too many, a source that is not there, a version that was
            trained on files without names.
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    asked = _asked(corpus, parameters, workspace)
    requests = dict(_requests(asked, weights, temperatures))
    if not 2 <= len(requests) <= MOST_COMBINATIONS:
        raise InvalidOption(
            f"there are {len(requests) - 1} choices to compare with what is",
            f"at least one, and at most {MOST_COMBINATIONS - 1}",
            "type `--weights de=2,en=1 --weights de=4 --temperatures 2,5`",
        )
    first = next(iter(requests.values()))
    varied = {"sources": [list(one.sources) for one in requests.values()], "mixtures": [*requests]}
    with sweeping(first, varied, workspace) as run:
        with prepared(run.registry.tracker) as preparing:
            setup = set_up_evaluation(first, run.workspace)
            with run.step(PLAN_CHUNKS) as outcome:
                plan = plan_chunks(first, run.registry)
                outcome(plan.outcome)
            with run.step(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
                counted = count_words(plan, first, run.registry)
                outcome(counted.outcome)
            preparing.join()
            choices: list[Choice] = []
            inputs: list[CorpusInput] = []
            for title, request in requests.items():
                with run.step(COMBINE_COUNTS) as outcome:
                    words = combine_counts(counted, request, run.registry, run.id)
                    outcome(f"{title}: {words.outcome}")
                with run.step(LEARN_MERGES, request.merges_shown, "merges") as outcome:
                    learned = learn(words, request, run.workspace)
                    outcome(learned.outcome)
                with run.step(EVALUATE) as outcome:
                    evaluated = evaluate(learned, words, plan, setup, request, run.registry)
                    outcome(evaluated.outcome)
                digest = learned.tokenizer(request).digest
                choices.append(_choice(title, request, words.sources, evaluated, digest))
                if not inputs:
                    inputs += corpus_inputs(plan, counted, words, request)
                    inputs += evaluation_inputs(evaluated)
                    if evaluated.warning:
                        run.note(evaluated.warning)
        done = Mixtures(first.name, run.id, evaluated.report.vocab_size, tuple(choices))
        with run.step(RECORD) as outcome:
            from bpeline.flows.mixtures_record import record_mixtures

            done = record_mixtures(done, requests, inputs, run.registry)
            outcome(f"{len(choices)} runs in MLflow")
        return done


def _asked(corpus: str, parameters: dict[str, Any], workspace: str | None) -> dict[str, Any]:
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


def _requests(
    asked: Mapping[str, Any], weights: Iterable[Mapping[str, float]], temperatures: Iterable[float]
) -> Iterable[tuple[str, TrainingRequest]]:
    """Each choice by its title, the present one first."""
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


def _choice(
    title: str,
    request: TrainingRequest,
    sources: tuple[SourceStatistics, ...],
    evaluated: Evaluated,
    digest: str,
) -> Choice:
    slices = evaluated.evaluation.slices
    names = [part.name for part in evaluated.evaluation.distinct_parts]
    champion = evaluated.evaluation.opponents.get(CHAMPION)
    return Choice(
        title,
        request.temperature,
        sources,
        {name: slices[name].metrics[BYTES_PER_TOKEN] for name in names},
        {} if champion is None else {name: champion.changes[name].value for name in names},
        metrics_of(evaluated),
        {BYTES_PER_TOKEN: evaluated.report.curve, **curves_of(evaluated)},
        evaluated.record(digest),
    )
