"""The catalogue's versions, aliases and metrics: one row whatever races, history kept."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.registry.catalogue.records import Metric
from bpeline.tokenizer_core.errors import RegistryError, UnknownVersion

ROOT = Path(__file__).parents[2]


def digest(number: int) -> str:
    return f"{number:064x}"


# ---- versions ------------------------------------------------------------------------------------


def test_a_version_is_registered_once_and_keeps_its_lineage(catalogue: Catalogue) -> None:
    first = catalogue.add_version(
        "news", digest(1), run_id="r1", corpus_digest="c", counts_digest="w", vocab_size=512,
        pattern="gpt2",
    )  # fmt: skip
    again = catalogue.add_version("news", digest(1), run_id="r2", mlflow_run_id="m", number=7)
    assert (first.number, first.reference, again.number) == (1, "news/1", 1)
    assert again == replace(first, mlflow_run_id="m")
    later = catalogue.add_version("news", digest(1), mlflow_run_id="another")
    assert later.mlflow_run_id == "m"
    assert catalogue.versions() == [again]
    assert catalogue.find_version("news", digest(1)) == again
    assert catalogue.find_version("news", digest(2)) is None


def test_numbers_count_up_under_each_name_or_follow_the_trackers(catalogue: Catalogue) -> None:
    numbers = [
        catalogue.add_version(name, digest(k), number=number).number
        for k, (name, number) in enumerate(
            [("a", None), ("a", None), ("b", None), ("a", 7), ("a", None), ("a", 2)]
        )
    ]
    assert numbers == [1, 2, 1, 7, 8, 9]  # 2 is taken by another digest
    assert catalogue.names() == ["a", "b"]
    assert [one.reference for one in catalogue.versions("a")] == ["a/1", "a/2", "a/7", "a/8", "a/9"]


def test_a_digest_or_enough_of_it_names_a_version(catalogue: Catalogue) -> None:
    first = catalogue.add_version("news", "aa" + "0" * 62)
    catalogue.add_version("other", "aa" + "0" * 62)
    catalogue.add_version("news", "ab" + "0" * 62)
    assert catalogue.version_by_digest("aa0") == first
    for prefix in ("a", "ff", "", "%", "_a"):
        with pytest.raises(UnknownVersion):
            catalogue.version_by_digest(prefix)
    with pytest.raises(UnknownVersion):
        catalogue.version("news", 3)


ADD_VERSIONS = """
import sys
from bpeline.registry.catalogue.catalogue import Catalogue
catalogue = Catalogue(sys.argv[1])
for k in range(10):
    version = catalogue.add_version("news", f"{k % 5:064x}", run_id=sys.argv[2])
    catalogue.set_alias("news", "candidate", version.number, by=sys.argv[2])
"""


@pytest.mark.slow
def test_processes_that_register_the_same_contents_make_one_row_each(url: str) -> None:
    # They also make the tables at once: the file does not exist yet.
    writers = [
        subprocess.Popen([sys.executable, "-c", ADD_VERSIONS, url, f"w{k}"], cwd=ROOT)
        for k in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    catalogue = Catalogue(url)
    assert sorted(one.digest for one in catalogue.versions()) == [digest(k) for k in range(5)]
    assert [one.number for one in catalogue.versions()] == [1, 2, 3, 4, 5]
    moves = catalogue.alias_history("news", "candidate")[::-1]
    assert [move.from_number for move in moves[1:]] == [move.to_number for move in moves[:-1]]
    assert catalogue.aliases("news") == {"candidate": moves[-1].to_number}


def test_threads_that_register_different_contents_leave_no_gap(catalogue: Catalogue) -> None:
    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(lambda k: catalogue.add_version("news", digest(k)), range(20)))
    assert sorted(version.number for version in versions) == list(range(1, 21))


# ---- aliases and metrics -------------------------------------------------------------------------


def test_an_alias_moves_and_its_history_tells_who_and_why(catalogue: Catalogue) -> None:
    for k in range(3):
        catalogue.add_version("news", digest(k))
    catalogue.set_alias("news", "champion", 1, by="ada", reason="first")
    catalogue.set_alias("news", "champion", 3, by="bob", reason="better")
    catalogue.set_alias("news", "champion", 3, by="bob", reason="again")
    catalogue.set_alias("news", "candidate", 2)
    assert catalogue.alias("news", "champion").number == 3
    assert catalogue.aliases("news") == {"candidate": 2, "champion": 3}
    catalogue.remove_alias("news", "champion", by="eve", reason="broken")
    history = [
        (move.from_number, move.to_number, move.by, move.reason)
        for move in catalogue.alias_history("news", "champion")
    ]
    assert history == [
        (3, None, "eve", "broken"),
        (1, 3, "bob", "better"),
        (None, 1, "ada", "first"),
    ]
    assert len(catalogue.alias_history("news")) == 4
    assert catalogue.remove_alias("news", "champion") is None


def test_an_alias_that_moved_meanwhile_is_not_overwritten(catalogue: Catalogue) -> None:
    for k in range(3):
        catalogue.add_version("news", digest(k))
    catalogue.set_alias("news", "champion", 1, expected=None)
    catalogue.set_alias("news", "champion", 2, expected=1)
    for stale in (1, None):
        with pytest.raises(RegistryError, match="meanwhile"):
            catalogue.set_alias("news", "champion", 3, expected=stale)
    assert catalogue.aliases("news") == {"champion": 2}


def test_an_alias_needs_a_version(catalogue: Catalogue) -> None:
    with pytest.raises(UnknownVersion):
        catalogue.set_alias("news", "champion", 1)
    assert catalogue.aliases("news") == {}
    with pytest.raises(UnknownVersion, match="champion"):
        catalogue.alias("news", "champion")


def test_metrics_come_back_by_key_and_step(catalogue: Catalogue) -> None:
    catalogue.add_version("news", digest(1))
    catalogue.add_metrics("news", 1, {"speed": 1.0, "nothing": math.nan})
    catalogue.add_curve("news", 1, "bytes_per_token", [(1024, 3.25), (512, 2.5)])
    catalogue.add_metrics("news", 1, {"speed": 1.5})
    found = catalogue.metrics("news", 1)
    assert found[:2] == [Metric("bytes_per_token", 512, 2.5), Metric("bytes_per_token", 1024, 3.25)]
    assert (found[2].key, math.isnan(found[2].value)) == ("nothing", True)
    assert found[3:] == [Metric("speed", 0, 1.5)]
    with pytest.raises(UnknownVersion):
        catalogue.add_metrics("news", 2, {"speed": 1.0})


def test_answers_are_frozen_values(catalogue: Catalogue) -> None:
    run, version = catalogue.start_run("news", {}), catalogue.add_version("news", digest(1))
    move = catalogue.set_alias("news", "champion", 1)
    for value, attribute in ((run, "state"), (version, "number"), (move, "by")):
        assert dataclasses.is_dataclass(value)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, attribute, "changed")
