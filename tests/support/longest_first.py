"""How two workers share the test files so that both end at about the same time: the longest first.

A worker takes whole files, in the order in which they are collected; those of some folders count
as one. Seconds were measured on two cores; only their order matters, and a file that is not
named here is a short one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

LONGEST = (
    "reliability/test_random_kills.py",
    "reliability/test_disk_faults.py",
    "reliability/test_crash_points.py",
    "reliability/test_first_publications.py",
    "reliability/test_determinism.py",
    "reliability/test_concurrency.py",
    "reliability/test_corruption.py",
    "tokenizer_core/test_random_pipelines.py",
    "tokenizer_core/test_prepared_streams.py",
    "flows/test_nonsense.py",
    "flows/test_odd_environments.py",
    "flows/test_ended_by_signals.py",
    "flows/scheduled/test_deployments.py",
    "flows/scheduled/test_prefect_flows.py",
    "test_tutorial.py",
    "registry/test_lost_replies.py",
    "flows/test_postgresql.py",
    "flows/test_evaluation_sets.py",
    "flows/test_train_tokenizer.py",
    "flows/test_interruptions.py",
    "flows/test_cluster.py",
    "flows/test_shared_workspace.py",
    "flows/test_prefect_lost.py",
    "tokenizer_core/test_pretokenization.py",
    "tokenizer_core/test_split_automaton.py",
    "flows/test_drift.py",
    "flows/test_commands.py",
    "flows/test_size_choice.py",
    "flows/test_sources.py",
    "flows/test_algorithms.py",
    "flows/test_evaluation_flow.py",
    "flows/test_training_plan.py",
    "flows/test_project.py",
    "tokenizer_core/test_formats_fuzz.py",
    "tokenizer_core/test_hostile_files.py",
    "tokenizer_core/test_regex_processes.py",
    "tokenizer_core/test_tokenizer.py",
    "benchmarks/test_encoding_benchmark.py",
    "registry/test_killed_mlflow.py",
    "registry/test_deletion.py",
    "test_notebook.py",
)
# Folders whose files share what takes long to start: a server.
TOGETHER = ("tests/flows/scheduled/",)


@cache
def place_of(path: Path, tests: Path) -> int:
    """Where a file comes in a run: after all that take longer."""
    name = path.relative_to(tests).as_posix()
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


class ByFolderAndFile(LoadFileScheduling):
    """Gives a worker whole files, and all of a folder that share what takes long to start."""

    def _split_scope(self, nodeid: str) -> Any:
        file = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)
