"""Promotion, rollback and history, in a real MLflow and a real catalogue."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from kept_registry import KeptRegistry
from small_publications import publication_of

from bpeline.registry import alias_history, load_tokenizer, promote, publish_version, rollback
from bpeline.registry.opening import Registry
from bpeline.tokenizer_core.errors import InvalidOption, RegistryUnreachable, UnknownVersion


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> KeptRegistry:
    """news/1, news/2 and news/3; their digests."""
    root = tmp_path_factory.mktemp("kept")

    def fill(registry: Registry) -> list[str]:
        publications = [publication_of(root / "made", word) for word in (b"the", b"and", b"there")]
        for publication in publications:
            publish_version(registry, publication)
        return [publication.digest for publication in publications]

    return KeptRegistry(root, empty_mlflow, fill)


@pytest.fixture
def three(kept: KeptRegistry) -> list[str]:
    """The digests of news/1, news/2 and news/3."""
    return list(kept.filled)


@pytest.mark.night
def test_rollback_undoes_the_last_move_that_was_not_undone(
    registry: Registry, three: list[str]
) -> None:
    for number in (1, 2, 3):
        promote(f"news/{number}", by="a person", reason=f"because {number}")
    back = rollback("news", by="another", reason="broken")
    assert (back.before, back.number) == (3, 2)
    assert registry.tracker.aliases("news")["news"]["champion"] == 2
    assert load_tokenizer("news@champion").digest == three[1]
    back = rollback("news")
    assert (back.before, back.number) == (2, 1)
    with pytest.raises(UnknownVersion):
        rollback("news")
    assert registry.tracker.aliases("news")["news"]["champion"] == 1

    promote("news/3")  # after going back, a promotion counts from where the alias is
    assert rollback("news").number == 1


@pytest.mark.night
def test_a_version_that_was_promoted_twice_is_gone_back_to_from_where_it_came(
    registry: Registry, three: list[str]
) -> None:
    for number in (1, 2, 3, 2):
        promote(f"news/{number}")
    assert [rollback("news").number for _ in range(3)] == [3, 2, 1]


@pytest.mark.night
def test_promoting_what_is_there_already_is_no_step(registry: Registry, three: list[str]) -> None:
    promote("news/1")
    promote("news/2")
    assert (promote("news/2").before, promote("news@champion").before) == (2, 2)
    assert rollback("news").number == 1


@pytest.mark.night
def test_rollback_knows_of_moves_made_in_mlflow(registry: Registry, three: list[str]) -> None:
    promote("news/1")
    registry.tracker.move_alias("news", "champion", 3)  # in its UI
    assert rollback("news", reason="not that one").number == 1
    moves = alias_history("news", "champion")
    assert [(one.from_number, one.to_number, one.by) for one in moves] == [
        (3, 1, ""),
        (1, 3, "mlflow"),
        (None, 1, ""),
    ]


@pytest.mark.night
@pytest.mark.parametrize("with_digests", [True, False])
def test_rollback_never_leads_to_a_tokenizer_that_the_alias_did_not_point_to(
    registry: Registry, three: list[str], with_digests: bool
) -> None:
    """MLflow put back from a backup gives numbers again."""
    promote("news/1")
    promote("news/2")
    history = alias_history("news", "champion")
    assert [(one.from_digest, one.to_digest) for one in history] == [
        (three[0], three[1]),
        ("", three[0]),
    ]
    mlflow = sqlite3.connect(registry.workspace.root.with_name("mlflow.sqlite"))
    with closing(mlflow), mlflow:
        if with_digests:
            other = "UPDATE model_version_tags SET value = ? WHERE key = 'digest' AND version = 1"
            mlflow.execute(other, ["e" * 64])
            expected = three[0][:12]
        else:  # as in the history of earlier releases
            with (
                closing(sqlite3.connect(registry.workspace.root / "catalogue.sqlite")) as ours,
                ours,
            ):
                ours.execute("UPDATE alias_moves SET from_digest = '', to_digest = ''")
            mlflow.execute("UPDATE model_versions SET creation_time = creation_time + 60000")
            expected = "news@champion"
    with pytest.raises(UnknownVersion, match=expected):
        rollback("news")
    assert registry.tracker.aliases("news")["news"]["champion"] == 2


@pytest.mark.night
def test_history_is_newest_first_and_of_one_alias_or_all(
    registry: Registry, three: list[str]
) -> None:
    promote("news/2", "staging", by="a person", reason="to try")
    newest = alias_history("news")[0]
    assert (newest.alias, newest.to_number, newest.by, newest.reason) == (
        "staging", 2, "a person", "to try",
    )  # fmt: skip
    assert [one.alias for one in alias_history("news")] == ["staging", *["candidate"] * 3]
    assert [one.alias for one in alias_history("news", "staging")] == ["staging"]
    with pytest.raises(UnknownVersion, match="news@nobody"):
        alias_history("news", "nobody")


@pytest.mark.night
def test_what_cannot_be_rolled_back_is_refused(registry: Registry, three: list[str]) -> None:
    with pytest.raises(UnknownVersion):
        rollback("news")  # no champion yet
    with pytest.raises(UnknownVersion):
        rollback("code")
    with pytest.raises(InvalidOption):
        rollback("news", "v3")


@pytest.mark.night
def test_nothing_moves_when_mlflow_does_not_answer(
    registry: Registry, three: list[str], disconnected: Registry
) -> None:
    with pytest.raises(RegistryUnreachable):
        promote("news/1")
    with pytest.raises(UnknownVersion):
        alias_history("news", "champion")
