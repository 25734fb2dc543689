"""What Prefect's automations are told of tokenizers; who tells what is said where it happens.

An event goes to the server that would run a flow, by Prefect's own client, which knows its keys and
certificates; where there is no server, nobody waits for events and Prefect is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bpeline.flows.running import settings
from bpeline.flows.running.runner import ANSWER_SECONDS, choose_runner
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
    try:
        settings.prepare_prefect()
        from prefect.client.orchestration import get_client
        from prefect.events import Event
        from prefect.settings import (
            PREFECT_API_REQUEST_TIMEOUT,
            PREFECT_API_URL,
            PREFECT_CLIENT_MAX_RETRIES,
            temporary_settings,
        )

        told = Event(event=event, resource=resource, payload=dict(payload)).model_dump(mode="json")
        here = {
            PREFECT_API_URL: api,
            PREFECT_API_REQUEST_TIMEOUT: ANSWER_SECONDS,
            PREFECT_CLIENT_MAX_RETRIES: 1,
        }
        with temporary_settings(here), get_client(sync_client=True) as client:
            client.request("POST", "/events", json=[told])
    except Exception as error:  # whatever it is: what the event tells of has been done
        reason = str(error).partition("\n")[0] or type(error).__name__
        said = f"the Prefect server at {api} did not take the event {event}: {reason}"
        return without_secrets(said)
    return ""
