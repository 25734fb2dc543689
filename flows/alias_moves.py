"""Moving aliases so that others hear of it: the registry moves, Prefect's automations are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bpeline.flows.running import tell
from bpeline.registry import aliases
from bpeline.registry.aliases import AliasChange
from bpeline.registry.gates import Rule
from bpeline.registry.workspace import Workspace

ALIAS_MOVED = "bpeline.alias.moved"


def promote(
    reference: str,
    alias: str,
    by: str,
    reason: str,
    say: Callable[[str], object],
    workspace: Workspace | None = None,
    rules: Sequence[Rule] = (),
) -> AliasChange:
    """Let an alias point to a version: `registry.promote`, and the event.

    Args:
        reference, alias, by, reason, workspace, rules: as there.
        say: is told when a Prefect server did not take the event.
    """
    return _told(aliases.promote(reference, alias, by, reason, workspace, rules=rules), say)


def rollback(
    name: str, alias: str, by: str, reason: str, say: Callable[[str], object]
) -> AliasChange:
    """Let an alias point where it pointed before: `registry.rollback`, and the event."""
    return _told(aliases.rollback(name, alias, by, reason), say)


def _told(change: AliasChange, say: Callable[[str], object]) -> AliasChange:
    """Tell Prefect that an alias points to another version now; nothing when it stays.

    The event is of the resource ``bpeline.tokenizer.NAME``, which is labelled with the alias.
    """
    if change.before != change.number:
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
