"""The flow that trains and registers a tokenizer; its tasks follow below.

With a Prefect server, call the flow, and each step is a task run. Without one,
``train_tokenizer.fn(request)`` does the same in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bpeline.flows import counting, evaluation, learning, publishing
from bpeline.flows.counting import CorpusPlan, CountedCorpus, CountedWords
from bpeline.flows.evaluation import Evaluated, EvaluationSetup, ScreenedTokens, Sized
from bpeline.flows.learning import Learned
from bpeline.flows.publishing import Promotion, Summary, Trained, TrainingSummary
from bpeline.flows.requests import ImportRequest, Maybe, TrainingRequest
from bpeline.flows.running import attempts, steps
from bpeline.flows.serving import RETRIES, flow, run_names, task
from bpeline.flows.trainings import TrainingRun, compiled_ahead, prepared, training_run
from bpeline.flows.wording import comparison_markdown
from bpeline.registry.evaluation import Rules
from bpeline.registry.records import PublishedVersion

S = TypeVar("S", bound=Summary)


@flow(
    steps.TRAIN_TOKENIZER,
    run_name=run_names.training,
    about=run_names.requested,
    called=lambda summary: summary.reference,
    state=lambda summary: publishing.state_of(summary.promotion),
    alone=True,
)
def train_tokenizer(request: TrainingRequest, workspace: Maybe[str] = None) -> TrainingSummary:
    """Train a tokenizer on a corpus, by BPE or another algorithm, and register it.

    After an interruption, the same call continues where it stopped, with the same result.

    Args:
        workspace: directory; empty stands for BPELINE_HOME, else .bpeline.
    """
    request, forbidden = evaluation.with_forbidden_tokens(request, workspace)
    with (
        training_run(request, workspace) as run,
        compiled_ahead(request) as finish_compiling,
        prepared(run.registry.tracker, run.show_begin) as preparation,
    ):
        run.note(forbidden)
        setup = set_up_evaluation(run, request)
        for attempt in attempts(steps.TRAIN_TOKENIZER, run.note):
            with attempt:
                plan = plan_chunks(run, request, setup)
                corpus = count_words(run, request, plan)
                words = combine_counts(run, request, corpus)
                learned = learn_merges(run, request, words, finish_compiling)
                sized = Sized(request, learned)
                if request.chooses_size:
                    sized = choose_size(run, request, learned, words, plan, setup)
                preparation.join()  # it would slow down the speed that is measured next
                evaluated = evaluate(run, sized, words, plan, setup)
                screened = screen_tokens(run, words, plan, corpus, evaluated)
        trained = Trained(sized, plan, corpus, words, evaluated, screened)
        summary = publishing.summarize(run, trained)
        version = publish(run, trained, summary, preparation.join)
        promotion = None
        if setup.promotion_rules is not None:
            promotion = promote(run, version, setup.promotion_rules)
        return show_summary(run, summary.published(version, run.seconds, promotion), evaluated)


@task(name="set up evaluation", **RETRIES)
def set_up_evaluation(
    run: TrainingRun, request: TrainingRequest | ImportRequest
) -> EvaluationSetup:
    """Read the evaluation texts and the set of the name, and load the baselines."""
    setup = evaluation.set_up_evaluation(request, run.registry)
    run.note(setup.skipped_remark)
    return setup


@task(name=steps.PLAN_CHUNKS.name)
def plan_chunks(run: TrainingRun, request: TrainingRequest, setup: EvaluationSetup) -> CorpusPlan:
    """Find the files, and the chunks that still have to be read."""
    with run.step(steps.PLAN_CHUNKS) as outcome:
        left_out = setup.left_out(run.row.left_out_rule)
        plan = counting.plan_chunks(request, run.registry, left_out)
        outcome(plan.outcome)
        for remark in counting.remarks_on(plan, request, plan.reading):
            run.note(remark)
    return plan


count_bundle = task(name=steps.COUNT_WORDS.name)(counting.count_bundle)


def count_words(run: TrainingRun, request: TrainingRequest, plan: CorpusPlan) -> CountedCorpus:
    """Count new chunks: `count_bundle` is mapped over the bundles of the plan."""
    with run.step(steps.COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
        corpus = counting.count_words(plan, request, run.registry, count_bundle)
        outcome(corpus.outcome)
    return corpus


@task(name=steps.COMBINE_COUNTS.name)
def combine_counts(
    run: TrainingRun, request: TrainingRequest, corpus: CountedCorpus
) -> CountedWords:
    """Add up the counts of the chunks with DuckDB."""
    with run.step(steps.COMBINE_COUNTS) as outcome:
        words = counting.combine_counts(corpus, request, run.registry, run.id)
        outcome(words.outcome)
    return words


@task(name=steps.LEARN_MERGES.name)
def learn_merges(
    run: TrainingRun,
    request: TrainingRequest,
    words: CountedWords,
    finish_compiling: Callable[[], None],
) -> Learned:
    """Learn merges from the last checkpoint on, or the tokens of another algorithm."""
    with run.step(steps.LEARN_MERGES, request.merges_shown, "merges") as outcome:
        finish_compiling()
        learned = learning.learn(words, request, run.workspace)
        outcome(learned.outcome)
    return learned


@task(name=steps.CHOOSE_SIZE.name)
def choose_size(
    run: TrainingRun,
    request: TrainingRequest,
    learned: Learned,
    words: CountedWords,
    plan: CorpusPlan,
    setup: EvaluationSetup,
) -> Sized:
    """Choose the vocab size with the lowest cost for a model."""
    with run.step(steps.CHOOSE_SIZE) as outcome:
        sized = evaluation.choose_size(learned, words, plan, setup, request, run.registry)
        outcome(sized.outcome)
    return sized


@task(name=steps.EVALUATE.name)
def evaluate(
    run: TrainingRun, sized: Sized, words: CountedWords, plan: CorpusPlan, setup: EvaluationSetup
) -> Evaluated:
    """Measure on the evaluation set of the name, with the champion and the baselines."""
    with run.step(steps.EVALUATE) as outcome:
        evaluated = evaluation.evaluate(
            sized.learned, words, plan, setup, sized.request, run.registry
        )
        outcome(evaluated.outcome)
    return evaluated


@task(name=steps.SCREEN_TOKENS.name)
def screen_tokens(
    run: TrainingRun,
    words: CountedWords,
    plan: CorpusPlan,
    corpus: CountedCorpus,
    evaluated: Evaluated,
) -> ScreenedTokens:
    """Find tokens that look like personal data or come from a single document."""
    with run.step(steps.SCREEN_TOKENS) as outcome:
        screened = evaluation.screen_tokens(words, plan, corpus, evaluated, run.workspace)
        outcome(screened.outcome)
    return screened


@task(name=steps.PUBLISH.name, **RETRIES)
def publish(
    run: TrainingRun,
    trained: Trained,
    summary: TrainingSummary,
    until_ready: Callable[[], object],
) -> PublishedVersion:
    """Register the version exactly once; without MLflow it waits in the outbox."""
    with run.step(steps.PUBLISH) as outcome:
        version = publishing.publish(run, trained, summary, until_ready)
        outcome(version.reference)
    return version


@task(name=steps.PROMOTE.name, **RETRIES)
def promote(run: TrainingRun, version: PublishedVersion, rules: Rules) -> Promotion:
    """Move ``champion`` to the version if all rules hold."""
    with run.step(steps.PROMOTE) as outcome:
        promotion = publishing.promote_if_better(version, rules, run.workspace)
        outcome(promotion.outcome)
    return promotion


def show_summary(run: TrainingRun, summary: S, evaluated: Evaluated | None) -> S:
    """Show the summary with all notes, and the comparison, to the run's listeners."""
    summary = replace(summary, notes=tuple(run.notes))
    if evaluated is not None and evaluated.comparison is not None:
        compared = evaluated.comparison.called(summary.reference)
        run.progress.compared(summary.reference, comparison_markdown(compared))
    run.progress.summary(summary.title, summary.as_markdown())
    return summary
