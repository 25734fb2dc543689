"""The command ``bpeline`` in processes that import nothing: forks of one that has imported it all.

What a shell, a page or a test types runs as typed, in a process of its own with its streams,
directory and environment; only starting it takes a hundredth of what it takes people. For what is
not about how a process starts, what it reads while it imports, or signals of others: a command may
send itself one. Beside it ``python``, which knows ``-c PROGRAM``.
"""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import shutil
import signal
import stat
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fork_server import SUPPORT, fork_server

_for_ever = ExitStack()  # what is entered, and never left: nothing else keeps it from its end
_TYPED = (
    "train text.txt --name warm --vocab-size 300 --held-out 0.1",
    "encode warm@candidate text",
    "show warm/1",
    "compare warm/1 warm/1",
    "versions",
)
# Its first line names no path, which may hold a space: a shell begins Python, which sees a string.
_CLIENT = """#!/bin/sh
''''exec {python} -IS "$0" "$@" # '''
import os, signal, sys
sys.path.insert(0, {support!r})
from fork_server import ask, exit_code
asked = {{"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
code = exit_code(ask({place!r}, {{**asked, "python": {is_python}}}))
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def warm_commands() -> Iterator[Path]:
    """A folder with ``bpeline``, to be put first on PATH or run by its path, and ``own/python``."""
    with (
        tempfile.TemporaryDirectory(prefix="bpeline-warm-") as folder,
        fork_server("warm_commands") as place,
    ):
        for name in ("bpeline", "own/python"):
            program = Path(folder) / name
            program.parent.mkdir(exist_ok=True)
            asking = {"is_python": program.name == "python", "place": place}
            asking |= {"python": shlex.quote(sys.executable), "support": str(SUPPORT)}
            program.write_text(_CLIENT.format(**asking))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        yield Path(folder)


def prepare() -> None:
    """Do once what commands do: import, load kernels, let SQLAlchemy compile."""
    from forked_readers import forked_readers
    from shared_statements import compiled_once

    from bpeline import script
    from bpeline.flows.cli.main import FILE_OF, cli
    from bpeline.registry import environment

    gc.set_threshold(script.NEW_OBJECTS)
    for file in sorted({*FILE_OF.values()}):
        import_module(f"bpeline.flows.cli.{file}")
    import_module("mlflow.tracking")  # or each fork would begin a process that imports it
    _for_ever.enter_context(compiled_once())
    _for_ever.enter_context(forked_readers())
    with (
        tempfile.TemporaryDirectory(prefix="bpeline-warm-") as place,
        chdir(place),
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        shutil.copyfile(os.__file__, "text.txt")
        for typed in _TYPED:
            with suppress(SystemExit):
                cli(typed.split(), prog_name="bpeline")
    environment._configured = environment._project = None


def serve(asked: dict[str, Any]) -> int:
    """In a fork: be the command."""
    from bpeline import script
    from bpeline.registry import environment

    # As Python opens them, and keeps them while others take their places.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc] # noqa: SIM115
        2, "w", errors="backslashreplace", buffering=1, closefd=False
    )
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    environment._set_by_us.clear()  # what MLflow reads there is said anew
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules["__main__"] = main = ModuleType("__main__")
    if asked["python"]:
        _, program, *arguments = asked["arguments"]
        sys.argv = ["-c", *arguments]
    else:
        program, sys.argv = "main()", ["bpeline", *asked["arguments"]]
        main.main = script.main  # type: ignore[attr-defined]
    code: Any = 0
    try:
        exec(program, main.__dict__)
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not isinstance(code, int):
        sys.stderr.write(f"{code}\n" if code else "")
        code = int(bool(code))
    # As Python ends; libraries say what they have not said yet.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code)
