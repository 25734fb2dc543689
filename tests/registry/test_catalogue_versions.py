"""The catalogue's versions, registrations, moves and metrics: one row whatever races."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bpeline.registry.catalogue import AliasMove, Metric, Registration, Version
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.tokenizer_core.errors import UnknownVersion

pytestmark = pytest.mark.fake_mlflow

ROOT = Path(__file__).parents[2]


def digest(number: int) -> str:
    return f"{number:064x}"


def measured(catalogue: Catalogue, name: str, of: str) -> list[Metric]:
    version = catalogue.find_version(name, of)
    return [] if version is None else version.metrics


# ---- versions ------------------------------------------------------------------------------------


def test_a_version_is_remembered_once_and_keeps_its_lineage(catalogue: Catalogue) -> None:
    first = catalogue.add_version(Version(
        "news", digest(1), run_id="r1", corpus_digest="c", counts_digest="w", vocab_size=512,
        pattern="gpt2",
    ))  # fmt: skip
    assert catalogue.add_version(Version("news", digest(1), run_id="r2", vocab_size=7)) == first
    assert (first.run_id, first.corpus_digest, first.vocab_size) == ("r1", "c", 512)
    assert catalogue.versions() == [first]
    assert catalogue.find_version("news", digest(1)) == first
    assert catalogue.find_version("news", digest(2)) is None
    other = catalogue.add_version(Version("other", digest(1)))
    later = catalogue.add_version(Version("news", digest(2)))
    assert catalogue.versions("news") == [first, later]
    ended = [catalogue.training_ended(one.name, one.digest) for one in (other, first, later, first)]
    assert ended == [1, 2, 3, 4]
    assert [one.trained for one in catalogue.versions("news")] == [4, 3]


ADD_VERSIONS = """
import sys
from bpeline.registry.catalogue import Catalogue, Version
catalogue = Catalogue(sys.argv[1])
for k in range(10):
    version = catalogue.add_version(Version("news", f"{k % 5:064x}", run_id=sys.argv[2]))
"""


@pytest.mark.night
def test_processes_that_remember_the_same_contents_make_one_row_each(url: str) -> None:
    # They also make the tables at once: the file does not exist yet.
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_VERSIONS, url, f"w{k}"], cwd=ROOT)
        for k in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    found = Catalogue(url).versions()
    assert sorted(one.digest for one in found) == [digest(k) for k in range(5)]


def test_threads_that_remember_different_contents_lose_none(catalogue: Catalogue) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = (Version("news", digest(number)) for number in range(20))
        versions = list(threads.map(catalogue.add_version, made))
    assert len({version.digest for version in versions}) == len(catalogue.versions()) == 20


# ---- registrations and moves ---------------------------------------------------------------------


def test_each_mlflow_has_numbers_of_its_own(catalogue: Catalogue) -> None:
    for number in (1, 2):
        catalogue.add_version(Version("news", digest(number)))
    here = Registration("a", "news", 1, digest(1))
    there = Registration("b", "news", 1, digest(2))
    for one in (here, there, here):
        assert catalogue.add_registration(one) == ""
    assert catalogue.registrations("news") == [here, there]
    assert catalogue.registrations(store="b") == [there]
    assert catalogue.registrations("other") == []


def test_a_number_that_means_another_tokenizer_than_before_is_told(catalogue: Catalogue) -> None:
    for number in (1, 2):
        catalogue.add_version(Version("news", digest(number)))
    catalogue.add_registration(Registration("a", "news", 3, digest(1)))
    assert catalogue.add_registration(Registration("a", "news", 3, digest(2))) == digest(1)
    assert [one.digest for one in catalogue.registrations()] == [digest(2)]


def test_history_is_newest_first_of_one_alias_one_mlflow_or_all(catalogue: Catalogue) -> None:
    moves = [
        AliasMove("news", "champion", None, 1, "ada", "first", "t1", "promote", "a"),
        AliasMove("news", "candidate", None, 2, "bpeline", "published", "t2", "publish", "a"),
        AliasMove("news", "champion", 1, 3, "bob", "better", "t3", "promote", "a"),
        AliasMove("news", "champion", None, 1, "eve", "there", "t4", "seen", "b"),
    ]
    for move in moves:
        catalogue.add_move(move)
    assert catalogue.alias_history("news") == moves[::-1]
    assert catalogue.alias_history("news", "champion", "a") == [moves[2], moves[0]]
    assert catalogue.alias_history("other") == []


MOVE = """
import sys
from bpeline.registry.catalogue.catalogue import Catalogue
with Catalogue(sys.argv[1]).moving():
    print("moving", flush=True)
    sys.stdin.read()
"""


@pytest.mark.night
def test_one_process_at_a_time_moves_aliases_and_a_killed_one_lets_go(
    catalogue: Catalogue, url: str
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", MOVE, url], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"moving\n"
    ended = threading.Event()

    def wait() -> None:
        with catalogue.moving():
            ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not ended.wait(0.5), "while the other moves"
    catalogue.start_run("news", {})  # rows may be written meanwhile
    other.kill()
    other.communicate()
    begin = time.monotonic()
    assert ended.wait(60)
    waiting.join()
    assert time.monotonic() - begin < 60


# ---- metrics -------------------------------------------------------------------------------------


def test_metrics_come_back_by_key_and_step(catalogue: Catalogue) -> None:
    catalogue.add_version(Version("news", digest(1)))
    catalogue.add_metrics("news", digest(1), {"speed": 1.0, "nothing": math.nan})
    catalogue.add_metrics(
        "news", digest(1), {}, curves={"bytes_per_token": [(1024, 3.25), (512, 2.5)]}
    )
    catalogue.add_metrics("news", digest(1), {"speed": 1.5})
    found = measured(catalogue, "news", digest(1))
    assert found[:2] == [Metric("bytes_per_token", 512, 2.5), Metric("bytes_per_token", 1024, 3.25)]
    assert (found[2].key, math.isnan(found[2].value)) == ("nothing", True)
    assert found[3:] == [Metric("speed", 0, 1.5)]
    assert catalogue.versions()[0].last_values["bytes_per_token"] == 3.25
    assert measured(catalogue, "news", digest(2)) == []
    with pytest.raises(UnknownVersion):
        catalogue.add_metrics("news", digest(2), {"speed": 1.0})


def test_all_that_was_measured_is_kept_at_once(catalogue: Catalogue) -> None:
    catalogue.add_version(Version("news", digest(1)))
    curves = {"ratio": [(512, 2.5), (1024, 3.25)], "speed": [(1024, 7.0)]}
    catalogue.add_metrics(
        "news", digest(1), {"ratio": 3.5}, step=1024, curves=curves, measured_on="a set"
    )
    assert measured(catalogue, "news", digest(1)) == [
        Metric("ratio", 512, 2.5), Metric("ratio", 1024, 3.5), Metric("speed", 1024, 7.0)
    ]  # fmt: skip
    catalogue.add_metrics("news", digest(1), {"ratio": 3.75}, step=1024)
    (version,) = catalogue.versions("news")
    assert version.measured_on == "a set"
    assert Metric("ratio", 1024, 3.75) in measured(catalogue, "news", digest(1))


def test_changing_an_answer_changes_nothing(catalogue: Catalogue) -> None:
    run = catalogue.start_run("news", {})
    version = catalogue.add_version(Version("news", digest(1), vocab_size=300))
    run.state, version.vocab_size = "failed", 7
    assert catalogue.run(run.id).state == "running"
    assert [one.vocab_size for one in catalogue.versions()] == [300]


def test_a_version_is_forgotten_when_no_mlflow_has_it(catalogue: Catalogue) -> None:
    catalogue.add_version(Version("news", digest(1)))
    catalogue.add_metrics("news", digest(1), {"x": 1.0})
    catalogue.add_registration(Registration("store", "news", 1, digest(1)))
    catalogue.forget_version("news", digest(1))
    assert measured(catalogue, "news", digest(1)) != []
    catalogue.forget_registrations("store", "news", 1)
    catalogue.forget_version("news", digest(1))
    catalogue.forget_version("news", digest(1))  # a missing one is no error
    assert catalogue.versions() == []
    assert measured(catalogue, "news", digest(1)) == []
