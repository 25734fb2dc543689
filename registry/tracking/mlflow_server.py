"""MLflow's server in one process, whose pages open without its assistant and without its notices.

A program, ``python -m bpeline.registry.tracking.mlflow_server HOST PORT``, that serves what
``mlflow server`` does; that is a process which imports everything twice, once to start the other.
The store and the place of artifacts say ``MLFLOW_BACKEND_STORE_URI`` and
``MLFLOW_ARTIFACTS_DESTINATION``, as there; the file of the password, `registry.serving`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from bpeline.registry.serving import end_with_parent, is_gated, serve_application
from bpeline.tokenizer_core.another_python import required_python

# What MLflow's pages remember in a browser of notices that were seen. Its assistant, a panel that
# asks for a language model, opens itself where this is not remembered.
# It opens in the view for generative models where no other was chosen.
_REMEMBERED = {
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True,
    "_mlflow_model_registry_promo_modal_dismissed_v1": True,
    "mlflow.workflowType_v1": "machine_learning",
}
_SCRIPT = (
    f"<script>for (const [key, value] of Object.entries({json.dumps(_REMEMBERED)})) "
    "if (localStorage.getItem(key) === null) "
    "localStorage.setItem(key, JSON.stringify(value));</script>"
)


def main() -> None:
    """Serve until the process is ended."""
    end_with_parent()
    host, port = sys.argv[1:]
    try:
        application = _application()
    except ImportError:  # an MLflow that is arranged otherwise: its own command serves it
        if is_gated():
            raise
        command = ("mlflow", "server", "--host", host, "--port", port, "--workers", "1")
        python = required_python("MLflow's own command serves it", "type `mlflow server`")
        os.execv(python, [python, "-m", *command])
    serve_application(application, host, int(port))


def _application() -> Any:
    """MLflow's own application, with a first page that remembers the notices.

    Raises:
        ImportError: this MLflow has it elsewhere.
    """
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
    import mlflow.server
    from mlflow.server.fastapi_app import app
    from mlflow.server.handlers import initialize_backend_stores
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    initialize_backend_stores(store, store, root)
    index = Path(mlflow.server.__file__).parent / mlflow.server.REL_STATIC_DIR / "index.html"
    page = index.read_text(encoding="utf-8").replace("<head>", f"<head>{_SCRIPT}")
    # Before MLflow's own route of that path; its middleware, which checks hosts, stays around it.
    app.router.routes.insert(0, Route("/", lambda request: HTMLResponse(page)))
    return app


if __name__ == "__main__":
    main()
