"""The work pool of deployments: what they may change of the process that runs them.

The password of a server lets its owner run commands; this keeps mistakes and scripts away from it.
"""

from __future__ import annotations

from typing import Any

from bpeline.registry import environment

VARIABLES = (
    environment.HOME_VARIABLE,
    environment.STORE_VARIABLE,
    environment.CATALOGUE_VARIABLE,
    environment.ARTIFACTS_VARIABLE,
    environment.TRACKING_VARIABLE,
    "DO_NOT_TRACK",
)
_ENVIRONMENT = {
    "type": "object",
    "title": "Environment Variables",
    "properties": {name: {"type": "string"} for name in VARIABLES},
    "additionalProperties": False,
}
TEMPLATE: dict[str, Any] = {
    "job_configuration": {"env": "{{ env }}"},
    "variables": {
        "type": "object",
        "properties": {"env": _ENVIRONMENT},
        "additionalProperties": False,
    },
}
_DESCRIPTION = "Made by bpeline: deployments may set only bpeline's environment variables."


def make(pool: str) -> None:
    """Make the pool, or bring one that bpeline made up to date; any other is left alone."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound
    from prefect.workers.process import ProcessWorker

    with get_client(sync_client=True) as client:
        try:
            present = client.read_work_pool(pool)
        except ObjectNotFound:
            client.create_work_pool(
                WorkPoolCreate(
                    name=pool, type="process", base_job_template=TEMPLATE, description=_DESCRIPTION
                )
            )
            return
        # Before 0.2 bpeline made it with Prefect's own template.
        usual = ProcessWorker.get_default_base_job_template()
        if present.description == _DESCRIPTION or present.base_job_template == usual:
            changes = WorkPoolUpdate(base_job_template=TEMPLATE, description=_DESCRIPTION)
            client.update_work_pool(pool, changes)
