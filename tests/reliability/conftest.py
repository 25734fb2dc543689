"""What the reliability suites share: a zygote, a golden run, records of runs."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from amounts import Amounts
from zygote import Zygote

from bpeline.tokenizer_core.digests import digest_of

from .attempts import Attempts, encoding, publication, training

RECORDS = "BPELINE_RELIABILITY_RECORDS"


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Forks of it run the jobs of `crash_jobs`."""
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory of this test's own."""
    with tempfile.TemporaryDirectory(prefix="bpeline-reliability-") as directory:
        yield Path(directory)


@dataclass(frozen=True, slots=True)
class Golden:
    """A training that nobody disturbed.

    Attributes:
        corpus: what it was trained on.
        empty: a workspace before it, with MLflow's database.
        outbox: a workspace after it, the result waiting in the outbox.
        registered: a workspace after its publication.
        training, publishing: the operations of both, numbered from 1.
        waiting, finished: what `crash_jobs.state_of` says of ``outbox`` and ``registered``.
    """

    corpus: str
    empty: str
    outbox: str
    registered: str
    training: list[str]
    publishing: list[str]
    waiting: dict[str, Any]
    finished: dict[str, Any]


@pytest.fixture(scope="session")
def golden(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The undisturbed run that all others are compared with."""
    place = tmp_path_factory.mktemp("golden")
    corpus = zygote.run("make_corpus", place=place).returned()
    empty = zygote.run("fresh_workspace", place=place / "empty").returned()
    outbox, registered = str(place / "outbox"), str(place / "registered")
    shutil.copytree(empty, outbox)
    trained = zygote.run("train", workspace=outbox, corpus=corpus).returned()
    shutil.copytree(outbox, registered)
    published = zygote.run("publish_waiting", workspace=registered).returned()
    return Golden(
        corpus, empty, outbox, registered, trained["operations"], published["operations"],
        trained["state"], published["state"],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """A kind of work, and the state it leads to when nobody disturbs it."""

    kind: str
    attempts: Attempts
    state: dict[str, Any]


@pytest.fixture(params=("training", "publication", "encoding"))
def work(request: pytest.FixtureRequest, zygote: Zygote, golden: Golden, place: Path) -> Work:
    """Each kind: with threads that count, on a real MLflow, by the version that was made."""
    if request.param == "training":
        attempts = training(zygote, golden.empty, golden.corpus, place, workers=2)
        return Work("training", attempts, golden.waiting)
    if request.param == "publication":
        return Work("publication", publication(zygote, golden.outbox, place), golden.finished)
    attempts = encoding(zygote, golden.registered, golden.corpus, place)
    return Work("encoding", attempts, attempts.undisturbed()["state"])


@dataclass(slots=True)
class Record:
    """What a suite did, for docs/reliability.md.

    Attributes:
        suite: its name.
        amounts: how much of it is done.
        counts: what was done how often.
        seed: of what was random; 0 where nothing was.
        failures: one line each, enough to do it again.
    """

    suite: str
    amounts: Amounts
    seed: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    only: int = 0  # the one case to do again; see ``--point``

    def wants(self, number: int, one_of: int = 1) -> bool:
        """Whether a case is to be done.

        Args:
            number: of the case.
            one_of: one of so many is; another seed takes others.
        """
        if self.only:
            return self.only == number
        return (number + self.seed) % one_of == 0

    def add(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def fail(self, reproduction: str, why: object) -> None:
        """Keep a failure; the suite goes on to show whether there are others."""
        self.failures.append(f"REPRO: {reproduction}\n    {str(why)[-1500:]}")

    def require_none(self) -> None:
        """Write the record where it is wanted, and fail if anything failed."""
        directory = os.environ.get(RECORDS)
        if directory:
            Path(directory).mkdir(parents=True, exist_ok=True)
            content = {
                "suite": self.suite,
                "seed": self.seed,
                "counts": self.counts,
                "failures": len(self.failures),
                "seconds": round(time.monotonic() - self.began, 1),
            }
            path = Path(directory) / f"{digest_of(self.suite)[:12]}.json"
            path.write_text(json.dumps(content, indent=1) + "\n")
        shown = "\n".join(self.failures[:20])
        assert not self.failures, f"{len(self.failures)} failures\n{shown}"


@pytest.fixture
def record(request: pytest.FixtureRequest, amounts: Amounts, seed: int, point: int) -> Record:
    """The record of this test, named after what is behind ``test_`` in its file's name."""
    suite = request.path.stem.removeprefix("test_").replace("_", " ")
    which = request.node.name.removeprefix("test_").replace("_", " ")
    return Record(f"{suite}: {which}", amounts, seed, only=point)


def difference(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """What differs between two states; empty when nothing does."""
    keys = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    return "; ".join(f"{key}: {found.get(key)!r} and not {expected.get(key)!r}" for key in keys)
