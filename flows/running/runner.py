"""Who runs a flow: a Prefect server that was named or is this workspace's, else this process.

Never starts a server, and never uses one because it happens to answer somewhere. Prefect is
imported only where there is a server to ask.
"""

from __future__ import annotations

import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from bpeline.flows.running import settings
from bpeline.flows.running.prefect_client import NoPrefectServer, require_prefect, talk
from bpeline.flows.running.settings import PrefectAddress
from bpeline.registry.workspace import served_prefect
from bpeline.tokenizer_core.redaction import without_secrets

CONNECT_SECONDS = 0.5  # to a port of this machine
_HERE = {"127.0.0.1", "localhost", "::1"}

# Whether a server that was chosen went away: Prefect's threads then try for minutes at the end of
# the process to deliver what they have left to say.
server_is_gone = False


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
    return PrefectAddress(api_url, "`bpeline server` of this workspace") if api_url else None


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
