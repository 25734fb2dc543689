"""What a fresh Python does while it reads hostile files, as its own audit hook tells.

Files and folders may be read below the places that are named; whatever else the interpreter audits
is told: code compiled, executed or imported, other files, programs, sockets, libraries.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_PROGRAM = """
import os, sys
places = tuple(os.path.realpath(place) + os.sep for place in sys.argv[1].split(os.pathsep))
arguments = sys.argv[2:]
{prepare}

def act():
{act}

def reads(path, mode, flags):
    writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    named = os.path.realpath(os.path.dirname(os.path.abspath(os.fsdecode(path)))) + os.sep
    return named.startswith(places) and not writes

def lists(path):
    return (os.path.realpath(os.fsdecode(path)) + os.sep).startswith(places)

ALLOWED = {{"open": reads, "os.listdir": lists, "os.scandir": lists}}
seen, watching = [], True

def watch(event, given):
    if not watching or event in ("builtins.id", "sys._getframe", "object.__getattr__"):
        return
    if event == "mmap.__new__" and given[0] == -1:  # memory of no file
        return
    if event in ALLOWED and isinstance(given[0], str | bytes | os.PathLike):
        if ALLOWED[event](*given):
            return
    seen.append(f"{{event}} {{given!r}}"[:300])

sys.addaudithook(watch)
act()
watching = False
sys.stdout.write("\\n".join(sorted(set(seen))))
"""


def events_outside(prepare: str, act: str, places: list[Path], *arguments: str) -> list[str]:
    """Everything audited while ``act`` ran, but reading below some places.

    Args:
        prepare: statements that import, compile and read whatever is needed before.
        act: statements; both see ``arguments``.
    """
    indented = "\n".join(f"    {line}" for line in act.strip().splitlines())
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(prepare=prepare, act=indented),
         ":".join(map(str, places)), *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
