"""Trainings that are measured side by side and register nothing: of sweeps, of mixtures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bpeline.flows.requests import AUTO, TrainingRequest
from bpeline.flows.running import (
    COMBINE_COUNTS,
    COUNT_WORDS,
    EVALUATE,
    LEARN_MERGES,
    PLAN_CHUNKS,
    progress,
)
from bpeline.flows.steps.chunk_plan import CorpusPlan, plan_chunks, remarks_on
from bpeline.flows.steps.combining import CountedWords, combine_counts
from bpeline.flows.steps.counting import CountedCorpus, count_words
from bpeline.flows.steps.evaluating import Evaluated, evaluate
from bpeline.flows.steps.evaluation_metrics import Curve, curves_of, metrics_of
from bpeline.flows.steps.evaluation_setup import EvaluationSetup
from bpeline.flows.steps.learning import learn
from bpeline.flows.steps.publishing import corpus_inputs, evaluation_inputs
from bpeline.flows.steps.runs import TrainingRun, cannot_begin
from bpeline.registry.catalogue import NamedSet
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import CorpusInput, SweepChild, SweepRecord
from bpeline.registry.references import CHAMPION
from bpeline.registry.tracking import run_link
from bpeline.tokenizer_core.corpus import LEFT_OUT_RULE
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN
from bpeline.tokenizer_core.tokenizer import Tokenizer

SWEEP = "sweep"  # the member of a run's configuration that says it is one
MOST_TRIALS = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """One training that was measured."""

    request: TrainingRequest
    words: CountedWords
    evaluated: Evaluated

    @property
    def vocab_size(self) -> int:
        """Smaller than asked where no pair was left."""
        return self.evaluated.report.vocab_size

    @property
    def logged(self) -> dict[str, Any]:
        """Metrics, curves and the content of ``evaluation.json``, as a training would log them."""
        evaluated = self.evaluated
        curves = {BYTES_PER_TOKEN: evaluated.report.curve, **curves_of(evaluated)}
        return {
            "metrics": metrics_of(evaluated), "curves": curves, "record": evaluated.record(),
        }  # fmt: skip

    def against_champion(self, parts: Sequence[str]) -> dict[str, float]:
        """Change in tokens by slice, as a share; empty without a champion."""
        champion = self.evaluated.evaluation.opponents.get(CHAMPION)
        return {} if champion is None else {one: champion.changes[one].value for one in parts}


def refuse_choice(parameters: Mapping[str, Any]) -> None:
    """Refuse a number of ids that is to be chosen, of trainings that are measured side by side.

    Raises:
        InvalidOption: it is.
    """
    if parameters.get("vocab_size") == AUTO or parameters.get("largest_size"):
        raise InvalidOption(
            "the number of ids was to be chosen of trainings that are measured side by side",
            "the same number of ids for all, else their figures would not compare",
            "type a number: `--vocab-size 32000`, of a sweep `--sizes 16000,32000`; choose when "
            "you train: `bpeline train … --vocab-size auto --model-shape llama-3.2-1b`",
        )


@contextmanager
def sweeping(
    request: TrainingRequest, varied: Mapping[str, Any], workspace: str | None
) -> Iterator[TrainingRun]:
    """Hold the workspace; the row in the catalogue is no training that could be continued.

    Args:
        request: one of those that are measured.
        varied: its members that vary, with all their values.
        workspace: as for `train_tokenizer`.
    """
    registry = open_registry(workspace)
    asked = {**request.as_config(), **varied}
    with registry.workspace.lock(f"sweeping {request.name!r}") as held:
        row = registry.catalogue.start_run(request.name, {SWEEP: asked}, LEFT_OUT_RULE)
        run = TrainingRun(row, request, registry, progress.current(), held.doing)
        try:
            yield run
        except BaseException as error:
            refused = not run.seconds and cannot_begin(error)
            end = registry.catalogue.refuse_run if refused else registry.catalogue.fail_run
            end(row.id, str(error) or type(error).__name__)
            raise
        registry.catalogue.finish_run(row.id)


def count_once(
    run: TrainingRun, request: TrainingRequest, setup: EvaluationSetup, title: str = ""
) -> tuple[CorpusPlan, CountedCorpus]:
    """Count the corpus that several trainings have in common."""
    with run.step(PLAN_CHUNKS) as outcome:
        plan = plan_chunks(request, run.registry, setup.left_out(run.row.left_out_rule))
        outcome(title + plan.outcome)
        for remark in remarks_on(plan, request, plan.reading):
            run.note(remark)
    with run.step(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_words(plan, request, run.registry)
        outcome(corpus.outcome)
    return plan, corpus


def try_out(
    run: TrainingRun,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    *,
    say_size: bool = False,
    beside: Mapping[str, Tokenizer] | None = None,
) -> Trial:
    """Learn and measure, beside others by their labels."""
    with run.step(LEARN_MERGES, request.merges_shown, "merges") as outcome:
        learned = learn(words, request, run.workspace)
        outcome(learned.outcome)
    with run.step(EVALUATE) as outcome:
        evaluated = evaluate(
            learned, words, plan, setup, request, run.registry, adopts=False, beside=beside
        )
        size = f"{evaluated.report.vocab_size:,} ids: " if say_size else ""
        outcome(size + evaluated.outcome)
    return Trial(request, words, evaluated)


def try_sizes(
    run: TrainingRun, requests: Sequence[TrainingRequest], setup: EvaluationSetup, title: str
) -> tuple[list[Trial], list[CorpusInput]]:
    """All sizes of one pattern, the largest first: it is trained and serves the others.

    Args:
        requests: one for each size.
        title: what they are called while they are counted.

    Returns:
        One for each size that came of it, the smallest first; and what was read.
    """
    largest = requests[0]
    plan, corpus = count_once(run, largest, setup, f"{title}: ")
    with run.step(COMBINE_COUNTS) as outcome:
        words = combine_counts(corpus, largest, run.registry, run.id)
        outcome(words.outcome)
    inputs = corpus_inputs(plan, corpus, words, largest)
    found: dict[int, Trial] = {}
    for request in requests:
        trial = try_out(run, words, plan, setup, request, say_size=True)
        found.setdefault(trial.vocab_size, trial)
        inputs += [one for one in evaluation_inputs(trial.evaluated) if one not in inputs]
    return sorted(found.values(), key=lambda trial: trial.vocab_size), inputs


def nested_run(
    title: str,
    vocab_size: int,
    params: Mapping[str, Any],
    metrics: Mapping[str, float],
    curves: Mapping[str, Curve],
    record: Mapping[str, Any],
) -> SweepChild:
    """A trial as MLflow shows it, without parameters that say nothing."""
    said = {key: value for key, value in params.items() if value not in (None, [], {})}
    return SweepChild(title, vocab_size, said, metrics, curves, record)


def measured_on(record: Mapping[str, Any]) -> str:
    """The texts that trials were measured on, and the champion they met, for titles.

    Args:
        record: the content of one's ``evaluation.json``.
    """
    digest = (record["set"] or {}).get("digest", "")
    said = f"measured on {f'evaluation set {digest[:8]}' if digest else 'texts of its own'}"
    champion = record["compared"].get(CHAMPION)
    return said if champion is None else f"{said}, the champion is {champion['reference']}"


def record_trials(registry: Registry, draw: Callable[[Path], Path], **recorded: Any) -> str:
    """Draw a picture into a directory and record it with all else of a `SweepRecord`.

    Returns:
        A link to the run.
    """
    named = registry.catalogue.evaluation_set(recorded["name"])
    recorded["children"] = tuple(_of_its_set(one, named) for one in recorded["children"])
    with registry.workspace.temporary_directory("trials") as directory:
        run = registry.tracker.record_sweep(SweepRecord(**recorded, figures=(draw(directory),)))
    return run_link(registry.tracker.settings.ui, run.experiment_id, run.run_id)


def _of_its_set(child: SweepChild, named: NamedSet | None) -> SweepChild:
    """With what it was measured on, which need not be the set that the name has."""
    digest = (child.evaluation["set"] or {}).get("digest", "")
    number = named.number if named is not None and named.digest == digest else 0
    return replace(child, evaluation_set=digest, set_number=number)
