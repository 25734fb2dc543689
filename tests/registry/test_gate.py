"""Who reaches a server of a workspace: everything is tried without the password, and with it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from browser import browsing, installed_browser
from loopback import free_ports, listens, waiting_for
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from bpeline.registry.serving import Gate, gate, sign_in, sign_in_token
from bpeline.registry.workspace import make_server_secret, read_server_secret
from bpeline.tokenizer_core.errors import StorageError

SECRET, PORT = "5ec2e7" * 10, 5000
BASE = f"http://127.0.0.1:{PORT}"
BASIC = base64.b64encode(f"anybody:{SECRET}".encode()).decode()
ROOT = Path(__file__).parents[2]


async def page(request: Request) -> JSONResponse:
    """Answers with what it was asked."""
    return JSONResponse({"path": str(request.url), "headers": dict(request.headers)})


async def talk(socket: WebSocket) -> None:
    """Says what it hears first, as Prefect's server does."""
    await socket.accept(subprotocol="prefect")
    await socket.send_text(await socket.receive_text())
    await socket.close()


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
APPLICATION = Starlette(
    routes=[WebSocketRoute("/socket", talk), Route("/{path:path}", page, methods=METHODS)]
)


def client(base: str = BASE, port: int = PORT, **more: Any) -> TestClient:
    """A browser without cookies before a server of its own."""
    return TestClient(Gate(APPLICATION, SECRET, port, **more), base, follow_redirects=False)


def passes(method: str, path: str, headers: dict[str, str], *protocols: str) -> bool:
    """Whether a request reaches the application; where it does not, it is refused."""
    is_socket = method == "SOCKET"
    sent: list[Any] = []
    reached: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def send(message: Any) -> None:
        sent.append(message.get("status") or message.get("code"))

    every = {"Host": "127.0.0.1:5000", **headers}
    scope = {
        "type": "websocket" if is_socket else "http", "path": path, "query_string": b"",
        "headers": [(key.lower().encode(), value.encode()) for key, value in every.items()],
        "subprotocols": protocols, **({} if is_socket else {"method": method}),
    }  # fmt: skip
    with suppress(StopIteration):  # nobody is waited for
        Gate(application, SECRET, PORT)(scope, None, send).send(None)
    assert reached == [path] or sent[0] in {401, 403, 1008}
    return bool(reached)


FOREIGN: list[dict[str, str]] = [
    {"Host": "evil.example"},
    {"Host": "evil.example:5000"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:8000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
]
REFUSED: list[dict[str, str]] = [
    {},
    {"Host": "localhost:1234"},
    {"Host": "[::1]:5000"},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer wrong"},
    {"Authorization": f"Digest {SECRET}"},
    {"Authorization": f"Basic {SECRET}"},
    {"Cookie": f"bpeline-5000={SECRET}"},
    {"Cookie": "bpeline-5000="},
]
PASSING: list[dict[str, str]] = [
    {"Authorization": f"Bearer {SECRET}"},
    {"Authorization": f"Basic {BASIC}"},
    {"Authorization": f"bearer {SECRET}", "Host": "localhost:9", "Origin": "http://localhost:9"},
    {"Authorization": f"Bearer {SECRET}", "Sec-Fetch-Site": "same-origin"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("path", ["/", "/health", "/api/flows/"])
def test_other_sites_are_refused_with_the_password_too(headers: dict[str, str], path: str) -> None:
    for method in ("GET", "POST", "SOCKET"):
        assert not passes(method, path, {**PASSING[0], **headers}, "prefect")


@pytest.mark.parametrize("headers", REFUSED, ids=str)
def test_without_the_password_only_health_is_public(headers: dict[str, str]) -> None:
    for method in (*METHODS, "SOCKET"):
        for path in ("/", "/docs", "/api/flows/", "//health", "/health/", "/api/health/../flows"):
            assert not passes(method, path, headers)
        for path in ("/health", "/api/health"):
            assert passes(method, path, headers) is (method in {"GET", "HEAD"})


@pytest.mark.parametrize("headers", PASSING, ids=lambda one: " ".join(one))
def test_the_password_passes_and_goes_no_further(headers: dict[str, str]) -> None:
    answer = client().get("/a?b=c", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert not {"authorization", "origin"} & answer.json()["headers"].keys()


def test_a_name_of_a_setting_is_this_server_s() -> None:
    named = client("https://tokenizers.example", hosts=["Tokenizers.example"])
    assert named.get("/", headers=PASSING[0]).status_code == 200
    assert named.get(f"/?token={sign_in_token(SECRET, PORT)}").status_code == 303
    plain = client("http://localhost:5000", hosts=["localhost"])  # where w-….localhost is unknown
    assert plain.get(f"/?token={sign_in_token(SECRET, PORT)}").status_code == 303


LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_a_printed_address_lets_a_browser_in_once() -> None:
    browser = client()
    token = sign_in_token(SECRET, PORT)
    # As it is printed, or through a tunnel: the browser is sent to a name of its own.
    for base in (BASE, "http://localhost:9999"):
        moved = browser.get(f"{base}/deployments?token={token}", headers=LINK)
        assert moved.status_code == 200
        assert not moved.cookies
    (name,) = re.findall(r"w-[0-9a-f]{16}\.localhost", moved.text)
    address = f"http://{name}:9999/deployments?a=b%20c&token={token}"
    entered = browser.get(address, headers=LINK)
    assert (entered.status_code, entered.headers["Location"]) == (303, "/deployments?a=b+c")
    assert re.fullmatch(
        "bpeline-5000=[0-9a-f]{32}; HttpOnly; SameSite=Lax; Path=/", entered.headers["Set-Cookie"]
    )
    assert SECRET not in entered.headers["Set-Cookie"]
    own = f"http://{name}:9999/"
    assert browser.get(own).status_code == 200
    assert browser.get(own, headers={"Origin": own[:-1]}).status_code == 200
    assert browser.get(BASE).status_code == 401, "the cookie is not for every server of 127.0.0.1"
    # Once more in the same browser: the token leaves the address again. In another: refused.
    assert browser.get(address).headers["Location"] == "/deployments?a=b+c"
    browser.cookies.clear()
    assert browser.get(address).status_code == 401


def test_a_cookie_ends_with_its_server() -> None:
    own = "http://w-1.localhost:5000"
    cookie = client(own).get(f"/?token={sign_in_token(SECRET, PORT)}").headers["Set-Cookie"]
    headers = {"Cookie": cookie.partition(";")[0]}
    assert client(own).get("/", headers=headers).status_code == 401


@pytest.mark.parametrize("kind", ["expired", "other port", "other secret", "torn", "no number"])
def test_other_tokens_let_nobody_in(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token = sign_in_token(SECRET, PORT)
    if kind == "expired":
        later = time.time() + sign_in.TOKEN_SECONDS + 1
        monkeypatch.setattr(time, "time", lambda: later)
    elif kind == "other port":
        token = sign_in_token(SECRET, PORT + 1)
    elif kind == "other secret":
        token = sign_in_token(SECRET[1:], PORT)
    else:
        token = token[:-1] if kind == "torn" else "a-b-c"
    for base in (BASE, "http://w-1.localhost:5000"):
        answer = client(base).get(f"/?token={token}")
        assert answer.status_code == 401
        assert "w-1" not in answer.text


def test_a_printed_address_leads_to_no_other_site() -> None:
    base = "http://w-1.localhost:5000"
    address = f"{base}//evil.example/a%0d?token={sign_in_token(SECRET, PORT)}"
    assert client(base).get(address).headers["Location"] == "/evil.example/a%0D"


# ---- websockets -----------------------------------------------------------------------------


def hears(first: str | None, **headers: str) -> Any:
    """What the application says back to a first message; the code with which it is closed."""
    address = f"ws://127.0.0.1:{PORT}/socket"
    try:
        with client().websocket_connect(address, ["prefect"], headers=headers) as socket:
            if first is not None:
                socket.send_text(first)
            return socket.receive_text()
    except WebSocketDisconnect as closed:
        return closed.code


def test_prefect_s_clients_say_the_password_in_their_first_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = json.dumps({"type": "auth", "token": f"bpeline:{SECRET}"})
    assert hears(right) == right
    assert hears("a", **PASSING[0]) == "a", "said in the handshake already"
    for wrong in ("", "null", "[" * 100_000, '{"token": null}', '{"token": "bpeline:"}', right[1:]):
        assert hears(wrong) == 1008
    monkeypatch.setattr(gate, "_FIRST_MESSAGE_SECONDS", 0.01)
    assert hears(None) == 1008, "one that says nothing"


def test_a_hundred_silent_sockets_reach_nothing_and_hold_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached: list[str] = []
    said: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    async def send(message: Any) -> None:
        said.append(message.get("code", message["type"]))

    async def meanwhile() -> None:
        guarded = Gate(application, SECRET, PORT)
        host = (b"host", b"127.0.0.1:5000")
        socket = {"type": "websocket", "path": "/api/events/in", "query_string": b"",
                  "headers": [host], "subprotocols": ["prefect"]}  # fmt: skip
        request = {**socket, "type": "http", "method": "GET",
                   "headers": [host, (b"authorization", f"Bearer {SECRET}".encode())]}  # fmt: skip
        opened = []
        for _ in range(100):
            messages: asyncio.Queue[Any] = asyncio.Queue()
            messages.put_nowait({"type": "websocket.connect"})
            opened.append(asyncio.create_task(guarded(socket, messages.get, send)))
        while said.count("websocket.accept") < 100:
            await asyncio.sleep(0)
        await guarded(request, None, send)
        assert (reached, said.count(1008)) == (["http"], 0)
        await asyncio.gather(*opened)

    monkeypatch.setattr(gate, "_FIRST_MESSAGE_SECONDS", 0.5)
    asyncio.run(meanwhile())
    assert (reached, said.count(1008)) == (["http"], 100)


# ---- every route of both servers ------------------------------------------------------------

ROUTES = """
import json
from mlflow.server import app as flask
from mlflow.server.fastapi_app import app as fastapi
from prefect.server.api.server import API_ROUTERS, create_app
prefect = create_app()
found = [(method, rule.rule) for rule in flask.url_map.iter_rules() for method in rule.methods]
for app in (fastapi, prefect):
    paths = app.openapi()["paths"]
    found += [(method.upper(), path) for path in paths for method in paths[path]]
    found += [("GET", getattr(route, "path", "/")) for route in app.routes]
for router in API_ROUTERS:  # websockets, too, which OpenAPI leaves out
    for route in router.routes:
        found += [(m, "/api" + route.path) for m in getattr(route, "methods", None) or ["SOCKET"]]
print(json.dumps(sorted(set(found))))
"""


@pytest.mark.night
def test_every_route_of_both_servers_is_closed(tmp_path: Path) -> None:
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", ROUTES]
    listed = subprocess.run(
        program, env=environment, capture_output=True, check=True, cwd=tmp_path
    ).stdout  # fmt: skip
    routes = json.loads(listed.splitlines()[-1])
    requests = [(method, re.sub("[<>{}:]", "", path)) for method, path in routes]
    assert len(requests) > 900
    assert sum(method == "SOCKET" for method, _ in requests) == 5
    public = {("GET", "/health"), ("HEAD", "/health"), ("GET", "/api/health")}
    for method, path in requests:
        is_public = (method, path) in public
        assert passes(method, path, {}) is is_public, (method, path)
        for foreign in FOREIGN[0], FOREIGN[4]:
            assert not passes(method, path, {**PASSING[0], **foreign}), (method, path, foreign)
        assert passes(method, path, PASSING[0]), (method, path)


# ---- the file of the password ---------------------------------------------------------------


def test_the_password_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "server-password"
    umask = os.umask(0)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = set(pool.map(lambda _: make_server_secret(path), range(8)))
    finally:
        os.umask(umask)
    assert made == {read_server_secret(path)}
    assert re.fullmatch("[0-9a-f]{64}", *made)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("fault", ["mode", "owner", "link", "pipe", "directory", "short"])
def test_a_password_that_others_could_have_written_is_refused(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "server-password"
    make_server_secret(path)
    if fault == "mode":
        path.chmod(0o640)
    elif fault == "owner":
        if os.geteuid():
            pytest.skip("only root can give files away")
        os.chown(path, 65534, -1)
    elif fault == "short":
        path.write_text("easy\n")
    else:
        aside = path.rename(tmp_path / "aside")
        make = {"link": lambda: path.symlink_to(aside), "pipe": lambda: os.mkfifo(path, 0o600)}
        make.get(fault, path.mkdir)()
    with pytest.raises(StorageError, match=str(path)):
        make_server_secret(path)


# ---- a real browser -------------------------------------------------------------------------

BROWSER = installed_browser()


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Of a server behind the gate and of another one, which anybody may run."""
    ports = free_ports(2)
    applications = Gate(APPLICATION, SECRET, ports[0]), APPLICATION
    servers = [
        uvicorn.Server(uvicorn.Config(application, port=port, log_level="critical"))
        for application, port in zip(applications, ports, strict=True)
    ]
    threads = [threading.Thread(target=one.run) for one in servers]
    for thread in threads:
        thread.start()
    waiting_for("servers", lambda: all(map(listens, ports)), 30)
    yield ports
    for server in servers:
        server.should_exit = True
    for thread in threads:
        thread.join()


@pytest.mark.night
@pytest.mark.skipif(BROWSER is None, reason="no browser of the Chromium family is installed")
def test_another_server_receives_nothing_that_opens_this_one(
    ports: list[int], tmp_path: Path
) -> None:
    assert BROWSER is not None
    ours, theirs = ports
    with browsing(BROWSER, tmp_path / "profile") as browser:
        browser.shows(f"http://127.0.0.1:{ours}/", "asks for a password")
        browser.shows(
            f"http://127.0.0.1:{ours}/a?token={sign_in_token(SECRET, ours)}", ".localhost"
        )
        name = browser.run("location.hostname")
        assert browser.run("location.href") == f"http://{name}:{ours}/a"
        assert browser.run("document.cookie") == ""
        assert f"{name}:{ours}/b" in browser.shows(f"http://127.0.0.1:{ours}/b#c", "/b")
        for host in ("127.0.0.1", "localhost"):
            received = browser.shows(f"http://{host}:{theirs}/", '"headers"')
            assert "bpeline" not in received
            assert name not in received
        script = f"fetch('http://127.0.0.1:{ours}/', {{mode: 'no-cors'}}).then(a => a.type)"
        assert browser.run(script) == "opaque"
        script = f"fetch('http://127.0.0.1:{ours}/').then(a => a.text(), String)"
        assert "TypeError" in browser.run(script), "pages of other servers read nothing"
