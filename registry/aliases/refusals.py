"""Versions that rules refused: remembered in MLflow, so that no drift trains them again and again.

A training that drift started makes the same version while its text, the evaluation set and the
rules stay, and the rules refuse it again. `registry.records.Refusal` is what is remembered.
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

GROWTH = 1.5  # so much new text, as a multiple of what a refused version learned from, is another


def remember_refusal(
    registry: Registry, version: ResolvedVersion, alias: str, present: ResolvedVersion, rules: Rules
) -> None:
    """Tag a version with the conditions under which an alias stays at the present version."""
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
    """Text in some word counts that the present version did not learn from."""
    known = {*Lineage.of(registry, present).shards}
    new = [key for key in dict.fromkeys(shards) if key not in known]
    with suppress(CorruptFile):  # swept away meanwhile
        return WordCountStore(registry.workspace).statistics(new).bytes_counted if new else 0
    return 0


def was_refused(registry: Registry, name: str, number: int, alias: str) -> bool:
    """Whether rules kept an alias at the present version instead of this one, which never had it.

    A version that a person took the alias from is left alone: rules would give it back.
    """
    refusal = _refusal_of(registry.tracker.version(name, number), alias)
    present = registry.tracker.version_of_alias(name, alias)
    if refusal is None or present is None or present.digest != refusal.present:
        return False
    history = registry.catalogue.alias_history(name, alias, registry.store)
    return all(number != move.to_number for move in history)


def stuck_on(
    registry: Registry, present: ResolvedVersion, alias: str, shards: Sequence[str], drifted: bool
) -> str:
    """Why a training would not end a drift; empty where it may.

    Whether it would is written on the refused version, where lists and pages of versions find it.

    Args:
        present: the version that was watched.
        alias: what points to it.
        shards: word counts of the new text.
        drifted: whether it has.

    Raises:
        RegistryUnreachable: MLflow does not answer.
    """
    tracked = reversed(registry.tracker.versions(present.name))
    refused = [(ResolvedVersion.of(one), _refusal_of(one, alias)) for one in tracked]
    standing = [(one, it) for one, it in refused if it is not None and it.present == present.digest]
    if not standing:
        return ""
    size, said = new_bytes(registry, present, shards), ""
    for version, refusal in standing:
        stuck = (
            drifted and not said and size < GROWTH * refusal.new_bytes
            and _conditions_stay(registry, version, alias, refusal)
        )  # fmt: skip
        if stuck:
            said = f"{version}: {STUCK}"
        if stuck != refusal.drifted:
            tag = replace(refusal, drifted=stuck).as_tag(alias)
            registry.tracker.tag_version(version.name, version.number, tag)
    return said


def _conditions_stay(
    registry: Registry, version: ResolvedVersion, alias: str, refusal: Refusal
) -> bool:
    """Whether rules, set and lock are those of then; rules that cannot be read have not changed."""
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
    named = registry.catalogue.evaluation_set(name)
    return "" if named is None else named.digest
