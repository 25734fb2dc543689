"""A training of a few words in a process beside this one: what a real one compiles is ready then.

Compiling is three quarters Python, which threads cannot share. Who counts the first corpus of a
machine lets another process compile meanwhile what comes after counting. Neither waits for the
other without need: a kernel is compiled by whoever comes first, and the other loads it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import bpeline
from bpeline.tokenizer_core.processors import available_processors

_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from bpeline.tokenizer_core.rehearsal import end_with, rehearse
end_with(sys.stdin)
rehearse(*sys.argv[2:])
"""
_WORDS = {b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}


@contextmanager
def rehearsing(pattern: str, tie_break: str) -> Iterator[None]:
    """Compile in another process what byte-level training needs after counting, if need be.

    Nothing depends on it: what it does not compile is compiled where it is needed. It ends with
    the block, and with this process.

    Args:
        pattern, tie_break: of the training.
    """
    if available_processors() == 1 or _is_ready():
        yield
        return
    root = str(Path(bpeline.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, root, pattern, tie_break],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the terminal's Ctrl-C is for this process
    )
    try:
        yield
    finally:
        process.kill()
        process.communicate()


def _is_ready() -> bool:
    """Whether the first and the last kernel of what is rehearsed are kept."""
    from bpeline.tokenizer_core.kernels.compiling.compilation import are_kept
    from bpeline.tokenizer_core.kernels.encoding.decode_ids import join_tokens
    from bpeline.tokenizer_core.kernels.merging.merge_step import learn

    return are_kept(learn, join_tokens)


def rehearse(pattern: str, tie_break: str) -> None:
    """Learn merges of a few words, and evaluate what is learned."""
    from bpeline.tokenizer_core.counting import WordCounts
    from bpeline.tokenizer_core.evaluation import evaluate
    from bpeline.tokenizer_core.splitting import SplitPattern
    from bpeline.tokenizer_core.training import train_bpe

    counts = WordCounts.from_mapping(_WORDS, SplitPattern.parse(pattern))
    evaluate(train_bpe(counts, 262, tie_break=tie_break), ["low lower"])


def end_with(pipe: IO[Any]) -> None:
    """End this process when whoever holds the other end of a pipe has ended."""

    def wait() -> None:
        pipe.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
