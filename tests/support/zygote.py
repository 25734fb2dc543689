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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds after which a job counts as hanging
HUNG = int(signal.SIGXCPU)  # said of one that was killed because it hung


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended.

    Attributes:
        signal: that killed it; 0 when none did.
        result: what it returned (JSON values); None when it did not return. Without an error
            either, a signal came when the job was over.
        error: the class and the message of one that is expected; of any other the traceback.
        typed: whether the error was one that callers are told to expect: a BpelineError, or
            Python's own of a signal or of missing memory.
        seconds: how long it ran.
    """

    signal: int
    result: Any
    error: str
    typed: bool
    seconds: float

    @property
    def hung(self) -> bool:
        return self.signal == HUNG

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

    def run(
        self,
        job: str,
        *,
        kill_after: float | None = None,
        signals: Sequence[tuple[float, int]] = (),
        **arguments: Any,
    ) -> Ended:
        """Run a job in a fork.

        Args:
            job: a function of `crash_jobs` or `witness_jobs`.
            kill_after: seconds after which it is killed (signal 9), if it has not ended.
            signals: others that it gets, each after so many seconds, in this order.
            arguments: its own; JSON values and paths.
        """
        if kill_after is not None:
            signals = [*signals, (kill_after, signal.SIGKILL)]
        asked = {"job": job, "signals": signals, "arguments": arguments}
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
            _answer(answers, child.ended(asked["signals"]))


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

    def ended(self, signals: Sequence[tuple[float, int]] = ()) -> dict[str, Any]:
        """Wait for it, sending it signals as their times come; one that hangs is killed."""
        coming = [*signals, (max([after for after, _ in signals], default=0) + PATIENCE, HUNG)]
        said, hung = b"", False
        while True:
            after, number = coming[0]
            left = self._began + after - time.monotonic()
            if left > 0 and select.select([self._reading], [], [], left)[0]:
                part = os.read(self._reading, 1 << 16)
                if not part:
                    break
                said += part
            elif left <= 0:
                del coming[0]
                hung = number == HUNG
                os.kill(self._pid, signal.SIGKILL if hung else number)
                if hung or number == signal.SIGKILL:
                    break
        os.close(self._reading)
        _, status = os.waitpid(self._pid, 0)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        told = json.loads(said) if said and not number else {"result": None, "error": ""}
        return {
            "signal": HUNG if hung else number,
            "result": told["result"],
            "error": told["error"],
            "typed": told.get("typed", False),
            "seconds": time.monotonic() - self._began,
        }


def _work(job: str, arguments: dict[str, Any], writing: int, gate: int | None) -> NoReturn:
    """In the fork: run the job, tell what came of it, end without cleaning up."""
    try:
        if gate is not None:
            os.read(gate, 1)
        content = json.dumps(_told(job, arguments), default=str).encode()
        while content:
            content = content[os.write(writing, content) :]
    finally:
        os._exit(0)


def _told(job: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What came of a job."""
    import traceback

    import crash_jobs
    import witness_jobs

    from bpeline.flows.running.termination import terminable
    from bpeline.tokenizer_core.errors import BpelineError

    try:
        found = getattr(crash_jobs, job, None) or getattr(witness_jobs, job)
        with terminable(signal.SIGTERM, signal.SIGINT):
            return {"result": found(**arguments), "error": ""}
    except (BpelineError, KeyboardInterrupt, MemoryError) as error:
        return {"result": None, "error": f"{type(error).__name__}: {error}", "typed": True}
    except BaseException:
        return {"result": None, "error": traceback.format_exc()}


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
