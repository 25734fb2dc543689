"""Names of files that are no local paths, and URLs as people may see them; opens neither."""

from __future__ import annotations

import os
import re

from bpeline.tokenizer_core.errors import InvalidOption

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")
# Greedy: a password may hold any sign, so everything up to the last @ is taken for it. Digits and
# a slash behind the colon are a port.
_WITH_PASSWORD = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*):(?!\d+(?:/|\s|$))\S*@")
_SECRET_MEMBER = re.compile(
    r"([?&][^=&\s]*(?:password|secret|token|signature|credential|sig(?==)|key(?==))[^=&\s]*=)[^&\s]+",
    re.IGNORECASE,
)
HIDDEN = "***"


def is_url(name: str) -> bool:
    """Whether a name has a scheme, as ``s3://bucket/file``; ``C:\\x`` and ``a:b`` have none."""
    return _URL.match(name) is not None


def without_secrets(text: str) -> str:
    """A text whose URLs show neither passwords nor signatures."""
    return _SECRET_MEMBER.sub(rf"\1{HIDDEN}", _WITH_PASSWORD.sub(rf"\1:{HIDDEN}@", text))


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
        InvalidOption: it holds a password or a signature.
    """
    shown = without_secrets(url)
    if shown != url:
        raise InvalidOption(
            f"{shown} holds a password or a signature, which would be kept with every run",
            "URLs without; credentials come from the environment or the store's own configuration",
            "for s3:// set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for others "
            "FSSPEC_FTP_PASSWORD and the like",
        )
