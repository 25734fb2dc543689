"""The whole chain on one screen: a corpus becomes a registered tokenizer."""

from __future__ import annotations

from bpeline.flows.comparisons import comparison_markdown
from bpeline.flows.requests import TrainingRequest, asks
from bpeline.flows.steps import (
    TrainingSummary,
    combine_counts,
    count_words,
    evaluate,
    learn,
    plan_chunks,
    prepared,
    promote_if_better,
    publish,
    screen_tokens,
    set_up_evaluation,
    summarize,
    training_run,
)
from bpeline.tokenizer_core.errors import CorruptFile


@asks(TrainingRequest)
def train_tokenizer(request: TrainingRequest, workspace: str | None) -> TrainingSummary:
    """Train a tokenizer on a corpus and register it: byte-level BPE, or another algorithm.

    The same call after an interruption continues where it stopped, with the same result.

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    with training_run(request, workspace) as run, prepared(run.registry.tracker) as preparing:
        if remark := request.pattern_remark:
            run.progress.note(remark)
        setup = set_up_evaluation(request, run.workspace)
        for attempt in run.attempts(after=CorruptFile):
            with attempt:
                with run.step("plan chunks") as outcome:
                    plan = plan_chunks(request, run.workspace)
                    outcome(plan.outcome)
                with run.step("count words", plan.bytes_to_read, "bytes") as outcome:
                    corpus = count_words(plan, run.workspace, request)
                    outcome(corpus.outcome, corpus.bytes_counted)
                with run.step("combine counts") as outcome:
                    words = combine_counts(corpus, request, run.workspace, run.id)
                    outcome(words.outcome, 0 if words.table.reused else corpus.corpus_bytes)
                with run.step("learn merges", request.merges_shown, "merges") as outcome:
                    learned = learn(words, request, run.workspace)
                    outcome(learned.outcome, 0 if learned.resumed else corpus.corpus_bytes)
                preparing.join()
                with run.step("evaluate") as outcome:
                    evaluated = evaluate(learned, words, plan, setup, request, run.workspace)
                    outcome(evaluated.outcome)
                with run.step("screen tokens") as outcome:
                    screened = screen_tokens(words, plan, evaluated, request, run.workspace)
                    outcome(screened.outcome)
        summary = summarize(run, corpus, words, learned, evaluated, screened)
        with run.step("publish") as outcome:
            version = publish(
                summary, learned, plan, corpus, words, evaluated, screened, request, run.workspace
            )
            outcome(version.reference)
        promotion = None
        if setup.rules is not None:
            with run.step("promote") as outcome:
                promotion = promote_if_better(version, setup.rules, run.workspace)
                outcome(promotion.outcome)
        summary = summary.published(version, run.seconds, promotion)
        if evaluated.comparison is not None:
            compared = evaluated.comparison.called(version.reference)
            run.progress.compared(version.reference, comparison_markdown(compared))
        run.progress.summary(summary.reference, summary.as_markdown())
        return summary
