"""A foreign tokenizer becomes a registered version, on one screen."""

from __future__ import annotations

from dataclasses import replace

from bpeline.flows.evaluation import evaluate_imported, set_up_evaluation
from bpeline.flows.importing import (
    ImportSummary,
    certify_files,
    publish_import,
    read_files,
    summarize_import,
)
from bpeline.flows.publishing import promote_if_better
from bpeline.flows.requests import ImportRequest, request_parameters
from bpeline.flows.running import CERTIFY, EVALUATE, PROMOTE, PUBLISH, READ_FILES
from bpeline.flows.trainings import prepared, training_run
from bpeline.flows.wording import comparison_markdown


@request_parameters(ImportRequest)
def import_tokenizer(request: ImportRequest, workspace: str | None) -> ImportSummary:
    """Register a tokenizer that another program made, with its files and its certificate.

    It is read again by its original library where that is installed, and measured on the name's
    evaluation set, as a training is. A file that was imported before is nothing new.

    Raises:
        BpelineError: what was asked for, read or written cannot be; the workspace stays good.
    """
    with (
        training_run(request, workspace) as run,
        prepared(run.registry.tracker, run.show_begin) as preparing,
    ):
        setup = set_up_evaluation(request, run.registry)
        run.note(setup.skipped_remark)
        with run.step(READ_FILES) as outcome:
            read = read_files(request)
            outcome(read.outcome)
        with run.step(CERTIFY) as outcome:
            certificate = certify_files(read)
            outcome(str(certificate))
        preparing.join()
        with run.step(EVALUATE) as outcome:
            evaluated = evaluate_imported(read.tokenizer, setup, request, run.registry)
            outcome("not measured" if evaluated is None else evaluated.outcome)
        summary = summarize_import(run, request, read, certificate, evaluated)
        with run.step(PUBLISH) as outcome:
            version = publish_import(run, request, read, certificate, evaluated, summary)
            outcome(version.reference)
        promotion = None
        if setup.promotion_rules is not None:
            with run.step(PROMOTE) as outcome:
                promotion = promote_if_better(version, setup.promotion_rules, run.workspace)
                outcome(promotion.outcome)
        summary = summary.published(version, run.seconds, promotion)
        summary = replace(summary, notes=tuple(run.notes))
        if evaluated is not None and evaluated.comparison is not None:
            compared = evaluated.comparison.called(version.reference)
            run.progress.compared(version.reference, comparison_markdown(compared))
        run.progress.summary(summary.title, summary.as_markdown())
        return summary
