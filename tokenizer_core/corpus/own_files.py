"""Which files bpeline wrote: they are no sources where directories and globs are searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

OF_BPELINE = "of bpeline"
# How a directory is known: by a file in it, and what that says.
_MARKS = {
    "manifest.json": (re.compile(rb'"format": ?"bpeline"'), f"tokenizer {OF_BPELINE}"),
    "workspace.json": (re.compile(rb'"kind": ?"bpeline workspace"'), f"workspace {OF_BPELINE}"),
}
_SHARD = re.compile(r"(shard-\d{5,}-[0-9a-f]{12})\..+")
_RECORD = re.compile(rb'"name": ?"shard-\d{5,}-[0-9a-f]{12}", ?"key": ?"')
_CERTIFICATE = re.compile(rb'"certificate": ?\d+,\s*"format": ?"')
_CERTIFIED = ".certificate.json"


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """What bpeline wrote in a directory.

    Attributes:
        whole: what the whole directory is; empty: nothing of bpeline's.
        kinds: names in it → what they are.
    """

    whole: str = ""
    kinds: dict[str, str] = field(default_factory=dict)


def own_files(names: Collection[str], head: Callable[[str], bytes]) -> OwnFiles:
    """What bpeline wrote in a directory, known by what its manifests and records say.

    Args:
        names: what lies in the directory.
        head: gives the first bytes of one of these.
    """
    for name, (says, kind) in _MARKS.items():
        if name in names and says.search(head(name)):
            return OwnFiles(kind)
    own = OwnFiles()
    shards = {name: match[1] for name in names if (match := _SHARD.fullmatch(name))}
    records = (f"{shard}.json" for shard in {*shards.values()})
    complete = {one for one in records if one in names and _RECORD.search(head(one))}
    for name, shard in shards.items():
        if f"{shard}.json" in complete:
            own.kinds[name] = f"token shards {OF_BPELINE}"
    for name in names:
        if name.endswith(_CERTIFIED) and _CERTIFICATE.search(head(name)):
            own.kinds[name.removesuffix(_CERTIFIED)] = f"export {OF_BPELINE}"
    return own


def tells_of_own_files(path: str) -> bool:
    """Whether a file of this name may say what bpeline wrote beside it."""
    name = path.rpartition("/")[2]
    is_record = name.endswith(".json") and _SHARD.fullmatch(name) is not None
    return is_record or name in _MARKS or name.endswith(_CERTIFIED)
