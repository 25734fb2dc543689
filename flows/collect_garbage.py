"""The flow that finds and removes files that no version needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bpeline.flows.requests import GarbageRequest, request_parameters
from bpeline.flows.running import progress, steps
from bpeline.flows.serving import RETRIES, flow, run_names, task
from bpeline.flows.wording import counted, megabytes
from bpeline.registry.opening import open_registry
from bpeline.registry.upkeep import Leftover, find_leftovers, remove_leftovers
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.tables import Table

KINDS = {
    "table": "word counts of corpora",
    "shard": "word counts of chunks",
    "pack": "word counts of small chunks, many together",
    "run": "checkpoints of runs",
    "version": "files of tokenizers that are not registered",
    "evaluation set": "evaluation sets that no name uses any more",
    "words in SQL": "tables of `bpeline sql`, which builds them again",
    "mlflow run": "runs in MLflow that never ended",
    "mlflow model": "models in MLflow without a version",
    "standard input": "corpora from standard input that no version was trained on",
}


@dataclass(frozen=True, slots=True)
class CollectedGarbage:
    """The leftovers found by `collect_garbage`.

    Attributes:
        days: minimum age in days of the ``old`` leftovers.
        unsure: why word counts of chunks are kept anyway; usually empty.
    """

    removed: bool
    days: float
    old: tuple[Leftover, ...]
    young: tuple[Leftover, ...]
    unsure: str = ""

    @property
    def outcome(self) -> str:
        done = "removed" if self.removed else "could be removed"
        return f"{counted(len(self.old), 'leftover')} {done}, {megabytes(_size(self.old))}"

    def as_markdown(self) -> str:
        """The leftovers as a Markdown table, for Prefect."""
        rows = []
        for kind, what in KINDS.items():
            leftovers = [leftover for leftover in self.old if leftover.kind == kind]
            if leftovers:
                rows.append((what, f"{len(leftovers):,}", megabytes(_size(leftovers))))
        if self.young:
            younger = f"younger than {self.days:g} days, kept"
            rows.append((younger, f"{len(self.young):,}", megabytes(_size(self.young))))
        lines = [f"# {self.outcome}", "", Table(("what", "number", "size"), rows).markdown()]
        if self.unsure:
            lines += ["", self.unsure]
        return "\n".join(lines) + "\n"


@flow(
    steps.GC,
    run_name=run_names.collecting,
    about=run_names.tokenizer,
    called=lambda collected: collected.outcome,
)
@request_parameters(GarbageRequest)
def collect_garbage(request: GarbageRequest, workspace: str | None) -> CollectedGarbage:
    """Find files that no version needs, and remove them on request.

    Registered tokenizers stay, with the word counts they were trained on, runs that can be
    continued and waiting publications. Everything else can be recreated from the sources.

    Raises:
        WorkspaceLocked: another process uses the workspace, and ``remove`` was requested.
    """
    registry = open_registry(workspace, make=False)
    collected = collect(registry.workspace, request.days, request.counts_of, request.remove)
    progress.current().summary("garbage", collected.as_markdown())
    return collected


@task(name=steps.COLLECT_GARBAGE.name, **RETRIES)
def collect(
    workspace: Workspace, days: float, counts_of: int | None, remove: bool
) -> CollectedGarbage:
    """Find the leftovers, and remove them if ``remove`` is set."""
    look = remove_leftovers if remove else find_leftovers
    with progress.telling(steps.COLLECT_GARBAGE) as outcome:
        leftovers = look(open_registry(workspace), days=days, counts_of=counts_of)
        collected = CollectedGarbage(remove, days, leftovers.old, leftovers.young, leftovers.unsure)
        outcome(collected.outcome)
    return collected


def _size(ones: Sequence[Leftover]) -> int:
    return sum(leftover.size for leftover in ones)
