"""Moving aliases so that others hear of it: the page of the name and Prefect's automations."""

from __future__ import annotations

from collections.abc import Callable

from bpeline.flows.name_page import show_name_page
from bpeline.flows.running import tell
from bpeline.flows.wording import ids_text
from bpeline.registry import aliases
from bpeline.registry.aliases import AliasChange
from bpeline.registry.evaluation import Rules
from bpeline.registry.opening import open_registry
from bpeline.registry.workspace import Workspace

ALIAS_MOVED = "bpeline.alias.moved"


def promote(
    reference: str,
    alias: str,
    by: str,
    reason: str,
    say: Callable[[str], object],
    workspace: Workspace | None = None,
    rules: Rules | None = None,
    *,
    lock: bool = False,
    force: bool = False,
) -> AliasChange:
    """Let an alias point to a version: `registry.promote`, and the event.

    Args:
        reference, alias, by, reason, workspace, rules, lock, force: as there.
        say: is told of a move made in MLflow itself, and when Prefect did not take the event.
    """
    change = aliases.promote(
        reference, alias, by, reason, workspace, rules=rules, lock=lock, force=force
    )
    return _told(change, say, workspace)


def rollback(
    name: str, alias: str, by: str, reason: str, say: Callable[[str], object], *, force: bool
) -> AliasChange:
    """Let an alias point where it pointed before: `registry.rollback`, and the event."""
    return _told(aliases.rollback(name, alias, by, reason, force=force), say)


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


def _told(
    change: AliasChange, say: Callable[[str], object], workspace: Workspace | None = None
) -> AliasChange:
    """Show and tell Prefect that an alias points to another version now; nothing when it stays.

    The event is of the resource ``bpeline.tokenizer.NAME``, which is labelled with the alias.
    """
    if change.seen is not None:
        places = (change.seen.from_number, change.seen.to_number)
        before, after = ("nowhere" if one is None else f"{change.name}/{one}" for one in places)
        say(f"{change.name}@{change.alias} was {change.seen.reason}: from {before} to {after}")
    if change.before != change.number:
        show_name_page(open_registry(workspace), change.name)
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
