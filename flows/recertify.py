"""The flow that checks exports of promoted versions with today's libraries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.requests import RecertifyRequest, request_parameters
from bpeline.flows.running import progress, steps, tell, telling
from bpeline.flows.serving import RETRIES, flow, run_names, task
from bpeline.flows.wording import counted
from bpeline.registry.exports import Outcome, Recertified, recertified
from bpeline.registry.loading import ResolvedVersion, resolve
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import parse_registered, validate_name
from bpeline.registry.versions import list_versions
from bpeline.tokenizer_core.errors import UnknownVersion
from bpeline.tokenizer_core.tables import Table

EXPORT_CHANGED = "bpeline.export.changed"
_WORDS: dict[Outcome, str] = {
    "equal": "with equal ids",
    "changed": "WHOSE IDS DIFFER",
    "not checked": "not checked",
}


@dataclass(frozen=True, slots=True)
class Recertification:
    """The result of checking exports again.

    Attributes:
        without: versions without a certificate in this workspace, which cannot be checked.
    """

    exports: tuple[Recertified, ...]
    without: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def having(self, outcome: Outcome) -> list[Recertified]:
        """Return the exports with an outcome."""
        return [export for export in self.exports if export.outcome == outcome]

    @property
    def outcome(self) -> str:
        """``3 exports with equal ids, 1 export not checked``."""
        parts = [
            f"{counted(len(exports), 'export')} {words}"
            for outcome, words in _WORDS.items()
            if (exports := self.having(outcome))
        ]
        return ", ".join(parts) or "no export to check"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "exports": [export.as_dict() for export in self.exports],
            **{outcome.replace(" ", "_"): len(self.having(outcome)) for outcome in _WORDS},
            "without_certificates": list(self.without),
            "notes": list(self.notes),
        }

    def as_markdown(self) -> str:
        """Return a table, for Prefect."""
        rows = [
            (export.version, export.format, _WORDS[export.outcome], export.said)
            for export in self.exports
        ]
        table = Table(("version", "export", "", "today"), rows, left=range(4))
        lines = [f"# {self.outcome}", "", table.markdown(), ""]
        lines += [f"- {remark}" for remark in self.remarks()]
        return "\n".join(lines) + "\n"

    def remarks(self) -> Iterator[str]:
        """Yield remarks on exports, missing certificates, and notes."""
        for export in self.exports:
            if export.spelled_otherwise and export.outcome == "equal":
                names = ", ".join(export.spelled_otherwise)
                yield f"{export.version} as {export.format}: same ids, new notation for: {names}"
            if export.remark:
                yield f"{export.version} as {export.format}: {export.remark}"
        for version in self.without:
            yield (
                f"{version} has no certificate here: create one with `bpeline export {version} "
                "--output tokenizer.json`"
            )
        yield from self.notes


@flow(
    steps.RECERTIFY,
    run_name=run_names.recertifying,
    about=run_names.tokenizer,
    called=lambda result: result.outcome,
)
@request_parameters(RecertifyRequest)
def recertify(request: RecertifyRequest, workspace: str | None) -> Recertification:
    """Check the exports of promoted versions with the libraries installed now.

    For each version with an alias, every export with a certificate is read by its own library and
    compared as before, including the files of imported versions. A changed id emits the event
    ``bpeline.export.changed`` and is recorded on the version in MLflow.
    """
    registry = open_registry(workspace, make=False)
    result = read_exports(registry, request)
    listener = progress.current()
    listener.summary("exports", result.as_markdown())
    for note in result.notes:
        listener.note(note)
    return result


@task(name=steps.READ_EXPORTS.name, **RETRIES)
def read_exports(registry: Registry, request: RecertifyRequest) -> Recertification:
    """Check all exports, and emit an event for each that changed."""
    with telling(steps.READ_EXPORTS) as outcome:
        result = _read_again(registry, request)
        outcome(result.outcome)
    return result


def _read_again(registry: Registry, request: RecertifyRequest) -> Recertification:
    folder = None if request.library is None else Path(request.library)
    exports: list[Recertified] = []
    without = []
    for version in _meant(registry, request.versions):
        checked = list(recertified(registry, version, folder))
        exports += checked
        if not checked:
            without.append(str(version))
    # Events come last: if a version fails, the retry checks all of them again.
    notes = [
        remark for export in exports if export.outcome == "changed" and (remark := _told(export))
    ]
    return Recertification(tuple(exports), tuple(without), tuple(notes))


def _meant(registry: Registry, versions: Iterable[str]) -> list[ResolvedVersion]:
    """Return the versions named, and for a name those with an alias."""
    resolved: list[ResolvedVersion] = []
    for reference in versions or ("",):
        if "/" in reference or "@" in reference:
            resolved.append(resolve(registry, parse_registered(reference)))
            continue
        if reference:
            validate_name(reference)
        listed = list_versions(reference or None, registry)
        promoted = [version for version in listed if version.aliases]
        if reference and not promoted:
            raise UnknownVersion(
                f"no alias of {reference!r} points to a version",
                f"expected a promoted version; the name has {counted(len(listed), 'version')}",
                f"type `bpeline versions {reference}`, then `bpeline export --check {reference}/1`",
            )
        resolved += [
            ResolvedVersion(version.name, version.number, version.digest, version.mlflow_run_id)
            for version in promoted
        ]
    return list(dict.fromkeys(resolved))


def _told(one: Recertified) -> str:
    """Emit the event for Prefect's automations; return the reason if it was rejected."""
    first = one.now.difference
    payload = {
        "reference": str(one.version),
        "digest": one.version.digest,
        "format": one.format,
        "library": one.now.library,
        "version": one.now.version,
        "equal": one.now.equal,
        "unequal": one.now.unequal,
        "first": None if first is None else first.what,
        "before": one.before,
    }
    return tell(EXPORT_CHANGED, one.version.name, payload, format=one.format)
