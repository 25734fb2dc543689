"""Serve the applications of MLflow and Prefect behind the password of the workspace.

Checks, in this order: Host, Origin, public health checks, the token of a printed URL,
Authorization, the cookie, the first websocket message.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from bpeline.registry.serving import sign_in
from bpeline.registry.workspace import read_server_secret
from bpeline.tokenizer_core.bounded_files import parse_json

SECRET_VARIABLE = "BPELINE_SERVER_PASSWORD_FILE"
HOSTS_VARIABLE = "BPELINE_SERVER_HOSTS"
_LOOPBACK = {"127.0.0.1", "localhost", "[::1]"}
_PUBLIC = {"/health", "/api/health"}
_TOKEN = "token"
_FIRST_MESSAGE_SECONDS = 5.0
_POLICY_VIOLATION = 1008
_NO_REFERRER = (b"referrer-policy", b"same-origin")  # links do not reveal the host name
_JUDGED = {b"origin", b"authorization"}  # already checked; hidden from the application


class Gate:
    """Pass requests that have the workspace's password on to an ASGI application.

    Args:
        secret: the password.
        hosts: host names of this server in addition to the loopback names.
    """

    def __init__(self, application: Any, secret: str, port: int, hosts: Collection[str] = ()):
        self._application, self._secret, self._port = application, secret, port
        self._hosts = {host.lower() for host in hosts}
        self._name = f"w-{secrets.token_hex(8)}.localhost"
        start = secrets.token_hex(16)
        self._cookie = f"bpeline-{port}", sign_in.sign(secret, "cookie", port, start)
        self._used: dict[str, float] = {}  # token → expiry

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or pass it on to the application."""
        if scope["type"] not in {"http", "websocket"}:
            await self._application(scope, receive, send)
            return None
        fields = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        host = ",".join(value for name, value in fields if name == b"host").lower()
        name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
        if name not in self._hosts | _LOOPBACK and not name.endswith(".localhost"):
            return await _refuse(scope, send, 403, "This server has another name.")
        if sign_in.is_foreign(scope, dict(fields), host):
            return await _refuse(scope, send, 403, "Pages of other sites may not use this server.")
        method = scope.get("method")
        if not (method in {"GET", "HEAD"} and scope["path"] in _PUBLIC):
            query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            token = dict(query).get(_TOKEN, "")
            expiry = sign_in.expiry_of(token, self._secret, self._port)
            is_fresh = expiry > time.time() and token not in self._used
            if method == "GET" and expiry and (is_fresh or self._is_allowed(fields)):
                if name in _LOOPBACK - self._hosts:  # the printed URL
                    return await _answer(send, 200, sign_in.page_for(self._name))
                self._used = {t: end for t, end in self._used.items() if end > time.time()}
                self._used[token] = expiry
                return await self._sign_in(send, scope["path"], query)
            if not self._is_allowed(fields):
                if method is None and "prefect" in scope["subprotocols"]:
                    return await self._hear(scope, receive, send)
                return await _refuse(scope, send, 401, sign_in.REFUSED_PAGE)
        await self._application(_judged(scope), receive, _private(send))
        return None

    async def _sign_in(self, send: Any, path: str, query: list[tuple[str, str]]) -> None:
        rest = urlencode([(key, value) for key, value in query if key != _TOKEN])
        place = "/" + quote(path.lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{'='.join(self._cookie)}; HttpOnly; SameSite=Lax; Path=/"
        headers = (b"location", place.encode()), (b"set-cookie", cookie.encode())
        await _answer(send, 303, "", headers)

    def _is_allowed(self, fields: Iterable[tuple[bytes, str]]) -> bool:
        for name, value in fields:
            if name == b"authorization" and sign_in.holds(value, self._secret):
                return True
            pairs = value.split(";") if name == b"cookie" else ()
            cookies = {
                key.strip(): text for key, _, text in (cookie.partition("=") for cookie in pairs)
            }
            if sign_in.is_equal(cookies.get(self._cookie[0], ""), self._cookie[1]):
                return True
        return False

    async def _hear(self, scope: Any, receive: Any, send: Any) -> None:
        """Check the password in the first websocket message of a Prefect client."""
        messages = [await receive()]
        await send({"type": "websocket.accept", "subprotocol": "prefect"})
        password = ""
        with suppress(TimeoutError, ValueError, TypeError, AttributeError):
            messages.append(await asyncio.wait_for(receive(), _FIRST_MESSAGE_SECONDS))
            content = parse_json(messages[-1].get("text"))
            password = str(content.get("token")).rpartition(":")[2]
        if not sign_in.is_equal(password, self._secret):
            if messages[-1]["type"] != "websocket.disconnect":
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return

        async def receive_again() -> Any:
            return messages.pop(0) if messages else await receive()

        async def send_accepted(message: Any) -> None:
            if message["type"] != "websocket.accept":
                await send(message)

        await self._application(_judged(scope), receive_again, send_accepted)


def is_gated() -> bool:
    """Whether this server requires a password."""
    return bool(os.environ.get(SECRET_VARIABLE))


def serve_application(application: Any, host: str, port: int) -> None:
    """Serve an ASGI application until the process ends.

    ``BPELINE_SERVER_PASSWORD_FILE`` names the password file; without it, no password is required.
    """
    import uvicorn

    if is_gated():
        secret = read_server_secret(Path(os.environ[SECRET_VARIABLE]))
        hosts = os.environ.get(HOSTS_VARIABLE, "").split(",")
        application = Gate(
            application, secret, port, [name.strip() for name in hosts if name.strip()]
        )
    uvicorn.run(application, host=host, port=port, log_level="critical")


def _judged(scope: Any) -> Any:
    return {
        **scope,
        "headers": [header for header in scope["headers"] if header[0].lower() not in _JUDGED],
    }


def _private(send: Any) -> Any:
    async def send_private(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), _NO_REFERRER]}
        await send(message)

    return send_private


async def _refuse(scope: Any, send: Any, status: int, page: str) -> None:
    if scope["type"] == "websocket":  # closed before it is accepted: the handshake gets a 403
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
    else:
        await _answer(
            send, status, page, [(b"www-authenticate", b"Bearer")] if status == 401 else ()
        )


async def _answer(
    send: Any, status: int, page: str, more: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    usual = [(b"content-type", b"text/html; charset=utf-8"), (b"cache-control", b"no-store")]
    headers = [*usual, _NO_REFERRER, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": page.encode()})
