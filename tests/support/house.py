"""The three packages as rooms and files: which imports what, read from the code.

A room is a folder of a package, or a file at its top level; each kernel is a room of its own until
they have folders.

    python tests/support/house.py docs/architecture.svg   # the picture of it
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("tokenizer_core", "registry", "flows")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """Parsed once: every rule looks at every module."""
    return ast.parse(text_of(path))


def module_of(path: Path) -> str:
    """``bpeline.registry.aliases.promotion``; of ``__init__.py`` the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["bpeline", *(part for part in parts if part != "__init__")])


MODULES = {module_of(path): path for path in FILES}


def is_package(module: str) -> bool:
    return module in MODULES and MODULES[module].name == "__init__.py"


def room_of(module: str) -> str:
    """``registry.aliases``, ``flows.counting``; of a package itself its name."""
    return ".".join(module.split(".")[1:3])


@dataclass(frozen=True, slots=True)
class Import:
    """One name that one file takes from another.

    Attributes:
        importer: the module that takes it.
        named: the module it is asked of, which may be a package that offers the name.
        home: the module that defines it.
        name: it; empty where the whole module is taken.
    """

    importer: str
    named: str
    home: str
    name: str

    @property
    def rooms(self) -> tuple[str, str]:
        return room_of(self.importer), room_of(self.home)


def homes_of(package: str) -> dict[str, str]:
    """The names that a package offers, and the modules they are from."""
    found = {}
    for node in ast.walk(tree_of(MODULES[package])):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                where = f"{package}.{node.module}" if node.module else f"{package}.{alias.name}"
                found[alias.name] = homes_of(where).get(alias.name, where) if (
                    is_package(where)
                ) else where  # fmt: skip
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Every import between files of the packages, those of packages that only offer names apart."""
    return tuple(_imports())


def _imports() -> Iterator[Import]:
    for module, path in MODULES.items():
        if path.name == "__init__.py":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bpeline."):
                for alias in node.names:
                    yield _import(module, str(node.module), alias.name)


def _import(importer: str, named: str, name: str) -> Import:
    whole = f"{named}.{name}"
    if whole in MODULES:
        return Import(importer, whole, whole, "")
    if is_package(named):
        return Import(importer, named, homes_of(named).get(name, named), name)
    return Import(importer, named, named, name)


def circles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """Groups of which each member leads to every other (Tarjan 1972)."""
    after: dict[str, list[str]] = {}
    for one, other in sorted(edges):
        after.setdefault(one, []).append(other)
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        for other in after.get(node, []):
            if other not in number:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in path:
                lowest[node] = min(lowest[node], number[other])
        if lowest[node] == number[node]:
            at = path.index(node)
            if len(path) - at > 1:
                found.append(sorted(path[at:]))
            del path[at:]

    for node in sorted(after):
        if node not in number:
            visit(node)
    return sorted(found)


Floors = dict[str, tuple[tuple[str, ...], ...]]

_WIDTH, _BOX, _GAP, _LEFT, _COLUMN = 1180, 26, 6, 14, 380


def picture(floors: Floors) -> str:
    """The packages side by side as SVG, the roof on top; each room with how many others use it."""
    users: dict[str, set[str]] = {}
    for one in imports():
        here, there = one.rooms
        if here != there:
            users.setdefault(there, set()).add(here)
    parts, heights = [], []
    for number, package in enumerate(reversed(PACKAGES)):
        left, top = _LEFT + number * (_COLUMN + 10), 44
        parts.append(f'<text class="package" x="{left}" y="28">{package}</text>')
        for floor in reversed(floors[package]):
            top = _floor(parts, floor, package, users, left, top) + _GAP
        heights.append(top)
    height = max(heights) + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" font-family="sans-serif" font-size="12">\n'
        "<style>.package{font-size:17px;font-weight:bold}.room{fill:#eef2f7;stroke:#8aa0b8}"
        ".used{fill:#5b6b7c;font-size:10px}text{fill:#1d2733}"
        "rect.floor{fill:none;stroke:#d5dde6}</style>\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _floor(
    parts: list[str],
    floor: tuple[str, ...],
    package: str,
    users: dict[str, set[str]],
    left: int,
    top: int,
) -> int:
    """Draw one floor, in as many rows as it takes; where it ends."""
    at, row = left + 6, top + 4
    for room in floor:
        used = f"{len(users.get(f'{package}.{room}', ()))}"
        width = round(7.1 * len(room) + 7 * len(used) + 26)
        if at + width > left + _COLUMN - 6:
            at, row = left + 6, row + _BOX + 4
        parts.append(
            f'<rect class="room" x="{at}" y="{row}" width="{width}" height="{_BOX}" rx="4"/>'
            f'<text x="{at + 7}" y="{row + 17}">{room}</text>'
            f'<text class="used" x="{at + width - 7}" y="{row + 17}" '
            f'text-anchor="end">{used}</text>'
        )
        at += width + 6
    end = row + _BOX + 4
    parts.append(
        f'<rect class="floor" x="{left}" y="{top}" width="{_COLUMN}" height="{end - top}" rx="5"/>'
    )
    return end


def main() -> None:
    """Draw the floors that tests/test_architecture.py lists."""
    assigned = {
        target.id: node.value
        for node in tree_of(ROOT / "tests/test_architecture.py").body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    Path(sys.argv[1]).write_text(picture(ast.literal_eval(assigned["FLOORS"])), encoding="utf-8")


if __name__ == "__main__":
    main()
