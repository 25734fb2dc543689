"""Several at once: two in one workspace, two registering one name, promotion while others load."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
from pathlib import Path

import pytest
from zygote import Zygote

from .conftest import Golden, Record, difference

WRITERS = 3
CROWD, KILLED = 8, 4  # writers of one catalogue, and how many of them are killed


@pytest.mark.night
def test_of_runs_in_one_workspace_one_works_and_the_others_are_told(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Also where there is no workspace yet, and all of them want to make it."""
    arguments = {"corpus": golden.corpus}
    for race in range(1, record.amounts.races + 1):
        if not record.wants(race):
            continue
        workspace = place / "workspace"
        if race % 2:
            shutil.copytree(golden.empty, workspace)
        # Who is done looks at nothing: another may be at work there by then.
        jobs = [("train", {"workspace": workspace, "looks": False, **arguments})] * WRITERS
        ended = zygote.run_together(jobs)
        record.add("races")
        repeated = f"{record.suite} --point {race}"
        done = [one for one in ended if not one.error and not one.signal]
        if not done:
            record.fail(repeated, [one.error for one in ended])
        for one in ended:
            if one.signal or (one.error and not one.typed):
                record.fail(repeated, one.error or f"signal {one.signal}")
            elif one.error:
                record.add("told who holds it")
                if "WorkspaceLocked" not in one.error or "process" not in one.error:
                    record.fail(repeated, one.error)
        after = zygote.run("train", workspace=workspace, **arguments)
        unlike = after.error or difference(
            {name: one for name, one in after.result["state"].items() if name != "rows"},
            {name: one for name, one in golden.waiting.items() if name != "rows"},
        )
        if unlike:
            record.fail(repeated, unlike)
        shutil.rmtree(workspace)
    record.require_none()


@pytest.mark.night
def test_writers_of_one_name_lose_no_version(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Two workspaces, one catalogue and one MLflow: the same tokenizer once, another beside it."""
    for race in range(1, record.amounts.races + 1):
        if not record.wants(race):
            continue
        shared = place / "shared"
        shutil.copytree(golden.registered, shared)
        sizes = [(310, "one"), (310, "two"), (320, "three")]
        jobs = [
            (
                "train_into",
                {
                    "workspace": place / own,
                    "shared": shared,
                    "corpus": golden.corpus,
                    "vocab_size": size,
                },
            )
            for size, own in sizes
        ]
        ended = zygote.run_together(jobs)
        record.add("races")
        repeated = f"{record.suite} --point {race}"
        for one in ended:
            if one.error or one.signal:
                record.fail(repeated, one.error or f"signal {one.signal}")
        rows = zygote.run("look", workspace=shared).returned()["state"]["rows"]
        digests = [digest for _, digest in rows["versions"]]
        # A number may be missing: of two that registered the same at once, one was withdrawn.
        if len(set(digests)) != 3 or len(digests) != 3:
            record.fail(repeated, rows["versions"])
        if sorted({digest for _, _, digest in rows["mlflow versions"]}) != sorted(digests):
            record.fail(repeated, rows["mlflow versions"])
        for own in ("shared", "one", "two", "three"):
            shutil.rmtree(place / own)
    record.require_none()


@pytest.mark.night
def test_a_catalogue_keeps_what_it_acknowledged_though_writers_are_killed(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    """Versions are numbered without a gap, and each move of the alias begins where one ended."""
    times = record.amounts.moves
    for race in range(1, record.amounts.races + 1):
        if not record.wants(race):
            continue
        repeated = f"{record.suite} --point {race} --seed {record.seed}"
        chance = random.Random(f"{record.seed}/{race}")
        workspace, said = place / "workspace", place / "said"
        shutil.copytree(golden.empty, workspace)
        said.mkdir()
        for writer in range(CROWD):
            (said / str(writer)).touch()
        named = [
            {
                "workspace": workspace,
                "times": times,
                "acknowledged": said / str(writer),
                "dies_after": 0.05 + chance.random() * times / 25 if writer < KILLED else 0,
            }
            for writer in range(CROWD)
        ]
        for one in zygote.run_together([("add_versions", one) for one in named]):
            if one.signal == signal.SIGALRM:
                record.add("killed writers")
            elif one.error or one.signal:
                record.fail(repeated, one.error or f"signal {one.signal}")
        held = zygote.run("versions_and_moves", workspace=workspace).returned()
        acknowledged = {line for path in said.iterdir() for line in path.read_text().splitlines()}
        record.add("races")
        record.add("acknowledged versions", len(acknowledged))
        numbers, moves = [number for number, _ in held["versions"]], held["moves"]
        wrong = {
            "lost": acknowledged - {f"{number} {digest}" for number, digest in held["versions"]},
            # A writer that was killed may have left one that it had not put in its place yet.
            "gaps": sorted(filter(None, numbers)) != list(range(1, max(numbers) + 1)),
            "moves": any(one[1] != other[0] for one, other in itertools.pairwise(moves)),
            "damaged": held["damaged"],
        }
        if any(wrong.values()):
            record.fail(repeated, wrong)
        shutil.rmtree(workspace)
        shutil.rmtree(said)
    record.require_none()


@pytest.mark.night
def test_who_loads_while_an_alias_moves_gets_one_version_or_the_other(
    zygote: Zygote, golden: Golden, place: Path, record: Record
) -> None:
    shared = place / "shared"
    shutil.copytree(golden.registered, shared)
    zygote.run(
        "train", workspace=shared, corpus=golden.corpus, vocab_size=310, registers=True
    ).returned()
    rows = zygote.run("look", workspace=shared).returned()["state"]["rows"]
    digests = {digest for _, digest in rows["versions"]}
    assert len(digests) == 2
    zygote.run("promote_version", workspace=shared, reference="news/1").returned()
    moves = record.amounts.moves
    moving, *loading = zygote.run_together(
        [
            ("move_alias", {"workspace": shared, "times": moves}),
            ("load_again", {"workspace": shared, "times": 4 * moves}),
            ("load_again", {"workspace": shared, "times": 4 * moves}),
        ]
    )
    record.add("moves", moves)
    if moving.error or moving.signal:
        record.fail(record.suite, moving.error or f"signal {moving.signal}")
    for one in loading:
        if one.error or one.signal:
            record.fail(record.suite, one.error or f"signal {one.signal}")
        else:
            record.add("loads", len(one.result))
            if not set(one.result) <= digests:
                record.fail(record.suite, set(one.result) - digests)
    record.require_none()
