"""Prefect's server in one process, behind the password of its workspace.

A program, ``python -m bpeline.flows.serving.prefect_server HOST PORT``.
"""

from __future__ import annotations

import shlex
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from bpeline.registry.serving import end_with_parent, serve_application

DATABASE = "prefect.db"
_HELD = """
SELECT name, paused OR EXISTS (
           SELECT 1 FROM deployment_schedule s WHERE s.deployment_id = d.id AND NOT s.active),
       (SELECT count(*) FROM deployment_schedule s WHERE s.deployment_id = d.id),
       (SELECT count(*) FROM flow_run r WHERE r.deployment_id = d.id)
FROM deployment d WHERE json_extract(infra_overrides, '$.env.BPELINE_HOME') = ? ORDER BY name
"""


def former_database(former: Path, home: Path, workspace: Path) -> list[str]:
    """What a database of Prefect's holds of a workspace that has none of its own yet; for people.

    Args:
        former: Prefect's home until now.
        home: the one in the workspace.
    """
    database, own = former / DATABASE, home / DATABASE
    if own.exists() or not database.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            rows = connection.execute(_HELD, (str(workspace),)).fetchall()
    except sqlite3.Error:  # of another version
        return []
    if not rows:
        return []
    names = [f"{name} (paused)" if paused else name for name, paused, _, _ in rows]
    schedules, runs = (sum(row[at] for row in rows) for at in (2, 3))
    place, there = shlex.quote(str(home)), shlex.quote(str(database))
    return [
        f"Prefect's database of this workspace is now {own}, which is new",
        f"{database} holds {', '.join(names)}: {schedules} schedules and {runs} runs",
        f"take them over while no server runs:  rm -rf {place} && mkdir {place} && "
        f"cp {there}* {place}/ && bpeline server --deploy",
    ]


def main() -> None:
    """Serve until the process is ended."""
    end_with_parent()
    host, port = sys.argv[1:]
    from prefect.server.api.server import create_app

    serve_application(create_app(final=True), host, int(port))


if __name__ == "__main__":
    main()
