"""Workspaces that publish and promote in one MLflow at the same time, each in its own process.

Also the program that does it: it imports everything once, then forks a process for each rival.
What an MLflow's aliases really pointed to, one after the other, its own database is made to write
down.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
NAME, PROMOTED = "news", "champion"
SECONDS = 300  # that they may take

_WITNESS = """
CREATE TABLE witnessed (step INTEGER PRIMARY KEY, alias TEXT, number INTEGER);
CREATE TRIGGER made AFTER INSERT ON registered_model_aliases
    BEGIN INSERT INTO witnessed (alias, number) VALUES (NEW.alias, NEW.version); END;
CREATE TRIGGER moved AFTER UPDATE ON registered_model_aliases
    BEGIN INSERT INTO witnessed (alias, number) VALUES (NEW.alias, NEW.version); END;
"""


@dataclass(frozen=True, slots=True)
class Rival:
    """One of them.

    Attributes:
        workspace, tracking_uri, catalogue_url: its own or shared; no URL: the workspace's own.
        words: what it publishes: a tokenizer for each, which two may have in common.
        promotions: of versions that it sees, chosen by chance.
        seed: of what is by chance.
    """

    workspace: str
    tracking_uri: str
    catalogue_url: str | None
    words: Sequence[str]
    promotions: int
    seed: int


class Published(NamedTuple):
    """What a rival was told of a publication."""

    digest: str
    number: int


class Promoted(NamedTuple):
    """What it was told of a promotion; ``before`` is None where the alias pointed nowhere."""

    before: int | None
    number: int
    told: str = ""  # the class of the error


@dataclass(slots=True)
class Outcome:
    """What came of a rival's work.

    Attributes:
        errors: those that nobody should get.
    """

    published: list[Published] = field(default_factory=list)
    promoted: list[Promoted] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def watch_aliases(database: Path) -> None:
    """Let an MLflow's SQLite database write down where aliases point from now on."""
    with closing(sqlite3.connect(database)) as tables:
        tables.executescript(_WITNESS)


def witnessed(database: Path, alias: str) -> list[int]:
    """Where an alias pointed, one after the other."""
    with closing(sqlite3.connect(database)) as tables:
        query = "SELECT number FROM witnessed WHERE alias = ? ORDER BY step"
        return [number for (number,) in tables.execute(query, (alias,))]


def at_once(rivals: Sequence[Rival]) -> list[Outcome]:
    """Let them begin together, and wait for all."""
    places = [str(ROOT / "tests/support")]
    ended = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([asdict(one) for one in rivals]),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    return [
        Outcome(
            [Published(*each) for each in one["published"]],
            [Promoted(*each) for each in one["promoted"]],
            one["errors"],
        )
        for one in json.loads(ended.stdout)
    ]


def work(rival: Rival) -> Outcome:
    """Publish and promote by turns."""
    from small_publications import publication_of

    from bpeline.registry import configure, promote, publish_version
    from bpeline.registry.aliases.moves import AliasMovedMeanwhile
    from bpeline.registry.opening import open_registry
    from bpeline.tokenizer_core.errors import BpelineError

    chance, outcome = random.Random(rival.seed), Outcome()
    configure(
        workspace=rival.workspace,
        tracking_uri=rival.tracking_uri,
        catalogue_url=rival.catalogue_url,
    )
    registry = open_registry()
    own = Path(rival.workspace).name
    for turn in range(max(len(rival.words), rival.promotions)):
        try:
            for word in rival.words[turn : turn + 1]:
                made = publication_of(
                    registry.workspace.root.with_name(f"{own}-made"),
                    word.encode(),
                    run_id=f"{own}-{turn}",
                )
                outcome.published.append(
                    Published(made.digest, publish_version(registry, made, "candidate").number)
                )
            if turn < rival.promotions:
                # Of a tokenizer that both register at once, one number is there for a moment only.
                lowest = {one.digest: one for one in reversed(registry.tracker.versions(NAME))}
                number = chance.choice(list(lowest.values())).number
                try:
                    change = promote(f"{NAME}/{number}", PROMOTED, by=own)
                    outcome.promoted.append(Promoted(change.before, change.number))
                except AliasMovedMeanwhile as error:
                    outcome.promoted.append(Promoted(None, number, type(error).__name__))
        except BpelineError as error:
            outcome.errors.append(f"{type(error).__name__}: {error}")
    return outcome


def main() -> None:
    """Fork a process for each rival; what came of each is written as JSON."""
    import mlflow.pyfunc  # once for all
    import mlflow.tracking  # noqa: F401

    from bpeline.registry.catalogue import catalogue  # noqa: F401

    rivals = [Rival(**one) for one in json.load(sys.stdin)]
    gate, opening = os.pipe()
    children = []
    for rival in rivals:
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(opening)
            os.read(gate, 1)  # until all are there
            outcome = Outcome()
            try:
                outcome = work(rival)
            except BaseException as error:
                outcome.errors.append(f"{type(error).__name__}: {error}")
            with os.fdopen(writing, "w") as answer:
                json.dump(asdict(outcome), answer)
            os._exit(0)
        os.close(writing)
        children.append(reading)
    time.sleep(0.05)
    os.close(opening)
    told = []
    for reading in children:
        with os.fdopen(reading) as answer:
            told.append(json.load(answer))
        os.wait()
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
