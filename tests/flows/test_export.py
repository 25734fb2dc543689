"""``bpeline export``: what it says of an export, beside the file and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.mark.night
def test_an_export_says_what_was_compared(corpus: Path, bpeline: Command, tmp_path: Path) -> None:
    trained = bpeline("train", "corpus", "--name", "news", "--vocab-size", "400", "--json")
    assert trained.exit_code == 0, trained.output
    directory = Path(json.loads(trained.stdout)["directory"])
    names = {path.name for path in directory.iterdir()}
    assert {"certificate-hf.json", "certificate-tiktoken.json"} <= names
    shown = bpeline("export", "news/1", "--output", "tokenizer.json")
    assert shown.exit_code == 0, shown.output
    assert "tokenizer.json" in shown.stdout
    assert "texts alike" in shown.stdout
    (tmp_path / "own.txt").write_text("a text of\nour own\n")
    options = ("--format", "tiktoken", "--output", "news.tiktoken", "--eval", "own.txt", "--json")
    told = json.loads(bpeline("export", "news/1:300", *options).stdout)
    beside = json.loads((tmp_path / "news.tiktoken.certificate.json").read_text())
    assert beside.pop("certificate") == 1
    assert beside.pop("seal")
    assert told["certificate"] == beside
    assert (beside["unequal"], beside["library"]) == (0, "tiktoken")
    assert "pat_str" in told["not_in_it"]
    certificates = json.loads(bpeline("show", "news/1", "--json").stdout)["certificates"]
    assert certificates.keys() == {"hf", "tiktoken"}
    refused = bpeline("export", "news/1", "--format", "sentencepiece", "--output", "x.model")
    assert refused.exit_code == 2
    assert "inside characters" in refused.stderr.replace("\n       ", " ")
    assert not (tmp_path / "x.model").exists()
