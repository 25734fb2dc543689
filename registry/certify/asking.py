"""Asking a library about a file in a process of its own; knows no library, and compares nothing."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bpeline.registry.certify import reader_program
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.errors import LibraryFailed, WorkerLost

PATIENCE = 600.0  # seconds; thousands of texts take one
_PURPOSE = "a library reads an export in a process of its own"
_INSTEAD = "run this command by the `bpeline` that pip installed"
# Libraries that could ask a server whether there is something newer do not.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def ask(
    library: str,
    path: Path,
    texts: Sequence[str],
    told: Mapping[str, Any],
    folder: Path | None = None,
) -> dict[str, Any]:
    """What a library makes of a file and of texts; see `reader_program`.

    Args:
        library: its distribution's name.
        path: the file or directory.
        texts: without lone surrogates.
        told: what the file leaves out; JSON values.
        folder: where packages are looked for before those installed, as ``pip install --target``
            makes it.

    Raises:
        LibraryFailed: it raised something, ended its process, took longer than `PATIENCE`, or
            answered for another number of texts.
        WorkerLost: there is no Python to run, or no room for it.
    """
    asked = {"library": library, "path": str(path), "texts": list(texts), "told": dict(told)}
    # -P: nothing in this directory takes the place of a library.
    python = required_python(_PURPOSE, _INSTEAD)
    command = [python, "-P", str(reader_program.__file__)]
    if folder is not None:
        command.append(str(folder.absolute()))
    try:
        ended = subprocess.run(
            command,
            input=json.dumps(asked),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **_OFFLINE},
            timeout=PATIENCE,
            check=False,
        )
    except OSError as error:
        raise WorkerLost(
            f"no process could be started from {python!r}: {error}",
            _PURPOSE,
            "free some memory or processes, then try again",
        ) from error
    except subprocess.TimeoutExpired:
        raise _failed(library, f"{library} did not answer within {PATIENCE:.0f} seconds") from None
    try:
        answer: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        last = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
        raise _failed(
            library, f"{library} ended its process with {ended.returncode}, saying {last[:300]!r}"
        ) from None
    if "failed" in answer:
        raise _failed(library, answer["failed"])
    if any(len(answer.get(way, texts)) != len(texts) for way in ("plain", "special")):
        raise _failed(library, f"{library} answered for another number of texts")
    return answer


def _failed(library: str, why: str) -> LibraryFailed:
    return LibraryFailed(
        why,
        f"a file that {library} reads",
        f"install another version of {library}, or do without it",
    )
