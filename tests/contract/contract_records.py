"""The records of the contract, as a program makes them today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import behaviour
import interface

from bpeline.tokenizer_core.splitting import unicode_version


def made_behaviour(folder: Path) -> dict[str, Any]:
    """Case → what its tokenizer is, and the Unicode that digests are of.

    The folder is the current one, and empty.
    """
    cases = [*behaviour.python_cases(), *behaviour.command_cases(folder)]
    made = {name: behaviour.record_of(make()) for name, make in cases}
    return {"unicode": unicode_version(), "cases": made}


def made_interface(folder: Path) -> dict[str, Any]:
    """Everything of `interface`; the folder is the current one, and empty."""
    commands = interface.command_interface(folder)
    return {
        "python": interface.python_interface(),
        "options": interface.options(),
        "commands": commands,
        "mlflow": interface.in_mlflow(f"sqlite:///{folder}/.bpeline/mlflow.sqlite"),
    }
