"""Tells a Prefect server of a file of deployments: the work pool, then all that is in it.

A program, ``python -m bpeline.flows.serving.deploying POOL FILE [TAG leave|remove]``: Prefect reads
the environment, which names the server, when it is imported, and that takes longer than what is
done with it. Deployments with the tag that are not in the file are named, each in a line that
begins with `LEFT`, or removed as well.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bpeline.flows.running import settings
from bpeline.flows.serving import work_pool

LEFT = "left over: "
_NAME = re.compile(r"^ {0,2}- name: (.+)$", re.MULTILINE)


def names_in(path: Path) -> list[str]:
    """The deployments of a file."""
    return _NAME.findall(path.read_text(encoding="utf-8"))


def main() -> None:
    """Do it; the exit code is that of Prefect's command that failed, the error on its last line."""
    pool, path, *tagged = sys.argv[1:]
    settings.prepare_program()
    names = names_in(Path(path))
    if names:
        _apply(pool, path)
    if tagged:
        tag, then = tagged
        _leave_over(tag, names, then == "remove")


def _apply(pool: str, path: str) -> None:
    from prefect.cli import app

    work_pool.make(pool)
    sys.argv[1:] = ["--no-prompt", "deploy", "--all", "--prefect-file", path]  # Prefect reads them
    try:
        app()
    except SystemExit as ended:
        if ended.code:
            raise


def _leave_over(tag: str, names: list[str], remove: bool) -> None:
    """Name what has the tag and none of the names, and perhaps remove it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags

    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[tag]))
    with get_client(sync_client=True) as client:
        for one in client.read_deployments(deployment_filter=tagged):
            if one.name not in names:
                if remove:
                    client.delete_deployment(one.id)
                sys.stdout.write(f"{LEFT}{one.name}\n")


if __name__ == "__main__":
    main()
