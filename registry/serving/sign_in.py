"""Passwords, signatures and origins of requests, and sign-in pages for browsers."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from contextlib import suppress
from typing import Any

TOKEN_SECONDS = 600
# Cookies ignore ports: every server on 127.0.0.1 would receive them. Browsers are therefore
# redirected to a secret host name, stored in localStorage, which is separate for each port.
_MOVE = (
    'location.replace(location.href.replace(location.hostname, localStorage.getItem("bpeline")))'
)
REFUSED_PAGE = (
    "<p>This server asks for a password. Type `bpeline serve` in another "
    "terminal: it prints an address for browsers and variables for programs.</p>\n"
    f'<script>if (localStorage.getItem("bpeline") && !location.host.startsWith("w-")) {_MOVE}'
    "</script>\n"
)


def page_for(name: str) -> str:
    """Return a page that redirects a browser to the server's own host name."""
    return f'<script>localStorage.setItem("bpeline", "{name}"); {_MOVE}</script>'


def sign_in_token(secret: str, port: int) -> str:
    """Return a one-time sign-in token for a URL, valid for ten minutes."""
    expires, nonce = str(int(time.time()) + TOKEN_SECONDS), secrets.token_hex(8)
    return f"{expires}-{nonce}-{sign(secret, 'token', port, expires, nonce)}"


def expiry_of(token: str, secret: str, port: int) -> float:
    """Return the expiry of a `sign_in_token` as Unix time; 0 for any other text."""
    expires, _, rest = token.partition("-")
    nonce, _, signature = rest.partition("-")
    is_ours = is_equal(signature, sign(secret, "token", port, expires, nonce))
    return float(expires) if is_ours else 0.0


def holds(authorization: str, secret: str) -> bool:
    """Whether a Bearer or Basic Authorization header has the password."""
    scheme, _, value = authorization.partition(" ")
    password = value.strip() if scheme.lower() == "bearer" else ""
    if scheme.lower() == "basic":
        with suppress(ValueError):
            password = base64.b64decode(value).decode().partition(":")[2]
    return is_equal(password, secret)


def sign(secret: str, *parts: object) -> str:
    """Return a 128-bit signature of some values."""
    return hmac.new(secret.encode(), repr(parts).encode(), "sha256").hexdigest()[:32]


def is_equal(given: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def is_foreign(scope: Any, headers: dict[bytes, str], host: str) -> bool:
    """Whether a page of another site sent the request; following a link is allowed."""
    origin = headers.get(b"origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        return True
    request = headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest"), scope.get("method")
    is_same = headers.get(b"sec-fetch-site", "none") in {"none", "same-origin"}
    return not is_same and request != ("navigate", "document", "GET")
