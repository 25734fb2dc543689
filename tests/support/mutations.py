"""Contents of files as others might write them: bytes changed, and JSON values replaced."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

DEEP, DIGITS = "\x01deep", "\x01digits"
# What JSON cannot be made of by its encoder: values that nest and numbers that are long.
_WRITTEN = {DEEP: "[" * 200_000, DIGITS: "9" * 5_000}
HOSTILE: list[Any] = [
    None, True, 0, -1, 1.5, 2**31, 2**63, 10**400, "", "a", "\ud800", "\0", "Ġ", "漢", "a b", " ",
    "<|fin|>", "x" * 100_000, [], [[]], [["a", "b"]], [None], {}, {"type": "BPE"}, {"a": {}},
    {"type": "Sequence", "pretokenizers": []}, {"type": "Sequence"}, "(", "(a+)+$", ["a b"] * 3,
    {"type": "Split"}, {"Regex": "("}, [["a", "\ud800"]], ["\ud800 a"], {"\ud800": 1}, DEEP, DIGITS,
]  # fmt: skip


def places_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON document, few of a long one."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    for key in keys[:6] + keys[-6:]:
        yield node, key
        if isinstance(node[key], dict | list):
            yield from places_in(node[key])


def mutated(document: Any, random_: random.Random) -> Any:
    """The document with one or two values replaced, renamed or removed."""
    document = copy.deepcopy(document)
    for _ in range(random_.randint(1, 2)):
        places = list(places_in(document))
        if not places:
            break
        node, key = random_.choice(places)
        match random_.randint(0, 4):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[random_.choice(["a", "\ud800", "", "漢", "<|fin|>", "type"])] = node.pop(key)
            case 2:
                other, place = random_.choice(places)
                node[key] = copy.deepcopy(other[place])
            case _:
                node[key] = copy.deepcopy(random_.choice(HOSTILE))
    return document


def as_json(document: Any, *seals: str) -> bytes:
    """The document in JSON; members of these names become digests of the others, as in records."""
    for seal in seals:
        if isinstance(document, dict) and seal in document:
            values = {key: value for key, value in document.items() if key != seal}
            content = json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
            document = {**values, seal: hashlib.sha256(content).hexdigest()}
    text = json.dumps(document)
    for mark, written in _WRITTEN.items():
        text = text.replace(json.dumps(mark), written)
    return text.encode()


def changed_bytes(content: bytes, random_: random.Random) -> bytes:
    """The content with bytes replaced, removed, copied or cut off in one to three places."""
    changed = bytearray(content)
    for _ in range(random_.randint(1, 3)):
        changed = changed or bytearray(b" ")
        at = random_.randrange(len(changed))
        match random_.randint(0, 3):
            case 0:
                changed[at] = random_.randrange(256)
            case 1:
                del changed[at : at + random_.randint(1, 40)]
            case 2:
                changed[at:at] = changed[random_.randrange(len(changed)) :][:50]
            case _:
                del changed[at:]
                changed += b" "
    return bytes(changed)
