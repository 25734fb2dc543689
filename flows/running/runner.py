"""Choosing a Prefect server or this process to run a flow; requests to the server.

A server is used if it is configured or belongs to this workspace. Prefect is imported only if
there is a server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from bpeline.flows.running import settings
from bpeline.flows.running.settings import PrefectAddress
from bpeline.registry.workspace import served_prefect
from bpeline.tokenizer_core.redaction import without_secrets

if TYPE_CHECKING:
    import httpx
    from prefect.client.orchestration import SyncPrefectClient

Answer = TypeVar("Answer")

TALK_SECONDS = 10.0
_LARGEST_ANSWER = 1 << 20  # bytes
_LONGEST_REASON = 200  # characters


class NoPrefectServer(Exception):
    """The server does not answer like a Prefect server; the message tells why."""


def talk(
    api_url: str, say: Callable[[SyncPrefectClient], Answer], seconds: float | None = None
) -> Answer:
    """Send requests to a Prefect server and return the result.

    Args:
        seconds: time limit, 10 if None; a third of it for each read.

    Raises:
        NoPrefectServer: no answer in time, a refusal, or an invalid answer.
    """
    seconds = seconds or TALK_SECONDS
    try:
        # Prefect reads its settings on import, so they must fit a run that may follow.
        settings.prepare_prefect(quiet_terminal=True)
        with settings.naming(api_url):
            import prefect.settings as names
            from prefect.client.orchestration import get_client
    except Exception as error:  # not installed, or its settings cannot be read
        raise NoPrefectServer(f"Prefect cannot be imported: {_first_line(error)}") from error
    password = settings.own_server(api_url).get("PREFECT_API_AUTH_STRING")
    overrides = {
        names.PREFECT_API_URL: api_url,
        **({names.PREFECT_API_AUTH_STRING: password} if password else {}),
        names.PREFECT_API_REQUEST_TIMEOUT: seconds / 3,
        names.PREFECT_CLIENT_MAX_RETRIES: 1,
    }
    bounds = {"headers": {"Accept-Encoding": "identity"}, "event_hooks": {"response": [_bound]}}
    answers: list[Answer] = []
    failures: list[Exception] = []

    def work() -> None:
        try:
            with (
                names.temporary_settings(overrides),
                get_client(bounds, sync_client=True) as client,
            ):
                answers.append(say(client))
        except Exception as error:  # of any kind: no other thread would report it
            failures.append(error)

    # A daemon thread, so that a late answer does not keep the process alive.
    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    if not failures:
        raise NoPrefectServer(f"no whole answer within {seconds:.0f} seconds")
    raise NoPrefectServer(_first_line(failures[0])) from failures[0]


def require_prefect(client: SyncPrefectClient) -> None:
    """Raise an error unless a server is Prefect 3 and accepts our credentials."""
    from prefect.client.base import ServerType

    if client.server_type == ServerType.CLOUD:
        client.request("POST", "/flows/filter", json={"limit": 1})
        return
    if client.request("GET", "/health").json() is not True:
        raise ValueError("it is no Prefect server")
    version = client.request("GET", "/admin/version").json()
    if not str(version).startswith("3."):
        raise ValueError(f"its version is {str(version)[:20]}, not 3")


def _first_line(error: Exception) -> str:
    line = without_secrets(str(error)).partition("\n")[0][:_LONGEST_REASON]
    return line or type(error).__name__


def _bound(response: httpx.Response) -> None:
    """Limit the size of a response."""
    import httpx

    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx.DecodingError("the answer is compressed, although that was not requested")

    class Bounded(httpx.SyncByteStream):
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __iter__(self) -> Iterator[bytes]:
            remaining = _LARGEST_ANSWER
            for part in self.stream:
                remaining -= len(part)
                if remaining < 0:
                    raise httpx.DecodingError(
                        f"the answer is larger than {_LARGEST_ANSWER:,} bytes"
                    )
                yield part

        def close(self) -> None:
            self.stream.close()

    response.stream = Bounded(response.stream)


CONNECT_SECONDS = 0.5  # to a port of this machine
_HERE = {"127.0.0.1", "localhost", "::1"}


class Runner(NamedTuple):
    """Where a flow runs; ``remark`` tells why a configured server is not used."""

    prefect_api: str | None
    remark: str = ""


def choose_runner() -> Runner:
    """Choose the configured server, else this workspace's server, else this process."""
    address = prefect_address()
    if address is None:
        return Runner(None)
    if reason := why_unusable(address.api_url):
        return Runner(
            None,
            f"the Prefect server at {without_secrets(address.api_url)} ({address.origin}) does not "
            f"answer: {reason}; running in this process",
        )
    return Runner(address.api_url)


def prefect_address() -> PrefectAddress | None:
    """Return the address of the configured server, else of this workspace's own."""
    named = settings.configured_prefect()
    if named is not None:
        return named
    workspace = settings.own_workspace()
    api_url = served_prefect(workspace) if workspace is not None else ""
    return PrefectAddress(api_url, "`bpeline serve` of this workspace") if api_url else None


def why_unusable(api_url: str) -> str:
    """Return why a server cannot be used, or an empty string."""
    try:
        address = urlsplit(api_url)
        host, port = address.hostname, address.port or (443 if address.scheme == "https" else 80)
    except ValueError as error:
        return f"the address is invalid ({error})"
    if address.scheme not in {"http", "https"} or not host:
        return "this is not the address of a server"
    if host in _HERE:  # no proxy: a connection shows quickly whether a server listens
        try:
            socket.create_connection((host, port), CONNECT_SECONDS).close()
        except OSError as error:
            return (error.strerror or str(error)).lower()
    try:
        talk(api_url, require_prefect)
        return ""
    except NoPrefectServer as error:
        return str(error)


def tell(event: str, name: str, payload: Mapping[str, Any], **labels: str) -> str:
    """Emit an event about a tokenizer; return why the server rejected it, else "".

    Triggers can match the resource, ``bpeline.tokenizer.NAME``, and its labels.
    """
    api = choose_runner().prefect_api
    if api is None:
        return ""
    resource = {
        "prefect.resource.id": f"bpeline.tokenizer.{name}",
        "prefect.resource.name": name,
        "bpeline.name": name,
        **{f"bpeline.{key}": value for key, value in labels.items()},
    }
    about = {"event": event, "resource": resource, "payload": dict(payload)}
    try:
        talk(api, lambda client: client.request("POST", "/events", json=[_event(about)]))
    except NoPrefectServer as error:  # the action itself has succeeded
        return f"the Prefect server at {without_secrets(api)} rejected the event {event}: {error}"
    return ""


def _event(about: Mapping[str, Any]) -> Any:
    from prefect.events import Event

    return Event(**about).model_dump(mode="json")
