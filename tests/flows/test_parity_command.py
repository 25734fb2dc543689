"""`bpeline train --parity`: sources that are served alike, by the command line and by Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.tokenizer_core import ParityRule, count_words, train_parity_bpe

pytestmark = pytest.mark.fake_mlflow

SIZE = 300


@pytest.fixture
def languages(tmp_path: Path) -> dict[str, Path]:
    random = Random(11)
    made = {}
    for name, letters, number in (("en", "abcdefg", 3_000), ("xh", "uvwxyz", 300)):
        words = ["".join(random.choices(letters, k=random.randint(3, 7))) for _ in range(60)]
        made[name] = tmp_path / f"{name}.txt"
        made[name].write_text(" ".join(random.choices(words, k=number)))
        (tmp_path / f"eval-{name}.txt").write_text(" ".join(random.choices(words, k=200)))
    return made


@pytest.fixture
def train(languages: dict[str, Path], bpeline: Callable[..., Result]) -> Callable[..., Any]:
    def run(*options: object, fails: bool = False) -> Any:
        sources = [f"--source={name}:language={name}={path}" for name, path in languages.items()]
        command = ["train", *sources, "--name", "two", "--vocab-size", SIZE, "--held-out", 0]
        result = bpeline(*command, *options, *([] if fails else ["--json"]))
        assert (result.exit_code != 0) == fails, result.output
        return result.output if fails else json.loads(result.stdout)

    return run


def expected(
    languages: dict[str, Path], rule: ParityRule, development: dict[str, Path] | None = None
) -> str:
    counts = {name: count_words([path], pattern="gpt2") for name, path in languages.items()}
    measured = development and {
        name: count_words([path], pattern="gpt2") for name, path in development.items()
    }
    return train_parity_bpe(counts, SIZE, rule, development=measured).digest


@pytest.mark.night
def test_the_version_is_what_python_makes_of_the_counts_of_each_source(
    languages: dict[str, Path],
    train: Callable[..., Any],
    bpeline: Callable[..., Result],
    tmp_path: Path,
) -> None:
    texts = [f"--eval={name}={tmp_path / f'eval-{name}.txt'}" for name in languages]
    made = train("--parity", "base", *texts)
    assert made["digest"] == expected(languages, ParityRule())
    metrics = made["metrics"]
    assert metrics["vs_ordinary_percent/xh"] < 0 < metrics["vs_ordinary_percent/en"]
    assert metrics["parity/gini_of_texts"] < metrics["vs_ordinary/gini_of_texts"]
    assert load_tokenizer("two/1").vocab_size == SIZE
    assert any("--parity-dev" in note for note in made["notes"])

    again = train("--parity", "base", *texts)
    assert (again["digest"], again["version"]) == (made["digest"], 1)
    # The same words in other sources are other languages.
    ordinary = train()
    assert ordinary["digest"] != made["digest"]
    assert "parity/gini_of_texts" not in ordinary["metrics"]

    development = {name: tmp_path / f"dev-{name}.txt" for name in languages}
    for name, path in development.items():
        path.write_text(languages[name].read_text()[: 4_000 if name == "en" else 400])
    options = [f"--parity-dev={name}={path}" for name, path in development.items()]
    measured = train("--parity", "window", "--parity-window", 5, "--parity-global", 3, *options)
    rule = ParityRule(window=5, global_merges=3)
    assert measured["digest"] == expected(languages, rule, development)
    assert not any("--parity-dev" in note for note in measured["notes"])

    verified = bpeline("verify", "two/1")
    assert verified.exit_code == 0, verified.output
    assert "identical" in verified.output
    verified = bpeline("verify", f"two/{measured['version']}")
    assert verified.exit_code == 0, verified.output


@pytest.mark.night
def test_a_version_holds_what_its_development_texts_were(
    languages: dict[str, Path],
    train: Callable[..., Any],
    bpeline: Callable[..., Result],
    tmp_path: Path,
) -> None:
    development = {name: tmp_path / f"dev-{name}.txt" for name in languages}
    for name, path in development.items():
        path.write_text(languages[name].read_text()[:400])
    options = [f"--parity-dev={name}={path}" for name, path in development.items()]
    options += ["--eval", f"en={tmp_path / 'eval-en.txt'}"]
    first = train("--parity", "base", *options)
    assert any("en, xh" in note for note in first["notes"])  # one text: no slices
    shown = json.loads(bpeline("show", "two/1", "--json").stdout)["development"]
    content = development["xh"].read_bytes()
    assert shown[1] == {
        "name": "xh",
        "files": [str(development["xh"])],
        "digest": sha256(len(content).to_bytes(8, "little") + content).hexdigest(),
        "documents": 1,
        "bytes": 400,
    }
    assert "development texts" in bpeline("show", "two/1").output
    same = bpeline("compare", "two/1", "two/1").output
    assert re.search(r"\bsame development texts", same)

    development["xh"].write_text(languages["xh"].read_text()[-4000:])
    second = train("--parity", "base", *options)
    assert second["digest"] != first["digest"]
    compared = bpeline("compare", "two/1", "two/2").output
    assert re.search(r"\bother development texts", compared)
    assert shown[1]["digest"][:8] in compared
    changed = bpeline("verify", "two/1", "--json")
    assert changed.exit_code == 1
    assert json.loads(changed.stdout)["verdict"] == "inputs changed"
    assert shown[1]["digest"] in changed.output
    assert "--reuse-counts" not in changed.output
    page = tmp_path / "report.html"
    assert bpeline("report", "two/2", "-o", page).exit_code == 0
    assert "Development texts" in page.read_text()

    development["xh"].write_text("")
    refused = train("--parity", "base", *options, fails=True)
    assert "xh" in refused


@pytest.mark.night
def test_a_version_goes_on_serving_its_sources_alike(
    train: Callable[..., Any], languages: dict[str, Path], bpeline: Callable[..., Result]
) -> None:
    base = train("--parity", "base")
    refused = bpeline("derive", "extend", "two/1", languages["en"], "--vocab-size", SIZE + 20)
    assert refused.exit_code == 2
    assert "sources" in refused.output
    extended = bpeline("derive", "extend", "two/1", "--vocab-size", SIZE + 20, "--json")
    assert extended.exit_code == 0, extended.output
    longer, shorter = load_tokenizer("two/2"), load_tokenizer("two/1")
    assert shorter.digest == base["digest"]
    assert longer.merges[: len(shorter.merges)] == shorter.merges
    counts = {name: count_words([path], pattern="gpt2") for name, path in languages.items()}
    assert longer.merges == train_parity_bpe(counts, SIZE + 20).merges
    drifted = bpeline("drift", "two@candidate", languages["xh"], "--json")
    assert drifted.exit_code in (0, 4), drifted.output
    joined = bpeline(
        "derive", "superwords", "two/1", "--vocab-size", SIZE + 10, "--transition-size", SIZE
    )
    assert joined.exit_code == 0, joined.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--parity-window", 5], "without --parity"),
        (["--parity", "base", "--parity-window", 5], "a window without --parity window"),
        (["--parity", "base", "--tie-break", "first-seen"], "the tie-break first-seen"),
        (["--parity", "base", "--temperature", 2], "weights or a temperature"),
        (["--parity", "base", "--forbid", "digits"], "forbidden tokens"),
        (["--parity", "base", "--parity-global", -1], "global merges below 0"),
        (["--parity", "base", "--algorithm", "wordpiece"], "the algorithm wordpiece"),
        (
            ["--parity", "base", "--parity-dev", "en=en.txt"],
            "development texts of other names (xh)",
        ),
        (
            ["--parity", "base", "--parity-dev=en=a", "--parity-dev=xh=b", "--eval=both=b"],
            "development texts that are also evaluation texts",
        ),
    ],
)
def test_what_cannot_be_had_together_is_refused(
    train: Callable[..., Any], options: list[object], said: str
) -> None:
    assert said in train(*options, fails=True)


def test_sources_must_be_named(bpeline: Callable[..., Result], languages: dict[str, Path]) -> None:
    refused = bpeline("train", *languages.values(), "--name", "two", "--parity", "base")
    assert refused.exit_code == 2
    assert "two named sources" in refused.output


@pytest.mark.night
def test_development_texts_that_are_not_there_are_missed_before_anything_is_counted(
    train: Callable[..., Any], tmp_path: Path
) -> None:
    options = ["--parity", "base", "--parity-dev=en=nosuch.txt", "--parity-dev=xh=xh.txt"]
    for more in ([], ["--dry-run"]):
        refused = train(*options, *more, fails=True)
        assert "nosuch.txt" in refused
        assert "count words" not in refused


@pytest.mark.night
def test_a_source_without_a_word_is_refused(
    train: Callable[..., Any], languages: dict[str, Path]
) -> None:
    languages["xh"].write_text("")
    assert "xh" in train("--parity", "base", fails=True)


@pytest.mark.night
def test_the_plan_says_what_would_be_read(train: Callable[..., Any]) -> None:
    planned = train("--parity", "base", "--dry-run")
    assert planned
    train("--parity", "base")
    assert train("--parity", "base", "--dry-run")
