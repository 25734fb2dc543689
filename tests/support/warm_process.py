"""The process whose forks run jobs: everything imported, compiled and read once.

What takes time and is not the subject is left out here, and here alone: most texts that exports
are compared on, checkpoints by the clock.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import traceback
from contextlib import ExitStack
from functools import cache
from typing import Any

os.environ.update(DO_NOT_TRACK="true", MLFLOW_DISABLE_TELEMETRY="true")
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

import crash_jobs
import mlflow.store.db.utils
import witness_jobs
from crash_jobs import encode, publish_waiting, train
from shared_statements import compiled_once
from witness_jobs import fresh_workspace, make_corpus, read_version

from bpeline.flows.running.termination import terminable
from bpeline.registry import environment
from bpeline.registry.certify import sample_texts as certificate_texts
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.merging import checkpoint, learning

MERGES_PER_CHECKPOINT = 20
_FOR_EVER = ExitStack()


def prepare() -> None:
    """Do once what jobs do, so that forks need not import, compile or look anything up."""
    # Saved after so many merges and never by the clock: operations keep their numbers.
    schedule = learning.CheckpointSchedule
    learning.CheckpointSchedule = lambda path, blank, saved, _every: schedule(  # type: ignore
        path, blank, saved, MERGES_PER_CHECKPOINT
    )
    checkpoint._SECONDS = float("inf")
    # Exports are compared with other programs on thousands of texts: here on some.
    certificate_texts.MIXED, certificate_texts.MOST_TOKENS = 20, 50  # type: ignore[misc]
    _FOR_EVER.enter_context(compiled_once())
    schema = mlflow.store.db.utils
    schema._get_latest_schema_revision = cache(schema._get_latest_schema_revision)
    with tempfile.TemporaryDirectory(prefix="bpeline-warm-") as place:
        corpus = make_corpus(place)
        workspace = fresh_workspace(f"{place}/workspace")
        train(workspace=workspace, corpus=corpus)
        publish_waiting(workspace=workspace)
        encode(workspace=workspace, corpus=corpus, out=f"{place}/tokens")
        read_version(workspace)
        environment._configured = None


def serve(request: dict[str, Any]) -> int:
    """In a fork: run the job and say on standard output what came of it."""
    with os.fdopen(os.dup(1), "w") as result:
        os.dup2(2, 1)  # what libraries print
        if request["waits"]:
            result.write(" ")
            result.flush()
            os.read(0, 1)
        result.write(json.dumps(_told(request["job"], request["arguments"]), default=str))
    return 0


def _told(job: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What came of a job."""
    try:
        found = getattr(crash_jobs, job, None) or getattr(witness_jobs, job)
        with terminable(signal.SIGTERM, signal.SIGINT):
            return {"result": found(**arguments), "error": ""}
    except (BpelineError, KeyboardInterrupt, MemoryError) as error:
        return {"result": None, "error": f"{type(error).__name__}: {error}", "typed": True}
    except BaseException:
        return {"result": None, "error": traceback.format_exc()}
