"""Register exactly one version per name and digest, even if requests repeat.

MLflow's client may repeat a creation whose reply was lost, and a creation that raised may have
succeeded. So each version has its digest as a tag, and MLflow is searched for it before a creation
and after any outcome. The lowest number wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bpeline.registry.records import Publication
from bpeline.tokenizer_core.errors import RegistryUnreachable

if TYPE_CHECKING:
    from bpeline.registry.tracking import MlflowTracker, TrackedVersion


def registered(tracker: MlflowTracker, publication: Publication) -> TrackedVersion | None:
    """Return the version that already has this tokenizer, or None.

    If one run created several, the lowest number stays and the others are removed.
    """
    versions = tracker.find_versions(publication.name, publication.digest)
    aliases = tracker.aliases(publication.name) if versions[1:] else {}
    aliased = set(aliases.get(publication.name, {}).values())
    for younger in versions[1:]:
        # Other publishers remove their own; a number with an alias is in use.
        if younger.run_id == publication.run_id and younger.number not in aliased:
            tracker.withdraw_version(younger.name, younger.number)
    return versions[0] if versions else None


def register_once(
    tracker: MlflowTracker,
    publication: Publication,
    run: Any,
    files: Sequence[Path],
    config: Mapping[str, Any],
    staging: Path,
) -> TrackedVersion:
    """Register a tokenizer, or return the version that already has it.

    Args:
        files, config: as of `Models.log_model`.
        staging: an empty directory for the loadable model.

    Raises:
        RegistryUnreachable: MLflow stopped answering, and the version may exist. The next call
            checks.
    """
    version = registered(tracker, publication)
    if version is not None:
        return version
    failure: Exception | None = None
    try:
        tracker.models.ensure_registered_model(publication.name)
        model = tracker.models.log_model(publication, run, files, config, staging)
        tracker.models.create_version(publication, run, model)
    except Exception as error:  # only the reply may be lost
        failure = error
    version = registered(tracker, publication)
    if version is None:
        raise failure or RegistryUnreachable(
            f"MLflow at {tracker.settings.place} does not show the version it has just created",
            "expected a server whose writes can be read back",
            "type `bpeline resume` to publish it again",
        )
    return version
