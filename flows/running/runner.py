"""Who runs a flow: a Prefect server that answers, else this process. Never starts a server."""

from __future__ import annotations

import socket
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass

from bpeline.flows.running import settings
from bpeline.tokenizer_core.urls import without_secrets

CONNECT_SECONDS = 0.05  # for the server nobody configured: its absence must cost nothing
ANSWER_SECONDS = 3.0

# Whether a server that was chosen went away: Prefect's threads then try for minutes at the end of
# the process to deliver what they have left to say.
server_is_gone = False


@dataclass(frozen=True, slots=True)
class Runner:
    """Where the flow will run.

    Attributes:
        prefect_api: the API to use, or None for this process.
        remark: one line for people, when the choice is not what was configured; may be empty.
    """

    prefect_api: str | None
    remark: str = ""


def choose_runner() -> Runner:
    """A configured Prefect server, else one running at the usual place, else this process."""
    configured = settings.configured_prefect()
    if configured is not None:
        if answers(configured.api_url, configured.api_key):
            return Runner(configured.api_url)
        return Runner(
            None,
            f"the Prefect server at {without_secrets(configured.api_url)} ({configured.origin}) "
            "does not answer; running in this process",
        )
    if _listens(settings.LOCAL_SERVER) and _is_prefect(settings.LOCAL_SERVER):
        return Runner(settings.LOCAL_SERVER)
    return Runner(None)


def _listens(api_url: str) -> bool:
    address = urllib.parse.urlsplit(api_url)
    try:
        with socket.create_connection(
            (address.hostname or "", address.port or 80), timeout=CONNECT_SECONDS
        ):
            return True
    except OSError:
        return False


def answers(api_url: str, api_key: str | None = None) -> bool:
    """Whether ``/health`` answers at all: a cloud may answer it with "not found"."""
    try:
        _get(f"{api_url.rstrip('/')}/health", api_key)
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False
    return True


def _is_prefect(api_url: str) -> bool:
    """Whether what listens there speaks Prefect's API: health is ``true``, version a string."""
    try:
        return _get(f"{api_url}/health") == b"true" and _get(f"{api_url}/admin/version").startswith(
            b'"3.'
        )
    except (OSError, ValueError):
        return False


def _get(url: str, api_key: str | None = None) -> bytes:
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise ValueError(url)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    request = urllib.request.Request(url, headers=headers)
    with opener_for(url).open(request, timeout=ANSWER_SECONDS) as answer:
        content: bytes = answer.read(1024)
        return content


def opener_for(url: str) -> urllib.request.OpenerDirector:
    """What asks a server: never through a proxy when it is on this machine."""
    local = urllib.parse.urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
    return urllib.request.build_opener(*[urllib.request.ProxyHandler({})] if local else [])
