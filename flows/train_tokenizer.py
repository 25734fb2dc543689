"""The whole chain on one screen: a corpus becomes a registered tokenizer."""

from __future__ import annotations

from bpeline.flows.counting import combine_counts, count_words, plan_chunks, remarks_on
from bpeline.flows.evaluation import (
    Sized,
    choose_size,
    evaluate,
    screen_tokens,
    set_up_evaluation,
    with_forbidden_tokens,
)
from bpeline.flows.learning import learn
from bpeline.flows.publishing import Trained, TrainingSummary, promote_if_better, publish, summarize
from bpeline.flows.requests import TrainingRequest, request_parameters
from bpeline.flows.running import (
    CHOOSE_SIZE,
    COMBINE_COUNTS,
    COUNT_WORDS,
    EVALUATE,
    LEARN_MERGES,
    PLAN_CHUNKS,
    PROMOTE,
    PUBLISH,
    SCREEN_TOKENS,
    TRAIN_TOKENIZER,
    attempts,
)
from bpeline.flows.trainings import compiled_ahead, prepared, training_run
from bpeline.flows.wording import comparison_markdown


@request_parameters(TrainingRequest)
def train_tokenizer(request: TrainingRequest, workspace: str | None) -> TrainingSummary:
    """Train a tokenizer on a corpus and register it: byte-level BPE, or another algorithm.

    The same call after an interruption continues where it stopped, with the same result.

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    request, forbidden = with_forbidden_tokens(request, workspace)
    with (
        training_run(request, workspace) as run,
        compiled_ahead(request) as finish_compiling,
        prepared(run.registry.tracker, run.show_begin) as preparation,
    ):
        registry = run.registry
        run.note(forbidden)
        setup = set_up_evaluation(request, registry)
        left_out = setup.left_out(run.row.left_out_rule)
        run.note(setup.skipped_remark)
        for attempt in attempts(TRAIN_TOKENIZER, run.note):
            with attempt:
                with run.step(PLAN_CHUNKS) as outcome:
                    plan = plan_chunks(request, registry, left_out)
                    outcome(plan.outcome)
                    for remark in remarks_on(plan, request, plan.reading):
                        run.note(remark)
                with run.step(COUNT_WORDS, plan.bytes_to_read, "bytes") as outcome:
                    corpus = count_words(plan, request, registry)
                    outcome(corpus.outcome)
                with run.step(COMBINE_COUNTS) as outcome:
                    words = combine_counts(corpus, request, registry, run.id)
                    outcome(words.outcome)
                with run.step(LEARN_MERGES, request.merges_shown, "merges") as outcome:
                    finish_compiling()
                    learned = learn(words, request, run.workspace)
                    outcome(learned.outcome)
                sized = Sized(request, learned)
                if request.chooses_size:
                    with run.step(CHOOSE_SIZE) as outcome:
                        sized = choose_size(learned, words, plan, setup, request, registry)
                        outcome(sized.outcome)
                preparation.join()  # it takes time of this process, which is measured next
                with run.step(EVALUATE) as outcome:
                    evaluated = evaluate(sized.learned, words, plan, setup, sized.request, registry)
                    outcome(evaluated.outcome)
                with run.step(SCREEN_TOKENS) as outcome:
                    screened = screen_tokens(words, plan, corpus, evaluated, request, run.workspace)
                    outcome(screened.outcome)
        trained = Trained(sized, plan, corpus, words, evaluated, screened)
        summary = summarize(run, trained)
        with run.step(PUBLISH) as outcome:
            version = publish(run, trained, summary, preparation.join)
            outcome(version.reference)
        promotion = None
        if setup.promotion_rules is not None:
            with run.step(PROMOTE) as outcome:
                promotion = promote_if_better(version, setup.promotion_rules, run.workspace)
                outcome(promotion.outcome)
        summary = summary.published(version, run.seconds, promotion)
        if evaluated.comparison is not None:
            compared = evaluated.comparison.called(version.reference)
            run.progress.compared(version.reference, comparison_markdown(compared))
        run.progress.summary(summary.title, summary.as_markdown())
        return summary
