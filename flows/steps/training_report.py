"""The report of a version that has just been trained: of what the run has at hand."""

from __future__ import annotations

from pathlib import Path

from bpeline.flows.pages import ReportContents, report_page
from bpeline.flows.requests import TrainingRequest
from bpeline.flows.steps.evaluating import Evaluated
from bpeline.flows.steps.source_statistics import as_json
from bpeline.flows.steps.summary import TrainingSummary
from bpeline.flows.steps.token_screening import ScreenedTokens
from bpeline.registry.records import CURVE_METRIC
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.tokenizer import Tokenizer


def write_training_report(
    path: Path,
    summary: TrainingSummary,
    request: TrainingRequest,
    tokenizer: Tokenizer,
    screened: ScreenedTokens,
    evaluated: Evaluated,
) -> Path:
    """Write the page that is registered with a version, which has no number yet.

    Returns:
        ``path``.
    """
    contents = ReportContents(
        title=request.name,
        tokenizer=tokenizer,
        screening=screened.screening,
        facts={"digest": tokenizer.digest, "run": summary.run_id},
        parameters=request.as_config(),
        metrics=summary.metrics,
        curves={CURVE_METRIC: summary.curve, **summary.curves},
        notes=summary.notes,
        sources=as_json(summary.sources),
        use=screened.use,
        comparison=evaluated.comparison,
        comparison_remark=f"When it was registered, no version of {request.name} was the champion.",
    )
    DURABLE.write(path, report_page(contents).encode(errors="backslashreplace"))
    return path
