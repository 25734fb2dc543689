"""What Prefect's automations are told: an alias was moved, a corpus drifted. Without importing it.

An event goes to the server that would run a flow; where there is none, nobody waits for events.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from bpeline.flows.running import settings
from bpeline.flows.running.runner import ANSWER_SECONDS, choose_runner, opener_for

if TYPE_CHECKING:
    from bpeline.registry.aliases import AliasChange

ALIAS_MOVED = "bpeline.alias.moved"
DRIFT_DETECTED = "bpeline.drift.detected"


def tell_alias_moved(change: AliasChange) -> str:
    """Tell Prefect that an alias points to another version now; nothing when it stays.

    The event is ``bpeline.alias.moved`` of the resource ``bpeline.tokenizer.NAME``, which is
    labelled with the alias; its payload says ``alias``, ``from``, ``to`` (numbers), ``reference``
    (``news/3``) and ``digest``.

    Returns:
        Why a server that is there did not take it; else empty. The alias is moved in any case.
    """
    if change.before == change.number:
        return ""
    payload = {
        "alias": change.alias,
        "from": change.before,
        "to": change.number,
        "reference": str(change.version),
        "digest": change.version.digest,
    }
    return tell(ALIAS_MOVED, change.name, payload, alias=change.alias)


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
    told = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": event,
        "resource": resource,
        "related": [],
        "payload": dict(payload),
    }
    try:
        _post(f"{api.rstrip('/')}/events", [told])
    except (OSError, ValueError) as error:
        return f"the Prefect server at {api} did not take the event {event}: {error}"
    return ""


def _post(url: str, body: Any) -> None:
    configured = settings.configured_prefect()
    headers = {"Content-Type": "application/json"}
    if configured is not None and configured.api_key:
        headers["Authorization"] = f"Bearer {configured.api_key}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with opener_for(url).open(request, timeout=ANSWER_SECONDS):
        pass
