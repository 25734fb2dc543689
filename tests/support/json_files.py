"""JSON files that a test changes in one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[dict[str, Any]], object]


def rewrite(path: Path, change: Change) -> None:
    document = json.loads(path.read_text())
    document.pop("seal", None)  # what is behind it is meant
    change(document)
    path.write_text(json.dumps(document))
