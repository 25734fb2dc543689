"""What the Hub's library raises is told with what to do about it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bpeline.registry.hub import _hub
from bpeline.tokenizer_core.errors import LibraryFailed


def _answered(status: int) -> Exception:
    from huggingface_hub.errors import HfHubHTTPError

    response = SimpleNamespace(status_code=status, headers={}, request=None)
    return HfHubHTTPError(f"Error {status}", response=response)  # type: ignore[arg-type]


@pytest.mark.parametrize("in_download", [False, True])
@pytest.mark.parametrize(
    ("status", "next_step"),
    [
        (401, "hf auth login"),
        (403, "hf auth login"),
        (409, "correct what the message names"),
        (429, "in a few minutes"),
        (500, "in a few minutes"),
        (503, "in a few minutes"),
    ],
)
def test_what_the_hub_refuses_is_told_by_its_status(
    status: int, next_step: str, in_download: bool
) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    error = answer = _answered(status)
    if in_download:
        error = LocalEntryNotFoundError("not in the cache")
        error.__cause__ = answer
    with pytest.raises(LibraryFailed) as raised, _hub("fetching hf://acme/x"):
        raise error
    assert f"hf://acme/x failed: Error {status}" in raised.value.happened
    assert next_step in raised.value.next_step
    assert ("hf auth login" in str(raised.value)) == (status in {401, 403})


@pytest.mark.parametrize("cause", [ConnectionError("lost"), None])
def test_a_download_that_loses_its_connection_has_no_answer(cause: Exception | None) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    with (
        pytest.raises(LibraryFailed, match="fetching") as raised,
        _hub("fetching"),
    ):
        raise LocalEntryNotFoundError("not in the cache") from cause
    assert "network" in raised.value.next_step


def test_what_else_the_library_raises_is_a_failure_of_its_own() -> None:
    with pytest.raises(LibraryFailed, match="FileNotFoundError") as raised, _hub("fetching"):
        raise FileNotFoundError("of another kind")
    assert "version" in raised.value.next_step
