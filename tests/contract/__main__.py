"""Write records of the contract anew: ``python tests/contract [NAME …]``, all without a name.

What `git diff` shows then belongs into CHANGELOG.md in the same commit:
behaviour as *merges change* or *ids change*, the interface with what to type instead.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

import files  # noqa: E402
import workspace  # noqa: E402
from contract_records import made_behaviour, made_interface  # noqa: E402


@contextmanager
def empty_folder() -> Iterator[Path]:
    """The current folder of what follows."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


def write(name: str, make: Callable[[Path], Any]) -> None:
    """Write one record."""
    with empty_folder() as folder:
        made = json.dumps(make(folder), indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(made + "\n", "utf-8")


def write_files() -> None:
    """Write the archive."""
    with empty_folder() as folder:
        said = files.write(folder)
        files.pack(folder, said, HERE / "files.tar.xz")


if __name__ == "__main__":
    asked = sys.argv[1:] or ["behaviour", "interface", "files", "workspace"]
    if "behaviour" in asked:
        write("behaviour", made_behaviour)
    if "interface" in asked:
        write("interface", made_interface)
    if "files" in asked:
        write_files()
    if "workspace" in asked:
        workspace.write()
