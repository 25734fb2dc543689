"""Aliases move when somebody said so: what trainings, extensions and plans do to them, and say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from bpeline.flows.publishing.promotion import Promotion
from bpeline.registry.opening import open_registry

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
RULES = """
gain = 0
[[rule]]
metric = "vocabulary/unreachable_tokens"
direction = "lower"
limit = 100000
"""
TRAIN = ("train", "corpus", "--name", "news", "--vocab-size")


def aliases() -> dict[str, int]:
    return open_registry().tracker.aliases("news")["news"]


def done(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def rules(corpus: Path, tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "rules.toml").write_text(RULES, encoding="utf-8")
    return ("--rules", "rules.toml")


@pytest.mark.night
def test_a_training_that_makes_a_registered_version_moves_nothing(
    rules: tuple[str, str], bpeline: Command
) -> None:
    for size in (400, 420):
        done(bpeline(*TRAIN, size, *rules, "--json"))
    assert aliases() == {"candidate": 2, "champion": 2}
    planned = done(bpeline(*TRAIN, 400, *rules, "--dry-run", "--json"))
    assert "news/1" in planned["aliases"]
    assert "stay" in planned["aliases"]
    again = bpeline(*TRAIN, 400, *rules)
    assert again.exit_code == 0, again.output
    assert aliases() == {"candidate": 2, "champion": 2}, "neither goes back"
    said = " ".join(again.output.split())
    assert "news/1" in said
    assert re.search(r"\bchampion \S+ at news/2\b", said)
    assert re.search(r"\bcandidate \S+ at news/2\b", said)
    assert "bpeline encode news/1" in said, "what is to be tried is what was trained"
    champion = json.loads(bpeline("show", "news", "--alias", "champion", "--json").stdout)
    assert len(champion) == 2, "nothing was moved, and nothing refused"
    assert bpeline("promote", "news/1").exit_code == 0
    assert aliases()["champion"] == 1, "a person goes back"


@pytest.mark.night
def test_an_extension_asks_no_rules_that_were_its_bases(
    rules: tuple[str, str], bpeline: Command
) -> None:
    without = done(bpeline(*TRAIN, 400, "--dry-run", "--json"))["aliases"]
    planned = done(bpeline(*TRAIN, 400, *rules, "--dry-run", "--json"))["aliases"]
    assert "champion" in without
    assert "champion" in planned
    assert planned != without
    assert planned in bpeline(*TRAIN, 400, *rules, "--dry-run").output
    done(bpeline(*TRAIN, 400, *rules, "--json"))
    extended = done(bpeline("derive", "extend", "news/1", "--vocab-size", 420, "--json"))
    assert extended["promotion"] is None
    assert aliases() == {"candidate": 2, "champion": 1}
    extended = done(bpeline("derive", "extend", "news/1", "--vocab-size", 430, *rules, "--json"))
    assert extended["promotion"]["refusal"] == ""
    assert aliases() == {"candidate": 3, "champion": 3}


@pytest.mark.night
def test_a_locked_alias_moves_by_force_alone(rules: tuple[str, str], bpeline: Command) -> None:
    def refused(*typed: Any) -> str:
        ended = bpeline(*typed)
        assert ended.exit_code == 3, ended.output
        assert aliases()["champion"] == place
        return " ".join(ended.output.split())

    place = 1
    done(bpeline(*TRAIN, 400, "--json"))
    locked = done(bpeline("promote", "news/1", "--lock", "--reason", "model 7", "--json"))
    assert locked["locked"]
    assert "model 7" in open_registry().tracker.model_tags("news")["news"]["locked.champion"]
    assert re.search(r"news@champion\b.*\bmodel 7", refused(*TRAIN, 420, *rules))
    assert aliases()["candidate"] == 2, "another alias"
    for typed in (
        ("promote", "news/2"),
        ("promote", "news/2", *rules),
        ("promote", "news/2", "--lock"),
    ):
        assert "model 7" in refused(*typed)
    assert "model 7" in bpeline("show", "news", "--alias", "champion").stdout
    place = 2
    done(bpeline("promote", "news/2", "--force", "--json"))
    assert "locked.champion" not in open_registry().tracker.model_tags("news")["news"]
    assert "--force" in bpeline("promote", "news@champion", "--lock").stdout
    said = refused("rollback", "news")
    assert "`bpeline rollback news --alias champion --force`" in said
    assert done(bpeline("rollback", "news", "--force", "--json"))["to"] == 1
    assert done(bpeline("promote", "news/2", "--json"))["to"] == 2, "and the lock is lifted"
    done(bpeline("promote", "news/2", "--lock", "--json"))
    said = refused("delete", "news@champion", "--yes")
    assert "`bpeline promote news@champion --to champion --force`" in said
    unlocked = done(bpeline("promote", "news@champion", "--to", "champion", "--force", "--json"))
    assert (unlocked["to"], unlocked["locked"]) == (2, False)
    assert bpeline("delete", "news@champion", "--yes").exit_code == 0
    assert done(bpeline("promote", "news/1", "--json"))["to"] == 1, "nothing is locked any more"


@pytest.mark.night
def test_rules_refuse_a_version_that_lacks_a_special_token(
    rules: tuple[str, str], bpeline: Command
) -> None:
    done(
        bpeline(
            *TRAIN, 400, *rules, *("--special-token", "<|a|>", "--special-token", "<|b|>", "--json")
        )
    )
    missing = r"news/1\b.*'<\|b\|>'"
    for typed in (
        (*TRAIN, 420, *rules, "--special-token", "<|a|>"),
        ("promote", "news@candidate", *rules),
    ):
        refused = bpeline(*typed)
        assert refused.exit_code == 3, refused.output
        assert re.search(missing, " ".join(refused.output.split()))
        assert aliases() == {"candidate": 2, "champion": 1}
    assert re.search(missing, bpeline("show", "news").stdout)
    assert done(bpeline("promote", "news/2", *rules, "--force", "--json"))["to"] == 2
    assert done(bpeline("promote", "news/1", *rules, "--json"))["to"] == 1, "it has one more"


@pytest.mark.night
@pytest.mark.parametrize("lock", [(), ("--lock",)])
def test_a_move_made_in_mlflow_itself_is_said(
    lock: tuple[str, ...], rules: tuple[str, str], bpeline: Command
) -> None:
    for size in (400, 420):
        done(bpeline(*TRAIN, size, "--json"))
    assert "news@champion" not in bpeline("promote", "news/1", *lock).stderr
    open_registry().tracker._client.set_registered_model_alias("news", "champion", "2")
    moved = bpeline("rollback", "news", "--force")
    (note,) = re.findall(r"^note: (news@champion .*)news/1 to news/2", moved.stderr, re.MULTILINE)
    assert "MLflow" in note
    assert ("locked" in note) is bool(lock)
    assert aliases()["champion"] == 1
    open_registry().tracker._client.set_registered_model_alias("news", "champion", "2")
    assert "news/1 to news/2" in bpeline("promote", "news/1").stderr
    assert "was moved" not in bpeline("promote", "news/2").stderr, "it is said once"


@pytest.mark.parametrize(
    ("refusal", "code", "said"),
    [
        ("news/2: not judged: x was not measured", 4, "news/2: not judged: x was not measured"),
        ("news/2: too few documents", 4, "not judged: news/2: too few documents"),
        ("news/2: x fell", 3, "refused: news/2: x fell"),
    ],
)
def test_an_outcome_says_once_that_it_was_not_judged(refusal: str, code: int, said: str) -> None:
    assert Promotion("champion", "news/2", refusal=refusal, exit_code=code).outcome == said
