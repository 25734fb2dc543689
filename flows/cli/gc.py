"""``bpeline gc``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bpeline.flows.cli.options import answer, command, typed_again
from bpeline.flows.cli.request_options import options_of
from bpeline.flows.requests import GarbageRequest

if TYPE_CHECKING:
    from bpeline.registry.upkeep import Leftover


@command(
    "bpeline gc                                    # what could go, and how much it is",
    "bpeline gc --remove",
    "bpeline gc --days 7 --counts-of 3 --remove    # old versions' counts as well",
)
@options_of(GarbageRequest, {"counts_of": {"metavar": "N"}}, but=())
def gc(remove: bool, as_json: bool, **given: Any) -> None:
    """Find, and remove, what no version needs.

    Registered tokenizers stay, and so do the word counts they were trained on, runs that can be
    continued and publications that wait. All else can be made again from the sources.
    """
    from bpeline.flows.sweep_garbage import KINDS, sweep_garbage
    from bpeline.flows.wording import as_typed

    found = sweep_garbage(remove=remove, **given)
    lines = []
    for kind, name in KINDS.items():
        ones = [one for one in found.old if one.kind == kind]
        if ones:
            lines.append(f"{_megabytes(ones)}  {len(ones):,} {name}")
    if found.unsure:
        lines.append(found.unsure)
    lines.append(f"{_megabytes(found.old)}  {'removed' if remove else 'could go'}")
    if found.young:
        lines.append(
            f"{_megabytes(found.young)}  stay as they are younger than {found.days:g} days"
        )
    if found.old and not remove:
        lines.append(as_typed(f"\nremove it:  {typed_again('--remove')}"))
    old, young = (list(map(_as_json, ones)) for ones in (found.old, found.young))
    told = {"removed": remove, "old": old, "young": young, "unsure": found.unsure}
    answer(as_json, told, lines)


def _megabytes(ones: Sequence[Leftover]) -> str:
    from bpeline.flows.wording import megabytes

    return f"{megabytes(sum(one.size for one in ones)):>12}"


def _as_json(one: Leftover) -> dict[str, Any]:
    return {"kind": one.kind, "key": one.key, "bytes": one.size, "days": round(one.days, 2)}
