"""What Prefect's automations are told of tokenizers; who tells what is said where it happens.

An event goes to the server that would run a flow, by Prefect's own client, which knows its keys and
certificates; where there is no server, nobody waits for events and Prefect is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpeline.flows.running.prefect_client import NoPrefectServer, talk
from bpeline.flows.running.runner import choose_runner
from bpeline.tokenizer_core.redaction import without_secrets


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
