"""Aliases moved, by command or by promotion rules, with the page of the name and the event."""

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
    """Let an alias point to a version: `registry.promote`, and the event.

    Args:
        reference, alias, by, reason, rules, lock, force: as there.
        say: is told of a move made in MLflow itself, and when Prefect did not take the event.
        registry: that has it.
    """
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
    """Let an alias point where it pointed before: `registry.rollback`, and the event."""
    return _told(aliases.rollback(name, alias, by, reason, registry, force=force), say, registry)


def remarks_on(change: AliasChange) -> tuple[str, ...]:
    """Sentences for people: what a move was judged against, what it gains, which ids it changes."""
    remarks = []
    if change.before is None and change.against:
        remarks.append(f"judged against {change.against}, the best of its name, as no alias stood")
    if change.gained:
        remarks.append(change.gained)
    if change.new_text and change.new_text not in change.gained:
        remarks.append(change.new_text)
    if change.changed_ids is not None:
        before = f"{change.name}/{change.before}"
        remarks.append(ids_text(change.changed_ids, before, str(change.version)))
    return tuple(remarks)


def _told(change: AliasChange, say: Callable[[str], object], registry: Registry) -> AliasChange:
    """Show and tell Prefect that an alias points to another version now; nothing when it stays.

    The event is of the resource ``bpeline.tokenizer.NAME``, which is labelled with the alias.
    """
    if change.seen is not None:
        places = (change.seen.from_number, change.seen.to_number)
        before, after = ("nowhere" if one is None else f"{change.name}/{one}" for one in places)
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
    """What came of it.

    Attributes:
        alias: what was to move.
        version: the version it was to move to (``news/4``).
        refusal: which rules were broken and by how much; empty when it moved.
        stays: why nothing moved though no rule refused: the version is not new, or gains too
            little; else empty.
        verdicts: what the rules said, when it moved.
        first: whether nothing was there to compare it with.
        remarks: what it was judged against, what it gains and which ids it changes, when it moved.
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
    remarks: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """The name of a finished run's state in Prefect; empty where the version was promoted."""
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
        said = f"{self.version} is {self.alias}: {every_rule_holds(self.verdicts)}"
        first = ["it is the first, so only limits bind"] * self.first
        return "; ".join([said, *first, *self.remarks])


def state_of(promotion: Promotion | None) -> tuple[str, str]:
    """The name of a finished run's state in Prefect, and why; empty for Prefect's own."""
    return ("", "") if promotion is None else (promotion.state, promotion.outcome)


def promote_if_better(
    version: PublishedVersion, promotion_rules: Rules, workspace: Workspace
) -> Promotion:
    """Let ``champion`` point to a version if all rules hold and it gains enough; else it stays.

    A version that was registered before is not judged: a person may have gone back from it, or on
    to another, and a training on text that has not changed decides nothing anew. But one that rules
    refused is: they may have changed, or what they were asked on.

    Raises:
        RegistryUnreachable: MLflow does not answer; the version is published, nothing was moved.
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
        f"{CHAMPION} {place}: {version.reference} was registered before, and "
        f"`bpeline promote {version.reference}` alone lets {CHAMPION} move to it"
    )
