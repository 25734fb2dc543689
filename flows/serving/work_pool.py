"""The work pool of deployments: what they may set for the process that runs them.

This prevents mistakes. Anyone with the server's password can run commands anyway.
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
NAME = "bpeline"
TYPE = "process"
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
_DESCRIPTION = "Created by bpeline: deployments may set only bpeline's environment variables."


def make(client: Any, pool: str, force: bool) -> list[str]:
    """Create the pool if it is missing; return notes on how an existing one differs."""
    from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
    from prefect.exceptions import ObjectNotFound

    try:
        present = client.read_work_pool(pool)
    except ObjectNotFound:
        described = {"base_job_template": TEMPLATE, "description": _DESCRIPTION}
        client.create_work_pool(WorkPoolCreate(name=pool, type=TYPE, **described))
        return []
    if present.type != TYPE:
        return [
            f"kept: the work pool {pool} has the type {present.type}; "
            f"`bpeline serve` runs only pools of the type {TYPE}"
        ]
    notes = []
    if present.is_paused and force:
        client.update_work_pool(pool, WorkPoolUpdate(is_paused=False))
    elif present.is_paused:
        notes.append(f"kept: the work pool {pool} is paused")
    if present.base_job_template != TEMPLATE:
        if force:
            client.update_work_pool(pool, WorkPoolUpdate(base_job_template=TEMPLATE))
        else:
            notes.append(f"kept: the work pool {pool} has another job template")
    return notes
