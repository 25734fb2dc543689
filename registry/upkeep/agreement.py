"""Whether catalogue, disk and MLflow say the same of the versions of a workspace; mends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bpeline.registry.loading import is_published_here, remembered_numbers, tombstones
from bpeline.tokenizer_core.errors import StorageError

if TYPE_CHECKING:
    from bpeline.registry.catalogue import Deletion
    from bpeline.registry.opening import Registry
    from bpeline.registry.tracking import TrackedVersion

_LISTED = 5


def disagreements(registry: Registry, tracked: Sequence[TrackedVersion]) -> list[str]:
    """What the three stores say differently, in sentences; nothing where they agree.

    Versions that MLflow has from other workspaces are no disagreement.

    Args:
        registry: whose stores.
        tracked: all versions that its MLflow has.
    """
    there = {(one.name, one.number): one.digest for one in tracked}
    known = {(row.name, row.digest) for row in registry.catalogue.versions()}
    found = [
        f"the catalogue does not know {one.name}/{one.number} ({one.digest[:12]}), which was "
        "published from this workspace"
        for one in tracked
        if (one.name, one.digest) not in known and is_published_here(registry.workspace, one.digest)
    ]
    begun = {(one.name, one.number) for one in registry.catalogue.unfinished_deletions()}
    deleted: dict[tuple[str, int], Deletion] | None = None
    for row in registry.catalogue.registrations(store=registry.store):
        digest = there.get((row.name, row.number))
        if digest is None and (row.name, row.number) not in begun:
            if deleted is None:
                deleted = {(one.name, one.number): one for one in tombstones(registry)}
            why = deleted.get((row.name, row.number), "")
            said = f", it was {why}" if why else ""
            what = f"{row.name}/{row.number} ({row.digest[:12]})"
            found.append(f"MLflow has no {what} any more{said}")
        elif digest is None:
            continue  # which `bpeline resume` goes on with
        elif digest != row.digest:
            found.append(
                f"{row.name}/{row.number} was {row.digest[:12]} and is {digest[:12]} in MLflow"
            )
    for one in remembered_numbers(registry.place, registry.store):
        digest = there.get((one.name, one.number), one.digest)
        if digest != one.digest and not any(said.startswith(f"{one} was ") for said in found):
            found.append(
                f"{one} was {one.digest[:12]} when it was loaded here, and is {digest[:12]}"
            )
    return found


def require_agreement(registry: Registry, tracked: Sequence[TrackedVersion], doing: str) -> None:
    """Refuse to go on while the stores disagree.

    Raises:
        StorageError: they do.
    """
    found = disagreements(registry, tracked)
    if found:
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise StorageError(
            f"{doing} would go by stores that disagree: {'; '.join(found[:_LISTED])}{more}",
            "accepted are a catalogue, files and an MLflow that know the same versions",
            "type `bpeline doctor`, which says what differs and what `--fix` would do",
        )
