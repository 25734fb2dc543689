"""A published version becomes champion, if the rules let it."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.flows.alias_moves import promote
from bpeline.flows.requests import CHAMPION
from bpeline.flows.running import PROMOTE, progress, step
from bpeline.registry.gates import Rule, every_rule_holds
from bpeline.registry.opening import open_registry
from bpeline.registry.records import PublishedVersion
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.errors import PromotionRefused


@dataclass(frozen=True, slots=True)
class Promotion:
    """What came of it.

    Attributes:
        alias: what was to move.
        version: the version it was to move to (``news/4``).
        refusal: which rules were broken and by how much; empty when it moved.
        stays: why no rule was asked and nothing moved: the version is not new; else empty.
        verdicts: what the rules said, when it moved.
        first: whether nothing was there to compare it with.
        exit_code: of a command that trains: 0, 3 for a rule that is broken, 4 for one that could
            not be judged.
    """

    alias: str
    version: str
    refusal: str = ""
    verdicts: tuple[str, ...] = ()
    first: bool = False
    exit_code: int = 0
    stays: str = ""

    @property
    def promoted(self) -> bool:
        return not self.refusal and not self.stays

    @property
    def outcome(self) -> str:
        if self.stays:
            return self.stays
        if self.refusal:
            refused = self.exit_code == PromotionRefused.exit_code
            return f"{'refused' if refused else 'not judged'}: {self.refusal}"
        said = f"{self.version} is {self.alias}: {every_rule_holds(self.verdicts)}"
        return f"{said}; it is the first, so only limits bind" if self.first else said


@step(PROMOTE)
def promote_if_better(
    version: PublishedVersion, rules: tuple[Rule, ...], workspace: Workspace
) -> Promotion:
    """Let ``champion`` point to a version if all rules hold; else it stays where it is.

    A version that was registered before is not judged: a person may have gone back from it, or on
    to another, and a training on text that has not changed decides nothing anew.

    Raises:
        RegistryUnreachable: MLflow does not answer; the version is published, nothing was moved.
    """
    if not version.newly_registered:
        return Promotion(CHAMPION, version.reference, stays=_left_alone(version, workspace))
    by, reason = "bpeline train", every_rule_holds(rules)
    try:
        note = progress.current().note
        change = promote(version.reference, CHAMPION, by, reason, note, workspace, rules)
    except PromotionRefused as error:
        return Promotion(
            CHAMPION, version.reference, refusal=error.happened, exit_code=error.exit_code
        )
    verdicts = tuple(map(str, change.verdicts))
    return Promotion(CHAMPION, version.reference, verdicts=verdicts, first=change.before is None)


def _left_alone(version: PublishedVersion, workspace: Workspace) -> str:
    present = open_registry(workspace).tracker.version_of_alias(version.name, CHAMPION)
    if present is not None and present.number == version.number:
        return f"{CHAMPION} stays at {version.reference}, which was registered before"
    place = "stays nowhere" if present is None else f"stays at {version.name}/{present.number}"
    return (
        f"{CHAMPION} {place}: {version.reference} was registered before, and "
        f"`bpeline promote {version.reference}` alone lets {CHAMPION} move to it"
    )
