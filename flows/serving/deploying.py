"""Deploy a file of deployments by `prefect deploy`; what was paused in Prefect stays paused.

The file says everything else. What the server has then is read back.
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
SECONDS = 60.0  # for each thing that a server is asked: it may have just started


@dataclass(frozen=True, slots=True)
class Order:
    """What to deploy.

    Attributes:
        source: the file that says it, for people.
        path: the file of deployments.
        pool: the work pool.
        store: the identity of the workspace's MLflow.
        tags: of a project's deployments: its name's and its file's. Empty for `prefect.yaml`.
        remove: whether to remove deployments that the project made and no longer has.
        force: whether what is paused in Prefect runs again, and what another MLflow deployed goes.
    """

    source: Path
    path: Path
    pool: str
    store: str
    tags: Sequence[str] = ()
    remove: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Deployed:
    """What a Prefect server has now.

    Attributes:
        file: that says what is deployed.
        names: of the deployments in it.
        left: deployments that the same project made and no longer has.
        removed: whether those were removed.
        notes: what stays as it is in Prefect.
    """

    file: str
    names: Sequence[str]
    left: Sequence[str]
    removed: bool
    notes: Sequence[str]

    def lines(self) -> list[str]:
        """The same for people."""
        said = [f"deployed: {', '.join(self.names) or 'nothing, for nothing is scheduled'}"]
        said += [f"from {self.file}", *self.notes]
        if any(note.startswith(KEPT) for note in self.notes):
            said.append("let it run as the file says:  bpeline deploy --force")
        if self.left and self.removed:
            said.append(f"removed: {', '.join(self.left)}")
        elif self.left:
            said.append(f"still scheduled, and no longer in the file: {', '.join(self.left)}")
            which = "it" if len(self.left) == 1 else "them"
            said.append(f"remove {which}:  bpeline deploy --remove")
        return said


def deploy(order: Order, environment: Mapping[str, str]) -> Deployed:
    """Deploy.

    Args:
        environment: names the Prefect server, and what the file has from it.

    Raises:
        InvalidOption: the server has deployments of these names that belong to another MLflow.
        RegistryUnreachable: it refuses, or has less afterwards than the file says.
    """
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
        notes += _asked(api, lambda client: work_pool.make(client, order.pool, order.force))
        _prefect_deploy({**content, "deployments": entries}, environment)
        _require_all(api, entries)
    left: list[Any] = []
    if order.tags:
        left = _asked(api, lambda client: _left_over(client, order, environment, names))
    if order.remove:
        for one in left:
            _asked(api, lambda client, gone=one.id: client.delete_deployment(gone))
    left_names = sorted(one.name for one in left)
    return Deployed(str(order.source), names, left_names, order.remove, notes)


def _asked(api: str, ask: Any) -> Any:
    """What a server answers.

    Raises:
        RegistryUnreachable: it does not, or refuses.
    """
    try:
        return runner.talk(api, ask, SECONDS)
    except runner.NoPrefectServer as error:
        raise RegistryUnreachable(
            f"Prefect could not deploy: {error}",
            "a Prefect server of version 3.9 or newer",
            "type `prefect version` to see the server, then try again",
        ) from error


def _key(entrypoint: str, name: str) -> tuple[str, str]:
    """What is the same deployment: those of 0.2 had our flows in another place."""
    ours = "bpeline.flows."
    return (ours if entrypoint.startswith(ours) else entrypoint), name


def _present(client: Any, deployments: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Those of the deployments that the server has."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    keys = {_key(one["entrypoint"], one["name"]) for one in deployments}
    where = DeploymentFilter(name=DeploymentFilterName(any_=[name for _, name in keys]))
    found = client.read_deployments(deployment_filter=where) if keys else []
    return {key: one for one in found if (key := _key(one.entrypoint, one.name)) in keys}


def _is_ours(present: Any, order: Order, environment: Mapping[str, str]) -> bool:
    """Whether a deployment belongs to this MLflow; one of 0.2 names only its workspace."""
    if owners := [tag for tag in present.tags if tag.startswith(MLFLOW_TAG)]:
        return MLFLOW_TAG + order.store in owners
    home = environment[HOME_VARIABLE]
    return _home(present) == home or any(tag in present.tags for tag in order.tags[1:])


def _home(present: Any) -> str:
    return str((present.job_variables or {}).get("env", {}).get(HOME_VARIABLE, ""))


def _refuse_foreign(order: Order, environment: Mapping[str, str], present: Iterable[Any]) -> None:
    foreign = [one for one in present if not _is_ours(one, order, environment)]
    if foreign and not order.force:
        files = [tag for tag in foreign[0].tags if tag.startswith(PROJECT_TAG)]
        place = files[0].removeprefix(PROJECT_TAG) if files else _home(foreign[0])
        raise InvalidOption(
            f"this Prefect server has {', '.join(sorted(one.name for one in foreign))} of another "
            f"MLflow, deployed for {place}; nothing was deployed",
            "expected one MLflow for each name on a Prefect server",
            "choose another name or server, or replace the other deployments: "
            "`bpeline deploy --force`",
        )


def _kept_paused(entry: Any, present: Any, paused: set[str]) -> Iterator[str]:
    """Let stay paused what is paused in Prefect; yield a line for each.

    Args:
        paused: names of automations that are.
    """
    name = entry["name"]
    if present.paused:
        entry["paused"] = True
        yield f"{KEPT}{name} is paused"
    inactive = {one.slug for one in present.schedules if not one.active}
    for schedule in entry.get("schedules", ()):
        if schedule.get("slug") in inactive and schedule.get("active", True):
            schedule["active"] = False
            yield f"{KEPT}the schedule {schedule['slug']} of {name} is paused"
    for trigger in entry.get("triggers", ()):
        if trigger.get("name") in paused and trigger.get("enabled", True):
            trigger["enabled"] = False
            yield f"{KEPT}the automation {trigger['name']!r} is paused"


def _prefect_deploy(content: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Let Prefect's own command apply a file.

    Raises:
        RegistryUnreachable: it fails.
    """
    python = required_python("Prefect deploys in a process of its own", "run this by `bpeline`")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "prefect.yaml")
        DURABLE.write(path, json.dumps(content, default=str).encode())  # JSON is YAML
        command = ["-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(path)]
        own = settings.own_server(environment["PREFECT_API_URL"])
        done = subprocess.run(
            [python, *command], env={**environment, **own}, cwd=environment["BPELINE_INSTALLED"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it says nothing").splitlines()
        said = [line for line in said if "For further information" not in line] or said
        raise RegistryUnreachable(
            f"Prefect could not deploy: {said[-1]}",
            "a Prefect server of version 3.9 or newer",
            "type `prefect version` to see the server, then try again",
        )


def _require_all(api: str, entries: Sequence[Any]) -> None:
    """See that a server has what was deployed.

    Raises:
        RegistryUnreachable: it has less.
    """
    present = _asked(api, lambda client: _present(client, entries))
    for entry in entries:
        there = present.get(_key(entry["entrypoint"], entry["name"]))
        lacks = ""
        if there is None or there.entrypoint != entry["entrypoint"]:
            lacks = "the deployment"
        elif len(there.schedules) < len(entry.get("schedules", ())):
            lacks = "a schedule"
        elif {one.get("name") for one in entry.get("triggers", ())} - _automations(api, there):
            lacks = "an automation"
        if lacks:
            raise RegistryUnreachable(
                f"Prefect deployed less than the file says: it lacks {lacks} of {entry['name']}",
                "what the file says",
                "type the same command again, and look at the server's log",
            )


def _automations(api: str, present: Any, *, paused: bool = False) -> set[str]:
    """The names of a deployment's automations; of all, or of those that are paused."""
    resource = f"prefect.deployment.{present.id}"
    found = _asked(api, lambda client: client.read_resource_related_automations(resource))
    return {one.name for one in found if not (paused and one.enabled)}


def _left_over(
    client: Any, order: Order, environment: Mapping[str, str], names: list[str]
) -> list[Any]:
    """Deployments of this project, or of its name in this MLflow, that it no longer has."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

    tokenizer, file = order.tags
    found: dict[Any, Any] = {}
    for tags in ([file], [tokenizer, MLFLOW_TAG + order.store]):
        where = DeploymentFilter(tags=DeploymentFilterTags(all_=tags))
        found |= {one.id: one for one in client.read_deployments(deployment_filter=where)}
    return [
        one
        for one in found.values()
        if one.name not in names
        and any(tag.startswith(PROJECT_TAG) for tag in one.tags)
        and _is_ours(one, order, environment)
    ]
