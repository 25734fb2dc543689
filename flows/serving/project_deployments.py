"""The deployments of a project, as a file that Prefect applies; asks no server.

They are those of our own ``prefect.yaml``, with the project's parameters and times: what a
deployment runs, how many at once and what starts it stands there alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption

if TYPE_CHECKING:
    from bpeline.flows.requests import Project

_RETRAIN, _WATCH, _ENCODE = "retrain", "watch-drift", "encode-dataset"


def project_deployments(project: Project, usual: Path) -> dict[str, Any]:
    """What Prefect is told of a project; no deployments where it schedules nothing.

    Args:
        usual: our own ``prefect.yaml``.

    Raises:
        InvalidOption: Prefect would change a parameter.
    """
    content: dict[str, Any] = yaml.safe_load(usual.read_text(encoding="utf-8"))
    ours = {one["name"]: one for one in content["deployments"]}
    made = [_deployment(project, deepcopy(ours[job]), job) for job in project.schedules]
    if "{{" in json.dumps([one["parameters"] for one in made], default=list):
        raise InvalidOption(
            f"a parameter in {project.path} holds {{{{, which Prefect would take for a template",
            "parameters of deployments without {{",
            "schedule it without Prefect: `bpeline train` from cron",
        )
    kept = {name: content[name] for name in ("name", "prefect-version", "pull")}
    return {**kept, "deployments": made}


def entrypoints_of(usual: Path) -> set[str]:
    """The flows that our own ``prefect.yaml`` deploys."""
    content = yaml.safe_load(usual.read_text(encoding="utf-8"))
    return {one["entrypoint"] for one in content["deployments"]}


def project_tag(project: Project) -> str:
    """What all deployments of a project's file have in common, also after its name has changed."""
    return f"project:{project.path.absolute()}"


def _deployment(project: Project, made: dict[str, Any], job: str) -> dict[str, Any]:
    name = project.name
    made["name"] = f"{job}-{name}"
    made["description"] = f"{job} of {name}, as {project.path.name} says."
    made["tags"] = ["bpeline", f"tokenizer:{name}", project_tag(project)]
    made["parameters"] = _parameters(project, job, made.get("parameters", {}))
    made["schedules"] = [
        {
            "cron": project.schedules[job],
            "timezone": project.timezone,
            "slug": "project",
            "active": True,
        }
    ]
    for trigger in made.get("triggers", ()):
        trigger["name"] = f"{made['name']}: {' or '.join(trigger['expect'])}"
        trigger["match"]["prefect.resource.id"] = f"bpeline.tokenizer.{name}"
    return made


def _parameters(project: Project, job: str, usual: dict[str, Any]) -> dict[str, Any]:
    asked: Mapping[str, Any] = usual
    if job == _RETRAIN:
        asked = project.parameters
    elif job == _WATCH:
        asked = project.watched
    elif job == _ENCODE:
        asked = project.dataset
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asked.items()}


def write_deployments(project: Project, usual: Path, folder: Path) -> Path:
    """Write the project's file for Prefect into a folder; its path."""
    path = folder / f"prefect-{project.name}.yaml"
    text = yaml.safe_dump(project_deployments(project, usual), sort_keys=False, allow_unicode=True)
    DURABLE.write(path, text.encode())
    return path
