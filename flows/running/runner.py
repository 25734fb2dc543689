"""Who runs a flow: a Prefect server that answers, else this process. Never starts a server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from bpeline.flows.running import settings
from bpeline.tokenizer_core.redaction import without_secrets

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 0.05  # for the server nobody configured: its absence must cost nothing
ANSWER_SECONDS = 3.0

# Whether a server that was chosen went away: Prefect's threads then try for minutes at the end of
# the process to deliver what they have left to say.
server_is_gone = False


class Runner(NamedTuple):
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
    if configured is None:
        return Runner(settings.LOCAL_SERVER if _runs_at_the_usual_place() else None)
    if answers(configured.api_url):
        return Runner(configured.api_url)
    return Runner(
        None,
        f"the Prefect server at {without_secrets(configured.api_url)} ({configured.origin}) "
        "does not answer; running in this process",
    )


def answers(url: str) -> bool:
    """Whether ``/health`` below it answers at all: a cloud may answer it with "not found"."""
    answer = _get(f"{url.rstrip('/')}/health")
    return answer is not None and answer.status_code < 500


def _runs_at_the_usual_place() -> bool:
    """Whether what listens there, if anything does, speaks the API of Prefect 3."""
    address = urlsplit(settings.LOCAL_SERVER)
    try:
        socket.create_connection((address.hostname, address.port), CONNECT_SECONDS).close()
    except OSError:
        return False
    answer = _get(f"{settings.LOCAL_SERVER}/admin/version")
    return answer is not None and answer.is_success and answer.text.startswith('"3.')


def _get(url: str) -> httpx.Response | None:
    """What a server answers, never asked through a proxy when it is on this machine."""
    import ssl

    import httpx

    try:
        proxied = httpx.URL(url).host not in {"127.0.0.1", "localhost", "::1"}
        # The system's certificates: a company's own authority is found there.
        trusted = ssl.create_default_context()
        return httpx.get(url, timeout=ANSWER_SECONDS, trust_env=proxied, verify=trusted)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):
        return None
