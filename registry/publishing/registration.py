"""Exactly one registered version per name and digest, although the network is not exactly-once.

MLflow's client may repeat a creation whose reply was lost, and a creation that raised may have
happened. So a version carries its tokenizer's digest as a tag, is searched for before it is
created and searched for again after any outcome; the lowest number wins. Knows the tracker's
methods, not MLflow.
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
    """The version that already is this tokenizer, or None.

    If the same run created it more than once, the lowest number stays and the others are removed.

    Raises:
        RegistryUnreachable: MLflow does not answer.
    """
    found = tracker.find_versions(publication.name, publication.digest)
    aliases = tracker.aliases(publication.name) if found[1:] else {}
    relied_on = set(aliases.get(publication.name, {}).values())
    for younger in found[1:]:
        # Only our own: another publisher removes his, and an alias means that somebody already
        # relies on the number.
        if younger.run_id == publication.run_id and younger.number not in relied_on:
            tracker.withdraw_version(younger.name, younger.number)
    return found[0] if found else None


def register_once(
    tracker: MlflowTracker,
    publication: Publication,
    run: Any,
    files: Sequence[Path],
    config: Mapping[str, Any],
    staging: Path,
) -> TrackedVersion:
    """Register a tokenizer, or find the version that already is this tokenizer.

    Args:
        publication: what is registered; its digest is the identity.
        run: the MLflow run it comes from.
        files, config: as of `Models.log_model`.
        staging: an empty private directory to lay the loadable model out in.

    Raises:
        RegistryUnreachable: MLflow stopped answering; whether the version exists is unknown, and
            the next call finds out.
        RegistryError: MLflow refused.
    """
    version = registered(tracker, publication)
    if version is not None:
        return version
    failure: Exception | None = None
    try:
        tracker.models.ensure_registered_model(publication.name)
        model = tracker.models.log_model(publication, run, files, config, staging)
        tracker.models.create_version(publication, run, model)
    except Exception as error:  # the reply may be lost and the version there all the same
        failure = error
    version = registered(tracker, publication)
    if version is None:
        raise failure or RegistryUnreachable(
            f"MLflow at {tracker.settings.place} does not show the version it has just created",
            "accepted is a server whose writes can be read back",
            "type `bpeline resume` to publish it again",
        )
    return version
