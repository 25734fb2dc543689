"""The corpus every machine with Python has: the standard library's own source text."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bpeline.tokenizer_core.bounded_files import read_file
from bpeline.tokenizer_core.digests import digest_of
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import MissingSource

if TYPE_CHECKING:
    from bpeline.registry.workspace import Workspace

DEMO = "python:stdlib"
DEMO_NAME = "demo"
DEMO_VOCAB_SIZE = 8_000
DEMO_HELD_OUT = 0.02  # enough for `bpeline drift` to judge by

_NOT_OURS = {"site-packages", "dist-packages", "__pycache__"}


def with_demo(paths: Iterable[str], workspace: Workspace) -> list[str]:
    """Paths in which `DEMO` has become the file that it stands for."""
    return [str(demo_corpus(workspace)) if path == DEMO else path for path in paths]


def demo_corpus(workspace: Workspace) -> Path:
    """Gather the standard library's modules into one .jsonl file, one module per document.

    The file is named after the modules' sizes and times, so a second run finds it without reading
    any. Modules that are not UTF-8 (they test the parser) are left out.

    Raises:
        MissingSource: this Python has no readable library, as some minimal images.
    """
    modules = list(_modules())
    path = _place(modules, workspace)
    if not path.is_file():
        lines = list(_lines(modules))
        if not lines:
            raise MissingSource(
                "this Python comes without the source text of its standard library",
                "the demo's corpus is that source text",
                "name a corpus of your own: `bpeline train corpus.txt --name news`",
            )
        DURABLE.write(path, b"".join(lines))
    return path


def demo_place(workspace: Workspace) -> tuple[Path, int]:
    """Where the demo's corpus is or would be, and how many bytes its modules have; writes none."""
    modules = list(_modules())
    return _place(modules, workspace), sum(status.st_size for _, _, status in modules)


def _place(modules: list[tuple[str, str, os.stat_result]], workspace: Workspace) -> Path:
    key = digest_of([[name, status.st_size, status.st_mtime_ns] for name, _, status in modules])
    return workspace.run_directory("demo-corpus") / f"python-stdlib-{key[:16]}.jsonl"


def _modules() -> Iterator[tuple[str, str, os.stat_result]]:
    """Name, path and state of every module, sorted by path."""
    library = sysconfig.get_path("stdlib")
    found = []
    for parent, directories, names in os.walk(library):
        directories[:] = [name for name in directories if name not in _NOT_OURS]
        found += [os.path.join(parent, name) for name in names if name.endswith(".py")]
    for path in sorted(found, key=lambda path: path.split(os.sep)):
        yield os.path.relpath(path, library).replace(os.sep, "/"), path, os.stat(path)


def _lines(modules: list[tuple[str, str, os.stat_result]]) -> Iterator[bytes]:
    for name, path, _ in modules:
        try:
            text = read_file(path).decode()
        except (UnicodeDecodeError, OSError):
            continue
        yield json.dumps({"file": name, "text": text}, ensure_ascii=False).encode() + b"\n"
