"""Sessions of `requests` within the bounds of `bounded_http`, for MLflow's client when we use it.

MLflow takes its sessions from one private function of its own. `bind` replaces it by one that gives
bounded sessions to those who are `bounded`, and MLflow's own to all others of the process. No other
file knows that name.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Retry

from bpeline.registry.tracking.bounded_http import (
    LARGEST_ANSWER,
    Bounded,
    Exchange,
    current_exchange,
    exchanging,
    is_bounded,
)

LARGEST_FILE = 256 << 20  # bytes
SLOWEST_FILE = 64 << 10  # bytes in a second
_SECONDS = 10.0  # where MLflow names no time-out


def bind(request_utils: Any) -> None:
    """Put a function of ours in its place in ``mlflow.utils.request_utils``; again changes nothing.

    Raises:
        AttributeError: this MLflow takes its sessions from elsewhere.
    """
    theirs = request_utils._get_request_session
    if getattr(theirs, "bounds_ours", False):
        return

    def session(*args: Any, **named: Any) -> requests.Session:
        return _session(os.getpid(), *args, **named) if is_bounded() else theirs(*args, **named)

    session.bounds_ours = True  # type: ignore[attr-defined]
    request_utils._get_request_session = session


class _Connection(Bounded, HTTPConnection):
    pass


class _SecureConnection(Bounded, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        super().init_poolmanager(*args, **named)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def proxy_manager_for(self, *args: Any, **named: Any) -> Any:
        manager = super().proxy_manager_for(*args, **named)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager


class _Retry(Retry):
    """Tries again while there is time, whatever a server says of when to come back."""

    def sleep(self, response: Any = None) -> None:
        exchange = current_exchange()
        exchange.left()
        super().sleep(response)
        exchange.left()

    def get_backoff_time(self) -> float:
        return min(super().get_backoff_time(), current_exchange().left())


class _Session(requests.Session):
    """Each request, with its tries and redirects, is one exchange; a file's may last longer."""

    def request(self, method: Any, url: Any, *args: Any, **named: Any) -> requests.Response:
        seconds = named.get("timeout") or _SECONDS
        if named.get("stream"):
            exchange = Exchange(seconds, LARGEST_FILE, SLOWEST_FILE)
        elif named.get("data") is not None:
            exchange = Exchange(seconds, LARGEST_ANSWER, SLOWEST_FILE)
        else:
            exchange = Exchange(seconds)
        with exchanging(exchange):
            answer = super().request(method, url, *args, **named)
        if answer.encoding is None:
            answer.encoding = "utf-8"  # guessing that of 64 MB takes minutes
        return answer


@lru_cache(maxsize=16)
def _session(
    _process: int,
    max_retries: int,
    backoff_factor: float,
    backoff_jitter: float,
    retry_codes: frozenset[int],
    raise_on_status: bool,
    respect_retry_after_header: bool,
) -> requests.Session:
    session = _Session()
    adapter = _Adapter(
        max_retries=_Retry(
            total=max_retries,
            backoff_factor=backoff_factor,
            backoff_jitter=backoff_jitter,
            status_forcelist=retry_codes,
            allowed_methods=None,
            raise_on_status=raise_on_status,
            respect_retry_after_header=False,  # it may say tomorrow
        )
    )
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    session.headers["Accept-Encoding"] = "identity"
    return session
