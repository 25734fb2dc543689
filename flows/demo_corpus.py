"""The corpus every machine with Python has: the standard library's own source text."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizer_core.durable_files import DURABLE
from tokenizer_core.errors import MissingSource

if TYPE_CHECKING:
    from registry.workspace import Workspace

DEMO = "python:stdlib"
DEMO_NAME = "demo"
DEMO_VOCAB_SIZE = 8_000

_NOT_OURS = {"site-packages", "dist-packages", "__pycache__"}


def demo_corpus(workspace: Workspace) -> Path:
    """Gather the standard library's modules into one .jsonl file, one module per document.

    The file is rewritten only when the library has changed, so a second run finds its counts.
    Modules that are not UTF-8 (they test the parser) are left out.

    Raises:
        MissingSource: this Python has no readable library, as some minimal images.
    """
    lines = [
        json.dumps({"file": name, "text": text}, ensure_ascii=False) for name, text in _modules()
    ]
    if not lines:
        raise MissingSource(
            "this Python comes without the source text of its standard library",
            "the demo's corpus is that source text",
            "name a corpus of your own: `bpeline train corpus.txt --name news`",
        )
    content = ("\n".join(lines) + "\n").encode()
    path = workspace.run_directory("demo-corpus") / "python-stdlib.jsonl"
    if not path.is_file() or path.read_bytes() != content:
        DURABLE.write(path, content)
    return path


def _modules() -> Iterator[tuple[str, str]]:
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library)
        if _NOT_OURS.intersection(name.parts):
            continue
        try:
            yield name.as_posix(), path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
