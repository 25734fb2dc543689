"""Names of files that are no local paths, and which of them are not to be kept; opens none."""

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
    """Whether a name has a scheme, as ``s3://bucket/file``; ``C:\\x`` and ``a:b`` have none."""
    return _URL.match(name) is not None


def is_in_memory(url: str) -> bool:
    """Whether what is written to a database or store ends with the process: ``sqlite://``."""
    scheme, _, rest = url.partition("://")
    path, _, query = rest.removeprefix("/").partition("?")
    if scheme.partition("+")[0] != "sqlite":
        return scheme == "memory"
    return path in ("", ":memory:", "file::memory:") or "mode=memory" in query


def sqlite_url(database: Path, mode: Literal["ro", "rw"]) -> str:
    """The URL of a SQLite file that is there, for SQLAlchemy: to read it, or to write, too."""
    # With its driver: of a URL without, MLflow takes "file:" for a directory and makes it.
    return f"sqlite+pysqlite:///file:{quote(os.fsencode(database))}?mode={mode}&uri=true"


def absolute_name(name: str) -> str:
    """A path made absolute, also one that is spelt ``file://…``; other URLs are that already.

    Raises:
        InvalidOption: the URL holds a password.
    """
    name = local_name(name)
    if not is_url(name):
        return os.path.abspath(name)
    refuse_secrets(name)
    return name


def local_name(name: str) -> str:
    """The path of a ``file://`` URL; any other name as it is."""
    return name.removeprefix("file://")


def refuse_secrets(url: str) -> None:
    """Refuse a URL that should not be kept: names of files go into records, reports and MLflow.

    Raises:
        InvalidOption: it holds a password or a signature, or it chains URLs, so that this is not
            known.
    """
    if "::" in url:
        raise InvalidOption(
            f"{url} holds `::`, which chains URLs",
            "one URL without it, such as s3://bucket/data/*.txt",
            "unpack an archive and name its files; write a host's name instead of its IPv6 address",
        )
    if holds_secret(url):
        raise InvalidOption(
            f"{url} holds a password or a signature, which would be kept with every run",
            "URLs without; credentials come from the environment or the store's own configuration",
            "for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for others "
            "FSSPEC_FTP_PASSWORD and the like",
        )


def refuse_secrets_in(parameters: Any) -> None:
    """Refuse what a server would keep with its runs: addresses with secrets, however deep they lie.

    Args:
        parameters: JSON values; ``NAME=URL`` is looked at, too.

    Raises:
        InvalidOption: as `refuse_secrets`.
    """
    if isinstance(parameters, str):
        found = _NAMED_URL.match(parameters)
        if found is not None:
            refuse_secrets(found["url"])
    elif isinstance(parameters, Mapping):
        refuse_secrets_in(list(parameters.values()))
    elif isinstance(parameters, list | tuple | set | frozenset):
        for one in parameters:
            refuse_secrets_in(one)
