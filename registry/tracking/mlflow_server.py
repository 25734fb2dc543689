"""MLflow's server in one process, with a password: ``python -m … HOST PORT``.

Serves the same as ``mlflow server``, configured by ``MLFLOW_BACKEND_STORE_URI`` and
``MLFLOW_ARTIFACTS_DESTINATION``; see `registry.serving` for the password.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from bpeline.registry.serving import end_with_parent, is_gated, serve_application


def main() -> None:
    """Serve until the process ends."""
    end_with_parent()
    host, port = sys.argv[1:]
    serve_application(_application(), host, int(port))


def _application() -> Any:
    """Return MLflow's application, configured as ``mlflow server`` does it."""
    if is_gated():  # the gate has already checked the host
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
