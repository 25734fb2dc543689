"""New text is compared with a registered version: has it moved so far that training again pays?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from bpeline.flows.drift import (
    DriftReport,
    NewText,
    check_slices,
    gathered,
    judged,
    measure_drift,
    recorded,
)
from bpeline.flows.requests import DriftRequest, request_parameters, with_demo
from bpeline.flows.running import MEASURE_DRIFT, progress, telling
from bpeline.flows.wording import megabytes
from bpeline.registry.aliases import stuck_on
from bpeline.registry.catalogue import utc_now
from bpeline.registry.evaluation import read_drift_rules
from bpeline.registry.loading import load_version, resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records import ByAlias, validate_alias, validate_name
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.errors import RegistryError
from bpeline.tokenizer_core.evaluation import ALL, BYTES_PER_TOKEN


@request_parameters(DriftRequest)
def watch_drift(request: DriftRequest, workspace: str | None) -> DriftReport:
    """Compare new text with a version, and remember it as one point of a series in MLflow.

    Text is counted as the version's corpus was, through the same cache: what is known is not read
    again, and a training on it finds it counted. Whoever listens hears of drift (`Progress`).

    Raises:
        InvalidOption: a misspelt name, source or rule, or no text at all.
        UnknownVersion: there is no such version.
        CorpusError: no such file, no word in it, or one that cannot be read as declared.
        RegistryUnreachable: MLflow would have to be asked for the version.
        WorkspaceLocked: another run is at work there.
    """
    name, alias = request.name, request.alias
    reference = ByAlias(validate_name(name), validate_alias(alias))
    registry = open_registry(workspace, make=False)
    text = NewText.asked(with_demo(request.paths, registry.workspace), request.sources)
    drift_rules = None if request.rules is None else read_drift_rules(Path(request.rules))
    if drift_rules is not None:
        check_slices(drift_rules, list(text.slices), str(request.rules))
    version = resolve(registry, reference)
    tokenizer = load_version(registry, version)
    lineage = Lineage.of(registry, version)
    with registry.workspace.lock(f"watching drift of {name!r}"):
        counts, samples, known, notes, skipped = gathered(
            text, lineage, tokenizer, registry, request
        )
        with telling(MEASURE_DRIFT) as said:
            measured = measure_drift(counts, samples, known, tokenizer, registry)
            said.append(f"{measured[ALL].figures[BYTES_PER_TOKEN].new:.4f} "
                        f"bytes/token on {megabytes(measured[ALL].bytes)}")  # fmt: skip
        report = DriftReport(
            name=name,
            alias=alias,
            reference=str(version),
            digest=version.digest,
            at=utc_now(),
            verdicts=judged(measured, known, drift_rules, request),
            slices=measured,
            origins={name: one.origin for name, one in known.items()},
            notes=tuple(notes),
            skipped=skipped,
        )
        shards = WordCountStore(registry.workspace).shards_of(counts[ALL].table.key)
        with suppress(RegistryError):  # an MLflow that does not answer knows of no refusal
            report = replace(
                report, stuck=stuck_on(registry, version, alias, shards, report.drifted)
            )
        report = recorded(report, registry)
    listener = progress.current()
    listener.summary(report.reference, report.markdown())
    if report.drifted and not report.stuck:
        listener.drifted(report.name, report.alias, report.event())
    return report
