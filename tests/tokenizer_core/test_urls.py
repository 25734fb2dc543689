"""URLs: what is one, and that nobody sees a password in it."""

from __future__ import annotations

import pytest

from bpeline.tokenizer_core.urls import is_url, without_secrets


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s3://bucket/a*.txt", True),
        ("memory://a", True),
        ("file:///a/b", True),
        ("postgresql+psycopg://u@h/d", True),
        ("/a/b", False),
        ("a:b", False),
        ("C://x", False),
        ("dir/s3://x", False),
        ("english=s3://x", False),
        ("", False),
    ],
)
def test_a_url_has_a_scheme(name: str, expected: bool) -> None:
    assert is_url(name) is expected


@pytest.mark.parametrize(
    "text",
    [
        "postgresql+psycopg://user:hunter2@host:5432/name",
        "at https://user:hunter2@host, or elsewhere",
        "ftp://user:with/slash-hunter2@host/a",
        "postgresql://user:has@sign-hunter2@host/a",
        "postgresql://:hunter2@host/a",
        "postgresql://host/name?user=u&password=hunter2",
        "postgresql://host/name?sslpassword=hunter2&user=u",
        "https://host/a?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
        "https://host/a?sig=hunter2",
    ],
)
def test_secrets_are_hidden(text: str) -> None:
    shown = without_secrets(text)
    assert "hunter2" not in shown
    assert "***" in shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/keys/a*.txt",
        "http://127.0.0.1:5000/#/models/news@champion and mail@example.org",
        "https://user@host/a?versionId=3&keys=2",
        "/home/user:name@host",
        "sqlite:////a/b.sqlite",
    ],
)
def test_everything_else_stays(text: str) -> None:
    assert without_secrets(text) == text
