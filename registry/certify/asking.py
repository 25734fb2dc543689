"""Run a library on an export in a separate process."""

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

PATIENCE = 600.0  # seconds; thousands of texts take about one
_PURPOSE = "a library reads an export in a process of its own"
_INSTEAD = "run this command by the `bpeline` that pip installed"
# Keeps libraries from asking servers for updates.
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def ask(
    library: str,
    path: Path,
    texts: Sequence[str],
    told: Mapping[str, Any],
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return a library's results for a file and texts; see `reader_program`.

    Args:
        texts: without lone surrogates.
        told: settings that the file lacks; JSON values.
        folder: packages here take precedence, as from ``pip install --target``.

    Raises:
        LibraryFailed: the library raised an error, timed out, or returned a wrong number of
            results.
        WorkerLost: the process could not be started.
    """
    request = {"library": library, "path": str(path), "texts": list(texts), "told": dict(told)}
    # -P: the current directory is not searched for modules.
    python = required_python(_PURPOSE, _INSTEAD)
    command = [python, "-P", str(reader_program.__file__)]
    if folder is not None:
        command.append(str(folder.absolute()))
    try:
        process = subprocess.run(
            command,
            input=json.dumps(request),
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
            "free memory or processes, then try again",
        ) from error
    except subprocess.TimeoutExpired:
        raise _failed(library, f"{library} did not answer within {PATIENCE:.0f} seconds") from None
    try:
        answer: dict[str, Any] = json.loads(process.stdout)
    except ValueError:
        last = (process.stderr.strip().splitlines() or ["nothing"])[-1]
        raise _failed(
            library, f"{library} ended its process with {process.returncode}, saying {last[:300]!r}"
        ) from None
    if "failed" in answer:
        raise _failed(library, answer["failed"])
    if any(len(answer.get(way, texts)) != len(texts) for way in ("plain", "special")):
        raise _failed(library, f"{library} returned a wrong number of results")
    return answer


def _failed(library: str, why: str) -> LibraryFailed:
    return LibraryFailed(
        why,
        f"expected a file that {library} can read",
        f"install another version of {library}, or uninstall it",
    )
