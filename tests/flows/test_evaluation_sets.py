"""One set of texts for all versions of a name: made, replaced, changed, and judged on."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from bpeline.flows.cli.evaluate import measured_lines
from bpeline.registry.evaluation_sets import Text, as_set, measured_on, read_documents, read_set
from bpeline.registry.evaluation_sets.evaluation_set import EvaluationSet, SetText
from bpeline.registry.loading import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records.references import ByNumber
from bpeline.registry.versions.lineage import Lineage
from bpeline.tokenizer_core.corpus import ReadOptions, Source, find_source_files
from bpeline.tokenizer_core.counting import evaluation_documents
from bpeline.tokenizer_core.evaluation import BYTES_PER_TOKEN
from bpeline.tokenizer_core.splitting import SplitPattern

Command = Callable[..., Result]
RULES = """
[[rule]]
metric = "compression/bytes_per_token"
direction = "higher"
tolerance = 0.02
confidence = 0.95
"""
TRAIN = ("train", "--name", "news", "--json", "--held-out", "0.3")


@pytest.fixture
def here(tmp_path: Path, english_and_code: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with text: much.txt, 0.8 MB, little.txt, and many.txt, the same as documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "much.txt").write_text(english_and_code[:800_000], encoding="utf-8")
    (tmp_path / "little.txt").write_text(english_and_code[:40_000], encoding="utf-8")
    pieces = [english_and_code[at : at + 2_000] for at in range(0, 800_000, 2_000)]
    (tmp_path / "many.txt").write_text("<|endoftext|>".join(pieces), encoding="utf-8")
    (tmp_path / "rules.toml").write_text(RULES, encoding="utf-8")
    return tmp_path


@pytest.fixture
def train(bpeline: Command, here: Path) -> Callable[..., dict[str, Any]]:
    """Train and return the JSON, with the exit code under ``exit``."""

    def run(file: str, vocab_size: int, *options: Any) -> dict[str, Any]:
        ended = bpeline(*TRAIN, file, "--vocab-size", vocab_size, *options)
        assert ended.exit_code in {0, 3, 4}, ended.output
        return {**json.loads(ended.stdout), "exit": ended.exit_code, "said": ended.stderr}

    return run


def sets(bpeline: Command) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(bpeline("evaluate", "--sets", "--json").stdout)
    return listed


def test_one_size_is_said_in_one_way() -> None:
    text = SetText("held-out", None, None, (), "0" * 64, 5, 8_155)
    made = EvaluationSet("3d661727", (text,), False, "held-out", None)  # type: ignore[arg-type]
    metrics = {"evaluated/bytes": 8_155.0, BYTES_PER_TOKEN: 3.2, "words/fertility": 2.4}
    found = SimpleNamespace(slices={"all": SimpleNamespace(metrics=metrics)})
    told, _, row = measured_lines(SimpleNamespace(version="news/1", made=made, found=found), {})
    for fact in ("news/1", "3d661727", "5 documents", "8,155 bytes", "provisional"):
        assert fact in told
    assert row.split()[:3] == ["all", "8,155", "bytes"]


@pytest.mark.night
def test_a_version_with_a_separator_is_equal_and_a_poor_one_is_not_better(
    train: Callable[..., dict[str, Any]], bpeline: Command
) -> None:
    """The text of each was another one before: equal ones were refused, a far worse one won."""
    first = train("much.txt", 2_000, "--rules", "rules.toml")
    assert (first["exit"], first["promotion"]["first"]) == (0, True)
    (only,) = sets(bpeline)
    assert (only["current"], only["provisional"], only["here"]) == (True, False, True)
    with_separator = ("--special-token", "<|endoftext|>", "--rules", "rules.toml")
    equal = train("many.txt", 2_000, *with_separator)
    assert equal["exit"] == 0, equal["promotion"]
    assert only["digest"][:8] in equal["promotion"]["verdicts"][0]
    poor = train("little.txt", 400, "--rules", "rules.toml")
    assert poor["exit"] == 3
    assert "news/3" in poor["promotion"]["refusal"]
    assert sets(bpeline) == [only], "it is the set of all of them"
    # The same figures wherever they are shown.
    compared = json.loads(bpeline("compare", "news/2", "news/3", "--json").stdout)
    (shown,) = [one for one in compared["metrics"] if one["key"] == "compression/bytes_per_token"]
    assert shown["second"] == poor["metrics"]["compression/bytes_per_token"]
    assert only["digest"][:8] in compared["measured_on"]
    run = open_registry().tracker.version("news", 3)
    assert run is not None
    assert run.tags["evaluation_set"] == only["digest"][:8]
    measured = open_registry().tracker.runs.metrics_of(run.mlflow_run_id)
    assert measured["compression/bytes_per_token"] == shown["second"]
    assert "*" not in bpeline("versions").stdout
    # Who looks at MLflow alone needs nothing else to choose.
    client = open_registry().tracker._client
    said = client.get_model_version("news", "3").description
    change = poor["metrics"]["vs_champion_percent/all"]
    first_line = said.partition("\n")[0]
    assert re.match(rf"\{change:+.2f} % [^,]*news/2 \(", first_line), said
    assert re.search(r", 0 [^,]*personal data,", first_line)
    assert f"/runs/{run.mlflow_run_id}/artifacts/report/report.html" in said
    shown_run = client.get_run(run.mlflow_run_id).data
    assert "*Step*" in said
    assert shown_run.tags["mlflow.note.content"] == said, "the report is linked there too"
    costs = said.partition("| costs | ")[2].partition(" |")[0]
    assert re.match(rf"{poor['metrics']['training/rare_tokens']:,.0f} [^,]*\b100\b", costs)
    assert re.search(r", 0 [^,]*personal data,", costs)
    assert f" {poor['metrics']['evaluated/decode_mb_per_second']:,.0f} (" in costs
    assert shown_run.params["champion"] == "news/2", "said where figures share a row"
    table = said.partition("\n| slice | news/2 | news/1 |\n")[2]
    _, only_row = table.partition("\n\n")[0].split("\n")
    low, high = (poor["metrics"][f"vs_champion_percent/all_{end}"] for end in ("low", "high"))
    assert only_row.startswith(f"| all | {change:+.2f} % ({low:+.2f} … {high:+.2f}) |")
    page = client.get_registered_model("news").description
    assert f"evaluation set {only['digest'][:8]} (" in page
    assert 'load_model("models:/news@champion")' in page


@pytest.mark.night
def test_an_alias_moves_by_rules_only_where_something_is_gained(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path
) -> None:
    """A nightly training of a text that hardly changed moved champion, and most ids with it."""
    rules = ("--rules", "rules.toml")
    assert train("much.txt", 1_000)["promotion"] is None
    worse = train("much.txt", 700, *rules)
    assert worse["exit"] == 3, "no alias stands, and a better version of the name is there"
    assert "news/1" in worse["promotion"]["refusal"]
    first = train("many.txt", 1_010, *rules)
    assert (first["exit"], first["promotion"]["first"]) == (0, False)
    assert any("news/1" in one for one in first["promotion"]["remarks"])
    (here / "much.txt").write_text((here / "much.txt").read_text() + "One more line of text. " * 9)
    kept = train("much.txt", 1_020, *rules)
    assert (kept["exit"], kept["promotion"]["refusal"]) == (0, "")
    assert re.search(r"news@champion.*news/4\b.*%.*\b1\.00%", kept["promotion"]["stays"])
    moves = bpeline("show", "news").stdout.splitlines()
    assert any("news/3" in one and "news/4" in one for one in moves)
    by_hand = bpeline("promote", "news/4", *rules)
    assert (by_hand.exit_code, "1.00%" in by_hand.stderr) == (3, True)
    (here / "before.toml").write_text(f"gain = 0\n{RULES}")
    moved = json.loads(bpeline("promote", "news/4", "--rules", "before.toml", "--json").stdout)
    assert (moved["to"], moved["gained"], moved["against"]) == (4, "", "news/3")
    compared = bpeline("compare", "news/3", "news/4", "--json").stdout
    assert moved["changed_ids"] == json.loads(compared)["vocab"]["changed_ids"] > 100
    said = bpeline("compare", "news/3", "news/4").stdout
    assert re.search(rf"\b{moved['changed_ids']:,} .*news/3\b.*news/4\b", said)
    better = train("much.txt", 1_500, *rules)["promotion"]
    assert any(re.search(r"[-+][\d.]+% [^()]*\(.*%", one) for one in better["remarks"]), better
    assert any("news/4" in one for one in better["remarks"])


@pytest.mark.night
def test_a_provisional_set_is_replaced_and_versions_in_use_are_measured_anew(
    train: Callable[..., dict[str, Any]], bpeline: Command
) -> None:
    train("little.txt", 500)
    bpeline("promote", "news/1")
    (small,) = sets(bpeline)
    assert small["provisional"]
    second = train("much.txt", 500)
    assert "news/1" in second["said"]
    before, after = sets(bpeline)
    assert (before["current"], after["current"], after["provisional"]) == (False, True, False)
    versions = json.loads(bpeline("versions", "--json").stdout)
    assert [one["comparable"] for one in versions] == [True, True]
    tracker = open_registry().tracker
    run = tracker._client.get_run(versions[0]["mlflow_run_id"])
    names = {"compression/bytes_per_token", "compression/bytes_per_token.set2"}
    assert names <= run.data.metrics.keys(), "the figures of both sets, apart"
    # Its documents are those of no name any more, and may be somebody's.
    found = json.loads(bpeline("gc", "--days", 0, "--dry-run", "--json").stdout)["old"]
    assert [one["key"] for one in found if one["kind"] == "evaluation set"] == [before["digest"]]


@pytest.mark.night
def test_a_version_that_brings_its_own_set_is_judged_on_the_one_before_too(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path, english_and_code: str
) -> None:
    """Else a small English version beat a large one of other letters: on English alone."""
    other_letters = {ord("a") + at: chr(ord("α") + at) for at in range(24)}
    greek = english_and_code[:120_000].lower().translate(other_letters)
    (here / "greek.txt").write_text(greek, encoding="utf-8")
    asked = ("--rules", "rules.toml")
    assert train("greek.txt", 1_500, *asked)["promotion"]["first"]
    english = train("much.txt", 500, *asked)
    before, after = sets(bpeline)
    assert (before["provisional"], after["provisional"]) == (True, False)
    assert english["metrics"]["vs_champion_percent/all"] < 0, "better on its own text"
    assert english["exit"] == 3, english["promotion"]
    refusal = english["promotion"]["refusal"]
    assert f"evaluation set {before['digest'][:8]}" in refusal
    later = train("much.txt", 600, *asked)
    assert later["exit"] == 3, "as long as that is the champion"
    # Who changes the set by a command has decided: only that one counts.
    (here / "docs.txt").write_text(english_and_code[810_000:1_100_000], encoding="utf-8")
    assert bpeline("evaluate", "news", "--set-from", "docs.txt").exit_code == 0
    bpeline("promote", "news/1")
    assert train("much.txt", 700, *asked)["exit"] == 3, "registered with the first one still"
    bpeline("promote", "news@candidate")
    assert train("much.txt", 900, *asked)["exit"] == 0


@pytest.mark.night
def test_drift_after_a_provisional_set_ends_in_a_promotion(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path, english_and_code: str
) -> None:
    """As many ids for more text are worse on the first one alone; that was too little to judge by.

    The second set holds all of it, beside what is new.
    """
    other_letters = {ord("a") + at: chr(ord("α") + at) for at in range(24)}
    greek = english_and_code[:800_000].lower().translate(other_letters)
    asked = ("--rules", "rules.toml")
    assert train("little.txt", 700, *asked)["promotion"]["first"]
    (before,) = sets(bpeline)
    assert before["provisional"]
    (here / "new.txt").write_text(greek, encoding="utf-8")
    second = bpeline(*TRAIN, "little.txt", "new.txt", "--vocab-size", 700, *asked)
    assert second.exit_code == 0, second.output
    promotion = json.loads(second.stdout)["promotion"]
    assert promotion["version"] == "news/2"
    _, after = sets(bpeline)
    assert f"evaluation set {after['digest'][:8]}" in " ".join(promotion["verdicts"])
    registry = open_registry()
    old = read_set(registry.workspace, before["digest"])
    tokens = [
        measured_on(registry, resolve(registry, ByNumber("news", number)), old).slices["all"]
        for number in (1, 2)
    ]
    ratio = [one.metrics["compression/bytes_per_token"] for one in tokens]
    assert ratio[1] < 0.97 * ratio[0], "worse on the text before: by itself it would be refused"
    worse = train("little.txt", 500, *asked)
    assert worse["exit"] == 3, "what is worse on the second set is refused as ever"


@pytest.mark.night
def test_compare_promote_and_mlflow_show_the_same_figures(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path, english_and_code: str
) -> None:
    """To the last digit: of the same texts there is one figure, whoever is asked."""
    middle = len(english_and_code) // 2
    for name, at in (("first", middle - 250_000), ("last", middle)):
        (here / f"{name}.txt").write_text(english_and_code[at : at + 250_000], encoding="utf-8")
    texts = ("--eval", "first:language=en=first.txt", "--eval", "last:language=c=last.txt")
    train("much.txt", 500, *texts)
    bpeline("promote", "news/1")
    train("many.txt", 700)
    asked = [
        ("compression/bytes_per_token", "all"), ("compression/bytes_per_token", "last"),
        ("words/fertility", "first"), ("words/continued", "last"),
        ("compression/unigram_bits_per_byte", "all"), ("evaluated/tokens", "all"),
        ("distribution/renyi_efficiency_2.5", "all"), ("vocabulary/unreachable_tokens", "all"),
    ]  # fmt: skip
    rule = '[[rule]]\nmetric = "{}"\nslice = "{}"\ndirection = "higher"\ntolerance = 0.9\n'
    rules = "".join(rule.format(*one) for one in asked)
    (here / "loose.toml").write_text(rules, encoding="utf-8")
    compared = json.loads(bpeline("compare", "news/1", "news/2", "--json").stdout)
    promoted = bpeline("promote", "news/2", "--rules", "loose.toml", "--json")
    assert promoted.exit_code == 0, promoted.output
    tracker = open_registry().tracker
    in_mlflow = [
        tracker.runs.metrics_of(one["mlflow_run_id"])
        for one in json.loads(bpeline("versions", "--json").stdout)
    ]
    shown = [json.loads(bpeline("show", f"news/{n}", "--json").stdout) for n in (1, 2)]
    wholes = {one["key"]: one for one in compared["metrics"]}
    slices = {one["name"]: one for one in compared["slices"]}
    for told, (metric, part) in zip(json.loads(promoted.stdout)["rules"], asked, strict=True):
        figures = told["before"], told["value"]
        assert (told["metric"], told["slice"]) == (metric, part)
        if part == "all":
            name, pair = metric, wholes[metric]
        else:
            name = f"{metric.partition('/')[2]}/{part}"
            (pair,) = (one for one in slices[part]["metrics"] if one["key"] == metric)
        assert figures == (pair["first"], pair["second"]), metric
        assert figures == tuple(one[name] for one in in_mlflow), metric
        assert figures == tuple(one["metrics"][name] for one in shown), metric
    description = tracker._client.get_model_version("news", "2").description
    for part in ("all", "first", "last"):
        change = slices[part]["change"]
        name = f"vs_champion_percent/{part}"
        assert in_mlflow[1][name] == 100 * change["value"]
        differs = in_mlflow[1][f"vs_champion_beyond_chance/{part}"]
        assert part == "all" or (
            f", {part} {100 * change['value']:+.2f} %" in description.partition("\n")[0]
        ) == bool(differs)
        low, high = change["intervals"]["0.95"]
        assert (in_mlflow[1][f"{name}_low"], in_mlflow[1][f"{name}_high"]) == (
            100 * low,
            100 * high,
        )


@pytest.mark.night
def test_robustness_is_told_by_kind_and_language(
    bpeline: Command, here: Path, english_and_code: str
) -> None:
    (here / "docs.txt").write_text(english_and_code[810_000:850_000], encoding="utf-8")
    texts = [f"--eval={one}:language={one}=little.txt" for one in ("en", "de")]
    ended = bpeline("train", "docs.txt", "--name", "two", "--vocab-size", 400, "--json", *texts)
    assert ended.exit_code == 0, ended.output
    (told,) = json.loads(bpeline("evaluate", "two/1", "--json").stdout)
    told_first = told["robustness"]
    rows = {(one["language"], one["kind"]): one for one in told_first}
    assert {language for language, _ in rows} >= {"all"}
    kept = rows["all", "case_flipped"]
    shown = json.loads(ended.stdout)["metrics"]
    assert not [key for key in shown if key.endswith("case_flipped")], "a table, not metrics"
    # Of a set that the training did not know, it is measured now.
    pieces = "----".join(english_and_code[at : at + 1_000] for at in range(0, 40_000, 1_000))
    for language in ("en", "de"):
        (here / f"{language}.txt").write_text(pieces, encoding="utf-8")
    sources = [f"--set-from={one}:language={one}={one}.txt" for one in ("en", "de")]
    changed = bpeline("evaluate", "two", *sources, "--separator", "----", "--json")
    (told,) = json.loads(changed.stdout)
    rows = {(one["language"], one["kind"]): one for one in told["robustness"]}
    assert rows["en", "case_flipped"]["inflation_low"] is not None
    assert rows["all", "case_flipped"] != kept
    run = open_registry().tracker.version("two", 1)
    assert run is not None
    client = open_registry().tracker._client
    table = client.download_artifacts(run.mlflow_run_id, "robustness/robustness.json")
    found = json.loads(Path(table).read_text(encoding="utf-8"))
    assert dict(zip(found["columns"], found["data"][0], strict=True)) in told_first


@pytest.mark.night
def test_a_set_changes_by_a_command_alone(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path, english_and_code: str
) -> None:
    docs = english_and_code[810_000:850_000].swapcase()  # else it shares lines with the set
    (here / "docs.txt").write_text(docs, encoding="utf-8")
    train("much.txt", 500)
    other = train("much.txt", 600, "--eval", "docs=docs.txt")
    assert sets(bpeline)[0]["digest"][:8] in other["said"]
    assert "`bpeline evaluate news --set-from FILES`" in other["said"]
    assert "own_new_text/bytes_per_token" in other["metrics"]
    assert len(sets(bpeline)) == 1
    changed = bpeline("evaluate", "news", "--set-from", "docs:language=en=docs.txt")
    assert changed.exit_code == 0, changed.output
    assert [one["number"] for one in sets(bpeline)] == [1, 2]
    new_set = sets(bpeline)[1]["digest"][:8]
    assert re.search(rf"news/2\b.*{new_set}", changed.stdout), "candidate points to it"
    client = open_registry().tracker._client
    page = client.get_registered_model("news").description
    assert f"evaluation set {new_set} (" in page
    client.update_registered_model("news", "What we use for the news.")
    shown = bpeline("versions").stdout.splitlines()
    assert "*" in shown[1], "news/1 has figures of the first set"
    assert "*" not in shown[2]
    assert "*" in shown[3]
    bpeline("evaluate", "news/1")
    assert "*" not in bpeline("versions").stdout
    assert bpeline("evaluate", "other/1").exit_code == 1
    typed = ("evaluate", "news", "--set-from", "few.txt", "--separator")
    (here / "few.txt").write_text("one text ---- another text" * 20, encoding="utf-8")
    assert "(21 documents, " in bpeline(*typed, "----").stdout
    assert "(1 document, " in bpeline(*typed, "none").stdout
    page = client.get_registered_model("news").description
    assert page == "What we use for the news.", "a person wrote it"
    unknown = bpeline("evaluate", "nesw", "--set-from", "docs.txt")
    assert (unknown.exit_code, "nesw" in unknown.stderr) == (1, True)
    assert bpeline("evaluate").exit_code == 2
    assert {one["name"] for one in sets(bpeline)} == {"news"}


@pytest.mark.night
def test_without_the_documents_of_the_set_nothing_is_judged_and_everybody_is_told(
    train: Callable[..., dict[str, Any]], bpeline: Command
) -> None:
    train("much.txt", 500)
    bpeline("promote", "news/1")
    (only,) = sets(bpeline)
    shutil.rmtree(open_registry().workspace.evaluation_sets)
    second = train("much.txt", 600, "--rules", "rules.toml")
    assert any(only["digest"][:8] in note for note in second["notes"])
    assert second["exit"] == 4
    assert "compression/bytes_per_token" in second["promotion"]["refusal"]
    assert "`bpeline evaluate news --set-from FILES`" in second["promotion"]["refusal"]
    listed = json.loads(bpeline("versions", "--json").stdout)
    assert [one["comparable"] for one in listed] == [True, False]
    run = open_registry().tracker._client.get_run(listed[1]["mlflow_run_id"])
    names = run.data.metrics.keys()
    assert "compression/bytes_per_token.own_text" in names
    assert "compression/bytes_per_token" not in names


@pytest.mark.night
def test_the_set_goes_with_the_last_version_of_its_name(
    train: Callable[..., dict[str, Any]], bpeline: Command
) -> None:
    train("much.txt", 500)
    train("much.txt", 600)
    (only,) = sets(bpeline)
    place = open_registry().workspace.evaluation_sets / only["digest"]
    bpeline("delete", "news/1", "--yes")
    assert (place / "set.json").exists(), "news/2 is measured on it"
    bpeline("delete", "news@candidate", "--yes")
    assert f"evaluation set {only['digest'][:8]}" in bpeline("delete", "news", "--dry-run").stdout
    assert bpeline("delete", "news", "--yes").exit_code == 0
    assert (place.exists(), sets(bpeline)) == (False, [])
    again = train("much.txt", 500)
    assert not any("evaluation set" in note for note in again["notes"])
    assert len(sets(bpeline)) == 1


@pytest.mark.night
def test_new_text_without_a_word_costs_no_training(
    train: Callable[..., dict[str, Any]], here: Path
) -> None:
    (here / "blank.txt").write_text("\n" * 40_000, encoding="utf-8")
    train("much.txt", 500)
    second = train("much.txt", 600, "--algorithm", "char-bpe", "--eval", "blank=blank.txt")
    assert second["exit"] == 0
    assert "own_new_text/bytes_per_token" not in second["metrics"]
    assert any("--eval" in note for note in second["notes"])


def test_documents_that_are_left_out_whole_are_told(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path
) -> None:
    """With a pattern that looks ahead at more than a character, nothing parts a document."""
    (here / "rest.txt").write_text("low lower lowest. " * 8_000, encoding="utf-8")
    slow = ("rest.txt", "--pattern", r"\b\w+|\W", "--special-token", "<|endoftext|>",
            "--held-out", "0")  # fmt: skip
    first = train("little.txt", 400)
    advice = "`--special-token`"  # so that documents are short
    assert advice not in first["said"]
    second = train("little.txt", 300, *slow)
    (warning,) = (note for note in second["notes"] if advice in note)
    lost = (here / "little.txt").stat().st_size
    assert second["left_out"].startswith(f"{lost / 1e3:.0f} kB, ")
    assert any(second["left_out"] in note for note in second["notes"])
    assert second["metrics"]["corpus/left_out_bytes"] == lost
    planned = bpeline(*TRAIN, "little.txt", "--vocab-size", 300, *slow, "--dry-run")
    assert warning in json.loads(planned.stdout)["notes"]
    assert advice not in train("little.txt", 300, "--pattern", r"\w+|\W")["said"]


@pytest.mark.night
def test_the_set_costs_a_corpus_itself_and_how_much_is_told(
    train: Callable[..., dict[str, Any]], bpeline: Command
) -> None:
    """Documents of a few lines cost two thirds of a corpus, the sections that touch one."""
    first = train("much.txt", 400, "--held-out", "0.1", "--special-token", "\n\n")
    assert (first["left_out"], "corpus/left_out_bytes" in first["metrics"]) == ("", False)
    second = train("much.txt", 400, "--held-out", "0")
    share = second["metrics"]["corpus/left_out_share"]
    assert 0.05 < share < 0.12
    assert second["word_occurrences"] > 0.97 * first["word_occurrences"]
    assert f"{share:.2%}" in second["left_out"]
    assert any(second["left_out"] in note for note in second["notes"])
    assert second["left_out"] in bpeline("show", "news/2").stdout
    run = open_registry().tracker.version("news", 2)
    assert run is not None
    in_mlflow = open_registry().tracker.runs.metrics_of(run.mlflow_run_id)
    assert in_mlflow["corpus/left_out_bytes"] == second["metrics"]["corpus/left_out_bytes"]
    assert bpeline("verify", "news/2").exit_code == 0
    third = train("much.txt", 500, "--special-token", "\n\n")
    assert not any(third["left_out"] in note for note in third["notes"]), "two lines of it"


@pytest.mark.night
def test_later_trainings_read_no_document_of_the_set_wherever_it_moves(
    train: Callable[..., dict[str, Any]], bpeline: Command, here: Path
) -> None:
    """Each word occurs once, so that what was read of a document can be told."""
    random_ = random.Random(7)
    numbers = random_.sample(range(26**6), 60_000)
    words = ["".join(chr(97 + one // 26**at % 26) for at in range(6)) for one in numbers]
    text = " ".join(words)
    (here / "once.txt").write_text(text)
    assert train("once.txt", 300)["chunks_reused"] == 0
    same = train("once.txt", 310)
    assert (same["chunks_reused"], same["left_out"]) == (1, "")

    (here / "once.txt").write_text("something that was not there before, and then " + text)
    moved = train("once.txt", 300)
    registry = open_registry()
    workspace = registry.workspace
    (kept,) = read_documents(workspace, read_set(workspace, sets(bpeline)[0]["digest"])).values()
    secret = {word for document in kept for word in document.split()}
    assert len(secret) > 0.2 * len(words)
    lineage = Lineage.of(registry, resolve(registry, ByNumber("news", 3)))
    assert lineage.words is not None
    read = {word.strip() for word in lineage.words.to_mapping()}
    assert not read & secret
    assert len(read) > 0.4 * len(words)
    assert float(moved["left_out"].split("%")[0].split()[-1]) > 10
    assert bpeline("verify", "news/3").exit_code == 0
    again = train("once.txt", 310)
    assert (again["chunks_reused"], again["left_out"]) == (1, moved["left_out"])


def test_a_corpus_that_is_in_the_set_is_refused_as_that(bpeline: Command, here: Path) -> None:
    ended = bpeline(*TRAIN, "little.txt", "--vocab-size", 300, "--eval", "t=little.txt")
    assert ended.exit_code == 2
    assert "another --name" in ended.stderr


def test_texts_make_one_set_for_all_patterns(here: Path) -> None:
    files = find_source_files([Source(str(here / "much.txt"))])
    digests = set()
    for name in ("gpt2", "o200k", r"\b\w+|\W"):
        reading = ReadOptions(SplitPattern.parse(name))
        documents = list(evaluation_documents(files, reading))
        assert len(documents) > 100
        digests.add(as_set([Text("much", documents, files=("much.txt",))])[0].digest)
    assert len(digests) == 1
