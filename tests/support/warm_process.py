"""Prepares a process whose forks run jobs: everything imported, compiled and read once.

What takes time and is not the subject is left out here, and here alone: pictures, most texts that
exports are compared on, checkpoints by the clock.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(MPLBACKEND="Agg", DO_NOT_TRACK="true", MLFLOW_DISABLE_TELEMETRY="true")

import mlflow.store.db.utils
from crash_jobs import encode, publish_waiting, train
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache
from witness_jobs import fresh_workspace, make_corpus, read_version

from bpeline.flows.steps import publishing
from bpeline.registry import environment
from bpeline.registry.exports import sample_texts as certificate_texts
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.merging import checkpoint_schedule, learning

MERGES_PER_CHECKPOINT = 20


def warm_up() -> None:
    """Do once what jobs do, so that forks need not import, compile or look anything up."""
    # Saved after so many merges and never by the clock: operations keep their numbers.
    schedule = learning.CheckpointSchedule
    learning.CheckpointSchedule = lambda path, blank, saved, _every: schedule(  # type: ignore
        path, blank, saved, MERGES_PER_CHECKPOINT
    )
    checkpoint_schedule._SECONDS = float("inf")
    # Matplotlib takes as long as all other steps together and keeps nothing of its own.
    publishing.draw_figures = _drawn
    # Exports are compared with other programs on thousands of texts: here on some.
    certificate_texts.MIXED, certificate_texts.MOST_TOKENS = 20, 50  # type: ignore[misc]
    _compile_statements_once()
    with tempfile.TemporaryDirectory(prefix="bpeline-warm-") as place:
        corpus = make_corpus(place)
        workspace = fresh_workspace(f"{place}/workspace")
        train(workspace=workspace, corpus=corpus)
        publish_waiting(workspace=workspace)
        encode(workspace=workspace, corpus=corpus, out=f"{place}/tokens")
        read_version(workspace)
        environment._configured = None


def _compile_statements_once() -> None:
    """Let databases of one kind share compiled SQL, and look MLflow's latest schema up once.

    Every fork opens databases of its own, and SQLAlchemy keeps what it compiled for each apart.
    """
    compiled: LRUCache[Any, Any] = LRUCache(2_000)
    begin = Engine.__init__

    def begun(self: Engine, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self._compiled_cache = compiled

    Engine.__init__ = begun  # type: ignore[method-assign]
    # A compiled statement is found by its dialect too: that of SQLite is always the same.
    SQLiteDialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign, assignment]
    SQLiteDialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign, assignment]
    schema = mlflow.store.db.utils
    schema._get_latest_schema_revision = cache(schema._get_latest_schema_revision)


def _drawn(_name: str, _evaluated: Any, directory: Path, _choice: Any) -> tuple[Path, ...]:
    paths = tuple(directory / name for name in ("compression.svg", "token-lengths.svg"))
    for path in paths:
        with DURABLE.writing_aside(path) as aside:
            aside.write_text("<svg/>")
    return paths
