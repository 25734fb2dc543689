"""Find, and remove, what no version needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bpeline.flows.requests import GarbageRequest, request_parameters
from bpeline.flows.running import COLLECT_GARBAGE, GC, progress, task
from bpeline.flows.serving import RETRIES, flow, run_names
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
    "evaluation set": "evaluation sets that no name has any more",
    "words in SQL": "tables that `bpeline sql` made, and makes again",
    "mlflow run": "runs in MLflow that never ended",
    "mlflow model": "models in MLflow without a version",
    "standard input": "corpora from standard input that no version was made of",
}


@dataclass(frozen=True, slots=True)
class CollectedGarbage:
    """What was found.

    Attributes:
        removed: whether ``old`` is gone.
        days: what was younger stays.
        old, young: what nothing needs; see `registry.upkeep.Leftovers`.
        unsure: why word counts of chunks are kept anyway; empty as a rule.
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
        """A table of what there was, for Prefect."""
        rows = []
        for kind, what in KINDS.items():
            ones = [one for one in self.old if one.kind == kind]
            if ones:
                rows.append((what, f"{len(ones):,}", megabytes(_size(ones))))
        if self.young:
            younger = f"younger than {self.days:g} days, which stays"
            rows.append((younger, f"{len(self.young):,}", megabytes(_size(self.young))))
        lines = [f"# {self.outcome}", "", Table(("what", "number", "size"), rows).markdown()]
        if self.unsure:
            lines += ["", self.unsure]
        return "\n".join(lines) + "\n"


@flow(
    GC,
    run_name=run_names.collecting,
    about=run_names.tokenizer,
    called=lambda collected: collected.outcome,
)
@request_parameters(GarbageRequest)
def collect_garbage(request: GarbageRequest, workspace: str | None) -> CollectedGarbage:
    """Find what no version needs in a workspace, and remove it if asked to.

    Registered tokenizers stay, and so do the word counts they were trained on, runs that can be
    continued and publications that wait. All else can be made again from the sources.

    Raises:
        InvalidOption: a negative number.
        WorkspaceLocked: somebody works in the workspace, and something was to be removed.
        RegistryUnreachable: MLflow does not answer, and ``counts_of`` is given.
        StorageError: there is no workspace.
    """
    registry = open_registry(workspace, make=False)
    collected = collect(registry.workspace, request.days, request.counts_of, request.remove)
    progress.current().summary("garbage", collected.as_markdown())
    return collected


@task(name=COLLECT_GARBAGE.name, **RETRIES)
def collect(
    workspace: Workspace, days: float, counts_of: int | None, remove: bool
) -> CollectedGarbage:
    """Look, and remove."""
    look = remove_leftovers if remove else find_leftovers
    with progress.telling(COLLECT_GARBAGE) as outcome:
        found = look(open_registry(workspace), days=days, counts_of=counts_of)
        collected = CollectedGarbage(remove, days, found.old, found.young, found.unsure)
        outcome(collected.outcome)
    return collected


def _size(ones: Sequence[Leftover]) -> int:
    return sum(one.size for one in ones)
