"""Deploying a file of deployments with `prefect deploy`.

Deployments that are paused in Prefect stay paused. Afterwards the server's state is checked.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bpeline.flows.running import runner, settings
from bpeline.flows.serving import work_pool
from bpeline.flows.serving.project_deployments import MLFLOW_TAG, PROJECT_TAG, read_deployments
from bpeline.registry.environment import HOME_VARIABLE
from bpeline.tokenizer_core.another_python import required_python
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable

KEPT = "kept: "
SECONDS = 60.0  # for each request, as the server may have just started


@dataclass(frozen=True, slots=True)
class Order:
    """What to deploy.

    Attributes:
        source: file that the user wrote, for messages.
        tags: of a project's deployments: its name and file. Empty for `prefect.yaml`.
        force: whether to resume what is paused and replace deployments of another MLflow.
    """

    source: Path
    path: Path
    store: str
    tags: Sequence[str] = ()
    remove: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Deployed:
    """The state of the Prefect server after deploying.

    Attributes:
        left: deployments of the same project that it no longer has.
        notes: what was kept as in Prefect.
    """

    file: str
    names: Sequence[str]
    left: Sequence[str]
    removed: bool
    notes: Sequence[str]

    def lines(self) -> list[str]:
        """Return the lines for the user."""
        lines = [f"deployed: {', '.join(self.names) or 'nothing, as nothing is scheduled'}"]
        lines += [f"from {self.file}", *self.notes]
        if any(note.startswith(KEPT) for note in self.notes):
            lines.append("to run it as in the file:  bpeline deploy --force")
        if self.left and self.removed:
            lines.append(f"removed: {', '.join(self.left)}")
        elif self.left:
            lines.append(f"still scheduled, but no longer in the file: {', '.join(self.left)}")
            pronoun = "it" if len(self.left) == 1 else "them"
            lines.append(f"remove {pronoun}:  bpeline deploy --remove")
        return lines


def deploy(order: Order, environment: Mapping[str, str]) -> Deployed:
    """Deploy an order."""
    from prefect.utilities.templating import apply_values

    api = environment["PREFECT_API_URL"]
    content = read_deployments(order.path)
    entries = apply_values(content["deployments"], dict(environment), remove_notset=False)
    names = [entry["name"] for entry in entries]
    present = _asked(api, lambda client: _present(client, entries))
    _refuse_foreign(order, environment, present.values())
    notes: list[str] = []
    for entry in entries:
        entry["tags"] = [*entry.get("tags", ()), MLFLOW_TAG + order.store]
        entry.setdefault("paused", False)
        before = present.get(_key(entry["entrypoint"], entry["name"]))
        if before is not None and not order.force:
            notes += _kept_paused(entry, before, _automations(api, before, paused=True))
    if entries:
        notes += _asked(api, lambda client: work_pool.make(client, work_pool.NAME, order.force))
        _prefect_deploy({**content, "deployments": entries}, environment)
        _require_all(api, entries)
    left: list[Any] = []
    if order.tags:
        left = _asked(api, lambda client: _left_over(client, order, environment, names))
    if order.remove:
        for deployment in left:
            _asked(api, lambda client, gone=deployment.id: client.delete_deployment(gone))
    left_names = sorted(deployment.name for deployment in left)
    return Deployed(str(order.source), names, left_names, order.remove, notes)


def _asked(api: str, ask: Any) -> Any:
    """Send requests to the server; raise RegistryUnreachable if that fails."""
    try:
        return runner.talk(api, ask, SECONDS)
    except runner.NoPrefectServer as error:
        raise _not_deployed(str(error)) from error


def _not_deployed(reason: str) -> RegistryUnreachable:
    return RegistryUnreachable(
        f"Prefect could not deploy: {reason}",
        "expected a Prefect server of version 3.9 or newer",
        "type `prefect version` to see the server, then try again",
    )


def _key(entrypoint: str, name: str) -> tuple[str, str]:
    """Return a deployment's key, the same for 0.2, where flows had other modules."""
    ours = "bpeline.flows."
    return (ours if entrypoint.startswith(ours) else entrypoint), name


def _present(client: Any, deployments: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Return those of the deployments that the server has, by key."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    keys = {_key(deployment["entrypoint"], deployment["name"]) for deployment in deployments}
    where = DeploymentFilter(name=DeploymentFilterName(any_=[name for _, name in keys]))
    deployments_found = client.read_deployments(deployment_filter=where) if keys else []
    return {
        key: deployment
        for deployment in deployments_found
        if (key := _key(deployment.entrypoint, deployment.name)) in keys
    }


def _is_ours(present: Any, order: Order, environment: Mapping[str, str]) -> bool:
    """Return whether a deployment is of this MLflow, or for 0.2 of this workspace."""
    if owners := [tag for tag in present.tags if tag.startswith(MLFLOW_TAG)]:
        return MLFLOW_TAG + order.store in owners
    home = environment[HOME_VARIABLE]
    return _home(present) == home or any(tag in present.tags for tag in order.tags[1:])


def _home(present: Any) -> str:
    return str((present.job_variables or {}).get("env", {}).get(HOME_VARIABLE, ""))


def _refuse_foreign(order: Order, environment: Mapping[str, str], present: Iterable[Any]) -> None:
    foreign = [entry for entry in present if not _is_ours(entry, order, environment)]
    if foreign and not order.force:
        files = [tag for tag in foreign[0].tags if tag.startswith(PROJECT_TAG)]
        place = files[0].removeprefix(PROJECT_TAG) if files else _home(foreign[0])
        raise InvalidOption(
            f"this Prefect server has {', '.join(sorted(entry.name for entry in foreign))} of "
            f"another MLflow, deployed for {place}; nothing was deployed",
            "expected one MLflow for each name on a Prefect server",
            "choose another name or server, or replace the other deployments: "
            "`bpeline deploy --force`",
        )


def _kept_paused(entry: Any, present: Any, paused: set[str]) -> Iterator[str]:
    """Keep what is paused in Prefect paused; yield a line for each."""
    name = entry["name"]
    if present.paused:
        entry["paused"] = True
        yield f"{KEPT}{name} is paused"
    inactive = {planned.slug for planned in present.schedules if not planned.active}
    for schedule in entry.get("schedules", ()):
        if schedule.get("slug") in inactive and schedule.get("active", True):
            schedule["active"] = False
            yield f"{KEPT}the schedule {schedule['slug']} of {name} is paused"
    for trigger in entry.get("triggers", ()):
        if trigger.get("name") in paused and trigger.get("enabled", True):
            trigger["enabled"] = False
            yield f"{KEPT}the automation {trigger['name']!r} is paused"


def _prefect_deploy(content: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Apply a file with Prefect's own command; raise RegistryUnreachable if it fails."""
    python = required_python("Prefect deploys in a process of its own", "run this by `bpeline`")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "prefect.yaml")
        DURABLE.write(path, json.dumps(content, default=str).encode())  # JSON is YAML
        command = ["-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(path)]
        own = settings.own_server(environment["PREFECT_API_URL"])
        result = subprocess.run(
            [python, *command], env={**environment, **own}, cwd=environment["BPELINE_INSTALLED"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if result.returncode:
        lines = (result.stderr.strip() or result.stdout.strip() or "no message").splitlines()
        lines = [line for line in lines if "For further information" not in line] or lines
        raise _not_deployed(lines[-1])


def _require_all(api: str, entries: Sequence[Any]) -> None:
    """Raise RegistryUnreachable unless the server has everything that was deployed."""
    present = _asked(api, lambda client: _present(client, entries))
    for entry in entries:
        deployed = present.get(_key(entry["entrypoint"], entry["name"]))
        lacks = ""
        if deployed is None or deployed.entrypoint != entry["entrypoint"]:
            lacks = "the deployment"
        elif len(deployed.schedules) < len(entry.get("schedules", ())):
            lacks = "a schedule"
        elif {trigger.get("name") for trigger in entry.get("triggers", ())} - _automations(
            api, deployed
        ):
            lacks = "an automation"
        if lacks:
            raise RegistryUnreachable(
                f"Prefect did not deploy all: {lacks} of {entry['name']} is missing",
                "expected everything in the file",
                "type the same command again, and check the server's log",
            )


def _automations(api: str, present: Any, *, paused: bool = False) -> set[str]:
    """Return the names of a deployment's automations, all or only paused ones."""
    resource = f"prefect.deployment.{present.id}"
    automations = _asked(api, lambda client: client.read_resource_related_automations(resource))
    return {automation.name for automation in automations if not (paused and automation.enabled)}


def _left_over(
    client: Any, order: Order, environment: Mapping[str, str], names: list[str]
) -> list[Any]:
    """Return deployments of this project, or of its name in this MLflow, that it lost."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

    tokenizer, file = order.tags
    deployments: dict[Any, Any] = {}
    for tags in ([file], [tokenizer, MLFLOW_TAG + order.store]):
        where = DeploymentFilter(tags=DeploymentFilterTags(all_=tags))
        deployments |= {
            deployment.id: deployment
            for deployment in client.read_deployments(deployment_filter=where)
        }
    return [
        deployment
        for deployment in deployments.values()
        if deployment.name not in names
        and any(tag.startswith(PROJECT_TAG) for tag in deployment.tags)
        and _is_ours(deployment, order, environment)
    ]
