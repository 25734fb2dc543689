"""A published version becomes champion, if the rules let it."""

from __future__ import annotations

from dataclasses import dataclass

from bpeline.flows.alias_moves import promote
from bpeline.flows.requests import CHAMPION
from bpeline.flows.running import PROMOTE, progress, step
from bpeline.registry.gates import Rule, every_rule_holds
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
        verdicts: what the rules said, when it moved.
    """

    alias: str
    version: str
    refusal: str = ""
    verdicts: tuple[str, ...] = ()

    @property
    def promoted(self) -> bool:
        return not self.refusal

    @property
    def outcome(self) -> str:
        if self.refusal:
            return f"refused: {self.refusal}"
        return f"{self.version} is {self.alias}: {every_rule_holds(self.verdicts)}"


@step(PROMOTE)
def promote_if_better(
    version: PublishedVersion, rules: tuple[Rule, ...], workspace: Workspace
) -> Promotion:
    """Let ``champion`` point to a version if all rules hold; else it stays where it is.

    Raises:
        RegistryUnreachable: MLflow does not answer; the version is published, nothing was moved.
    """
    by, reason = "bpeline train", every_rule_holds(rules)
    try:
        note = progress.current().note
        change = promote(version.reference, CHAMPION, by, reason, note, workspace, rules)
    except PromotionRefused as error:
        return Promotion(CHAMPION, version.reference, refusal=error.happened)
    return Promotion(CHAMPION, version.reference, verdicts=tuple(map(str, change.verdicts)))
