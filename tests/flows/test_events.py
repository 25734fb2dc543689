"""What Prefect is told when an alias moves; and what is done when it does not listen."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from event_server import Prefect

from bpeline.flows.running import tell

ROOT = Path(__file__).parents[2]
Command = Callable[..., Result]


@pytest.mark.night
def test_promotion_and_rollback_are_told_and_what_stays_is_not(
    corpus: Path, bpeline: Command, prefect: Prefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for size in (300, 310):
        trained = bpeline("train", corpus, "--name", "news", "--vocab-size", size)
        assert trained.exit_code == 0, trained.output
    monkeypatch.setenv("PREFECT_API_URL", prefect.url)
    for reference in ("news/1", "news/2", "news/2"):
        assert bpeline("promote", reference).exit_code == 0
    assert bpeline("rollback", "news").exit_code == 0
    moves = [(one["payload"]["from"], one["payload"]["to"]) for one in prefect.events]
    assert moves == [(None, 1), (1, 2), (2, 1)]
    event = prefect.events[1]
    assert event["event"] == "bpeline.alias.moved"
    assert event["resource"]["prefect.resource.id"] == "bpeline.tokenizer.news"
    assert event["resource"]["bpeline.alias"] == "champion"
    assert event["payload"]["alias"] == "champion"
    assert event["payload"]["reference"] == "news/2"
    assert event["id"] != prefect.events[0]["id"]


@pytest.mark.night
def test_a_server_that_takes_no_event_keeps_no_alias_from_moving(
    corpus: Path, bpeline: Command, prefect: Prefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bpeline("train", corpus, "--name", "news", "--vocab-size", 300).exit_code == 0
    monkeypatch.setenv("PREFECT_API_URL", prefect.url)
    prefect.refuses = True
    moved = bpeline("promote", "news/1")
    assert moved.exit_code == 0
    assert "news@champion" in moved.stdout
    assert "bpeline.alias.moved" in moved.stderr
    prefect.shutdown()
    assert bpeline("promote", "news/1", "--to", "staging").exit_code == 0


TELLS = "from bpeline.flows.running import tell; print(tell('news.of', 'it', {'a': 1}))"


def told_elsewhere(folder: Path, **environment: str) -> str:
    """What another process says that tells of something: it reads Prefect's settings anew."""
    command = [sys.executable, "-c", TELLS]
    own = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(folder), **environment}
    ended = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    return ended.stdout.strip()


@pytest.mark.night
def test_events_are_sent_with_the_keys_prefect_has_past_any_proxy(
    tmp_path: Path, prefect: Prefect
) -> None:
    proxy = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    password = {"PREFECT_API_URL": prefect.url, "PREFECT_API_AUTH_STRING": "ada:lovelace"}
    assert told_elsewhere(tmp_path, **password, **proxy) == ""
    profile = f'PREFECT_API_URL = "{prefect.url}"\nPREFECT_API_KEY = "pnu_1"\n'
    (tmp_path / "profiles.toml").write_text(f'active = "mine"\n[profiles.mine]\n{profile}')
    assert told_elsewhere(tmp_path) == ""
    basic = base64.b64encode(b"ada:lovelace").decode()
    assert prefect.authorized == [f"Basic {basic}", "Bearer pnu_1"]


@pytest.mark.night
def test_what_a_server_did_not_take_is_said_without_its_password(
    prefect: Prefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefect.refuses = True
    monkeypatch.setenv("PREFECT_API_URL", prefect.url.replace("//", "//ada:lovelace@"))
    said = tell("news.of", "it", {})
    assert "500" in said
    assert "news.of" in said
    assert "lovelace" not in said
    assert "\n" not in said
