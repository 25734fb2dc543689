"""The flow that registers a tokenizer of another library; its tasks follow below."""

from __future__ import annotations

from bpeline.flows import evaluation, importing, publishing
from bpeline.flows.evaluation import Evaluated, EvaluationSetup
from bpeline.flows.importing import ImportSummary, ReadFiles
from bpeline.flows.requests import ImportRequest, Maybe
from bpeline.flows.running import steps
from bpeline.flows.serving import RETRIES, flow, run_names, task
from bpeline.flows.train_tokenizer import promote, set_up_evaluation, show_summary
from bpeline.flows.trainings import TrainingRun, prepared, training_run
from bpeline.registry.certify import Certificate
from bpeline.registry.records import PublishedVersion


@flow(
    steps.IMPORT_TOKENIZER,
    run_name=run_names.importing,
    about=run_names.requested,
    called=lambda summary: summary.reference,
    state=lambda summary: publishing.state_of(summary.promotion),
    alone=True,
)
def import_tokenizer(request: ImportRequest, workspace: Maybe[str] = None) -> ImportSummary:
    """Register a tokenizer of another library, with its files and a certificate.

    Its original library, if installed, must produce the same ids. It is measured on the evaluation
    set of the name. A file that was imported before gets no new version.

    Args:
        workspace: directory; empty stands for BPELINE_HOME, else .bpeline.
    """
    with (
        training_run(request, workspace) as run,
        prepared(run.registry.tracker, run.show_begin) as preparation,
    ):
        setup = set_up_evaluation(run, request)
        read = read_files(run, request)
        certificate = certify(run, read)
        preparation.join()
        evaluated = evaluate(run, request, read, setup)
        summary = importing.summarize_import(run, request, read, certificate, evaluated)
        version = publish(run, request, read, certificate, evaluated, summary)
        promotion = None
        if setup.promotion_rules is not None:
            promotion = promote(run, version, setup.promotion_rules)
        return show_summary(run, summary.published(version, run.seconds, promotion), evaluated)


@task(name=steps.READ_FILES.name)
def read_files(run: TrainingRun, request: ImportRequest) -> ReadFiles:
    """Read the tokenizer and the digests of its files."""
    with run.step(steps.READ_FILES) as outcome:
        read = importing.read_files(request)
        outcome(read.outcome)
    return read


@task(name=steps.CERTIFY.name)
def certify(run: TrainingRun, read: ReadFiles) -> Certificate:
    """Compare with the ids that the original library produces from the same files."""
    with run.step(steps.CERTIFY) as outcome:
        certificate = importing.certify_files(read)
        outcome(str(certificate))
    return certificate


@task(name=steps.EVALUATE.name)
def evaluate(
    run: TrainingRun, request: ImportRequest, read: ReadFiles, setup: EvaluationSetup
) -> Evaluated | None:
    """Measure on the evaluation set of the name, or on the given texts."""
    with run.step(steps.EVALUATE) as outcome:
        evaluated = evaluation.evaluate_imported(read.tokenizer, setup, request, run.registry)
        outcome("not measured" if evaluated is None else evaluated.outcome)
    return evaluated


@task(name=steps.PUBLISH.name, **RETRIES)
def publish(
    run: TrainingRun,
    request: ImportRequest,
    read: ReadFiles,
    certificate: Certificate,
    evaluated: Evaluated | None,
    summary: ImportSummary,
) -> PublishedVersion:
    """Register the version once, with its original files."""
    with run.step(steps.PUBLISH) as outcome:
        version = importing.publish_import(run, request, read, certificate, evaluated, summary)
        outcome(version.reference)
    return version
