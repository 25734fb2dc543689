"""Numbers, sizes and paths as people read them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from bpeline.tokenizer_core.display import megabytes as megabytes
from bpeline.tokenizer_core.display import number_text as number_text


def left_out_text(metrics: Mapping[str, float]) -> str:
    """How much text the evaluation set cost a training, by its metrics."""
    if "corpus/left_out_bytes" not in metrics:
        return "not known"
    size, share, documents = (
        metrics[f"corpus/left_out_{name}"] for name in ("bytes", "share", "documents")
    )
    return (
        f"{megabytes(int(size))}, {share:.2%} of the text, for "
        f"{counted(int(documents), 'document')} of the evaluation set"
    )


def from_here(path: str) -> str:
    """``path`` as one would type it: relative where it lies below the working directory."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def program() -> str:
    """What to type for this program: its path where the shell would not find ``bpeline``."""
    typed = sys.argv[0]
    if Path(typed).name != "bpeline" or shutil.which("bpeline"):
        return "bpeline"
    return shlex.quote(from_here(os.path.abspath(typed)))


def counted(number: int, noun: str) -> str:
    """``1 file``, ``3 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


SHOWN_CONFIDENCE = 0.95
