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

from bpeline.registry.gates import Rules, read_rules
from bpeline.registry.lineage import Lineage
from bpeline.registry.loading import ResolvedVersion
from bpeline.registry.moves import lock_of
from bpeline.registry.records import STUCK, Refusal, refusals_in
from bpeline.registry.word_counts import WordCountStore
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption

if TYPE_CHECKING:
    from bpeline.registry.opening import Registry

GROWTH = 1.5  # so much new text, as a multiple of what a refused version learned from, is another


def remember_refusal(
    registry: Registry, version: ResolvedVersion, alias: str, present: ResolvedVersion, rules: Rules
) -> None:
    """Tag a version with the conditions under which an alias stays at the present version."""
    name, learned = version.name, Lineage.of(registry, version).shards
    refusal = Refusal(
        present.digest, rules.digest, _evaluation_set(registry, name),
        bool(lock_of(registry, name, alias)), new_bytes(registry, present, learned),
    )  # fmt: skip
    tracked = registry.tracker.version(name, version.number)
    before = refusals_in({} if tracked is None else tracked.tags).get(alias, refusal)
    size = max(refusal.new_bytes, before.new_bytes)
    if replace(before, new_bytes=size, drifted=False) == replace(refusal, new_bytes=size):
        refusal = replace(before, new_bytes=size)
    registry.tracker.tag_version(name, version.number, refusal.as_tag(alias))


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
    tracked = registry.tracker.version(name, number)
    present = registry.tracker.version_of_alias(name, alias)
    refusal = refusals_in({} if tracked is None else tracked.tags).get(alias)
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
    tracked = registry.tracker.versions(present.name)
    refused = [(ResolvedVersion.of(one), refusals_in(one.tags).get(alias)) for one in tracked]
    standing = [
        (version, refusal)
        for version, refusal in reversed(refused)
        if refusal is not None and refusal.present == present.digest
    ]
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
