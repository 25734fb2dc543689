"""What is said to a Prefect server by Prefect's own client: within seconds, or not at all.

The client knows keys, passwords, profiles, certificates and proxies. Its time-outs are for each
read; here a whole talk has one, and no answer may be large. Prefect is imported when it is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from bpeline.flows.running import settings
from bpeline.tokenizer_core.redaction import without_secrets

if TYPE_CHECKING:
    import httpx
    from prefect.client.orchestration import SyncPrefectClient

Answer = TypeVar("Answer")

TALK_SECONDS = 10.0
ANSWER_SECONDS = 3.0  # for each read
_LARGEST_ANSWER = 1 << 20  # bytes
_LONGEST_REASON = 200  # characters


class NoPrefectServer(Exception):
    """What is there does not answer as a Prefect server does; its text says how."""


def talk(api_url: str, say: Callable[[SyncPrefectClient], Answer]) -> Answer:
    """Say something to a server and hear its answer.

    Args:
        api_url: its API.
        say: gets a client.

    Raises:
        NoPrefectServer: it does not answer in time, refuses, or answers nonsense.
    """
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
        names.PREFECT_API_REQUEST_TIMEOUT: ANSWER_SECONDS,
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
    thread.join(TALK_SECONDS)
    if answers:
        return answers[0]
    if not failures:
        raise NoPrefectServer(f"no whole answer within {TALK_SECONDS:.0f} seconds")
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
