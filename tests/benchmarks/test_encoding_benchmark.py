"""The encoding benchmark on a tiny file: it finds equality and difference, and renders both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.charts import speeds
from benchmarks.corpora import SEPARATOR, sampled
from benchmarks.encoders import BLOCK, ENCODING, LOADING, block_digests, verdict
from benchmarks.measurement import Case
from benchmarks.pages import encoding_block
from benchmarks.results import newest, save, summary
from benchmarks.runner import Run, compare
from benchmarks.tables import plain, rows, scaling

IDS = np.arange(3 * BLOCK + 5, dtype=np.uint32)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "tiny.txt"
    text = "low lower lowest, über 12 naïve newest\n\n  cafés. "
    path.write_text(f"{text * 20}{SEPARATOR}{SEPARATOR}{text * 7}", encoding="utf-8")
    return path


def run(seconds: float, ids: np.ndarray[Any, Any] = IDS) -> Run:
    blocks, count = block_digests([ids])
    figures = {
        **dict.fromkeys(("seconds", "cpu_seconds", "again_seconds"), seconds),
        **dict.fromkeys(("again_cpu_seconds", "peak_megabytes", "load_seconds"), 1.0),
        **dict.fromkeys(("load_megabytes", "short_microseconds"), 2.0),
        **dict.fromkeys(("kilobyte_microseconds", "decode_megabytes_per_second"), 3.0),
    }
    return Run(figures, {"ids": count, "blocks": blocks})


def result_of(path: Path, theirs: np.ndarray[Any, Any] = IDS) -> dict[str, Any]:
    runs = {
        "bpeline": [run(1.0), run(2.0), run(4.0)],
        "tiktoken": [run(10.0, theirs), run(60.0, theirs), run(40.0, theirs)],
        "gigatoken": [Run(failure="out of memory")],
    }
    return summary(ENCODING, Case((str(path),), 300), [(runs, 0)])


@pytest.mark.night
def test_independent_libraries_give_our_ids_in_processes_of_their_own(corpus: Path) -> None:
    names = ["bpeline", "bpeline, lists", "HuggingFace", "tiktoken"]
    case = Case((str(corpus),), 300, threads=2)
    result = compare(ENCODING, names, case, rounds=1)
    loading = compare(LOADING, names[:1], case, rounds=1)
    measured = result["contestants"]
    assert [measured[name].get("equal") for name in names] == [True] * 4, measured
    assert all(measured[name]["decode_megabytes_per_second"] > 0 for name in names)
    assert loading["contestants"]["bpeline"]["load_seconds"] > 0


def test_every_installed_encoder_has_a_name_and_most_a_caveat() -> None:
    assert ENCODING.named("bpeline").installed
    assert all(encoder.caveat for encoder in ENCODING.contestants)


@pytest.mark.parametrize("size", [1, 7, BLOCK - 1, BLOCK, 3 * BLOCK])
def test_digests_do_not_depend_on_how_arrays_are_cut(size: int) -> None:
    whole = block_digests([IDS])
    assert len(whole[0]) == 4
    head = IDS[: 2 * BLOCK] if size < 10 else IDS
    pieces = [head[begin : begin + size] for begin in range(0, len(head), size)]
    assert block_digests([*pieces, IDS[len(head) :]]) == whole
    assert block_digests([]) == ([], 0)


def test_the_first_differing_block_is_named() -> None:
    other = IDS.copy()
    other[BLOCK + 3] += 1
    assert "196,613" in said(IDS, IDS)
    assert said(other, IDS).count("65,536") == 2
    assert "196,608" in said(IDS[:-1], IDS)
    longer = np.append(IDS[: 2 * BLOCK], IDS)
    assert "131,072" in said(IDS[: 2 * BLOCK], longer)


def said(theirs: np.ndarray[Any, Any], ours: np.ndarray[Any, Any]) -> str:
    found = {"bpeline": run(1, ours).found}
    return verdict(ENCODING.named("tiktoken"), run(1, theirs).found, found, Case(("",))).words


def test_ratios_are_of_pairs_and_only_between_equals(corpus: Path) -> None:
    assert result_of(corpus)["contestants"]["tiktoken"]["ratio"] == 10.0
    different = result_of(corpus, IDS + 1)["contestants"]["tiktoken"]
    assert different["ratio"] is None
    assert different["equal"] is False
    assert "differ" in plain(result_of(corpus, IDS + 1))
    assert "failed: out of memory" in plain(result_of(corpus))


@pytest.mark.night
def test_slow_encoders_get_a_sample_and_a_ratio_to_ours_on_it(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    lines = [f"line {number} of many\n" for number in range(5_000)]
    path.write_text("".join(lines))
    assert path.stat().st_size > 60_000
    sample = sampled(path, 20_000)
    assert 15_000 < len(sample) <= 20_000
    taken = sample.decode().splitlines(keepends=True)
    assert set(taken) <= set(lines)
    assert taken[-1] in lines[-200:]
    small = replace(ENCODING, sample_bytes=20_000)
    case = Case((str(path),), 300, threads=1)
    result = compare(small, ["bpeline", "tiktoken"], case, rounds=1)
    theirs = result["contestants"]["tiktoken"]
    assert theirs["equal"], theirs
    assert theirs["sample_bytes"] == 20_000
    assert "sample_bytes" not in result["contestants"]["bpeline"]
    assert any("of 0 MB" in row[-1] for row in rows(result) if row[0] == "tiktoken")


def test_who_is_not_installed_has_no_row(corpus: Path) -> None:
    result = result_of(corpus) | {"not_installed": ["tokie"]}
    assert rows(result)[-1][0::10] == ("tokie", "not installed")
    assert "tokie" not in encoding_block([result])


def test_thread_counts_of_one_file_share_a_table(corpus: Path) -> None:
    one = result_of(corpus) | {"threads": 1}
    assert scaling([one]) == ""
    assert "bpeline 1.00" in scaling([one, result_of(corpus)])
    content = encoding_block([one, result_of(corpus)])
    assert content.count("| bpeline |") == 1
    assert "MB/s, 1 thread | ratio | CPU ratio | MB/s, 2 threads" in content
    assert "failed: out of memory" in content


def test_results_are_kept_and_rendered(corpus: Path, tmp_path: Path) -> None:
    save(result_of(corpus), tmp_path)
    figures = {"bpeline": [Run({"load_seconds": 1.0, "load_megabytes": 2.0})]}
    loading = summary(LOADING, Case((str(corpus),), 100_000), [(figures, 0)])
    save(loading, tmp_path)
    (kept,) = newest("encoding", tmp_path)
    assert kept["contestants"]["bpeline"]["seconds"] == 2.0
    content = encoding_block([kept], *newest("loading", tmp_path))
    assert "| tiktoken |" in content
    assert "| loading 100,000 tokens |" in content
    assert newest("loading", tmp_path / "none") == []
    speeds([kept], tmp_path / "speeds.svg")
    drawn = (tmp_path / "speeds.svg").read_text()
    assert "tiktoken" in drawn
    assert len(drawn) < 50_000
