"""Which files bpeline wrote: they are no sources where directories and globs are searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

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


def own_files(names: Collection[str], head: Callable[[str], bytes]) -> dict[str, str]:
    """What bpeline wrote in a directory, known by what its manifests and records say.

    Args:
        names: what lies in the directory.
        head: gives the first bytes of one of these.

    Returns:
        Name → what it is; the name "" stands for the whole directory.
    """
    for name, (says, kind) in _MARKS.items():
        if name in names and says.search(head(name)):
            return {"": kind}
    shards = {name: f"{match[1]}.json" for name in names if (match := _SHARD.fullmatch(name))}
    complete = {one for one in {*shards.values()} if one in names and _RECORD.search(head(one))}
    own = {name: f"token shards {OF_BPELINE}" for name, one in shards.items() if one in complete}
    for name in names:
        if name.endswith(_CERTIFIED) and _CERTIFICATE.search(head(name)):
            own[name.removesuffix(_CERTIFIED)] = f"export {OF_BPELINE}"
    return own


def tells_of_own_files(path: str) -> bool:
    """Whether a file of this name may say what bpeline wrote beside it."""
    name = path.rpartition("/")[2]
    return name.endswith(".json") and (
        name in _MARKS or name.endswith(_CERTIFIED) or bool(_SHARD.fullmatch(name))
    )
