"""Watching for drift: what is said of which text, what is counted once, what MLflow remembers."""

from __future__ import annotations

import json
import logging
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published import copied

from bpeline.flows.drift.drift_report import HEAD, WORD_HEAD, DriftReport
from bpeline.flows.publishing.promotion import Promotion
from bpeline.flows.running import progress, steps
from bpeline.flows.watch_drift import watch_drift
from bpeline.registry.opening import open_registry
from bpeline.registry.records import STUCK
from bpeline.registry.versions.listing import list_versions
from bpeline.tokenizer_core.errors import (
    EmptyCorpus,
    InvalidOption,
    MissingSource,
    UnknownVersion,
    WorkspaceLocked,
)
from bpeline.tokenizer_core.evaluation import drift
from bpeline.tokenizer_core.evaluation.metric_names import BYTES_PER_TOKEN

Command = Callable[..., Result]
END = "<|end|>"
FEW: dict[str, Any] = {"least_documents": 30, "least_bytes": 20_000}


@pytest.fixture(scope="module")
def pieces(english_and_code: str) -> list[str]:
    """About 1,000 documents of 1 kB, in an order that says nothing."""
    found = [english_and_code[at : at + 1000] for at in range(0, len(english_and_code), 1000)]
    random.Random(7).shuffle(found)
    return found


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, fresh_workspace: Path, pieces: list[str]
) -> Path:
    """A directory with a workspace in which ``news`` was trained; to be copied."""
    from flow_calls import train_tokenizer

    from bpeline.registry.aliases.promotion import promote

    place = tmp_path_factory.mktemp("trained")
    copied(fresh_workspace, place / ".bpeline")
    write(place / "corpus.txt", pieces[:500])
    write(place / "docs.txt", pieces[500:620])
    train_tokenizer(
        [str(place / "corpus.txt")], "news", 2000, special_tokens=[END], held_out=0.3,
        evaluation=[f"docs={place / 'docs.txt'}"], workspace=str(place / ".bpeline"),
    )  # fmt: skip
    promote("news/1", workspace=str(place / ".bpeline"))
    return place


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workspace of this test's own, beside an empty directory of new text."""
    copied(trained / ".bpeline", tmp_path / ".bpeline")
    (tmp_path / "new").mkdir()
    return tmp_path


def write(path: Path, documents: list[str]) -> Path:
    path.write_text(END.join(documents), encoding="utf-8")
    return path


def scrambled(documents: list[str]) -> list[str]:
    """The same letters in words, in another order."""
    letters = random.Random(1)
    return [
        " ".join("".join(letters.sample(word, len(word))) for word in one.split(" "))
        for one in documents
    ]


def other_language(number: int) -> list[str]:
    """Documents of made-up words in another script."""
    choose = random.Random(2)
    words = ["".join(choose.choices("абвгдежзиклмнопрст", k=7)) for _ in range(300)]
    return [" ".join(choose.choices(words, k=70)) for _ in range(number)]


def broken_metrics(report: DriftReport) -> set[str]:
    return {one.rule.metric for one in report.broken}


@pytest.mark.night
def test_documents_end_where_somebody_says(place: Path, pieces: list[str]) -> None:
    new = place / "new" / "few.txt"
    new.write_text(" <<cut>> ".join(pieces[620:640]), encoding="utf-8")
    found = {
        asked: watch_drift.fn(
            "news", [str(new)], separator=asked, workspace=str(place / ".bpeline"), **FEW
        ).slices["all"].documents
        for asked in (None, "none", "<<cut>>")
    }  # fmt: skip
    assert found["<<cut>>"] >= 20, "each, and what is cut at passages of the evaluation set"
    assert found[None] == found["none"] < 10


@pytest.mark.night
def test_text_of_the_same_kind_has_no_drift_in_twenty_splits(
    place: Path, pieces: list[str]
) -> None:
    """The rules themselves, on the same version; MLflow is not asked twenty times."""
    from bpeline.flows.drift.measurement import own_request, own_texts
    from bpeline.registry.evaluation.drift_rules import DEFAULT_RULES, judge_drift
    from bpeline.registry.loading.load import load_version
    from bpeline.registry.loading.resolution import resolve
    from bpeline.registry.records.references import ByAlias
    from bpeline.registry.versions.lineage import Lineage
    from bpeline.tokenizer_core.counting.chunk_counts import combine_word_counts
    from bpeline.tokenizer_core.evaluation.drift import sample_of

    registry = open_registry(make=False)
    version = resolve(registry, ByAlias("news", "champion"))
    tokenizer = load_version(registry, version)
    reading = own_request(Lineage.of(registry, version), tokenizer, ["x"]).reading
    own = own_texts(Lineage.of(registry, version), reading, ["all"])[0]["all"]
    assert own.documents > 100
    for seed in range(20):
        new = [one.encode() for one in random.Random(seed).sample(pieces[500:], 100 + 10 * seed)]
        sample = sample_of(new, reading.pattern)
        words = combine_word_counts([sample.words])
        found = drift.drift_of(tokenizer, own.text, words, sample.bytes, sample)
        verdicts = judge_drift(DEFAULT_RULES, {"all": found.figures}, {})
        assert [one.said for one in verdicts if not one.holds] == []
        assert all(one.judged for one in verdicts)


@pytest.mark.night
def test_the_same_text_is_quiet_and_the_rule_that_is_broken_says_so(
    place: Path, pieces: list[str]
) -> None:
    same = write(place / "new" / "same.txt", pieces[500:900])
    report = watch_drift.fn("news", [str(same)], **FEW)
    assert (report.drifted, report.observation) == (False, 1)
    assert (report.reference, report.alias, report.outcome) == ("news/1", "champion", "not drifted")
    assert "news/1 (champion)" in report.title
    assert report.not_judged == ()

    mixed = write(place / "new" / "mixed.txt", scrambled(pieces[500:700]))
    report = watch_drift.fn("news", [str(mixed)], **FEW)
    assert {BYTES_PER_TOKEN, drift.EXCESS_DIVERGENCE} <= broken_metrics(report)
    assert report.lines()[1].strip() == report.broken[0].said

    other = write(place / "new" / "other.txt", other_language(100))
    report = watch_drift.fn("news", [str(other)], **FEW)
    assert broken_metrics(report) == {
        BYTES_PER_TOKEN, drift.MANY, drift.EXCESS_DIVERGENCE, drift.NEW_COST
    }  # fmt: skip
    assert report.slices["all"].figures[drift.UNSEEN].new > 0.9

    quetzal = [f"{one} Quetzalcoatl" for one in pieces[500:900]]
    report = watch_drift.fn("news", [str(write(place / "new" / "words.txt", quetzal))], **FEW)
    assert report.slices["all"].new_words[0].word == b" Quetzalcoatl"
    assert report.slices["all"].new_words[0].count > 150


def test_too_little_text_is_neither_drift_nor_its_absence(place: Path, bpeline: Command) -> None:
    small = write(place / "new" / "small.txt", other_language(100))
    report = watch_drift.fn("news", [str(small)])
    assert (report.outcome, report.drifted) == ("not judged", False)
    assert "4 of 4" in report.title
    assert all(one.said in report.markdown() for one in report.not_judged)
    assert report.event()["not_judged"] == [one.said for one in report.not_judged]
    assert (report.broken, len(report.not_judged)) == ((), 4)
    record = report.as_dict()
    assert (record["outcome"], record["drifted"]) == ("not judged", None)
    assert [(one["judged"], one["holds"]) for one in record["verdicts"]] == [(False, None)] * 4
    assert bpeline("drift", "news", small).exit_code == 0, "nobody asked for a judgement"
    assert bpeline("drift", "news", small, "--fail-on-drift").exit_code == 4
    client = open_registry().tracker._client
    experiment = client.get_experiment_by_name("news").experiment_id
    (run,) = client.search_runs([experiment], "metrics.`drift/drifted` < 0")
    assert not client.search_runs([experiment], "metrics.`drift/drifted` = 0")
    assert re.match(rf"news/1: not judged\b.*{BYTES_PER_TOKEN}", run.data.tags["observation.1"])
    assert re.search(r"\b100 [^,]* 400,000 bytes", report.lines()[1])
    assert f" {report.slices['all'].bytes:,} bytes" in report.lines()[1], "never rounded up"
    assert report.slices["all"].figures[BYTES_PER_TOKEN].new < 2, "it is told all the same"


@pytest.mark.night
def test_slices_are_compared_with_what_the_version_was_evaluated_on(
    place: Path, trained: Path, pieces: list[str]
) -> None:
    write(place / "new" / "docs.txt", pieces[620:800])
    write(place / "new" / "other.txt", other_language(100))
    report = watch_drift.fn(
        "news",
        sources=["docs:language=en=new/docs.txt", "other:language=xx=new/other.txt"],
        **FEW,
    )
    assert list(report.slices) == ["all", "docs", "other", "language:en", "language:xx"]
    again = report.slices["docs"].figures[BYTES_PER_TOKEN]
    assert again.own == pytest.approx(own_bytes_per_token(trained / ".bpeline"))
    assert len(again.own_draws), "the texts are what they were: they are measured again"
    measured_again = report.origins["docs"]
    assert "docs" in measured_again
    assert report.origins["other"] == ""
    assert report.slices["other"].figures[BYTES_PER_TOKEN].own is None
    assert {one.rule.slice for one in report.verdicts} == {"all", "docs"}
    assert {one.rule.slice for one in report.broken} == {"all"}

    shutil.rmtree(place / ".bpeline" / "evaluation-sets")
    report = watch_drift.fn("news", sources=["docs=new/docs.txt"], **FEW)
    again = report.slices["docs"].figures[BYTES_PER_TOKEN]
    assert again.own == pytest.approx(own_bytes_per_token(trained / ".bpeline"))
    assert not len(again.own_draws)
    assert report.origins["docs"] not in ("", measured_again)


def own_bytes_per_token(workspace: Path) -> float:
    from bpeline.registry.versions.listing import list_versions

    metrics: dict[str, float] = list_versions("news", workspace)[0].metrics
    return metrics[BYTES_PER_TOKEN]


@pytest.mark.night
def test_three_observations_are_a_series_in_mlflow(place: Path, pieces: list[str]) -> None:
    texts = {
        "monday": pieces[500:700], "tuesday": pieces[600:800], "wednesday": other_language(100)
    }  # fmt: skip
    reports = [
        watch_drift.fn("news", [str(write(place / "new" / f"{day}.txt", documents))], **FEW)
        for day, documents in texts.items()
    ]
    assert [one.observation for one in reports] == [1, 2, 3]
    registry = open_registry()
    client = registry.tracker._client
    experiment = client.get_experiment_by_name("news").experiment_id
    (run,) = client.search_runs([experiment], "tags.kind = 'drift'")
    assert (run.info.run_name, run.info.status) == ("drift news", "FINISHED")
    assert all(run.info.run_id in one.link for one in reports)

    def series(metric: str) -> list[tuple[int, float]]:
        return [(p.step, p.value) for p in client.get_metric_history(run.info.run_id, metric)]

    new = [one.slices["all"].figures[BYTES_PER_TOKEN].new for one in reports]
    assert series("drift/bytes_per_token/all") == list(enumerate(new, 1))
    assert series("drift/drifted") == [(1, 0.0), (2, 0.0), (3, 1.0)]
    assert series("drift/version") == [(1, 1.0), (2, 1.0), (3, 1.0)]
    own = {value for _, value in series("drift/bytes_per_token/all.own")}
    assert len(own) == 1
    assert run.data.tags["observation.1"] == "news/1: not drifted"
    assert re.match(rf"news/1: drifted\b.*{BYTES_PER_TOKEN}", run.data.tags["observation.3"])
    note = run.data.tags["mlflow.note.content"]
    assert "*Step*" in note
    times = [p.timestamp for p in client.get_metric_history(run.info.run_id, "drift/drifted")]
    assert times == sorted(times)

    files = Path(run.info.artifact_uri.removeprefix("file://"))
    kept = [json.loads(path.read_bytes()) for path in sorted((files / "observations").iterdir())]
    assert [one["observation"] for one in kept] == [1, 2, 3]
    assert [one["drifted"] for one in kept] == [False, False, True]
    assert kept[2]["slices"]["all"]["new_words"][0]["saved"] > 0
    assert {path.name for path in (files / "figures").iterdir()} == {"bytes-per-token.svg"}


class Listener(progress.Progress):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self.heard: list[tuple[str, str]] = []

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        self.steps[name] = outcome

    def summary(self, title: str, markdown: str) -> None:
        self.heard.append(("summary", title))

    def drifted(self, name: str, alias: str, event: Mapping[str, Any]) -> None:
        self.heard.append(("drifted", str(event["reference"])))


@pytest.mark.night
def test_what_was_counted_is_not_counted_again(place: Path, pieces: list[str]) -> None:
    new = write(place / "new" / "new.txt", pieces[500:900])
    for expected in (r"^1 chunk\b", r"\b1 of 1\b"):
        with progress.listening(Listener()) as listener:
            watch_drift.fn("news", [str(new)], **FEW)
        assert isinstance(listener, Listener)
        assert re.search(expected, listener.steps["count words"])
    # A training as the version's own finds it counted too.
    from flow_calls import train_tokenizer

    summary = train_tokenizer([str(new)], "news", 2000, special_tokens=[END], held_out=0.3)
    assert (summary.chunks, summary.chunks_reused) == (1, 1)


@pytest.mark.night
def test_listeners_hear_of_drift_and_of_every_observation(place: Path, pieces: list[str]) -> None:
    same = write(place / "new" / "same.txt", pieces[500:900])
    other = write(place / "new" / "other.txt", other_language(100))
    listener = Listener()
    with progress.listening(progress.Several([listener])):
        reports = [watch_drift.fn("news", [str(path)], **FEW) for path in (same, other)]
    assert [kind for kind, _ in listener.heard] == ["summary", "summary", "drifted"]
    expected = [reports[0].reference, reports[1].reference, reports[1].reference]
    assert [one for _, one in listener.heard] == expected
    event = json.loads(json.dumps(reports[1].event()))
    assert event["reference"] == "news/1"
    assert len(event["rules"]) == len(reports[1].broken)


RULE = '[[rule]]\nmetric = "compression/bytes_per_token"\ndirection = "higher"\ntolerance = {}\n'


def retrain(trained: Path, refused: Path, workspace: Path) -> Promotion:
    """Train on both texts, and ask the rules."""
    from flow_calls import train_tokenizer

    summary = train_tokenizer(
        [str(trained / "corpus.txt"), str(refused / "other.txt")], "news", 2000, held_out=0.3,
        special_tokens=[END], rules=str(refused / "rules.toml"), workspace=str(workspace),
    )  # fmt: skip
    assert summary.promotion is not None
    return summary.promotion


@pytest.fixture(scope="module")
def refused(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory, with ``news/2`` that learned from drifted text, too, and that rules refuse."""
    place = tmp_path_factory.mktemp("refused")
    copied(trained / ".bpeline", place / ".bpeline")
    write(place / "other.txt", other_language(100))
    (place / "rules.toml").write_text(RULE.format(0.001), encoding="utf-8")
    promotion = retrain(trained, place, place / ".bpeline")
    assert (promotion.state, promotion.exit_code) == ("Refused", 3)
    on_set, _, new = promotion.refusal.rpartition("; ")
    (known,) = open_registry(place / ".bpeline").catalogue.evaluation_sets("news")
    assert known.digest[:8] in on_set
    assert re.match(r"-[\d.]+%", new), "what it gains on new text"
    return place


@pytest.fixture
def loop(refused: Path, place: Path) -> Iterator[Path]:
    """A copy for one test, which may change the rules."""
    shutil.rmtree(place / ".bpeline")
    copied(refused / ".bpeline", place / ".bpeline")
    shutil.copy(refused / "other.txt", place / "new")
    yield place
    (refused / "rules.toml").write_text(RULE.format(0.001), encoding="utf-8")


def stuck_versions() -> list[str]:
    return [one.reference for one in list_versions("news") if one.stuck]


@pytest.mark.night
def test_a_drift_that_rules_let_no_training_end_starts_none(
    loop: Path, refused: Path, trained: Path, bpeline: Command
) -> None:
    assert stuck_versions() == []
    listener = Listener()
    with progress.listening(progress.Several([listener])):
        report = watch_drift.fn("news", ["new"], **FEW)
    assert report.drifted
    assert "news/2" in report.stuck
    assert STUCK in report.stuck
    assert [kind for kind, _ in listener.heard] == ["summary"], "no training is started"
    few = ("--least-documents", 30, "--least-bytes", 20_000)
    ended = bpeline("drift", "news", "new", "--fail-on-drift", *few)
    assert (ended.exit_code, STUCK in ended.stdout) == (4, True), ended.output
    listed = bpeline("versions", "news", "-o", "page.html").stdout
    for shown in (listed, (loop / "page.html").read_text(encoding="utf-8")):
        assert re.search(rf"news/2\b.*news@champion\b.*{STUCK}", shown)

    # A schedule trains all the same: nothing new is shown in MLflow or the history.
    tracker = open_registry().tracker
    runs = [one.info.run_id for one in tracker._client.search_runs(["1", "2"])]
    assert len(runs) == 3, "of two versions and of drift"
    assert retrain(trained, refused, loop / ".bpeline").state == "Refused"
    assert [one.info.run_id for one in tracker._client.search_runs(["1", "2"])] == runs
    history = open_registry().catalogue.alias_history("news", "champion")
    assert [one.kind for one in history] == ["refusal", "promote"]
    assert stuck_versions() == ["news/2"]


@pytest.mark.night
@pytest.mark.parametrize(
    "change", ["grown", "a little", "set", "rules", "locked", "quiet", "champion"]
)
def test_a_drift_starts_a_training_again_where_that_may_end_it(
    loop: Path, refused: Path, pieces: list[str], change: str, bpeline: Command
) -> None:
    assert watch_drift.fn("news", ["new"], **FEW).stuck
    if change in ("grown", "a little"):
        write(loop / "new" / "more.txt", other_language(80 if change == "grown" else 20))
    elif change == "set":
        write(loop / "docs.txt", pieces[620:700])
        ended = bpeline("evaluate", "news", "--set-from", "docs=docs.txt")
        assert ended.exit_code == 0, ended.output
    elif change == "rules":
        (refused / "rules.toml").write_text(RULE.format(0.002), encoding="utf-8")
    elif change == "locked":
        bpeline("promote", "news/1", "--lock")
    elif change == "quiet":
        (loop / "new" / "other.txt").unlink()
        write(loop / "new" / "same.txt", pieces[500:900])
    else:
        bpeline("promote", "news/2")
        assert stuck_versions() == []
        bpeline("promote", "news/1")
    report = watch_drift.fn("news", ["new"], **FEW)
    is_stuck = change in ("a little", "champion")
    assert (bool(report.stuck), report.drifted) == (is_stuck, change != "quiet")
    assert stuck_versions() == ["news/2"] * is_stuck


@pytest.mark.night
@pytest.mark.parametrize("by_hand", [False, True])
def test_rules_that_changed_judge_a_refused_version_again(
    loop: Path, refused: Path, trained: Path, by_hand: bool
) -> None:
    from bpeline.registry.aliases.promotion import promote, rollback

    if by_hand:
        promote("news/2")
        rollback("news")
    (refused / "rules.toml").write_text(RULE.format(0.9), encoding="utf-8")
    promotion = retrain(trained, refused, loop / ".bpeline")
    assert promotion.promoted is not by_hand, "a person has taken the alias from it"
    assert by_hand or re.search(r"-[\d.]+%", promotion.outcome)


@pytest.mark.night
def test_a_version_whose_counts_are_gone_still_says_what_it_can(
    place: Path, pieces: list[str]
) -> None:
    shutil.rmtree(open_registry().workspace.root / "tables")
    other = write(place / "new" / "other.txt", other_language(100))
    report = watch_drift.fn("news", [str(other)], **FEW)
    assert report.notes
    figures = report.slices["all"].figures
    assert figures.keys().isdisjoint({drift.DIVERGENCE, drift.UNSEEN, drift.NEW_COST})
    assert figures[BYTES_PER_TOKEN].own == pytest.approx(own_bytes_per_token(place / ".bpeline"))
    assert figures[drift.CONTINUED].own is not None
    assert figures[drift.TOKENS_PER_WORD].own is not None
    assert broken_metrics(report) == {BYTES_PER_TOKEN}
    assert {one.rule.metric for one in report.not_judged} == {
        drift.MANY, drift.EXCESS_DIVERGENCE, drift.NEW_COST
    }  # fmt: skip


@pytest.mark.night
def test_an_mlflow_that_is_away_costs_the_record_and_nothing_else(
    place: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.registry.tracking.mlflow_runs import Runs
    from bpeline.tokenizer_core.errors import RegistryUnreachable

    def away(*_: Any) -> None:
        raise RegistryUnreachable("MLflow does not answer", "a server", "start it")

    monkeypatch.setattr(Runs, "record_drift", away)
    other = write(place / "new" / "other.txt", other_language(100))
    report = watch_drift.fn("news", [str(other)], **FEW)
    assert report.drifted
    assert (report.observation, report.link) == (0, "")
    assert "MLflow" in report.notes[0]


def test_errors_name_what_is_missing(place: Path) -> None:
    (place / "new" / "empty.txt").write_text("", encoding="utf-8")
    with pytest.raises(EmptyCorpus):
        watch_drift.fn("news", ["new/empty.txt"])
    with pytest.raises(UnknownVersion, match="nobody"):
        watch_drift.fn("nobody", ["new/empty.txt"])
    with pytest.raises(UnknownVersion, match="news@staging"):
        watch_drift.fn("news", ["new/empty.txt"], alias="staging")
    with pytest.raises(MissingSource):
        watch_drift.fn("news", ["new/absent.txt"])
    with pytest.raises(InvalidOption):
        watch_drift.fn("news")
    rules = place / "rules.toml"
    rules.write_text(
        f'[[rule]]\nmetric = "{BYTES_PER_TOKEN}"\ndirection = "higher"\nslice = "german"\n',
        encoding="utf-8",
    )
    with pytest.raises(InvalidOption, match="german"):
        watch_drift.fn("news", ["new/empty.txt"], rules=str(rules))
    with open_registry().workspace.lock("testing"), pytest.raises(WorkspaceLocked):
        watch_drift.fn("news", ["new/empty.txt"])


@pytest.mark.night
def test_the_command_prints_json_or_a_page_and_can_fail(
    place: Path, pieces: list[str], bpeline: Command
) -> None:
    few = ["--least-documents", 30, "--least-bytes", 20_000]
    other = write(place / "new" / "other.txt", other_language(100))
    shown = bpeline("drift", "news@champion", other, *few)
    assert shown.exit_code == 0, shown.output
    assert re.search(r"news/1 \(champion\): .*\b4 of 4\b", shown.stdout)
    for column in (*HEAD, *WORD_HEAD):
        assert column in shown.stdout
    told = bpeline("drift", "news", other, *few, "--json", "--fail-on-drift")
    assert told.exit_code == 3
    record = json.loads(told.stdout)
    assert (record["drifted"], record["observation"]) == (True, 2)
    figure = record["slices"]["all"]["figures"][BYTES_PER_TOKEN]
    assert figure["interval"][0] < figure["difference"] < figure["interval"][1]
    same = write(place / "new" / "same.txt", pieces[500:900])
    assert bpeline("drift", "news", same, *few, "--fail-on-drift").exit_code == 0
    assert bpeline("drift", "news/1", same).exit_code == 2
    assert "bpeline drift news@champion" in bpeline("drift", "--help").output


@pytest.mark.night
def test_text_that_is_typed_is_judged_as_the_project_of_its_name_says(
    place: Path, pieces: list[str], bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place / "new/a.txt", pieces[700:900])
    monkeypatch.chdir(place)
    asked = ["drift", "news", "new/a.txt", "--json"]
    few = ("--least-documents", 30, "--least-bytes", 20_000)

    def judged(*more: Any) -> tuple[str, int]:
        done = bpeline(*asked, *more)
        report = json.loads(done.stdout)
        assert (str(project) in done.stderr) == project.exists()
        return report["outcome"], len(report["verdicts"])

    project = place / "bpeline.toml"
    assert judged(*few)[1] > 1, "the usual rules"
    rule = 'metric = "compression/bytes_per_token"\ndirection = "higher"\nlimit = '
    project.write_text(
        '[train]\nname = "news"\npaths = ["corpus.txt"]\nvocab_size = 2000\n'
        f"[drift]\nleast_documents = 30\nleast_bytes = 20000\n[[drift.rule]]\n{rule}99\n"
    )
    assert judged() == ("drifted", 1)
    assert judged("--least-documents", 10_000)[0] == "not judged"
    (place / "own.toml").write_text(f"[[rule]]\n{rule}0.1\n")
    assert judged("--rules", "own.toml") == ("not drifted", 1)
    text = project.read_text()
    project.write_text(text.replace("[drift]", '[drift]\npaths = ["new/"]'))
    del asked[2]
    assert judged() == ("drifted", 1), "new text that stands below [drift]"
    project.write_text(project.read_text().replace('"news"', '"other"'))
    assert "other" in bpeline(*asked).stderr


@pytest.mark.night
def test_compressed_and_json_files_are_sampled_as_plain_ones(
    place: Path, pieces: list[str]
) -> None:
    import gzip

    plain = write(place / "new" / "plain.txt", pieces[500:900])
    packed = place / "new" / "packed.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    lines = place / "new" / "lines.jsonl"
    lines.write_text(
        "\n".join(json.dumps({"text": one}) for one in pieces[500:900]), encoding="utf-8"
    )
    figures = [
        {key: one.new for key, one in watch_drift.fn("news", [str(path)], **FEW).slices["all"]
         .figures.items() if key not in (drift.DIVERGENCE_AT_SIZE, drift.EXCESS_DIVERGENCE)}
        for path in (plain, packed, lines)
    ]  # fmt: skip
    assert figures[0] == figures[1]
    for metric, value in figures[2].items():  # other chunks hold other sections out
        assert value == pytest.approx(figures[0][metric], rel=0.2, abs=0.01)


@pytest.mark.night
def test_prefect_gets_an_event_for_drift_and_an_artifact_for_all(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.flows.serving import prefect_listener

    said: dict[str, Any] = {}

    def tell(event: str, name: str, payload: Any, **labels: str) -> str:
        said.update(event=event, name=name, payload=payload, labels=labels)
        return ""

    monkeypatch.setattr(prefect_listener, "tell", tell)
    monkeypatch.setattr(
        prefect_listener, "create_markdown_artifact", lambda page, **given: said.update(page=page)
    )
    other = write(place / "new" / "other.txt", other_language(100))
    report = watch_drift.fn("news", [str(other)], **FEW)
    # Without a run it listens to.
    monkeypatch.setattr(prefect_listener, "get_run_logger", lambda: logging.getLogger("a test"))
    listener = prefect_listener.PrefectListener(steps.GC)
    listener.summary(report.reference, report.markdown())
    listener.drifted(report.name, report.alias, report.event())
    assert (said["event"], said["name"]) == ("bpeline.drift.detected", "news")
    assert said["labels"] == {"alias": "champion"}
    assert json.loads(json.dumps(said["payload"])) == report.event()
    assert said["page"] == report.markdown()


def test_what_is_not_read_is_said(place: Path, pieces: list[str], bpeline: Command) -> None:
    write(place / "new" / "new.txt", pieces[620:700])
    (place / "new" / "picture.png").write_bytes(b"\x89PNG")
    ended = bpeline("drift", "news", place / "new", "--json")
    assert ended.exit_code == 0, ended.output
    told = json.loads(ended.stdout)
    assert told["skipped"] == {"files": 1, "kinds": {".png": 1}, "hidden": 0, "about_datasets": 0}
    assert "skipped 1 file: 1 .png" in told["notes"]
