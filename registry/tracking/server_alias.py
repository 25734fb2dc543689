"""An alias asked of an MLflow server by one call of its REST API, without importing MLflow.

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
# Settings of MLflow's client that this call would ignore: then the client asks.
_OF_THE_CLIENT = ("MLFLOW_TRACKING_INSECURE_TLS", "MLFLOW_TRACKING_SERVER_CERT_PATH",
                  "MLFLOW_TRACKING_CLIENT_CERT_PATH", "MLFLOW_TRACKING_AWS_SIGV4",
                  "MLFLOW_TRACKING_AUTH")  # fmt: skip


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a refusal: urllib would send the credentials to the other server."""

    def redirect_request(self, *_: object) -> None:
        """No request follows."""


def version_of_alias(uri: str, name: str, alias: str) -> TrackedVersion | None:
    """The version that an alias points to; None where MLflow's client has to be asked.

    Raises:
        RegistryUnreachable: no server answers.
    """
    if names_mlflow_workspace() or any(os.environ.get(one) for one in _OF_THE_CLIENT):
        return None
    asked = urllib.parse.urlencode({"name": name, "alias": alias})
    parts = urllib.parse.urlsplit(uri)
    place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    address = f"{place}/api/2.0/mlflow/registered-models/alias?{asked}"
    request = urllib.request.Request(address, headers=_credentials(parts))
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as answer:
            found = parse_json(answer.read(_LARGEST_ANSWER))["model_version"]
            tags = {str(one["key"]): str(one.get("value", "")) for one in found.get("tags", [])}
            if found["name"] != name:
                return None
            return TrackedVersion(
                name, int(found["version"]), tags.get("digest", ""), found.get("run_id", ""), tags
            )
    except urllib.error.HTTPError:  # the client says what a refusal or a redirect means
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    except (OSError, http.client.HTTPException) as error:
        raise RegistryUnreachable(
            f"MLflow at {without_secrets(uri)} does not answer: {error}",
            "accepted is the URI of a running MLflow server",
            "start it, or set MLFLOW_TRACKING_URI to another",
        ) from error


def _credentials(parts: urllib.parse.SplitResult) -> dict[str, str]:
    """MLflow's user and password, or its token, as its client sends them."""
    user = os.environ.get("MLFLOW_TRACKING_USERNAME") or urllib.parse.unquote(parts.username or "")
    password = os.environ.get("MLFLOW_TRACKING_PASSWORD") or urllib.parse.unquote(
        parts.password or ""
    )
    if user and password:
        said = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {said}"}
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    return {}
