"""The deployments of a project, as a file that Prefect applies; asks no server.

They are those of our own ``prefect.yaml``, with the project's parameters and times: what a
deployment runs, how many at once and what starts it stands there alone.
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
MLFLOW_TAG = "mlflow:"  # of a deployment; the identity of its MLflow follows
_REQUIRED = ("name", "entrypoint", "work_pool")


def read_deployments(path: Path) -> dict[str, Any]:
    """The content of a file of deployments, such as ``prefect.yaml``.

    Raises:
        InvalidOption: it is not YAML, or Prefect would skip or overwrite one of its entries.
    """
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
    """Refuse a time zone or cron value that Prefect refuses, or that never fires.

    Args:
        path: of the file that the user would change.

    Raises:
        InvalidOption: one of them.
    """
    from prefect._vendor.croniter import CroniterBadDateError, croniter
    from prefect.client.schemas.schedules import CronSchedule

    zones = zoneinfo.available_timezones()
    for entry in deployments:
        for schedule in entry.get("schedules") or ():
            zone, cron = schedule.get("timezone") or "UTC", schedule.get("cron")
            place = f"the schedule of {entry['name']}"
            if zone not in zones:
                reason = f"{place} has the time zone {zone!r}{likely(str(zone), zones)}"
                raise _unusable(path, reason, "a name of the IANA database, as Europe/Berlin")
            if cron is None:
                continue
            try:
                CronSchedule(cron=cron)
                croniter(cron).get_next()
            except CroniterBadDateError as error:
                reason = f"{place}, {cron!r}, never fires"
                raise _unusable(path, reason, _CRON) from error
            except ValueError as error:  # pydantic's is one
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
    """What Prefect is told of a project; no deployments where it schedules nothing.

    Args:
        usual: our own ``prefect.yaml``.

    Raises:
        InvalidOption: Prefect would change a parameter.
    """
    content = read_deployments(usual)
    ours = {one["name"]: one for one in content["deployments"]}
    made = [_deployment(project, deepcopy(ours[job]), job) for job in project.schedules]
    if "{{" in json.dumps([one["parameters"] for one in made], default=list):
        raise InvalidOption(
            f"a parameter in {project.path} holds {{{{, which Prefect would take for a template",
            "parameters of deployments without {{",
            "schedule it without Prefect: `bpeline train` from cron",
        )
    kept = {name: content[name] for name in ("name", "prefect-version", "build", "pull")}
    return {**kept, "deployments": made}


def entrypoints_of(usual: Path) -> set[str]:
    """The flows that our own ``prefect.yaml`` deploys."""
    return {one["entrypoint"] for one in read_deployments(usual)["deployments"]}


def project_tags(project: Project) -> tuple[str, str]:
    """Tags of all deployments of a project: of its name, and of its file."""
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
    """Write the project's file for Prefect into a folder; its path."""
    path = folder / f"prefect-{project.name}.yaml"
    text = yaml.safe_dump(project_deployments(project, usual), sort_keys=False, allow_unicode=True)
    DURABLE.write(path, text.encode())
    return path
