"""Resolve an alias by one call of MLflow's REST API, without importing MLflow.

https://mlflow.org/docs/latest/rest-api.html#get-model-version-by-alias
"""

from __future__ import annotations

import base64
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request

from bpeline.registry.environment import names_mlflow_workspace
from bpeline.registry.tracking.tracked import TrackedVersion
from bpeline.tokenizer_core.bounded_files import parse_json
from bpeline.tokenizer_core.errors import RegistryUnreachable
from bpeline.tokenizer_core.redaction import without_secrets

_SECONDS = 10.0
_LARGEST_ANSWER = 1 << 20  # bytes
# Client settings that this call does not support; with them, MLflow's client is used.
_OF_THE_CLIENT = ("MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_SERVER_CERT_PATH",
                  "MLFLOW_TRACKING_CLIENT_CERT_PATH", "MLFLOW_TRACKING_AWS_SIGV4",
                  "MLFLOW_TRACKING_AUTH")  # fmt: skip


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treat redirects as errors: urllib would send the credentials on."""

    def redirect_request(self, *_: object) -> None:
        """Do not follow the redirect."""


def version_of_alias(uri: str, name: str, alias: str) -> TrackedVersion | None:
    """Return the version of an alias; None if MLflow's client must be used instead."""
    if names_mlflow_workspace() or any(os.environ.get(item) for item in _OF_THE_CLIENT):
        return None
    query = urllib.parse.urlencode({"name": name, "alias": alias})
    parts = urllib.parse.urlsplit(uri)
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    address = f"{place}/api/2.0/mlflow/registered-models/alias?{query}"
    request = urllib.request.Request(address, headers=_credentials(parts))
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as answer:
            fields = parse_json(answer.read(_LARGEST_ANSWER))["model_version"]
            tags = {str(item["key"]): str(item.get("value", "")) for item in fields.get("tags", [])}
            if fields["name"] != name:
                return None
            return TrackedVersion(
                name, int(fields["version"]), tags.get("digest", ""), fields.get("run_id", ""), tags
            )
    except urllib.error.HTTPError:  # MLflow's client reports refusals and redirects better
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    except (OSError, http.client.HTTPException) as error:
        raise RegistryUnreachable(
            f"MLflow at {without_secrets(uri)} does not answer: {error}",
            "expected the URI of a running MLflow server",
            "start it, or set MLFLOW_TRACKING_URI to another",
        ) from error


def _credentials(parts: urllib.parse.SplitResult) -> dict[str, str]:
    """Return the Authorization header that MLflow's client would send."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME") or urllib.parse.unquote(parts.username or "")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD") or urllib.parse.unquote(
        parts.password or ""
    )
    if user and password:
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {encoded}"}
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    return {}
