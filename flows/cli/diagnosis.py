"""Checks of `bpeline doctor`: package versions, kernels, workspace, servers and disk.

A store is tested by writing one small file, which is removed.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import bpeline
from bpeline.flows.requests import usable_cores
from bpeline.flows.running import runner
from bpeline.flows.serving import answers
from bpeline.registry.environment import addresses
from bpeline.registry.tracking import (
    OUT_OF_DATE,
    MlflowTracker,
    TrackingSettings,
    database_of,
    is_server,
    is_there,
)
from bpeline.tokenizer_core.errors import BpelineError, RegistryUnreachable, StoreLost
from bpeline.tokenizer_core.redaction import without_secrets

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.workspace import Workspace

State = Literal["ok", "note", "broken"]

LOWEST_PYTHON = (3, 11)
SERVER_SECONDS = 3.0
SCARCE_BYTES = 1 << 30
FIX = "type `bpeline doctor --fix`"
CONSTRAINTS = Path(bpeline.__file__).with_name("constraints.txt")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with secrets removed from its texts.

    Attributes:
        state: ``broken`` keeps bpeline from working; a ``note`` does not.
        subject: what was checked.
        found: the result.
        advice: what to do; empty if nothing.
    """

    state: State
    subject: str
    found: str
    advice: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", without_secrets(self.found))
        object.__setattr__(self, "advice", without_secrets(self.advice))


def examine() -> list[Finding]:
    """Run all checks. Starts nothing and imports no package to read its version."""
    about_code = [_python(), *_packages(), *_native_code()]
    return [*about_code, *_workspace(), _prefect(), _cores()]


def compile_kernels() -> Iterator[Finding]:
    """Compile what is not compiled yet, one kind of work after the other."""
    from bpeline.tokenizer_core.warm_up import compile_all

    for name, seconds in compile_all():
        yield Finding("ok", "compiled", f"{name}, {seconds:.1f} s")


def fix_stores() -> Iterator[Finding]:
    """Repair what `examine` finds broken in the stores; errors as `registry.upkeep.repair`."""
    from bpeline.registry.opening import open_registry
    from bpeline.registry.upkeep import repair

    repairs = repair(open_registry(make=False), write=True)
    yield from (Finding("ok", "fixed", sentence) for sentence in repairs.done)
    yield from (Finding("note", "lost", sentence) for sentence in repairs.lost)


def _python() -> Finding:
    installed = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < LOWEST_PYTHON:
        return Finding("broken", "python", installed, "install Python 3.11 or newer")
    return Finding("ok", "python", installed)


def _packages() -> Iterator[Finding]:
    for requirement in map(Requirement, requires("bpeline") or ()):
        if requirement.marker is not None:  # of an optional extra
            continue
        name, tested = requirement.name, versions_tested().get(canonicalize_name(requirement.name))
        specifier = ",".join(sorted(map(str, requirement.specifier), reverse=True))
        try:
            installed = version(name)
        except PackageNotFoundError:
            yield Finding("broken", name, "not installed", f"type {_install(f'{name}{specifier}')}")
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            advice = f"expected {name}{specifier}: type {_install(name)}"
            yield Finding("broken", name, installed, advice)
        elif tested and Version(installed) > Version(tested):
            advice = f"if something fails, type {_install(name)}"
            yield Finding("note", name, f"{installed}, newer than the tested {tested}", advice)
        else:
            yield Finding("ok", name, installed)


def _install(package: str) -> str:
    return f"`pip install --constraint {shlex.quote(str(CONSTRAINTS))} {shlex.quote(package)}`"


def versions_tested() -> dict[str, str]:
    pinned = (line.partition("==") for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(name): tested for name, equals, tested in pinned if equals}


def _native_code() -> Iterator[Finding]:
    try:
        yield from _fast_paths()
        yield _kernels()
    except BpelineError as error:  # nothing can be compiled
        yield Finding("broken", "kernels", error.happened, error.next_step)


def _fast_paths() -> Iterator[Finding]:
    from bpeline.tokenizer_core.kernels.compiling import compilation

    if reason := compilation.why_plain():
        switched = reason.startswith("BPELINE_PLAIN_NUMBA")
        advice = "unset BPELINE_PLAIN_NUMBA" if switched else f"type {_install('numba')}"
        yield Finding("note", "fast kernels", f"OFF: {reason}", advice)


def _kernels() -> Finding:
    from bpeline.tokenizer_core.kernels.compiling.machine_code import cache_state

    state = cache_state()
    if state.directory is None:
        return Finding(
            "note",
            "kernels",
            "machine code cannot be cached, so every start compiles for about 20 seconds: "
            f"{state.refusal}",
            getattr(state.refusal, "mend", "")
            or "set BPELINE_KERNEL_CACHE to a directory that only you can write",
        )
    others = f"; {state.others} of other versions, {state.others_size / 1e6:.1f} MB"
    beside = others if state.others else ""
    if not state.specializations:
        state_text = f"none compiled yet in {state.directory}{beside}"
        advice = "the next run compiles them once (20 s); or type `bpeline doctor --compile`"
        return Finding("note", "kernels", state_text, advice)
    cached = f"{state.specializations} compiled, {state.size / 1e6:.1f} MB"
    return Finding("ok", "kernels", f"{cached}, in {state.directory}{beside}")


def _workspace() -> Iterator[Finding]:
    from bpeline.registry.workspace import Workspace, workspace_root

    try:
        home = workspace_root(addresses().home)
        if Workspace.is_at(home):
            from bpeline.registry.opening import open_registry

            registry = open_registry()
            try:
                yield from _opened(registry)
            except StoreLost:
                yield from _versions(registry)
        elif os.path.lexists(home) and not home.is_dir():
            advice = "set BPELINE_HOME to a new or empty directory"
            yield Finding("broken", "workspace", f"{home} is not a directory", advice)
        else:
            text = f"{home} does not exist yet; `bpeline train` creates it"
            yield Finding("note", "workspace", text)
            yield from _named_by_the_environment(home)
    except BpelineError as error:
        yield Finding("broken", "workspace", error.happened, error.next_step)
        return
    yield _disk(home)


def _named_by_the_environment(home: Path) -> Iterator[Finding]:
    """Check the servers that a first training would use; creates nothing there."""
    from bpeline.registry.catalogue import Catalogue
    from bpeline.registry.opening import require_a_server
    from bpeline.registry.workspace import Workspace

    chosen = addresses()
    if chosen.store:
        yield _store(Workspace(home, chosen.store))
    try:
        if chosen.store:
            require_a_server(chosen.store, chosen.catalogue_url)
        if chosen.catalogue_url:
            catalogue = Catalogue(chosen.catalogue_url, make=False)
            yield Finding("ok", "catalogue", catalogue.place)
    except BpelineError as error:
        yield Finding("broken", "catalogue", error.happened, error.next_step)
    if chosen.tracking_uri:
        yield _mlflow(MlflowTracker(TrackingSettings(chosen.tracking_uri)))


def _opened(registry: Registry) -> Iterator[Finding]:
    from bpeline.registry.publishing import waiting_records
    from bpeline.registry.upkeep import damaged_notes, noted_deletions

    workspace, catalogue = registry.workspace, registry.catalogue
    holder = workspace.lock_holder()
    text = f"{workspace.root}, {len(catalogue.versions())} versions"
    if holder is not None:
        text += f"; in use by process {holder.process.pid}: {holder.purpose}"
    elif workspace.lock_file.exists() and not os.access(workspace.lock_file, os.R_OK):
        text += "; this user cannot see whether a process uses it"
    yield Finding("ok", "workspace", text)
    status = workspace.root.stat()
    if status.st_mode & stat.S_IRWXO and os.geteuid() in (0, status.st_uid):
        text = f"other users can read {workspace.root} (mode {stat.S_IMODE(status.st_mode):o})"
        classes = "o" if status.st_mode & stat.S_IWGRP else "go"
        command = f"chmod {classes}-rwx {shlex.quote(str(workspace.root))}"
        yield Finding("note", "permissions", text, command)
    yield Finding("ok", "catalogue", catalogue.place)
    if workspace.store:
        yield _store(workspace)
    unfinished = [
        run for run in catalogue.unfinished_runs() if run.state != "running" and not run.is_sweep
    ]
    if unfinished and holder is None:
        yield Finding(
            "note",
            "runs",
            f"{len(unfinished)} unfinished; the newest is {unfinished[0].id} "
            f"({unfinished[0].name}, {unfinished[0].state})",
            "type `bpeline resume`, or `bpeline doctor --dismiss RUN` to forget one",
        )
    waiting = len(waiting_records(workspace))
    if waiting:
        yield Finding("note", "outbox", f"{waiting} not published yet", "type `bpeline resume`")
    deletions = [tombstone.reference for _, tombstone in noted_deletions(registry.workspace)]
    if deletions:
        text = f"{', '.join(deletions)} not deleted everywhere yet"
        yield Finding("note", "deletions", text, "type `bpeline resume`")
    for reference in damaged_notes(workspace):
        text = f"the deletion record of {reference} cannot be read"
        yield Finding("broken", "deletions", text, f"type `bpeline delete {reference} --yes`")
    mlflow = _mlflow(registry.tracker)
    yield mlflow
    if mlflow.state == "ok":
        yield from _versions(registry)
        yield from _moved(registry)


def _moved(registry: Registry) -> Iterator[Finding]:
    """Find artifact locations in MLflow that point to another folder than this workspace."""
    here, settings = registry.workspace.mlflow_artifacts.resolve(), registry.tracker.settings
    database = database_of(settings.uri)
    if settings.artifact_location != here.as_uri() or (database and not is_there(database)):
        return
    names: dict[Path, list[str]] = {}
    addresses_of: dict[str, str] = {}
    with suppress(BpelineError):  # `_versions` reports it
        addresses_of = registry.tracker.runs.artifact_locations()
    for name, address in addresses_of.items():
        place = Path(unquote(address.removeprefix("file://"))).parent
        if place.name == here.name and os.path.realpath(place) != str(here):
            names.setdefault(place, []).append(name)
    for place, experiments in names.items():
        text = (
            f"MLflow reads and writes the files of {', '.join(experiments)} in {place}, because "
            f"the workspace was moved or copied. MLflow's pages and mlflow.pyfunc do not read "
            f"{here}. bpeline loads versions from the workspace itself"
        )
        yield Finding("note", "mlflow files", text, _lead_here(place, here))


def _lead_here(former: Path, here: Path) -> str:
    """The commands that make artifact locations in ``former`` lead to ``here``."""
    if os.path.exists(former.with_name("workspace.json")):
        advice = "there is a workspace there, and `bpeline delete` removes files of both"
        if os.path.exists(database := here.with_name("mlflow.sqlite")):
            move = f"mv {shlex.quote(str(database))} {shlex.quote(str(database))}.before"
            advice += f". For a separate MLflow type `{move} && bpeline doctor --fix && "
            advice += "bpeline resume`, then set aliases again with `bpeline promote`"
        return advice
    above, old, new = (shlex.quote(str(path)) for path in (former.parent, former, here))
    if os.path.isdir(former):
        return f"type `cp -a {old}/. {new} && rm -r {old} && ln -s {new} {old}`"
    return f"move the workspace back, or type `mkdir -p {above} && ln -s {new} {old}`"


def _versions(registry: Registry) -> Iterator[Finding]:
    """Check that MLflow, the catalogue and the files agree about versions."""
    from bpeline.registry.upkeep import repair

    try:
        repairs = repair(registry)
        identity, tracked = registry.known_store, registry.tracker.versions()
    except RegistryUnreachable:
        return  # the check of the server reports it
    except BpelineError as error:
        yield Finding("broken", "versions", error.happened, error.next_step)
        return
    yield from (Finding("broken", "versions", item, FIX) for item in repairs.found)
    yield from (Finding("note", "--fix", item) for item in repairs.done)
    yield from (Finding("note", "lost", item) for item in repairs.lost)
    if repairs.found:
        return
    others = [item for item in registry.catalogue.registrations() if item.store != identity]
    if others:
        text = f"{len(others)} were registered in another MLflow than {identity or 'this one'}"
        yield Finding("note", "versions", text, "to see them, set MLFLOW_TRACKING_URI to it")
    called = f" {identity}" if identity else ""
    yield Finding("ok", "versions", f"{len(tracked)}, in MLflow{called} and in the catalogue")


def _store(workspace: Workspace) -> Finding:
    from bpeline.registry.workspace import try_store

    try:
        try_store(workspace)
    except BpelineError as error:
        return Finding("broken", "store", error.happened, error.next_step)
    return Finding("ok", "store", workspace.store)


def _mlflow(tracker: MlflowTracker) -> Finding:
    uri = tracker.settings.uri
    database = database_of(uri)
    if database is not None and not is_there(database):
        text = f"{database} does not exist yet; the first publication creates it"
        return Finding("ok", "mlflow database", text)
    if database is not None:
        return _mlflow_database(database, tracker.why_unusable())
    if not is_server(uri):
        return Finding("ok", "mlflow server", f"none needed, {tracker.settings.place}")
    if answers(uri, SERVER_SECONDS):
        return Finding("ok", "mlflow server", tracker.settings.place)
    return Finding(
        "broken",
        "mlflow server",
        f"{tracker.settings.place} does not answer",
        "start it or unset MLFLOW_TRACKING_URI; until then, runs wait in the outbox",
    )


def _mlflow_database(path: Path, reason: str) -> Finding:
    if not reason:
        return Finding("ok", "mlflow database", str(path))
    if Path(f"{path}-journal").exists():
        advice = "the next command rolls back what a killed process was writing"
        return Finding("note", "mlflow database", f"{path}: unfinished transaction", advice)
    if reason == OUT_OF_DATE:
        advice = "the next publication upgrades it and keeps its content"
        return Finding("note", "mlflow database", f"{path}: {reason}", advice)
    advice = "restore it from a backup, or set MLFLOW_TRACKING_URI to another one"
    return Finding("broken", "mlflow database", f"{path}: {reason}", advice)


def _prefect() -> Finding:
    if importlib.util.find_spec("prefect") is None:
        return Finding("note", "prefect server", "prefect is not installed")
    address = runner.prefect_address()
    if address is None:
        return Finding("ok", "prefect server", "none; flows run in the command's process")
    place = f"{without_secrets(address.api_url)} ({address.origin})"
    reason = runner.why_unusable(address.api_url)
    if not reason:
        return Finding("ok", "prefect server", place)
    return Finding(
        "broken",
        "prefect server",
        f"{place} does not answer: {reason}",
        "start it with `prefect server start`, or unset PREFECT_API_URL; flows run without it",
    )


def _disk(home: Path) -> Finding:
    place = home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:,.1f} GB free at {place}"
    if free < SCARCE_BYTES:
        return Finding("note", "disk", text, "free some space: a large corpus needs several GB")
    return Finding("ok", "disk", text)


def _cores() -> Finding:
    return Finding("ok", "cores", f"{usable_cores()} usable")
