"""Calls into libraries that a user may leave out: what they raise becomes one error of ours.

Each library has its own door, which says what is done there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bpeline.tokenizer_core.errors import BpelineError, LibraryFailed


@contextmanager
def fenced(library: str, doing: str) -> Iterator[None]:
    """Let nothing that a library raises out of the block, whatever it is derived from.

    Errors of ours, interruptions, and a lack of memory pass.

    Args:
        library: its name, for the message.
        doing: what it is asked to do, for the message.

    Raises:
        LibraryFailed: it raised something.
    """
    try:
        yield
    except (BpelineError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # what Rust panics with is no Exception
        said = " ".join(str(error).split())[:300]
        raise LibraryFailed(
            f"{library} failed while {doing}: {type(error).__name__}: {said}".rstrip(": "),
            f"accepted is what {library} can do",
            f"install another version of {library}, or do without it",
        ) from error
