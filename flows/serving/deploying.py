"""Tells a Prefect server of a file of deployments: the work pool, then all that is in it.

A program, ``python -m bpeline.flows.serving.deploying POOL FILE``: Prefect reads the environment,
which names the server, when it is imported, and that takes longer than what is done with it.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Do it; the exit code is that of Prefect's command that failed, the error on its last line."""
    pool, path = sys.argv[1:]
    from prefect.cli import app

    for arguments in (
        ["work-pool", "create", pool, "--type", "process", "--overwrite"],
        ["--no-prompt", "deploy", "--all", "--prefect-file", path],
    ):
        sys.argv[1:] = arguments  # where Prefect's commands read them
        try:
            app()
        except SystemExit as ended:
            if ended.code:
                raise


if __name__ == "__main__":
    main()
