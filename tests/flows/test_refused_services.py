"""Whole commands whose MLflow has lost its bucket, or is asked with a wrong password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from postgres import PostgresServer
from s3_server import SECRET, S3Server

# What is shown as it was last seen is a warning.
pytestmark = [pytest.mark.night, pytest.mark.filterwarnings("default")]

Bpeline = Callable[..., Result]
TRAIN = ("train", "corpus", "--name", "t", "--vocab-size", 270)


def test_a_training_whose_bucket_is_gone_is_kept_and_published_later(
    bpeline: Bpeline, corpus: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BPELINE_ARTIFACTS_URL", "s3://a-bucket-that-is-gone/mlflow")
    said = bpeline(*TRAIN)
    assert "NoSuchBucket" in refused(said, SECRET)
    assert list(Path(".bpeline/outbox").glob("t.*.json")), "the training is lost"
    assert bpeline("versions").exit_code == 0
    s3.client().create_bucket(Bucket="a-bucket-that-is-gone")
    delivered = bpeline("resume")
    assert delivered.exit_code == 0, delivered.output
    assert "t/1" in delivered.output


@pytest.mark.parametrize("command", [TRAIN, ("versions",), ("doctor",)])
@pytest.mark.parametrize("place", ["MLFLOW_TRACKING_URI", "BPELINE_CATALOGUE_URL"])
def test_a_wrong_password_of_a_database_is_told_and_not_shown(
    place: str,
    command: tuple[object, ...],
    bpeline: Bpeline,
    corpus: Path,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr("mlflow.store.db.utils.MAX_RETRY_COUNT", 2)
    wrong = "hunter2-hunter2"
    monkeypatch.setenv(place, postgres.new_url().replace(postgres.password, wrong))
    said = bpeline(*command)
    if command != TRAIN and place == "MLFLOW_TRACKING_URI":
        # They do without: what is shown as it was last seen is a warning, as is a line of doctor's.
        assert isinstance(said.exception, SystemExit | None), said.exception
        assert wrong not in said.output
    else:
        assert "password" in refused(said, wrong)


def refused(said: Result, secret: str) -> str:
    """What a command says that failed with an error of ours."""
    assert said.exit_code == 1, said.output
    assert isinstance(said.exception, SystemExit), said.exception
    assert "Traceback" not in said.output
    assert secret not in said.output
    output: str = said.output
    return output
