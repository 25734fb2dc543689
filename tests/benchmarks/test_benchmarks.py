"""The benchmark harness on a tiny file: it finds equality and difference, and renders both."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks import trainers
from benchmarks.corpora import LONGEST, SEPARATOR, beginning, documents, lines
from benchmarks.measurement import Case, Contestant
from benchmarks.measurements import MEASUREMENTS
from benchmarks.pages import block, replaced
from benchmarks.process import Stopwatch, captured
from benchmarks.results import changes, newest, save, summary
from benchmarks.runner import Run, compare
from benchmarks.tables import phases_of, plain, rows
from benchmarks.trainers import TRAINING, by_lines, by_value, first_divergence, verdict
from bpeline.tokenizer_core.reference import count_words, split, train
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

A, B, C = (b"a", b"b"), (b"b", b"a"), (b"ab", b"c")
# Ties that fall differently when bytes are numbered by value: a space is 32, but prints as U+0120.
TIES = "a! b! a! b! c d c d é ü é ü low lower lowest low lower lowest"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "tiny.txt"
    path.write_text(f"{TIES}{SEPARATOR}{TIES}\n\n{TIES}", encoding="utf-8")
    return path


def run(seconds: float, merges: list[tuple[bytes, ...]] | None = None) -> Run:
    figures: dict[str, Any] = {
        "seconds": seconds,
        "cpu_seconds": seconds,
        "peak_megabytes": 10.0,
        "megabytes_before": 4.0,
        "process_seconds": seconds + 1,
        "phases": {"counting": seconds / 4, "merging": seconds * 3 / 4},
    }
    return Run(figures, [[token.hex() for token in merge] for merge in merges or [A]])


@pytest.mark.night
def test_huggingface_learns_what_we_learn_in_processes_of_their_own(corpus: Path) -> None:
    case = Case((str(corpus),), vocab_size=290, threads=1)
    result = compare(TRAINING, ["bpeline", "HuggingFace"], case, rounds=1)
    theirs = result["contestants"]["HuggingFace"]
    assert theirs["equal"] is True, theirs
    assert theirs["ratio"] > 0
    assert {len(name) > 0 for name in result["machine"]["versions"]} == {True}


def test_by_value_numbers_bytes_as_a_plain_trainer_would(corpus: Path) -> None:
    words = count_words(documents(corpus), SplitPattern.named("gpt2").regex)
    expected = naive_merges_by_value(words, 300 - 257)
    assert by_value(corpus, 300) == expected
    printable = TRAINING.named("bpeline").run(Case((str(corpus),), 300, 1), Stopwatch())
    assert printable != expected, "the text must hold ties that the numbering decides"


def naive_merges_by_value(words: dict[bytes, int], wanted: int) -> list[tuple[bytes, bytes]]:
    tokens = [bytes([byte]) for byte in range(256)]
    ids_of = {word: list(word) for word in words}
    merges = []
    for _ in range(wanted):
        pairs: dict[tuple[int, int], int] = {}
        for word, ids in ids_of.items():
            for pair in pairwise(ids):
                pairs[pair] = pairs.get(pair, 0) + words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=(0, 0))
        if pairs.get(best, 0) < 2:
            break
        merges.append((tokens[best[0]], tokens[best[1]]))
        tokens.append(b"".join(merges[-1]))
        for ids in ids_of.values():
            place = 0
            while place < len(ids) - 1:
                if (ids[place], ids[place + 1]) == best:
                    ids[place : place + 2] = [len(tokens) - 1]
                place += 1
    return merges


@pytest.mark.night
def test_documents_are_cut_without_losing_or_splitting_anything(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    long = "it's  a\n\n word é of 12 kinds. " * (3 * LONGEST // 29)
    path.write_text(f"{long}{SEPARATOR}{SEPARATOR}short", encoding="utf-8", newline="")
    pieces = list(documents(path))
    assert len(pieces) > 3
    assert "".join(pieces) == long + "short"
    assert max(map(len, pieces)) < LONGEST + 100
    pattern = SplitPattern.named("gpt2").regex
    assert [word for piece in pieces for word in split(piece, pattern)] == [
        *split(long, pattern),
        "short",
    ]


def test_lines_keep_their_ends_and_are_ended_by_line_feeds_alone(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a\r\nb\u2028c\rd\n\ne", encoding="utf-8", newline="")
    assert list(lines(path)) == ["a\r\n", "b\u2028c\rd\n", "\n", "e"]


def test_merges_of_lines_are_those_of_a_plain_trainer_that_gets_lines(corpus: Path) -> None:
    assert SEPARATOR in corpus.read_text(), "which is text to those who read lines"
    words = count_words(lines(corpus), SplitPattern.named("gpt2").regex)

    expected = train(words, 300 - 257)
    assert by_lines(corpus, 300) == expected


def test_a_package_in_a_folder_of_its_own_is_known_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Contestant("newer", lambda *_: None, "pack", "pack", folder_variable="NEWER_PACK")
    assert not newer.installed
    monkeypatch.setenv("NEWER_PACK", str(tmp_path))
    assert not newer.installed
    (tmp_path / "pack").mkdir()
    assert newer.installed
    (tmp_path / "pack-2.0rc1.dist-info").mkdir()
    (tmp_path / "pack-2.0rc1.dist-info/METADATA").write_text("Name: pack\nVersion: 2.0rc1\n")
    ours = TRAINING.named("bpeline")
    measured = replace(TRAINING, contestants=(ours, newer))
    result = summary(measured, Case((__file__,), 300), [({"bpeline": [run(1.0)]}, 0)])
    assert result["machine"]["versions"]["newer"] == "2.0rc1"


def test_a_beginning_ends_with_a_document(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(f"é first{SEPARATOR}second{SEPARATOR}third")
    with beginning(path, megabytes=40e-6) as corpus:
        assert corpus.read_text() == f"é first{SEPARATOR}second"
    assert not corpus.exists()
    with beginning(path, megabytes=1) as corpus:
        assert corpus == path


def test_the_first_divergence_is_named() -> None:
    assert first_divergence([A, B], [A, B]) is None
    assert first_divergence([A, B], [A, C]) == (1, "'b' + 'a'", "'ab' + 'c'")
    assert first_divergence([A, B], [A]) == (1, "'b' + 'a'", "nothing")
    assert first_divergence([A], [A, B]) == (1, "nothing", "'b' + 'a'")


@pytest.mark.parametrize(
    ("contestant", "theirs", "equal"),
    [
        ("HuggingFace", [A, C], True),
        ("HuggingFace", [A, B], False),
        ("rustbpe", [(b"ab",), (b"abc",)], True),
        ("rustbpe", [(b"ab",), (b"ba",)], False),
        ("gigabpe", [A, B], True),
        ("gigabpe", [A, C], False),
        ("SentencePiece", [(b"xy",)], None),
    ],
)
def test_equality_is_judged_by_what_a_trainer_promises(
    contestant: str,
    theirs: list[tuple[bytes, ...]],
    equal: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(trainers._ORACLES, "value", lambda _case: [A, C])
    monkeypatch.setitem(trainers._ORACLES, "lines", lambda _case: [A, B])
    found = {"bpeline": [A, C]}
    assert verdict(TRAINING.named(contestant), theirs, found, Case(("",))).equal is equal


def result_of(path: Path, theirs: list[tuple[bytes, ...]]) -> dict[str, Any]:
    runs = {
        "bpeline": [run(1.0), run(2.0), run(4.0)],
        "HuggingFace": [run(10.0, theirs), run(60.0, theirs), run(40.0, theirs)],
        "rustbpe": [Run(failure="out of memory")],
    }
    return summary(TRAINING, Case((str(path),), 300), [(runs, 0)])


def test_ratios_are_of_pairs_and_only_between_equals(corpus: Path) -> None:
    assert result_of(corpus, [A])["contestants"]["HuggingFace"]["ratio"] == 10.0
    different = result_of(corpus, [B])["contestants"]["HuggingFace"]
    assert different["ratio"] is None
    assert different["divergence"][0] == 0


def test_tables_show_failures_and_differences(corpus: Path) -> None:
    result = result_of(corpus, [B])
    table = plain(result)
    assert "out of memory" in table
    assert "HuggingFace differs at merge 0: ours 'a' + 'b', theirs 'b' + 'a'" in table
    assert rows(result)[0][0] == "bpeline"


def test_all_that_is_not_counting_is_merging() -> None:
    told = {"seconds": 8.0, "phases": {"counting": 2.0, "pairs": 1.0, "merging": 5.0}}
    assert phases_of(told) == (2.0, 6.0)
    assert phases_of({"seconds": 8.0, "phases": {"all": 8.0}}) == (None, None)


def test_the_stopwatch_splits_a_phase_at_reported_times() -> None:
    watch = Stopwatch()
    with watch.phase():
        pass
    watch.split({"counting": 12.0, "merging": 17.0}, begin=10.0, end=18.0)
    assert watch.phases == {"counting": 2.0, "merging": 6.0}
    assert watch.seconds == 8.0


def test_native_output_is_captured_past_python() -> None:
    with captured(2) as said:
        os.write(2, b"Pretokenization took 66.9ms")
    assert said() == "Pretokenization took 66.9ms"


def test_pages_keep_everything_outside_the_markers(corpus: Path, tmp_path: Path) -> None:
    save(result_of(corpus, [A]), tmp_path)
    (kept,) = newest("training", tmp_path)
    assert kept == result_of(corpus, [A]), "what follows from runs is found again"
    content = block([kept])
    begin, end = "<!-- benchmarks:start -->", "<!-- benchmarks:end -->"
    page = replaced(f"before\n{begin}\nold\n{end}\nafter", content)
    assert page == f"before\n{begin}\n{content}\n{end}\nafter"
    assert "| HuggingFace |" in content
    with pytest.raises(ValueError, match="benchmarks:start"):
        replaced("no markers", content)


def test_the_last_result_is_shown_beside_the_one_before(corpus: Path, tmp_path: Path) -> None:
    first = result_of(corpus, [A]) | {"date": "2026-01-01"}
    save(first, tmp_path)
    assert changes("training", tmp_path) == []
    later = result_of(corpus, [A]) | {"date": "2026-01-02"}
    for figures in later["contestants"]["bpeline"]["runs"]:
        figures["cpu_seconds"] *= 1.5
    save(later, tmp_path)
    save(result_of(corpus, [A]) | {"threads": 7}, tmp_path)
    rows_ = {row[2]: row for row in changes("training", tmp_path)}
    assert rows_["bpeline"][0] == "2026-01-01 → 2026-01-02"
    assert rows_["bpeline"][3:] == ("2.00", "3.00", "150%")
    assert rows_["HuggingFace"][-1] == "100%"
    assert newest("training", tmp_path)[0]["date"] == "2026-01-02"


def test_every_measurement_compares_with_its_first_contestant() -> None:
    for name, measurement in MEASUREMENTS.items():
        names = [one.name for one in measurement.contestants]
        assert name == measurement.name
        assert len(set(names)) == len(names)
        assert measurement.named(measurement.baseline).package is None


def test_charts_are_small(corpus: Path, tmp_path: Path) -> None:
    from benchmarks.charts import bars, curves

    bars([result_of(corpus, [A])], tmp_path / "bars.svg")
    lines = {"bpeline": [(10, 1.0), (100, 2.0)], "rustbpe": []}
    curves([{"title": "t", "label": "MB", "lines": lines}], tmp_path / "curves.svg")
    for name in ("bars.svg", "curves.svg"):
        drawn = (tmp_path / name).read_text()
        assert "bpeline" in drawn
        assert len(drawn) < 50_000
