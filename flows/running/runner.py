"""The Prefect server that runs a flow, or this process; requests and events for that server.

A server is used where it was named or is this workspace's own. Prefect is imported only where there
is a server to ask.
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
    """What is there does not answer as a Prefect server does; its text says how."""


def talk(
    api_url: str, say: Callable[[SyncPrefectClient], Answer], seconds: float | None = None
) -> Answer:
    """Say something to a server and hear its answer.

    Args:
        api_url: its API.
        say: gets a client.
        seconds: for all of it, 10 when None; each read has a third.

    Raises:
        NoPrefectServer: it does not answer in time, refuses, or answers nonsense.
    """
    seconds = seconds or TALK_SECONDS
    try:
        # Prefect reads its settings while it is imported: those of a run that may follow.
        settings.prepare_prefect(quiet_terminal=True)
        with settings.naming(api_url):
            import prefect.settings as names
            from prefect.client.orchestration import get_client
    except Exception as error:  # it is not installed, or cannot read its own settings
        raise NoPrefectServer(f"Prefect cannot be imported: {_first_line(error)}") from error
    password = settings.own_server(api_url).get("PREFECT_API_AUTH_STRING")
    here = {
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
            with names.temporary_settings(here), get_client(bounds, sync_client=True) as client:
                answers.append(say(client))
        except Exception as error:  # whatever it is: nobody but this thread would see it
            failures.append(error)

    # A thread that outlives its time is left to itself; it cannot hold the process up.
    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    if not failures:
        raise NoPrefectServer(f"no whole answer within {seconds:.0f} seconds")
    raise NoPrefectServer(_first_line(failures[0])) from failures[0]


def require_prefect(client: SyncPrefectClient) -> None:
    """See that a server is Prefect's, of version 3, and takes what we show it.

    Raises:
        Exception: it is not, or does not.
    """
    from prefect.client.base import ServerType

    if client.server_type == ServerType.CLOUD:
        client.request("POST", "/flows/filter", json={"limit": 1})
        return
    if client.request("GET", "/health").json() is not True:
        raise ValueError("what answers is no Prefect server")
    version = client.request("GET", "/admin/version").json()
    if not str(version).startswith("3."):
        raise ValueError(f"its version is {str(version)[:20]}, not 3")


def _first_line(error: Exception) -> str:
    said = without_secrets(str(error)).partition("\n")[0][:_LONGEST_REASON]
    return said or type(error).__name__


def _bound(response: httpx.Response) -> None:
    """Let nobody read more of an answer than is accepted."""
    import httpx

    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise httpx.DecodingError("the answer is compressed, which nobody asked for")

    class Bounded(httpx.SyncByteStream):
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __iter__(self) -> Iterator[bytes]:
            left = _LARGEST_ANSWER
            for part in self.stream:
                left -= len(part)
                if left < 0:
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
    """Where the flow will run.

    Attributes:
        prefect_api: the API to use, or None for this process.
        remark: one line for people, when the choice is not what was named; may be empty.
    """

    prefect_api: str | None
    remark: str = ""


def choose_runner() -> Runner:
    """A Prefect server that was named or serves this workspace and answers, else this process."""
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
    """Of the server that was named, else of this workspace's own while it runs."""
    named = settings.configured_prefect()
    if named is not None:
        return named
    workspace = settings.own_workspace()
    api_url = served_prefect(workspace) if workspace is not None else ""
    return PrefectAddress(api_url, "`bpeline serve` of this workspace") if api_url else None


def why_unusable(api_url: str) -> str:
    """Why a server is none that can be used; empty when it can."""
    try:
        address = urlsplit(api_url)
        host, port = address.hostname, address.port or (443 if address.scheme == "https" else 80)
    except ValueError as error:
        return f"that is no address ({error})"
    if address.scheme not in {"http", "https"} or not host:
        return "that is no address of a server"
    if host in _HERE:  # without a proxy; whether anybody listens is known before Prefect is there
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
    """Send an event about the tokenizer ``name``.

    Args:
        event: what happened.
        name: the tokenizer's; the resource is ``bpeline.tokenizer.NAME``.
        payload: JSON values.
        labels: of the resource, which triggers can match: ``alias`` becomes ``bpeline.alias``.

    Returns:
        Why a server that is there did not take it; else empty.
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
    except NoPrefectServer as error:  # what the event tells of has been done
        return (
            f"the Prefect server at {without_secrets(api)} did not take the event {event}: {error}"
        )
    return ""


def _event(about: Mapping[str, Any]) -> Any:
    from prefect.events import Event

    return Event(**about).model_dump(mode="json")
