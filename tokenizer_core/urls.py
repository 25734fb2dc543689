"""Classify file names and URLs, and reject URLs that contain secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from bpeline.tokenizer_core.errors import InvalidOption
from bpeline.tokenizer_core.redaction import holds_secret

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
_NAMED_URL = re.compile(r"(?:[^=/:?@]*=)?(?P<url>[a-zA-Z][a-zA-Z0-9+.-]+://.*)", re.DOTALL)


def is_url(name: str) -> bool:
    """Return whether a name has a scheme (``s3://bucket/file``); ``C:\\x`` has none."""
    return _URL.match(name) is not None


def is_in_memory(url: str) -> bool:
    """Return whether a database or store exists only in memory, such as ``sqlite://``."""
    scheme, _, rest = url.partition("://")
    path, _, query = rest.removeprefix("/").partition("?")
    if scheme.partition("+")[0] != "sqlite":
        return scheme == "memory"
    return path in ("", ":memory:", "file::memory:") or "mode=memory" in query


def sqlite_url(database: Path, mode: Literal["ro", "rw"]) -> str:
    """Return the SQLAlchemy URL of an existing SQLite file, read-only or writable."""
    # With the driver: without it, MLflow takes "file:" for a directory and creates it.
    return f"sqlite+pysqlite:///file:{quote(os.fsencode(database))}?mode={mode}&uri=true"


def absolute_name(name: str) -> str:
    """Return an absolute path, also for ``file://…``, or a URL without a password."""
    name = local_name(name)
    if not is_url(name):
        return os.path.abspath(name)
    refuse_secrets(name)
    return name


def local_name(name: str) -> str:
    """Return the path of a ``file://`` URL; other names are returned unchanged."""
    return name.removeprefix("file://")


def refuse_secrets(url: str) -> None:
    """Raise `InvalidOption` for URLs with secrets, because file names are stored.

    Chained URLs are rejected, too, because they cannot be checked.
    """
    if "::" in url:
        raise InvalidOption(
            f"{url} contains `::`, which chains URLs",
            "expected one URL without it, such as s3://bucket/data/*.txt",
            "unpack archives and name their files; write a host name instead of an IPv6 address",
        )
    if holds_secret(url):
        raise InvalidOption(
            f"{url} contains a password or signature, which would be stored with every run",
            "expected a URL without; credentials come from the environment or the store's own "
            "configuration",
            "for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for others "
            "FSSPEC_FTP_PASSWORD and the like",
        )


def refuse_secrets_in(parameters: Any) -> None:
    """Call `refuse_secrets` for every URL in nested JSON values, also in ``NAME=URL``."""
    if isinstance(parameters, str):
        match = _NAMED_URL.match(parameters)
        if match is not None:
            refuse_secrets(match["url"])
    elif isinstance(parameters, Mapping):
        refuse_secrets_in(list(parameters.values()))
    elif isinstance(parameters, list | tuple | set | frozenset):
        for value in parameters:
            refuse_secrets_in(value)
