"""A process that has everything imported and compiled, and forks a copy for each case.

Starting Python, MLflow and the kernels takes ten seconds; a fork takes a hundredth of one. The
parent is started fresh, so no thread of a test runner is forked along. A job is a function of
`crash_jobs` or `witness_jobs`, named with JSON arguments; it may be killed at any moment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds after which a job counts as hanging


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended.

    Attributes:
        signal: that killed it; 0 when none did.
        result: what it returned (JSON values); None when it did not return.
        error: of a BpelineError the class and the message; of any other the traceback.
        typed: whether the error was a BpelineError.
        seconds: how long it ran.
    """

    signal: int
    result: Any
    error: str
    typed: bool
    seconds: float

    @property
    def hung(self) -> bool:
        return self.signal == signal.SIGXCPU

    def returned(self) -> Any:
        """The result; fails the test that expects one."""
        assert not self.signal, f"killed by signal {self.signal} after {self.seconds:.1f} s"
        assert not self.error, self.error
        return self.result


class Zygote:
    """The parent, seen from a test."""

    def __init__(self) -> None:
        places = [str(ROOT), str(ROOT / "tests/support")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            environment[variable] = "1"
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )
        assert self._read() == {"ready": True}

    def run(self, job: str, *, kill_after: float | None = None, **arguments: Any) -> Ended:
        """Run a job in a fork.

        Args:
            job: a function of `crash_jobs` or `witness_jobs`.
            kill_after: seconds after which it is killed (signal 9), if it has not ended.
            arguments: its own; JSON values and paths.
        """
        asked = {"job": job, "kill_after": kill_after, "arguments": arguments}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked, default=str) + "\n")
        self._process.stdin.flush()
        return Ended(**self._read())

    def run_together(self, jobs: list[tuple[str, dict[str, Any]]]) -> list[Ended]:
        """Run several jobs at the same time; they begin when all are forked."""
        assert self._process.stdin is not None
        asked = [{"job": job, "arguments": arguments} for job, arguments in jobs]
        self._process.stdin.write(json.dumps({"together": asked}, default=str) + "\n")
        self._process.stdin.flush()
        return [Ended(**one) for one in self._read()]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE)
        self._process.stdout.close()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the zygote ended with {self._process.wait()}"
        return json.loads(line)


def main() -> None:
    """Serve jobs from standard input until it ends."""
    # Standard output is for answers; what libraries print goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import gc

    import warm_process

    warm_process.warm_up()

    gc.collect()
    gc.freeze()
    _answer(answers, {"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        if "together" in asked:
            _answer(answers, _together(asked["together"]))
        else:
            child = _Child(asked["job"], asked["arguments"])
            _answer(answers, child.ended(asked["kill_after"]))


class _Child:
    """A fork at work on one job."""

    def __init__(self, job: str, arguments: dict[str, Any], gate: int | None = None) -> None:
        self._began = time.monotonic()
        self._reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reading)
            _work(job, arguments, writing, gate)
        os.close(writing)

    def ended(self, kill_after: float | None = None) -> dict[str, Any]:
        """Wait for it, killing it when its time is over."""
        deadline = self._began + (PATIENCE if kill_after is None else kill_after)
        said, hung = b"", False
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._reading], [], [], left)[0]:
                hung = kill_after is None
                os.kill(self._pid, signal.SIGKILL)
                break
            part = os.read(self._reading, 1 << 16)
            if not part:
                break
            said += part
        os.close(self._reading)
        _, status = os.waitpid(self._pid, 0)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        told = json.loads(said) if said and not number else {"result": None, "error": ""}
        return {
            "signal": int(signal.SIGXCPU) if hung else number,
            "result": told["result"],
            "error": told["error"],
            "typed": told.get("typed", False),
            "seconds": time.monotonic() - self._began,
        }


def _work(job: str, arguments: dict[str, Any], writing: int, gate: int | None) -> None:
    """In the fork: run the job, tell what came of it, end without cleaning up."""
    import traceback

    import crash_jobs
    import witness_jobs

    from tokenizer_core.errors import BpelineError

    told: dict[str, Any] = {"result": None, "error": ""}
    try:
        if gate is not None:
            os.read(gate, 1)
        found = getattr(crash_jobs, job, None) or getattr(witness_jobs, job)
        told["result"] = found(**arguments)
    except BpelineError as error:
        told.update(error=f"{type(error).__name__}: {error}", typed=True)
    except BaseException:
        told["error"] = traceback.format_exc()
    content = json.dumps(told, default=str).encode()
    while content:
        content = content[os.write(writing, content) :]
    os._exit(0)


def _together(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    gate, starting = os.pipe()
    children = [_Child(one["job"], one["arguments"], gate) for one in asked]
    os.write(starting, b"x" * len(children))
    os.close(starting)
    os.close(gate)
    return [child.ended() for child in children]


def _answer(answers: Any, value: Any) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
