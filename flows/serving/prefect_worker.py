"""Prefect's process worker, which runs only deployments of `bpeline deploy`.

Run it with ``python -m bpeline.flows.serving.prefect_worker QUEUE DEPLOYMENTS``. At its start, runs
whose process is gone are marked as crashed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

from bpeline.flows.running import settings
from bpeline.flows.serving import work_pool
from bpeline.flows.serving.project_deployments import entrypoints_of
from bpeline.registry.serving import end_with_parent
from bpeline.registry.workspace import Process
from bpeline.tokenizer_core.bounded_files import parse_json

_SET_DIRECTORY = "prefect.deployments.steps.set_working_directory"
_RUNS_AT_ONCE = "1"  # trainings use all cores and lock the workspace
_MOST_RUNS = 200  # Prefect's limit for one list


def main() -> None:
    """Work until the process is killed."""
    end_with_parent()
    queue, path = sys.argv[1:]
    settings.prepare_program()
    from prefect.cli import app
    from prefect.client.orchestration import get_client

    _define_worker(Path(path))
    mark_lost_runs()
    with get_client(sync_client=True) as client:  # else Prefect creates it with its own template
        work_pool.make(client, work_pool.NAME, force=False)
    options = ["--type", work_pool.TYPE, "--pool", work_pool.NAME, "--work-queue", queue]
    sys.argv[1:] = ["worker", "start", *options, "--limit", _RUNS_AT_ONCE]
    app()


def _define_worker(path: Path) -> None:
    """Define the worker class that Prefect's command starts: the last one of its type."""
    from prefect.workers.process import ProcessJobConfiguration, ProcessWorker

    entrypoints = entrypoints_of(path)
    steps = [{_SET_DIRECTORY: {"directory": str(path.parent)}}]

    class Configuration(ProcessJobConfiguration):  # type: ignore[misc]
        @classmethod
        async def from_template_and_values(
            cls, base_job_template: dict[str, Any], values: dict[str, Any], client: Any = None
        ) -> Any:
            del base_job_template  # a user may have changed the server's
            env = values.get("env") or {}
            if unknown := sorted({*values} - {"env"} | {*env} - {*work_pool.VARIABLES}):
                raise ValueError(f"bpeline's worker does not set {', '.join(unknown)} for a run")
            return await super().from_template_and_values(work_pool.TEMPLATE, values, client=client)

        def prepare_for_flow_run(
            self, flow_run: Any, deployment: Any = None, *more: Any, **named: Any
        ) -> None:
            if deployment is None or deployment.entrypoint not in entrypoints:
                raise ValueError(
                    "bpeline's worker runs only flows that `bpeline deploy` of this release deploys"
                )
            if (deployment.pull_steps or []) != steps:
                raise ValueError(
                    "bpeline's worker runs only pull steps written by `bpeline deploy`"
                )
            super().prepare_for_flow_run(flow_run, deployment, *more, **named)

    with warnings.catch_warnings(action="ignore"):  # on replacing Prefect's worker

        class Worker(ProcessWorker):  # type: ignore[misc]
            job_configuration = Configuration


def mark_lost_runs() -> None:
    """Mark runs as crashed whose process has ended without a report, as if killed."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.states import Crashed, StateType

    from bpeline.flows.serving.prefect_listener import PROCESS_LABEL

    workspace = settings.own_workspace()
    at_work = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
    state = FlowRunFilterState(type=FlowRunFilterStateType(any_=at_work))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(state=state), limit=_MOST_RUNS)
        for run in runs:
            if label := run.labels.get(PROCESS_LABEL):
                is_lost = Process(**parse_json(str(label))).is_dead()
            elif run.deployment_id:  # one of our deployments: its worker is gone
                variables = client.read_deployment(run.deployment_id).job_variables
                home = variables.get("env", {}).get("BPELINE_HOME")
                is_lost = workspace is not None and home == str(workspace.root)
            else:
                is_lost = False
            if is_lost:
                crashed = Crashed(message="The process of this run is gone.")
                client.set_flow_run_state(run.id, crashed, force=True)


if __name__ == "__main__":
    main()
