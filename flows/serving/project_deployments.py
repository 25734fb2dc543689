"""The deployments of a project, as a file for Prefect.

They are those of bpeline's ``prefect.yaml``, with the project's parameters and schedules.
"""

from __future__ import annotations

import json
import zoneinfo
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, likely

if TYPE_CHECKING:
    from bpeline.flows.requests import Project

_RETRAIN, _WATCH, _ENCODE = "retrain", "watch-drift", "encode-dataset"
PROJECT_TAG = "project:"
MLFLOW_TAG = "mlflow:"  # prefix of a deployment's tag with the id of its MLflow
_REQUIRED = ("name", "entrypoint", "work_pool")


def read_deployments(path: Path) -> dict[str, Any]:
    """Read a file of deployments, such as ``prefect.yaml``."""
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _unusable(path, f"it is not YAML: {' '.join(str(error).split())}") from error
    deployments = content.get("deployments") if isinstance(content, dict) else None
    if not isinstance(deployments, list):
        raise _unusable(path, "it has no list `deployments`")
    keys = set()
    for number, entry in enumerate(deployments, 1):
        missing = [key for key in _REQUIRED if not isinstance(entry, dict) or not entry.get(key)]
        if missing:
            raise _unusable(path, f"deployment {number} has no {', '.join(missing)}")
        if (key := (entry["entrypoint"], entry["name"])) in keys:
            raise _unusable(path, f"two deployments of one flow have the name {key[1]}")
        keys.add(key)
    return dict(content)


def check_schedules(path: Path, deployments: Iterable[Mapping[str, Any]]) -> None:
    """Check time zones and cron values as Prefect does, and that they ever fire."""
    from prefect._vendor.croniter import CroniterBadDateError, croniter
    from prefect.client.schemas.schedules import CronSchedule

    zones = zoneinfo.available_timezones()
    for entry in deployments:
        for schedule in entry.get("schedules") or ():
            zone, cron = schedule.get("timezone") or "UTC", schedule.get("cron")
            place = f"the schedule of {entry['name']}"
            if zone not in zones:
                reason = f"{place} has the time zone {zone!r}{likely(str(zone), zones)}"
                raise _unusable(path, reason, "a name of the IANA database, like Europe/Berlin")
            if cron is None:
                continue
            try:
                CronSchedule(cron=cron)
                croniter(cron).get_next()
            except CroniterBadDateError as error:
                reason = f"{place}, {cron!r}, never fires"
                raise _unusable(path, reason, _CRON) from error
            except ValueError as error:  # including pydantic's
                reason = f"{place} is {cron!r}, which is not a cron value"
                raise _unusable(path, reason, _CRON) from error


_CRON = "five fields of cron: minute, hour, day of the month, month, weekday"


def _unusable(path: Path, reason: str, expected: str = "") -> InvalidOption:
    return InvalidOption(
        f"{path} cannot be used: {reason}",
        f"expected {expected or 'a list of deployments, each with ' + ', '.join(_REQUIRED)}",
        f"correct {path}, then type the same command again",
    )


def project_deployments(project: Project, usual: Path) -> dict[str, Any]:
    """Return the deployments of a project; none if it schedules nothing."""
    content = read_deployments(usual)
    ours = {deployment["name"]: deployment for deployment in content["deployments"]}
    deployments = [_deployment(project, deepcopy(ours[job]), job) for job in project.schedules]
    if "{{" in json.dumps([deployment["parameters"] for deployment in deployments], default=list):
        raise InvalidOption(
            f"a parameter in {project.path} contains {{{{, which is a template for Prefect",
            "expected parameters of deployments without {{",
            "schedule it without Prefect: `bpeline train` from cron",
        )
    common = {name: content[name] for name in ("name", "prefect-version", "build", "pull")}
    return {**common, "deployments": deployments}


def entrypoints_of(usual: Path) -> set[str]:
    """Return the flows that bpeline's ``prefect.yaml`` deploys."""
    return {one["entrypoint"] for one in read_deployments(usual)["deployments"]}


def project_tags(project: Project) -> tuple[str, str]:
    """Return the tags of a project's deployments: for its name, and for its file."""
    return f"tokenizer:{project.name}", f"{PROJECT_TAG}{project.path.absolute()}"


def _deployment(project: Project, made: dict[str, Any], job: str) -> dict[str, Any]:
    name = project.name
    made["name"] = f"{job}-{name}"
    made["description"] = f"{job} of {name}, as {project.path.name} says."
    made["tags"] = ["bpeline", *project_tags(project)]
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
    if job == _RETRAIN:
        return {"request": _as_yaml(project.parameters)}
    if job == _WATCH:
        return _as_yaml(project.watched)
    return _as_yaml(project.dataset if job == _ENCODE else usual)


def _as_yaml(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in asked.items()}


def write_deployments(project: Project, usual: Path, folder: Path) -> Path:
    """Write the project's deployments into a folder; return the path."""
    path = folder / f"prefect-{project.name}.yaml"
    text = yaml.safe_dump(project_deployments(project, usual), sort_keys=False, allow_unicode=True)
    DURABLE.write(path, text.encode())
    return path
