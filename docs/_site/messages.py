"""Every message of an error that the code raises, as it stands there; runs none of it.

What is only known when it happens, such as a path, is shown as `…`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNKNOWN = "…"


@dataclass(frozen=True, slots=True, order=True)
class Message:
    """One message in its three parts.

    Attributes:
        error: the name of its class.
        happened, accepted, next_step: as for `BpelineError`; the last two may be empty.
    """

    error: str
    happened: str
    accepted: str
    next_step: str


def messages(root: Path, errors: set[str]) -> list[Message]:
    """The messages of all modules of the three packages below ``root``, in order, each once."""
    found = {
        message
        for package in ("tokenizer_core", "registry", "flows")
        for path in sorted((root / package).rglob("*.py"))
        for message in _of_module(ast.parse(path.read_text("utf-8")), errors)
    }
    return sorted(found)


def _of_module(module: ast.Module, errors: set[str]) -> Iterator[Message]:
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in errors and node.args:
            parts = [_shown(argument) for argument in node.args[:3]]
            if parts[0].strip(UNKNOWN):
                yield Message(node.func.id, *parts, *[""] * (3 - len(parts)))


def _shown(node: ast.expr) -> str:
    """The text of an expression, with `…` for what it does not say itself."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_shown(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _shown(node.left) + _shown(node.right)
    return UNKNOWN
