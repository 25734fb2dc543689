"""Files as others might write them: bytes changed, and values of JSON replaced."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.errors import BpelineError

DEEP, DIGITS = "\x01deep", "\x01digits"
# What JSON cannot be made of by its encoder: values that nest and numbers that are long.
_WRITTEN = {DEEP: "[" * 200_000, DIGITS: "9" * 5_000}
HOSTILE: list[Any] = [
    None, True, 0, -1, 1.5, 2**31, 2**63, 10**400, "", "a", "\ud800", "\0", "Ġ", "漢", "a b", " ",
    "<|fin|>", "x" * 100_000, [], [[]], [["a", "b"]], [None], {}, {"type": "BPE"}, {"a": {}},
    {"type": "Sequence", "pretokenizers": []}, {"type": "Sequence"}, "(", "(a+)+$", ["a b"] * 3,
    {"type": "Split"}, {"Regex": "("}, [["a", "\ud800"]], ["\ud800 a"], {"\ud800": 1},
]  # fmt: skip


def places_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON document, few of a long one."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    for key in keys[:6] + keys[-6:]:
        yield node, key
        if isinstance(node[key], dict | list):
            yield from places_in(node[key])


def mutated(document: Any, random_: random.Random, values: Sequence[Any] = HOSTILE) -> Any:
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
                node[key] = copy.deepcopy(random_.choice(values))
    return document


def as_json(document: Any, seal: str = "") -> bytes:
    """The document in JSON; a member of that name becomes the digest of the others."""
    if isinstance(document, dict) and seal in document:
        values = {key: value for key, value in document.items() if key != seal}
        document = {**values, seal: digest_of(values)}
    text = json.dumps(document)
    for mark, written in _WRITTEN.items():
        text = text.replace(json.dumps(mark), written)
    return text.encode()


def try_changes(
    path: Path, load: Callable[[], object], cases: Iterable[int], seal: str = ""
) -> None:
    """Load a file as each number changes it: it is loaded, or refused with an error of ours."""
    content = path.read_bytes()
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    for case in cases:
        random_ = random.Random(case)
        is_value = isinstance(document, dict | list) and random_.random() < 0.7
        changed = mutated(document, random_, [*HOSTILE, *_WRITTEN]) if is_value else None
        path.write_bytes(as_json(changed, seal) if is_value else changed_bytes(content, random_))
        try:
            with suppress(BpelineError):
                load()
        except BaseException as error:
            raise AssertionError(f"REPRO: {path.name} --point {case}: {error!r}") from error
    path.write_bytes(content)


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
