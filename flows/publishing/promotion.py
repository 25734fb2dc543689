"""Moving aliases by command or by rules, with the name's page and a Prefect event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bpeline.flows.pages import show_name_page
from bpeline.flows.running import progress, tell
from bpeline.flows.wording import ids_text
from bpeline.registry import aliases
from bpeline.registry.aliases import AliasChange, was_refused
from bpeline.registry.evaluation import Rules, every_rule_holds
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.records import CHAMPION, PublishedVersion
from bpeline.registry.workspace import Workspace
from bpeline.tokenizer_core.errors import NothingGained, PromotionRefused

ALIAS_MOVED = "bpeline.alias.moved"


def promote(
    reference: str,
    alias: str,
    by: str,
    reason: str,
    say: Callable[[str], object],
    registry: Registry,
    rules: Rules | None = None,
    *,
    lock: bool = False,
    force: bool = False,
) -> AliasChange:
    """Point an alias to a version, like `registry.promote`, and emit the event."""
    change = aliases.promote(
        reference, alias, by, reason, registry, rules=rules, lock=lock, force=force
    )
    return _told(change, say, registry)


def rollback(
    name: str,
    alias: str,
    by: str,
    reason: str,
    say: Callable[[str], object],
    registry: Registry,
    *,
    force: bool,
) -> AliasChange:
    """Move an alias back to its previous version, and emit the event."""
    return _told(aliases.rollback(name, alias, by, reason, registry, force=force), say, registry)


def remarks_on(change: AliasChange) -> tuple[str, ...]:
    """Describe what a move was compared with, what it gains, and which ids it changes."""
    remarks = []
    if change.before is None and change.against:
        remarks.append(f"compared with {change.against}, the best of its name: it had no alias")
    if change.gained:
        remarks.append(change.gained)
    if change.new_text and change.new_text not in change.gained:
        remarks.append(change.new_text)
    if change.changed_ids is not None:
        before = f"{change.name}/{change.before}"
        remarks.append(ids_text(change.changed_ids, before, str(change.version)))
    return tuple(remarks)


def _told(change: AliasChange, say: Callable[[str], object], registry: Registry) -> AliasChange:
    """Show an alias that moved on the name's page, and emit an event.

    The event's resource is ``bpeline.tokenizer.NAME``, labelled with the alias.
    """
    if change.seen is not None:
        places = (change.seen.from_number, change.seen.to_number)
        before, after = (
            "nowhere" if number is None else f"{change.name}/{number}" for number in places
        )
        say(f"{change.name}@{change.alias} was {change.seen.reason}: from {before} to {after}")
    if change.before != change.number:
        show_name_page(registry, change.name)
        payload = {
            "alias": change.alias,
            "from": change.before,
            "to": change.number,
            "reference": str(change.version),
            "digest": change.version.digest,
        }
        if remark := tell(ALIAS_MOVED, change.name, payload, alias=change.alias):
            say(remark)
    return change


@dataclass(frozen=True, slots=True)
class Promotion:
    """The result of applying promotion rules to a version.

    Attributes:
        refusal: which rules failed, and by how much; empty if the alias moved.
        stays: why the alias stays although no rule failed: the version is not new, or gains too
            little.
        exit_code: for training commands: 0, 3 for a failed rule, 4 for a rule that could not be
            judged.
    """

    alias: str
    version: str
    refusal: str = ""
    verdicts: tuple[str, ...] = ()
    first: bool = False
    exit_code: int = 0
    stays: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Name of the finished run's Prefect state; empty if the version was promoted."""
        if self.stays:
            return "Kept"
        if self.exit_code:
            return "Refused" if self.exit_code == PromotionRefused.exit_code else "Not judged"
        return ""

    @property
    def promoted(self) -> bool:
        return not self.refusal and not self.stays

    @property
    def outcome(self) -> str:
        if self.stays:
            return self.stays
        if self.refusal:
            state = self.state.lower()
            return self.refusal if state in self.refusal else f"{state}: {self.refusal}"
        summary = f"{self.version} is {self.alias}: {every_rule_holds(self.verdicts)}"
        first = ["it is the first, so only limits apply"] * self.first
        return "; ".join([summary, *first, *self.remarks])


def state_of(promotion: Promotion | None) -> tuple[str, str]:
    """Return name and reason of a finished run's Prefect state; empty for the default."""
    return ("", "") if promotion is None else (promotion.state, promotion.outcome)


def promote_if_better(
    version: PublishedVersion, promotion_rules: Rules, workspace: Workspace
) -> Promotion:
    """Move ``champion`` to a version if all rules hold and it gains enough.

    A version that was registered before is not judged, as a user may have moved the alias since.
    Versions that rules refused are judged again, as rules or texts may have changed.
    """
    registry = open_registry(workspace)
    if not version.newly_registered and not was_refused(
        registry, version.name, version.number, CHAMPION
    ):
        return Promotion(CHAMPION, version.reference, stays=_left_alone(version, registry))
    by, reason = "bpeline train", every_rule_holds(promotion_rules.rules)
    try:
        note = progress.current().note
        change = promote(version.reference, CHAMPION, by, reason, note, registry, promotion_rules)
    except NothingGained as error:
        return Promotion(CHAMPION, version.reference, stays=f"kept: {error.happened}")
    except PromotionRefused as error:
        return Promotion(
            CHAMPION, version.reference, refusal=error.happened, exit_code=error.exit_code
        )
    verdicts = tuple(map(str, change.verdicts))
    return Promotion(
        CHAMPION, version.reference, verdicts=verdicts, first=not change.against,
        remarks=remarks_on(change),
    )  # fmt: skip


def _left_alone(version: PublishedVersion, registry: Registry) -> str:
    present = registry.tracker.version_of_alias(version.name, CHAMPION)
    if present is not None and present.number == version.number:
        return f"{CHAMPION} stays at {version.reference}, which was registered before"
    place = "stays nowhere" if present is None else f"stays at {version.name}/{present.number}"
    return (
        f"{CHAMPION} {place}: {version.reference} was registered before, "
        f"and only `bpeline promote {version.reference}` moves {CHAMPION} to it"
    )
