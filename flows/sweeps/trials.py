"""The trainings of a sweep, which are measured but not registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bpeline.flows.counting import (
    CorpusPlan,
    CountedCorpus,
    CountedWords,
    combine_counts,
    count_words,
    plan_chunks,
    remarks_on,
)
from bpeline.flows.evaluation import Evaluated, EvaluationSetup, curves_of, evaluate, metrics_of
from bpeline.flows.learning import learn
from bpeline.flows.publishing import corpus_inputs, evaluation_inputs
from bpeline.flows.requests import AUTO, PRESENT, TrainingRequest
from bpeline.flows.running import (
    COMBINE_COUNTS,
    COUNT_WORDS,
    EVALUATE,
    LEARN_MERGES,
    PLAN_CHUNKS,
)
from bpeline.flows.trainings import TrainingRun
from bpeline.registry.records import CorpusInput
from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN
from bpeline.tokenizer_core.tokenizer import Tokenizer

MOST_TRIALS = 200


@dataclass(frozen=True, slots=True)
class Trial:
    """One training with its evaluation."""

    request: TrainingRequest
    words: CountedWords
    evaluated: Evaluated

    @property
    def vocab_size(self) -> int:
        """Number of ids; smaller than requested if no pair was left."""
        return self.evaluated.report.vocab_size

    @property
    def logged(self) -> dict[str, Any]:
        """Metrics, curves and ``evaluation.json``, as a training would log them."""
        evaluated = self.evaluated
        curves = {BYTES_PER_TOKEN: evaluated.report.curve, **curves_of(evaluated)}
        return {
            "metrics": metrics_of(evaluated), "curves": curves, "record": evaluated.record(),
        }  # fmt: skip


def refuse_choice(parameters: Mapping[str, Any]) -> None:
    """Raise InvalidOption if the vocab size is ``auto``, which a sweep cannot compare."""
    if parameters.get("vocab_size") == AUTO or parameters.get("largest_size"):
        raise InvalidOption(
            "a sweep cannot choose the vocab size: it compares trainings of the same size",
            "expected sizes as numbers",
            "type numbers: `--sizes 16000,32000`; choose when you train: `bpeline train … "
            "--vocab-size auto --model-shape llama-3.2-1b`",
        )


def try_sizes(
    run: TrainingRun,
    mixtures: Mapping[str, Sequence[TrainingRequest]],
    setup: EvaluationSetup,
    title: str,
) -> tuple[dict[str, list[Trial]], list[CorpusInput]]:
    """Train and measure all mixtures and sizes of one pattern, counted once.

    Returns:
        Title of the mixture → a trial for each size reached, the smallest first; and the inputs.
    """
    first = next(iter(mixtures.values()))[0]
    plan, corpus = _count(run, first, setup, title)
    inputs: list[CorpusInput] = []
    present: dict[int, Tokenizer] = {}
    trials: dict[str, list[Trial]] = {}
    for mixture, requests in mixtures.items():
        with run.step(COMBINE_COUNTS) as outcome:
            words = combine_counts(corpus, requests[0], run.registry, run.id)
            outcome(f"{mixture}: {words.outcome}" if mixture else words.outcome)
        inputs = inputs or corpus_inputs(plan, corpus, words, first)
        trial_of_size: dict[int, Trial] = {}
        for request in requests:
            size = request.vocab_size
            beside = {PRESENT: present[size]} if size in present else {}
            trial = _try_out(run, words, plan, setup, request, beside)
            present.setdefault(size, trial.evaluated.tokenizer)
            trial_of_size.setdefault(trial.vocab_size, trial)
            inputs += [
                source for source in evaluation_inputs(trial.evaluated) if source not in inputs
            ]
        trials[mixture] = sorted(trial_of_size.values(), key=lambda trial: trial.vocab_size)
    return trials, inputs


def _count(
    run: TrainingRun, request: TrainingRequest, setup: EvaluationSetup, title: str
) -> tuple[CorpusPlan, CountedCorpus]:
    with run.step(PLAN_CHUNKS) as outcome:
        plan = plan_chunks(request, run.registry, setup.left_out(run.row.left_out_rule))
        outcome(f"{title}: {plan.outcome}")
        for remark in remarks_on(plan, request, plan.reading):
            run.note(remark)
    with run.step(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = count_words(plan, request, run.registry)
        outcome(corpus.outcome)
    return plan, corpus


def _try_out(
    run: TrainingRun,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
    request: TrainingRequest,
    beside: Mapping[str, Tokenizer],
) -> Trial:
    with run.step(LEARN_MERGES, request.merges_shown, "merges") as outcome:
        learned = learn(words, request, run.workspace)
        outcome(learned.outcome)
    with run.step(EVALUATE) as outcome:
        evaluated = evaluate(
            learned, words, plan, setup, request, run.registry, adopts=False, beside=beside
        )
        outcome(f"{evaluated.report.vocab_size:,} ids: {evaluated.outcome}")
    return Trial(request, words, evaluated)
