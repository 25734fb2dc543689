"""``bpeline train --joint`` and ``--separate``: registered, compared, kept with the version."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.registry.versions.languages import language_counts
from bpeline.tokenizer_core import count_words
from bpeline.tokenizer_core.algorithms.character_bpe import train_char_bpe
from bpeline.tokenizer_core.derived import RestrictedEncoding, token_counts

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
STEMS = {"src": ["house", "water", "ing", "2024"], "tgt": ["haus", "wasser", "ung", "2024"]}
TRAIN = ("train", "--name", "pair", "--algorithm", "char-bpe", "--merges", "30", "--held-out", "0")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    random_ = random.Random(4)
    paths = {name: tmp_path / f"text.{name}.txt" for name in STEMS}
    for name, path in paths.items():
        words = ["".join(random_.choices(STEMS[name], k=2)) for _ in range(400)]
        path.write_text(" ".join(words))
    return paths


def named(option: str, files: dict[str, Path]) -> list[str]:
    return [part for name, path in files.items() for part in (option, f"{name}={path}")]


def test_a_joint_tokenizer_knows_its_languages(bpeline: Command, files: dict[str, Path]) -> None:
    said = bpeline(*TRAIN, *named("--joint", files), "--json")
    assert said.exit_code == 0, said.output
    summary = json.loads(said.stdout)
    assert [one["reference"] for one in summary["trainings"]] == ["pair/1"]
    assert summary["compared"]["joint"]["split_alike"] == summary["compared"]["shared_words"] > 0
    expected = train_char_bpe(count_words([str(path) for path in files.values()], "whitespace"), 30)
    assert load_tokenizer("pair/1").digest == expected.digest

    directory = Path(summary["trainings"][0]["directory"])
    assert json.loads((directory / "languages.json").read_text())["choice"] == "joint"
    tgt = count_words(files["tgt"], "whitespace")
    tokenizer, counts = language_counts("pair/1", "tgt")
    assert (counts == token_counts(expected, tgt)).all()
    vocabulary = (directory / "vocabulary.tgt.txt").read_text().splitlines()
    assert all(line.rpartition(" ")[2].isdigit() for line in vocabulary)
    registry = open_registry()
    (version,) = registry.tracker.find_versions("pair", tokenizer.digest)
    client = registry.tracker._client
    tracked = [one.path for one in client.list_artifacts(version.mlflow_run_id, "languages")]
    assert "languages/languages.json" in tracked
    assert "languages/vocabulary.src.txt" in tracked

    restricted = bpeline("encode", "pair/1", "houseing", "--language", "tgt", "--threshold", "9")
    assert restricted.exit_code == 0, restricted.output
    ids = RestrictedEncoding(tokenizer, counts, 9).encode("houseing")
    assert list(map(int, restricted.stdout.split())) == ids != tokenizer.encode("houseing")
    unknown = bpeline("encode", "pair/1", "house", "--language", "fr")
    assert unknown.exit_code != 0
    assert "src, tgt" in unknown.output

    again = bpeline(*TRAIN, *named("--joint", files))
    assert again.exit_code == 0, again.output
    assert re.search(r"\bevery language +\d+ +\d+$", again.stdout, re.MULTILINE)
    assert "registered before" in again.stdout


def test_separate_tokenizers_are_versions_of_their_own(
    bpeline: Command, files: dict[str, Path]
) -> None:
    train = [*TRAIN[:3], "--vocab-size", "275", "--held-out", "0"]  # over bytes
    said = bpeline(*train, *named("--separate", files), "--json")
    assert said.exit_code == 0, said.output
    summary = json.loads(said.stdout)
    assert [one["reference"] for one in summary["trainings"]] == ["pair-src/1", "pair-tgt/1"]
    figures = summary["compared"]["separate"]["languages"]
    assert figures["src"]["tokens"] == 275
    for name, path in files.items():
        tokenizer, counts = language_counts(f"pair-{name}/1", name)
        assert (counts == token_counts(tokenizer, count_words(path))).all()
    assert bpeline("encode", "pair-src/1", "a", "--language", "tgt").exit_code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--joint", "src=a"], "1 language was named"),
        (["--joint", "src"], "is not LANGUAGE=PATH"),
        (["--joint", "A B=a", "--joint", "b=b"], "cannot name"),
        (["--joint", "src=a", "--separate", "tgt=b"], "was given together with another corpus"),
        (["some.txt", "--joint", "src=a"], "was given together with another corpus"),
        (["--joint", "a=a", "--joint", "b=b", "--algorithm", "wordpiece"], "with wordpiece"),
        (["--joint", "a=none.txt", "--joint", "b=none.txt"], "none.txt"),
    ],
)
def test_what_makes_no_sense_is_refused(bpeline: Command, options: list[str], said: str) -> None:
    refused = bpeline("train", "--name", "pair", *options)
    assert refused.exit_code == 2
    assert said in refused.output or said in str(refused.exception)
