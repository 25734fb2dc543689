"""Exports that people use are read again in the libraries of today; a changed id is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.requests import RecertifyRequest, request_parameters
from bpeline.flows.running import (
    READ_EXPORTS,
    RECERTIFY,
    progress,
    task,
    tell,
    telling,
)
from bpeline.flows.serving import RETRIES, flow, run_names
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
    "equal": "read alike",
    "changed": "READ OTHERWISE",
    "not checked": "not checked",
}


@dataclass(frozen=True, slots=True)
class Recertification:
    """What came of reading exports again.

    Attributes:
        exports: each that was read, by version and format.
        without: versions that keep no certificate here, so that nothing is known to read.
        notes: what people should know besides.
    """

    exports: tuple[Recertified, ...]
    without: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def having(self, outcome: Outcome) -> list[Recertified]:
        """The exports that came out so."""
        return [one for one in self.exports if one.outcome == outcome]

    @property
    def outcome(self) -> str:
        """``3 exports read alike, 1 not checked``."""
        said = [
            f"{counted(len(found), 'export')} {words}"
            for outcome, words in _WORDS.items()
            if (found := self.having(outcome))
        ]
        return ", ".join(said) or "no export to read"

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "exports": [one.as_dict() for one in self.exports],
            **{outcome.replace(" ", "_"): len(self.having(outcome)) for outcome in _WORDS},
            "without_certificates": list(self.without),
            "notes": list(self.notes),
        }

    def as_markdown(self) -> str:
        """A table, for Prefect."""
        rows = [(one.version, one.format, _WORDS[one.outcome], one.said) for one in self.exports]
        table = Table(("version", "export", "", "today"), rows, left=range(4))
        lines = [f"# {self.outcome}", "", table.markdown(), ""]
        lines += [f"- {remark}" for remark in self.remarks()]
        return "\n".join(lines) + "\n"

    def remarks(self) -> Iterator[str]:
        """What is to be said besides, for people."""
        for one in self.exports:
            if one.spelled_otherwise and one.outcome == "equal":
                names = ", ".join(one.spelled_otherwise)
                yield f"{one.version} as {one.format}: only spelled otherwise than then: {names}"
            if one.remark:
                yield f"{one.version} as {one.format}: {one.remark}"
        for version in self.without:
            yield (
                f"{version} has no certificate here: `bpeline export {version} --output "
                "tokenizer.json` makes one"
            )
        yield from self.notes


@flow(
    RECERTIFY,
    run_name=run_names.recertifying,
    about=run_names.tokenizer,
    called=lambda made: made.outcome,
)
@request_parameters(RecertifyRequest)
def recertify(request: RecertifyRequest, workspace: str | None) -> Recertification:
    """Read the exports of promoted versions again in the libraries that are installed now.

    Of each version that an alias points to, every export that has a certificate, the files of an
    imported one among them, is read by its own program and compared as it was when it was made. A
    changed id is the event ``bpeline.export.changed``, and stands in MLflow on the version.

    Raises:
        InvalidOption: a misspelt name or reference.
        UnknownVersion: there is no such version, or no alias of that name.
        RegistryUnreachable: MLflow would have to be asked.
        StorageError: there is no workspace, or a version's files are damaged.
    """
    registry = open_registry(workspace, make=False)
    made = read_exports(registry, request)
    listener = progress.current()
    listener.summary("exports", made.as_markdown())
    for note in made.notes:
        listener.note(note)
    return made


@task(name=READ_EXPORTS.name, **RETRIES)
def read_exports(registry: Registry, request: RecertifyRequest) -> Recertification:
    """Read all, and tell of each that changed."""
    with telling(READ_EXPORTS) as outcome:
        made = _read_again(registry, request)
        outcome(made.outcome)
    return made


def _read_again(registry: Registry, request: RecertifyRequest) -> Recertification:
    folder = None if request.library is None else Path(request.library)
    exports: list[Recertified] = []
    without = []
    for version in _meant(registry, request.versions):
        found = list(recertified(registry, version, folder))
        exports += found
        if not found:
            without.append(str(version))
    # At the end: a version that cannot be had is asked for again, with all before it.
    notes = [remark for one in exports if one.outcome == "changed" and (remark := _told(one))]
    return Recertification(tuple(exports), tuple(without), tuple(notes))


def _meant(registry: Registry, versions: Iterable[str]) -> list[ResolvedVersion]:
    """The versions that are named, and those of a name that an alias points to."""
    meant: list[ResolvedVersion] = []
    for one in versions or ("",):
        if "/" in one or "@" in one:
            meant.append(resolve(registry, parse_registered(one)))
            continue
        if one:
            validate_name(one)
        listed = list_versions(one or None, registry)
        promoted = [version for version in listed if version.aliases]
        if one and not promoted:
            raise UnknownVersion(
                f"no alias of {one!r} points to a version",
                f"names with a promoted version; there are {counted(len(listed), 'version')}",
                f"type `bpeline versions {one}`, then `bpeline export --check {one}/1`",
            )
        meant += [
            ResolvedVersion(version.name, version.number, version.digest, version.mlflow_run_id)
            for version in promoted
        ]
    return list(dict.fromkeys(meant))


def _told(one: Recertified) -> str:
    """Tell Prefect's automations; why a server did not take it, else empty."""
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
