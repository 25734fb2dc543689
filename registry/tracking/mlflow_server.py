"""MLflow's server in one process, behind the gate: ``python -m … HOST PORT``.

It serves what ``mlflow server`` does, which asks nobody for a password. The store and the place of
artifacts say ``MLFLOW_BACKEND_STORE_URI`` and ``MLFLOW_ARTIFACTS_DESTINATION``, as there; the file
of the password, `registry.serving`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from bpeline.registry.serving import end_with_parent, is_gated, serve_application


def main() -> None:
    """Serve until the process is ended."""
    end_with_parent()
    host, port = sys.argv[1:]
    serve_application(_application(), host, int(port))


def _application() -> Any:
    """MLflow's own application, configured as its own command does."""
    if is_gated():  # which has judged the host by then
        os.environ["MLFLOW_SERVER_ALLOWED_HOSTS"] = "*"
    from mlflow.server import constants

    store = os.environ["MLFLOW_BACKEND_STORE_URI"]
    root = os.environ.get("MLFLOW_DEFAULT_ARTIFACT_ROOT", "mlflow-artifacts:/")
    os.environ |= {
        constants.BACKEND_STORE_URI_ENV_VAR: store,
        constants.REGISTRY_STORE_URI_ENV_VAR: store,
        constants.ARTIFACT_ROOT_ENV_VAR: root,
        constants.SERVE_ARTIFACTS_ENV_VAR: "true",
    }
    if destination := os.environ.get("MLFLOW_ARTIFACTS_DESTINATION"):
        os.environ[constants.ARTIFACTS_DESTINATION_ENV_VAR] = destination
    from mlflow.server.fastapi_app import app
    from mlflow.server.handlers import initialize_backend_stores

    initialize_backend_stores(store, store, root)
    return app


if __name__ == "__main__":
    main()
