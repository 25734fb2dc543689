"""Bounded exchanges: whose they are, how long an upload may take, and that MLflow still asks us."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from nonsense import MODES, nonsense

from bpeline.registry.tracking import MlflowTracker, TrackingSettings
from bpeline.registry.tracking.bounded_http import AnswerTooLarge, ask, bounded
from bpeline.tokenizer_core.errors import RegistryUnreachable

SLOW = {"a dripped status line", "dripped headers", "a dripped body", "no answer"}


@pytest.fixture
def slow_reader() -> Iterator[str]:
    """A server that takes what it is sent a few bytes at a time."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def read() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    while connection.recv(512) and not ended.wait(0.1):
                        pass

        thread = threading.Thread(target=read)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.night
@pytest.mark.parametrize("mode", MODES)
def test_an_exchange_ends_in_its_time_or_before(mode: str) -> None:
    begin = time.monotonic()
    with nonsense(mode) as server:
        if mode in SLOW:
            with pytest.raises(OSError, match=r"timed out|not done within"):
                ask(server.url, 1.5)
        else:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                assert len(ask(server.url, 5.0, most=1 << 20)[1]) <= 1 << 20
    assert time.monotonic() - begin < 60  # all that drips would take hours


def test_an_answer_that_is_too_large_is_refused() -> None:
    with nonsense("an endless body") as server, pytest.raises(AnswerTooLarge):
        ask(server.url, 60.0, most=1 << 20)


@pytest.mark.night
def test_mlflow_takes_our_sessions_for_our_calls_and_its_own_for_others(
    tmp_path: Path, slow_reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nonsense("an empty object") as server:
        tracker = MlflowTracker(TrackingSettings(server.url))
        assert tracker.find_versions("t", "0") == []
    from mlflow.utils import request_utils

    from bpeline.registry.tracking import bounded_sessions

    asked = (2, 1, 0.0, frozenset({503}), True, True)
    assert type(request_utils._get_request_session(*asked)).__module__ == "requests.sessions"
    with bounded():
        session = request_utils._get_request_session(*asked)
    assert isinstance(session, bounded_sessions._Session)

    large = tmp_path / "large"
    large.write_bytes(bytes(32 << 20))
    # What the kernel takes counts as sent: some megabytes, a minute at the usual pace.
    monkeypatch.setattr(bounded_sessions, "SLOWEST_FILE", 16 << 20)
    begin = time.monotonic()
    with large.open("rb") as content, pytest.raises(Exception, match=r"not done within|timed out"):
        session.put(slow_reader, data=content, timeout=1)
    assert time.monotonic() - begin < 60  # all of it would take an hour


@pytest.mark.night
def test_what_was_not_written_is_not_believed() -> None:
    with nonsense("an empty object") as server:
        tracker = MlflowTracker(TrackingSettings(server.url))
        for write in (
            lambda: tracker.ensure_identity(),
            lambda: tracker.tag_version("t", 1, {"key": "value"}),
            lambda: tracker.end_run("0", "FAILED"),
            lambda: tracker.remove_run("0"),
            lambda: tracker.withdraw_version("t", 1),
        ):
            with pytest.raises(RegistryUnreachable):
                write()
