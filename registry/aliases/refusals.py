"""Record refused versions in MLflow so that drift does not train them again.

While text, evaluation set and rules stay the same, a training started by drift makes the same
version and the rules refuse it again. `registry.records.Refusal` is the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.registry.aliases.moves import lock_of
from bpeline.registry.evaluation import Rules, read_rules
from bpeline.registry.loading import ResolvedVersion
from bpeline.registry.records import STUCK, Refusal, refusals_in
from bpeline.registry.versions import Lineage
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry
    from bpeline.registry.tracking import TrackedVersion

GROWTH = 1.5  # retrain if there is this many times the new text of the refused version


def remember_refusal(
    registry: Registry, version: ResolvedVersion, alias: str, present: ResolvedVersion, rules: Rules
) -> None:
    """Tag a refused version with the conditions of the refusal."""
    name, learned = version.name, Lineage.of(registry, version).shards
    before = _refusal_of(registry.tracker.version(name, version.number), alias)
    refusal = Refusal(
        present.digest, rules.digest, _evaluation_set(registry, name),
        bool(lock_of(registry, name, alias)), new_bytes(registry, present, learned),
        before is not None and before.present == present.digest and before.drifted,
    )  # fmt: skip
    registry.tracker.tag_version(name, version.number, refusal.as_tag(alias))


def _refusal_of(version: TrackedVersion | None, alias: str) -> Refusal | None:
    return None if version is None else refusals_in(version.tags).get(alias)


def new_bytes(registry: Registry, present: ResolvedVersion, shards: Sequence[str]) -> int:
    """Return the bytes of text that the current version was not trained on."""
    learned = {*Lineage.of(registry, present).shards}
    new = [key for key in dict.fromkeys(shards) if key not in learned]
    with suppress(CorruptFile):  # removed meanwhile
        return WordCountStore(registry.workspace).statistics(new).bytes_counted if new else 0
    return 0


def was_refused(registry: Registry, name: str, number: int, alias: str) -> bool:
    """Whether rules refused a version that the alias never pointed to."""
    refusal = _refusal_of(registry.tracker.version(name, number), alias)
    present = registry.tracker.version_of_alias(name, alias)
    if refusal is None or present is None or present.digest != refusal.present:
        return False
    history = registry.catalogue.alias_history(name, alias, registry.store)
    return all(number != move.to_number for move in history)


def stuck_on(
    registry: Registry, present: ResolvedVersion, alias: str, shards: Sequence[str], drifted: bool
) -> str:
    """Return why a new training would not end a drift; empty if it may.

    The state is also tagged on the refused versions, for lists and pages.

    Args:
        present: the version that was observed.
        shards: keys of the word counts of the new text.
    """
    tracked = reversed(registry.tracker.versions(present.name))
    refused = [(ResolvedVersion.of(entry), _refusal_of(entry, alias)) for entry in tracked]
    standing = [
        (entry, record)
        for entry, record in refused
        if record is not None and record.present == present.digest
    ]
    if not standing:
        return ""
    size, reason = new_bytes(registry, present, shards), ""
    for version, refusal in standing:
        stuck = (
            drifted and not reason and size < GROWTH * refusal.new_bytes
            and _conditions_stay(registry, version, alias, refusal)
        )  # fmt: skip
        if stuck:
            reason = f"{version}: {STUCK}"
        if stuck != refusal.drifted:
            tag = replace(refusal, drifted=stuck).as_tag(alias)
            registry.tracker.tag_version(version.name, version.number, tag)
    return reason


def _conditions_stay(
    registry: Registry, version: ResolvedVersion, alias: str, refusal: Refusal
) -> bool:
    """Whether rules, set and lock are unchanged; unreadable rules count as that."""
    rules, file = refusal.rules, Lineage.of(registry, version).request.get("rules")
    if file:
        with suppress(InvalidOption):
            rules = read_rules(Path(file)).digest
    now = replace(
        refusal,
        rules=rules,
        evaluation_set=_evaluation_set(registry, version.name),
        locked=bool(lock_of(registry, version.name, alias)),
    )
    return now == refusal


def _evaluation_set(registry: Registry, name: str) -> str:
    current_set = registry.catalogue.evaluation_set(name)
    return "" if current_set is None else current_set.digest
