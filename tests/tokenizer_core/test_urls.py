"""URLs: what is one."""

from __future__ import annotations

import pytest

from bpeline.tokenizer_core.urls import is_url


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
