"""Every command that asks MLflow, and servers of nonsense: a typed error, in seconds, nothing lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nonsense import MODES, nonsense

from bpeline.flows.serving.patience import UNREACHABLE_DELAYS

pytestmark = pytest.mark.slow

SECONDS = 45.0  # for a command, at most
MOST_MEMORY = 1 << 20  # KiB
SAID = 20  # lines at most

COMMANDS = [
    "train corpus.txt --name other --vocab-size 270",
    "versions",
    "show t/1",
    "compare t/1 t/2",
    "promote t/1",
    "rollback t",
    "history t",
    "encode t@champion hello",
    "export t@champion --to gpt2 -o out",
    "verify t/1",
    "report t/1 -o page.html",
    "gc",
    "doctor",
    "repair",
    "drift t@champion corpus.txt",
    "resume",
]
