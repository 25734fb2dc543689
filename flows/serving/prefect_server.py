"""Prefect's server in one process, protected by the password of its workspace.

Run it with ``python -m bpeline.flows.serving.prefect_server HOST PORT``.
"""

from __future__ import annotations

import sys

from bpeline.registry.serving import end_with_parent, serve_application


def main() -> None:
    """Serve until the process is killed."""
    end_with_parent()
    host, port = sys.argv[1:]
    from prefect.server.api.server import create_app

    serve_application(create_app(final=True), host, int(port))


if __name__ == "__main__":
    main()
