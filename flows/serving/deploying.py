"""Deploy a file of deployments to a Prefect server, and keep what was changed there.

A program, ``python -m bpeline.flows.serving.deploying ORDER``: Prefect reads the environment, which
names the server, when it is imported. The order is JSON of `Order`; the last line printed is JSON:
what the server has now, or what was refused.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from bpeline.flows.running import settings
from bpeline.flows.serving import work_pool
from bpeline.flows.serving.patience import MLFLOW_TAG
from bpeline.flows.serving.project_deployments import PROJECT_TAG, read_deployments
from bpeline.registry.environment import HOME_VARIABLE, addresses
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core.digests import digest_of_bytes
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import BpelineError, InvalidOption

KEPT, REPLACED = "kept: ", "replaced: "


@dataclass(frozen=True, slots=True)
class Order:
    """What to deploy.

    Attributes:
        source: the file that says it, for people.
        path: the file of deployments.
        pool: the work pool.
        tags: of a project's deployments: its name's and its file's. Empty for `prefect.yaml`.
        remove: whether to remove deployments that the project made and no longer has.
        force: whether to replace what was changed in Prefect, or deployed for another MLflow.
    """

    source: str
    path: str
    pool: str
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
        notes: what was kept as it is in Prefect, and what was replaced.
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
            said.append("replace what was changed in Prefect:  bpeline deploy --force")
        if self.left and self.removed:
            said.append(f"removed: {', '.join(self.left)}")
        elif self.left:
            said.append(f"still scheduled, and no longer in the file: {', '.join(self.left)}")
            which = "it" if len(self.left) == 1 else "them"
            said.append(f"remove {which}:  bpeline deploy --remove")
        return said


def main() -> None:
    """Deploy; the exit code is that of Prefect's command if it failed."""
    order = Order(**json.loads(sys.argv[1]))
    settings.prepare_program()
    try:
        answer: dict[str, Any] = asdict(_deploy(order))
    except BpelineError as error:
        refused = (error.happened, error.accepted, error.next_step)
        answer = {"refused": refused, "exit_code": error.exit_code}
    sys.stdout.write(f"\n{json.dumps(answer)}\n")


def _deploy(order: Order) -> Deployed:
    from prefect.client.orchestration import get_client
    from prefect.utilities.templating import apply_values

    content = read_deployments(Path(order.path))
    deployments = apply_values(
        content["deployments"], settings.server_environment(), remove_notset=False
    )
    names = [deployment["name"] for deployment in deployments]
    store = MLFLOW_TAG + open_registry().make_store()
    notes: list[str] = []
    with get_client(sync_client=True) as client:
        present = _present(client, deployments)
        _refuse_foreign(order, store, present.values())
        for deployment in deployments:
            deployment["tags"] = [*deployment.get("tags", ()), store]
            entry = json.dumps(deployment, default=str)
            deployment["version"] = digest_of_bytes(entry.encode())[:16]
            if (before := present.get(_key(deployment))) is None:
                continue
            if order.force:
                deployment.setdefault("paused", False)
                for schedule in before.schedules:
                    client.delete_deployment_schedule(before.id, schedule.id)
            else:
                resource = f"prefect.deployment.{before.id}"
                automations = client.read_resource_related_automations(resource)
                paused = {one.name for one in automations if not one.enabled}
                notes += _merge(deployment, before, paused)
        if deployments:
            notes += work_pool.make(client, order.pool, order.force)
            _apply({**content, "deployments": deployments})
        left = _left_over(client, order, store, names) if order.tags else []
        if order.remove:
            for one in left:
                client.delete_deployment(one.id)
    return Deployed(order.source, names, sorted(one.name for one in left), order.remove, notes)


def _key(deployment: Any) -> tuple[str, str]:
    return deployment["entrypoint"], deployment["name"]


def _present(client: Any, deployments: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Those of the deployments that the server has, by entrypoint and name."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    keys = {_key(deployment) for deployment in deployments}
    where = DeploymentFilter(name=DeploymentFilterName(any_=[name for _, name in keys]))
    found = client.read_deployments(deployment_filter=where) if keys else []
    return {key: one for one in found if (key := (one.entrypoint, one.name)) in keys}


def _is_ours(present: Any, order: Order, store: str) -> bool:
    """Whether a deployment belongs to this MLflow; one of 0.2 names only its workspace."""
    if owners := [tag for tag in present.tags if tag.startswith(MLFLOW_TAG)]:
        return store in owners
    home = str(addresses().home)
    return _home(present) == home or any(tag in present.tags for tag in order.tags[1:])


def _home(present: Any) -> str:
    return str((present.job_variables or {}).get("env", {}).get(HOME_VARIABLE, ""))


def _refuse_foreign(order: Order, store: str, present: Iterable[Any]) -> None:
    foreign = [one for one in present if not _is_ours(one, order, store)]
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


def _merge(deployment: Any, present: Any, paused: set[str]) -> Iterator[str]:
    """Keep in a deployment what was changed in Prefect; yield a line for each difference.

    Its version is a digest of its entry in the file. While that is the same, every difference was
    made in Prefect and is kept. Else the file's values count, but pauses, pools and schedules that
    were added or removed in Prefect are kept.

    Args:
        paused: names of automations that are paused in Prefect.
    """
    name, pool = deployment["name"], deployment["work_pool"]
    same_file = present.version == deployment["version"]
    if present.paused:
        yield f"{KEPT}{name} is paused"
    deployment["paused"] = present.paused
    if present.work_pool_name not in (None, pool["name"]):
        yield f"{KEPT}{name} runs in the work pool {present.work_pool_name}"
        pool["name"], pool["work_queue_name"] = present.work_pool_name, present.work_queue_name
    prefixes = (MLFLOW_TAG, PROJECT_TAG)
    added = [tag for tag in present.tags if not tag.startswith(prefixes)]
    deployment["tags"] += [tag for tag in added if tag not in deployment["tags"]]
    ours = deployment.setdefault("parameters", {})
    theirs = present.parameters
    limit, limits = deployment.get("concurrency_limit"), present.global_concurrency_limit
    for place, key, value in (
        (deployment, "description", present.description),
        (pool, "job_variables", present.job_variables),
        *([(limit, "limit", limits.limit)] if isinstance(limit, dict) and limits else []),
        *((ours, key, theirs.get(key)) for key in sorted(ours.keys() | theirs)),
    ):
        if place.get(key) != value:
            yield (
                f"{KEPT if same_file else REPLACED}{key} of {name}, "
                f"{shorten(str(value), 60)} instead of {shorten(str(place.get(key)), 60)}"
            )
            if same_file:
                place[key] = value
    for trigger in deployment.get("triggers", ()):
        if trigger.get("name") in paused and trigger.get("enabled", True):
            yield f"{KEPT}the automation {trigger['name']!r} is paused"
            trigger["enabled"] = False
    deployment["schedules"] = list(deployment.get("schedules", ()))
    yield from _merge_schedules(name, deployment["schedules"], present.schedules, same_file)


def _merge_schedules(
    name: str, ours: list[Any], theirs: Iterable[Any], same_file: bool
) -> Iterator[str]:
    """The same for schedules, which their slugs identify."""
    present = {one.slug or str(one.id): _schedule(one) for one in theirs}
    for number, schedule in enumerate(list(ours), 1):
        slug = schedule.setdefault("slug", f"schedule-{number}")
        there = present.pop(slug, None)
        if there is None:
            yield f"{KEPT}{name} is without the schedule {slug} ({_when(schedule)})"
            ours.remove(schedule)
            continue
        if schedule.get("active", True) and not there["active"]:
            yield f"{KEPT}the schedule {_when(schedule)} of {name} is paused"
        schedule["active"] = there["active"]
        if _when(there) != _when(schedule):
            if same_file:
                yield f"{KEPT}{name} has the schedule {_when(there)} instead of {_when(schedule)}"
                ours[ours.index(schedule)] = there
            else:
                yield f"{REPLACED}the schedule {_when(there)} of {name}, by {_when(schedule)}"
    for there in present.values():
        yield f"{KEPT}{name} also has the schedule {_when(there)}"
        ours.append(there)


def _schedule(present: Any) -> dict[str, Any]:
    """A schedule of the server as `prefect.yaml` would have it."""
    more = present.model_dump(mode="json", include={"active", "parameters", "slug"})
    spelled = {**present.schedule.model_dump(mode="json"), **more}
    return {key: value for key, value in spelled.items() if value is not None}


def _when(schedule: dict[str, Any]) -> str:
    """A schedule for people."""
    times = schedule.get("cron") or schedule.get("rrule")
    if times is None:
        seconds = schedule["interval"]
        times = f"every {seconds if isinstance(seconds, str) else float(seconds)} s"
    return f"'{' '.join(times.split())}' {schedule.get('timezone') or 'UTC'}"


def _apply(content: dict[str, Any]) -> None:
    from prefect.cli import app

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "prefect.yaml")
        DURABLE.write(path, json.dumps(content, default=str).encode())  # JSON is YAML
        # Prefect reads the arguments of the process.
        sys.argv[1:] = ["--no-prompt", "deploy", "--all", "--prefect-file", str(path)]
        try:
            app()
        except SystemExit as ended:
            if ended.code:
                raise


def _left_over(client: Any, order: Order, store: str, names: list[str]) -> list[Any]:
    """Deployments of this project, or of its name in this MLflow, that it no longer has."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

    tokenizer, file = order.tags
    found: dict[Any, Any] = {}
    for tags in ([file], [tokenizer, store]):
        where = DeploymentFilter(tags=DeploymentFilterTags(all_=tags))
        found |= {one.id: one for one in client.read_deployments(deployment_filter=where)}
    return [
        one
        for one in found.values()
        if one.name not in names
        and any(tag.startswith(PROJECT_TAG) for tag in one.tags)
        and _is_ours(one, order, store)
    ]


if __name__ == "__main__":
    main()
