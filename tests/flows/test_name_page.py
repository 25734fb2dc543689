"""The page of a name with all its versions: what it says, shows beside what, and links."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from browser import Page as Browser
from browser import browsing, installed_browser
from click.testing import Result

from bpeline.flows.pages.name_page import page_of_name
from bpeline.registry.aliases.history import (
    NEW_TEXT_COST,
    OWN_TEXT_COST,
    WATCHED,
    NameHistory,
    PastVersion,
    name_history,
)
from bpeline.registry.catalogue import AliasMove
from bpeline.registry.evaluation.measured import evaluation_set_of
from bpeline.registry.evaluation_sets import changes_from, kept_measurement, parts_of
from bpeline.registry.opening import open_registry
from bpeline.registry.records import PastObservation, Tombstone
from bpeline.registry.tracking import DRIFTED
from bpeline.registry.versions.listing import ListedVersion

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
CHAMPION = r"news/{} (\w+ )?champion\b"  # a version and its alias, side by side
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u200b\"'"


class Page(HTMLParser):
    """What a browser would make of it: tags, their addresses, text, and the titles of spots."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""  # of neighbours in a table, words apart
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.text += " "
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def version(number: int, ratio: float | None, **more: object) -> PastVersion:
    metrics = {} if ratio is None else {"compression/bytes_per_token": ratio}
    fields = {
        "name": "news", "digest": f"{number:064x}", "aliases": (), "vocab_size": 8000,
        "pattern": "gpt2", "created_at": f"2026-01-{number:02}T10:00:00", "run_id": "",
        "mlflow_run_id": "", "metrics": metrics, "comparable": True, **more,
    }  # fmt: skip
    not_compared = str(fields.pop("not_compared", ""))
    listed = ListedVersion(number=number, **fields)  # type: ignore[arg-type]
    return PastVersion(listed, not_compared, None if not_compared else ratio, None, None)


def history(*versions: PastVersion, **more: object) -> NameHistory:
    fields = {
        "at": "2026-02-01T12:00:00", "measured_on": "evaluation set 3f2a91c0", "moves": (),
        "reference": versions[0].version if versions else None, "deleted": (), "observations": (),
        **more,
    }  # fmt: skip
    return NameHistory(name="news", versions=versions, **fields)  # type: ignore[arg-type]


def test_the_curve_shows_the_versions_of_one_text_alone() -> None:
    told = "set 11112222, not 3f2a91c0"
    page = Page(
        page_of_name(
            history(
                version(1, 3.0, not_compared=told, comparable=False),
                version(2, 4.0),
                version(3, 5.0, vocab_size=16000, pattern="cl100k"),
                version(4, None, not_compared="unknown"),
            )
        )
    )
    for facts in (
        ("news/2", "250.00", "8,000", "gpt2", "2026-01-02"),
        ("news/3", "200.00", "16,000", "cl100k", "2026-01-03"),
    ):
        assert re.search(r"\b.*\b".join(facts), page.text), facts
    assert page.tags.count("title") == 1 + 2, "that of the page, and a point for each"
    assert re.search(rf"news/1\b.*{told}", page.text)
    assert "3.0000*" not in page.text  # a whole number is written as one
    assert "3*" in page.text, "of another text than the others"


@pytest.mark.parametrize(
    ("kinds", "corners", "legend"),
    [
        ([(8000, "gpt2"), (8000, "cl100k"), (8000, "gpt2")], [1, 2], ["cl100k", "gpt2"]),
        ([(8000, "gpt2"), (16000, "gpt2"), (8000, "gpt2")], [1, 2], ["8k ids", "16k ids"]),
        ([(8000, "gpt2"), (8000, "cl100k"), (16000, "gpt2")], [1, 1, 1],
         ["8k ids cl100k", "8k ids gpt2", "16k ids gpt2"]),
        ([(size, "gpt2") for size in (*range(9), *range(9))], [2] * 9, []),
        ([(8000, "gpt2"), (8000, "gpt2")], [2], []),
    ],
    ids=["patterns", "sizes", "both", "many", "one"],
)  # fmt: skip
def test_a_line_joins_versions_of_one_size_and_pattern(
    kinds: list[tuple[int, str]], corners: list[int], legend: list[str]
) -> None:
    versions = [
        version(number, 3.0 + number, vocab_size=size, pattern=pattern)
        for number, (size, pattern) in enumerate(kinds, 1)
    ]
    page = page_of_name(history(*versions))
    paths = re.findall(r'<path d="M([^"]*)" fill="none" stroke="rgb', page)
    assert sorted(path.count("L") + 1 for path in paths) == corners
    assert re.findall(r'rx="2" fill="[^"]*"/><text[^>]*>([^<]*)</text>', page) == legend


def test_nothing_that_compares_is_said_so() -> None:
    alone = version(1, 3.0, not_compared="its own text")
    page = Page(page_of_name(history(alone, reference=None)))
    assert "svg" not in page.tags
    assert "evaluation set" in page.text


def test_what_people_typed_neither_acts_nor_hides() -> None:
    move = AliasMove("news", "champion", None, 1, HOSTILE, HOSTILE, "2026-01-02T10:00:00.000")
    gone = Tombstone("news", 2, "0" * 64, HOSTILE, HOSTILE, "2026-01-03T10:00:00")
    text = page_of_name(
        history(
            version(1, 4.0, pattern=HOSTILE, aliases=("champion",)),
            moves=(move,),
            deleted=(gone,),
            measured_on=HOSTILE,
        ),
        ui='https://mlflow.example/"><script>alert(2)</script>',
    )
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert not set("\u202e\u200b") & set(text)
    assert page.text.count("<script>alert(1)</script>") >= 5


def test_aliases_say_since_when_and_until_when() -> None:
    def moved(alias: str, before: int | None, after: int | None, day: int, kind: str) -> AliasMove:
        at = f"2026-01-{day:02}T10:00:00.000"
        return AliasMove("news", alias, before, after, "jo", f"why {day}", at, kind)  # type: ignore[arg-type]

    moves = (
        moved("champion", 2, 2, 9, "refusal"),
        moved("champion", 1, 2, 5, "promote"),
        moved("candidate", 1, 2, 4, "publish"),
        moved("champion", None, 1, 2, "promote"),
    )
    page = Page(
        page_of_name(
            history(version(1, 4.0), version(2, 4.0, aliases=("champion", "x")), moves=moves)
        )
    )
    words = " ".join(page.text.split())
    assert re.search(CHAMPION.format(2), words)
    assert "champion news/2 2026-01-05 10:00 jo why 5" in words
    assert re.search(r"2026-01-09 10:00 champion [^→]*news/2 jo why 9", words), "a refusal"
    assert re.search(r"2026-01-02 10:00 2026-01-05 10:00 champion \w+ → news/1 jo why 2", words)
    assert re.search(r"x news/2 (?!2026)", words), "nothing is known of when this one was set"


def test_drift_is_a_series_beside_the_version_s_own_text() -> None:
    def observed(number: int, outcome: float, new: float) -> PastObservation:
        metrics = {DRIFTED: outcome, WATCHED: 1.0, NEW_TEXT_COST: new, OWN_TEXT_COST: 4.0}
        return PastObservation(number, 1_780_000_000_000 + number, metrics)

    seen = (observed(1, 0.0, 4.0), observed(2, -1.0, 3.9), observed(4, 1.0, 2.0))
    page = Page(page_of_name(history(version(1, 4.0), observations=seen)))
    words = " ".join(page.text.split())
    assert re.search(r"news/1 [^/]*, 2026-05-28", words), "a point of the series"
    assert re.search(r"4 2026-05-28 20:26 news/1 [a-z ]+ 500\.00 250\.00 \+100\.00%", words)
    outcomes = re.findall(r"\d 2026-05-28 20:26 news/1 ([a-z ]*[a-z])", words)
    assert len(outcomes) == len(set(outcomes)) == 3, "each says what came of it"
    assert page.tags.count("svg") == 2
    unknown, none = (
        Page(page_of_name(history(version(1, 4.0), observations=one))) for one in (None, ())
    )
    assert "MLflow" in unknown.text.rpartition("Drift")[2]
    assert "bpeline drift news" in none.text.rpartition("Drift")[2]
    assert unknown.tags.count("svg") == none.tags.count("svg") == 1


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """``news`` in four versions, two of them on an evaluation set that was given later."""
    pieces = [english_and_code[at : at + 1200] for at in range(0, 240_000, 1200)]
    files = {
        "old.txt": "<|end|>".join(pieces[:50]),
        "new.txt": "<|end|>".join(pieces[40:150]),
        "given.txt": "<|end|>".join(pieces[150:190]),
        "drift.txt": "<|end|>".join(pieces[190:]),
    }
    options = ("--name", "news", "--special-token", "<|end|>", "--held-out", 0.2)
    return folder_after(
        files,
        [
            ("train", "old.txt", *options, "--vocab-size", 600),
            ("promote", "news/1", "--reason", "the first"),
            ("train", "new.txt", *options, "--vocab-size", 600),
            ("evaluate", "news", "--set-from", "given=given.txt"),
            ("train", "new.txt", *options, "--vocab-size", 700, "--pattern", "cl100k"),
            ("promote", "news/3", "--reason", "fewer tokens"),
            ("train", "new.txt", *options, "--vocab-size", 700),
            ("drift", "news@champion", "drift.txt"),
            ("evaluate", "news/4"),
        ],
    )


@pytest.mark.night
def test_every_change_is_that_of_the_two_versions_alone(here: Path) -> None:
    registry = open_registry()
    found = name_history(registry, "news")
    assert [one.version.number for one in found.versions] == [1, 2, 3, 4]
    made = evaluation_set_of(registry, "news")
    everything = parts_of(made)[0]
    assert found.reference is not None
    assert found.reference.number == 3
    before = kept_measurement(registry.workspace, made, found.reference.digest)
    assert before is not None
    compared = 0
    for one in found.versions:
        own = kept_measurement(registry.workspace, made, one.version.digest)
        if own is None or one.version == found.reference:
            assert one.change is None
            continue
        compared += 1
        assert one.change == own.change_from(before, everything)
        assert one.change.intervals, "forty documents are enough"
    assert compared >= 2
    assert changes_from(before, []) == []


@pytest.mark.night
def test_the_command_writes_a_page_with_links_to_reports(here: Path, bpeline: Command) -> None:
    answer = bpeline("versions", "news", "-o", "news.html")
    assert answer.exit_code == 0, answer.output
    assert "news.html" in answer.stdout
    page = Page((here / "news.html").read_text(encoding="utf-8"))
    reports = {one for one in page.addresses if one.startswith("file://")}
    assert len(reports) == 4
    assert all(Path(unquote(urlparse(one).path)).is_file() for one in reports)
    assert sum("/models/news/versions/" in one for one in page.addresses) == 4
    words = " ".join(page.text.split())
    assert re.search(CHAMPION.format(3), words)
    assert "the first" in words
    as_json = json.loads(bpeline("versions", "news", "-o", "news.html", "--json").stdout)
    assert len(as_json) == 4
    for one in as_json:
        assert one["digest"][:12] in page.text
        assert f"{one['metrics']['corpus/distinct_words']:,.0f}" in page.text


@pytest.mark.night
def test_a_page_is_of_one_name_that_there_is(here: Path, bpeline: Command) -> None:
    answer = bpeline("versions", "-o", "all.html")
    assert answer.exit_code == 2
    assert "bpeline versions NAME -o FILE" in answer.stderr
    answer = bpeline("versions", "nobody", "-o", "nobody.html")
    assert answer.exit_code == 1
    assert "nobody" in answer.stderr
    assert not list(here.glob("*o*y.html"))


@pytest.mark.night
def test_mlflow_has_the_page_with_the_latest_version_and_links_it(here: Path) -> None:
    registry = open_registry()
    latest = registry.tracker.version("news", 4)
    assert latest is not None
    store = registry.tracker._client
    description = store.get_registered_model("news").description
    place = f"{latest.mlflow_run_id}/artifacts/versions/versions.html"
    assert re.search(rf"^\[All versions.*\]\(#/experiments/\d+/runs/{place}\?", description, re.M)
    (kept,) = (here / ".bpeline" / "mlflow-artifacts").rglob(place)
    page = Page(kept.read_text(encoding="utf-8"))
    assert [one for one in page.addresses if not one.startswith("#")] == []
    words = " ".join(page.text.split())
    assert "fewer tokens" in words
    assert "news/3" in words, "it is made again after an observation"
    shown = page_of_name(name_history(registry, "news"))
    assert _without_time(shown) == _without_time(kept.read_text(encoding="utf-8"))


def _without_time(page: str) -> str:
    return re.sub(r"as of [\d :-]+ UTC", "", page)


@pytest.mark.night
def test_a_promotion_and_a_deletion_are_on_the_page_at_once(
    folder_after: Callable[..., Path], english_and_code: str, bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    options = ("--name", "news", "--vocab-size")
    files = {"a.txt": english_and_code[:60_000]}
    monkeypatch.chdir(folder_after(files, [("train", "a.txt", *options, n) for n in (400, 500)]))

    def page() -> str:
        latest = open_registry().tracker.versions("news")[-1].mlflow_run_id
        (kept,) = Path(".bpeline/mlflow-artifacts").rglob(f"{latest}/artifacts/versions/*.html")
        return " ".join(Page(kept.read_text(encoding="utf-8")).text.split())

    assert not re.search(CHAMPION.format(r"\d"), page())
    assert bpeline("promote", "news/1", "--reason", "it is small").exit_code == 0
    assert re.search(CHAMPION.format(1), page())
    assert "it is small" in page()
    assert bpeline("promote", "news/2").exit_code == 0
    assert bpeline("rollback", "news", "--reason", "slow").exit_code == 0
    assert re.search(CHAMPION.format(1), page())
    assert bpeline("delete", "news@candidate", "--yes").exit_code == 0
    done = bpeline("delete", "news/2", "--reason", "not needed", "--yes")
    assert done.exit_code == 0, done.output
    assert "news/2" in page().partition("Deleted")[2]
    assert "not needed" in page()

    latest = open_registry().tracker.versions("news")[-1].mlflow_run_id
    (shown,) = Path(".bpeline/mlflow-artifacts").rglob(f"{latest}/artifacts/versions")
    shutil.rmtree(shown)
    shown.symlink_to("nowhere")
    with pytest.warns(UserWarning, match=r"news.*refused"):
        promoted = bpeline("promote", "news/1", "--to", "staging")
    assert promoted.exit_code == 0, "what has moved has moved"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = installed_browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with browsing(program, tmp_path / "profile") as opened:
        yield opened


@pytest.mark.night
def test_a_browser_asks_for_nothing_and_a_telephone_holds_it(
    here: Path, bpeline: Command, browser: Browser
) -> None:
    bpeline("versions", "news", "-o", "news.html")
    browser.open(here / "news.html")
    assert browser.complaints == []
    assert browser.requests == [(here / "news.html").absolute().as_uri()]
    titles = browser.run("Array.from(document.querySelectorAll('h2'), one => one.textContent)")
    assert titles == ["Cost over time", "Versions", "Figures", "Aliases", "Drift"]
    browser.resize(380, 800)
    assert browser.run("document.documentElement.scrollWidth") <= 380
