"""What could go wrong on this machine: versions, kernels, workspace, servers, disk.

Looks; compiles, and repairs the stores, when asked to. A store is tried with one small file, which
is removed.
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
    """One thing that was looked at; what it says holds no secrets.

    Attributes:
        state: ``broken`` keeps bpeline from working; a ``note`` does not.
        subject: what was looked at.
        found: what it is.
        advice: what to do; empty when nothing needs doing.
    """

    state: State
    subject: str
    found: str
    advice: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", without_secrets(self.found))
        object.__setattr__(self, "advice", without_secrets(self.advice))


def examine() -> list[Finding]:
    """Look at everything; nothing is started, and no package is imported to learn its version."""
    about_code = [_python(), *_packages(), *_native_code()]
    return [*about_code, *_workspace(), _prefect(), _cores()]


def compile_kernels() -> Iterator[Finding]:
    """Compile what is not compiled yet, one kind of work after the other."""
    from bpeline.tokenizer_core.warm_up import compile_all

    for name, seconds in compile_all():
        yield Finding("ok", "compiled", f"{name}, {seconds:.1f} s")


def fix_stores() -> Iterator[Finding]:
    """Make good what `examine` finds wrong with the stores.

    Raises:
        BpelineError: as `registry.upkeep.repair`.
    """
    from bpeline.registry.opening import open_registry
    from bpeline.registry.upkeep import repair

    told = repair(open_registry(make=False), write=True)
    yield from (Finding("ok", "fixed", sentence) for sentence in told.done)
    yield from (Finding("note", "lost", sentence) for sentence in told.lost)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < LOWEST_PYTHON:
        return Finding("broken", "python", found, "install Python 3.11 or newer")
    return Finding("ok", "python", found)


def _packages() -> Iterator[Finding]:
    for requirement in map(Requirement, requires("bpeline") or ()):
        if requirement.marker is not None:  # of an extra, which a user may leave out
            continue
        name, tested = requirement.name, versions_tested().get(canonicalize_name(requirement.name))
        wanted = ",".join(sorted(map(str, requirement.specifier), reverse=True))
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding("broken", name, "not installed", f"type {_install(f'{name}{wanted}')}")
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            advice = f"known to work is {name}{wanted}: type {_install(name)}"
            yield Finding("broken", name, found, advice)
        elif tested and Version(found) > Version(tested):
            advice = f"if something fails, type {_install(name)}"
            yield Finding("note", name, f"{found}, newer than {tested}, which was tested", advice)
        else:
            yield Finding("ok", name, found)


def _install(package: str) -> str:
    return f"`pip install --constraint {shlex.quote(str(CONSTRAINTS))} {shlex.quote(package)}`"


def versions_tested() -> dict[str, str]:
    """The versions that were tested together, by the name of the package."""
    pinned = (line.partition("==") for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(name): tested for name, found, tested in pinned if found}


def _native_code() -> Iterator[Finding]:
    try:
        yield from _fast_paths()
        yield _kernels()
    except BpelineError as error:  # nothing can be compiled
        yield Finding("broken", "kernels", error.happened, error.next_step)


def _fast_paths() -> Iterator[Finding]:
    """What is written for the insides of Numba, where it is another version."""
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
            "machine code cannot be kept, so every start compiles for about 20 seconds: "
            f"{state.refusal}",
            getattr(state.refusal, "mend", "")
            or "set BPELINE_KERNEL_CACHE to a directory that you alone may write",
        )
    others = f"; {state.others} of other versions, {state.others_size / 1e6:.1f} MB"
    beside = others if state.others else ""
    if not state.specializations:
        found = f"none compiled yet in {state.directory}{beside}"
        advice = "the next run does, once, in about 20 seconds; or type `bpeline doctor --compile`"
        return Finding("note", "kernels", found, advice)
    kept = f"{state.specializations} compiled, {state.size / 1e6:.1f} MB"
    return Finding("ok", "kernels", f"{kept}, in {state.directory}{beside}")


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
            found = f"{home} does not exist yet; `bpeline train` makes it"
            yield Finding("note", "workspace", found)
            yield from _named_by_the_environment(home)
    except BpelineError as error:
        yield Finding("broken", "workspace", error.happened, error.next_step)
        return
    yield _disk(home)


def _named_by_the_environment(home: Path) -> Iterator[Finding]:
    """The servers that a first training would use; nothing is made there."""
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
    found = f"{workspace.root}, {len(catalogue.versions())} versions"
    if holder is not None:
        found += f"; process {holder.process.pid} is at work: {holder.purpose}"
    elif workspace.lock_file.exists() and not os.access(workspace.lock_file, os.R_OK):
        found += "; this user may not see whether a process is at work"
    yield Finding("ok", "workspace", found)
    status = workspace.root.stat()
    if status.st_mode & stat.S_IRWXO and os.geteuid() in (0, status.st_uid):
        found = f"other users may read {workspace.root} (mode {stat.S_IMODE(status.st_mode):o})"
        classes = "o" if status.st_mode & stat.S_IWGRP else "go"
        command = f"chmod {classes}-rwx {shlex.quote(str(workspace.root))}"
        yield Finding("note", "permissions", found, command)
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
    begun = [one.reference for _, one in noted_deletions(registry.workspace)]
    if begun:
        found = f"{', '.join(begun)} not deleted everywhere yet"
        yield Finding("note", "deletions", found, "type `bpeline resume`")
    for reference in damaged_notes(workspace):
        found = f"the note that {reference} is to be deleted cannot be read"
        yield Finding("broken", "deletions", found, f"type `bpeline delete {reference} --yes`")
    mlflow = _mlflow(registry.tracker)
    yield mlflow
    if mlflow.state == "ok":
        yield from _versions(registry)
        yield from _moved(registry)


def _moved(registry: Registry) -> Iterator[Finding]:
    """Where MLflow looks for files of this workspace, if that is elsewhere."""
    here, settings = registry.workspace.mlflow_artifacts.resolve(), registry.tracker.settings
    database = database_of(settings.uri)
    if settings.artifact_location != here.as_uri() or (database and not is_there(database)):
        return
    names: dict[Path, list[str]] = {}
    addresses_of: dict[str, str] = {}
    with suppress(BpelineError):  # which `_versions` says
        addresses_of = registry.tracker.runs.artifact_locations()
    for name, address in addresses_of.items():
        place = Path(unquote(address.removeprefix("file://"))).parent
        if place.name == here.name and os.path.realpath(place) != str(here):
            names.setdefault(place, []).append(name)
    for place, named in names.items():
        found = (
            f"MLflow looks in {place} for the files of {', '.join(named)}, and writes new ones "
            f"there: the workspace was moved or copied. MLflow's pages and mlflow.pyfunc do not "
            f"read {here}. Names, aliases, numbers and digests load from the workspace's own files"
        )
        yield Finding("note", "mlflow files", found, _lead_here(place, here))


def _lead_here(former: Path, here: Path) -> str:
    """What to type so that addresses of files in ``former`` lead to ``here``."""
    if os.path.exists(former.with_name("workspace.json")):
        advice = "a workspace is there, and `bpeline delete` removes files of both"
        if os.path.exists(database := here.with_name("mlflow.sqlite")):
            move = f"mv {shlex.quote(str(database))} {shlex.quote(str(database))}.before"
            advice += f". For an MLflow of its own type `{move} && bpeline doctor --fix && "
            advice += "bpeline resume`, then set aliases again by `bpeline promote`"
        return advice
    above, old, new = (shlex.quote(str(path)) for path in (former.parent, former, here))
    if os.path.isdir(former):
        return f"type `cp -a {old}/. {new} && rm -r {old} && ln -s {new} {old}`"
    return f"move the workspace back, or type `mkdir -p {above} && ln -s {new} {old}`"


def _versions(registry: Registry) -> Iterator[Finding]:
    """Whether MLflow is the one that was there, and says what catalogue and files say."""
    from bpeline.registry.upkeep import repair

    try:
        told = repair(registry)
        identity, tracked = registry.known_store, registry.tracker.versions()
    except RegistryUnreachable:
        return  # which is said of the server
    except BpelineError as error:
        yield Finding("broken", "versions", error.happened, error.next_step)
        return
    yield from (Finding("broken", "versions", one, FIX) for one in told.found)
    yield from (Finding("note", "--fix", one) for one in told.done)
    yield from (Finding("note", "lost", one) for one in told.lost)
    if told.found:
        return
    others = [one for one in registry.catalogue.registrations() if one.store != identity]
    if others:
        found = f"{len(others)} were registered in another MLflow than {identity or 'this one'}"
        yield Finding("note", "versions", found, "set MLFLOW_TRACKING_URI to it to see them")
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
        said = f"{database} does not exist yet; the first publication makes it"
        return Finding("ok", "mlflow database", said)
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
        "start it or unset MLFLOW_TRACKING_URI; runs wait in the outbox meanwhile",
    )


def _mlflow_database(path: Path, reason: str) -> Finding:
    if not reason:
        return Finding("ok", "mlflow database", str(path))
    if Path(f"{path}-journal").exists():
        advice = "the next command takes back what a killed process was writing"
        return Finding("note", "mlflow database", f"{path}: a change in it is unfinished", advice)
    if reason == OUT_OF_DATE:
        advice = "the next publication brings an older one up to date and keeps its content"
        return Finding("note", "mlflow database", f"{path}: {reason}", advice)
    advice = "restore it from a copy, or set MLFLOW_TRACKING_URI to another"
    return Finding("broken", "mlflow database", f"{path}: {reason}", advice)


def _prefect() -> Finding:
    if importlib.util.find_spec("prefect") is None:
        return Finding("note", "prefect server", "prefect is not installed")
    address = runner.prefect_address()
    if address is None:
        return Finding("ok", "prefect server", "none; flows run in the command's own process")
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
    found = f"{free / 1e9:,.1f} GB free at {place}"
    if free < SCARCE_BYTES:
        return Finding("note", "disk", found, "make room: counts of a large corpus need some GB")
    return Finding("ok", "disk", found)


def _cores() -> Finding:
    return Finding("ok", "cores", f"{usable_cores()} usable")
