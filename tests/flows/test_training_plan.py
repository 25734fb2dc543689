"""``bpeline train --dry-run``: what it says, that it does nothing, and that it imports little.

That its predictions come true is tested in `test_incremental`, in every case there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flow_calls import train_tokenizer

from bpeline.flows.learning import merges
from bpeline.registry.opening import open_registry

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
ASKED = ("--name", "news", "--vocab-size", "600")


def everything_below(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in [root, *root.rglob("*")]
    }


def planned(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    plan: dict[str, Any] = json.loads(result.stdout)
    return plan


def test_nothing_is_made_where_there_is_no_workspace(corpus: Path, bpeline: Command) -> None:
    before = everything_below(corpus.parent)
    result = bpeline("train", corpus, *ASKED, "--dry-run", "--workspace", corpus.parent / "none")
    assert result.exit_code == 0
    assert "reads 3 files (3 new)" in result.output
    assert "344 merges" in result.output
    plan = planned(bpeline("train", "--demo", "--dry-run", "--json", "--workspace", "none"))
    assert plan["bytes_to_read"] > 1_000_000
    assert everything_below(corpus.parent) == before


def test_what_is_not_read_of_evaluation_texts_is_said_or_refused(
    corpus: Path, bpeline: Command
) -> None:
    texts = corpus.parent / "evaluated"
    texts.mkdir()
    (texts / "a.txt").write_text("words that are measured on, " * 40)
    (texts / "picture.png").write_bytes(b"\x89PNG")
    command = ("train", corpus, *ASKED, "--eval", f"prose={texts}", "--json")
    said = "of --eval: skipped 1 file: 1 .png"
    assert said in planned(bpeline(*command, "--dry-run"))["notes"]
    assert said in planned(bpeline(*command))["notes"]
    for plan in ((), ("--dry-run",)):
        refused = bpeline(*command, "--strict", *plan)
        assert refused.exit_code == 2
        assert "1 .png" in refused.stderr


def test_what_is_not_read_is_said_by_plan_and_training_or_refused(
    corpus: Path, bpeline: Command
) -> None:
    (corpus / "picture.png").write_bytes(b"\x89PNG")
    (corpus / "more.rst").write_text("some more words of text, " * 40)
    command = ("train", corpus, *ASKED, "--json")
    plan = planned(bpeline(*command, "--dry-run"))
    assert "skipped 2 files: 1 .png, 1 .rst" in plan["notes"]
    assert plan["skipped"] == {
        "files": 2,
        "kinds": {".png": 1, ".rst": 1},
        "hidden": 0,
        "about_datasets": 0,
    }
    files = plan["files"]
    assert "skipped 2 files: 1 .png, 1 .rst" in planned(bpeline(*command))["notes"]
    plan = planned(bpeline(*command, "--dry-run", "--include", "*.rst"))
    assert "skipped 1 file: 1 .png" in plan["notes"]
    assert plan["files"] == files + 1
    for refused in (bpeline(*command, "--dry-run", "--strict"), bpeline(*command, "--strict")):
        assert refused.exit_code == 2
        assert "1 .png, 1 .rst" in refused.stderr


def test_text_that_looks_like_special_tokens_is_said_with_the_option_to_type(
    corpus: Path, bpeline: Command
) -> None:
    (corpus / "part-0.txt").write_text("one document<|endoftext|>" * 40)
    command = ("train", corpus, *ASKED, "--dry-run", "--json", "--workspace", "none")
    (note,) = planned(bpeline(*command))["notes"]
    assert "<|endoftext|> 40 times" in note
    assert "`--special-token '<|endoftext|>'`" in note
    assert planned(bpeline(*command, "--special-token", "<|endoftext|>"))["notes"] == []


@pytest.mark.night
def test_nothing_is_written_where_there_is_one(corpus: Path, bpeline: Command) -> None:
    bpeline("train", corpus, *ASKED)
    (corpus / "part-3.txt").write_text("more words than there were")
    with open_registry().workspace.lock("another training"):
        before = everything_below(corpus.parent)
        plan = planned(bpeline("train", corpus, *ASKED, "--dry-run", "--json"))
        assert everything_below(corpus.parent) == before
    (unread,) = plan["unread"]
    assert Path(unread["path"]).name == "part-3.txt"
    assert (unread["why"], unread["most_chunks"]) == ("new", 1)
    assert (plan["chunks_reused"], plan["bytes_to_read"]) == (3, 26)
    assert "another training" in plan["notes"][0]


@pytest.mark.night
def test_a_finished_training_has_nothing_left_to_do(corpus: Path, bpeline: Command) -> None:
    bpeline("train", corpus, *ASKED)
    result = bpeline("train", corpus, *ASKED, "--dry-run")
    assert result.output.count(" cached: ") == 3
    assert "news/1 is registered" in result.output
    larger = planned(bpeline("train", corpus, "--name", "news", "--vocab-size", 700, "--dry-run",
                             "--json"))  # fmt: skip
    assert (larger["merges_reused"], larger["version"]) == (344, "")
    (said,) = (step["said"] for step in larger["steps"] if step["name"] == "learn merges")
    assert re.search(r"\b344\b.*\b444\b", said)


@pytest.mark.night
def test_a_grown_file_is_expected_to_begin_as_it_did(corpus: Path, bpeline: Command) -> None:
    asked = (*ASKED, "--chunk-bytes", 8192)
    bpeline("train", corpus, *asked)
    path = corpus / "part-1.txt"
    with path.open("a") as file:
        file.write(" and so on" * 1000)
    (unread,) = planned(bpeline("train", corpus, *asked, "--dry-run", "--json"))["unread"]
    assert (unread["why"], unread["bytes"]) == ("grown", path.stat().st_size)
    summary = train_tokenizer([str(corpus)], "news", 600, chunk_bytes=8192)
    assert unread["most_chunks"] - unread["known_chunks"] == summary.chunks - summary.chunks_reused


def test_an_interrupted_run_is_named(
    corpus: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(merges.bpe, "learn_merges", stops)
        assert bpeline("train", corpus, *ASKED).exit_code == 130
    (run,) = open_registry().catalogue.unfinished_runs()
    plan = planned(bpeline("train", corpus, *ASKED, "--dry-run", "--json"))
    assert re.search(rf"\b{run.id}\b.*'learn merges'", plan["continues"])
    assert [step["reused"] for step in plan["steps"][:3]] == [True, True, False]
    other = planned(bpeline("train", corpus, "--name", "other", "--dry-run", "--json"))
    assert other["continues"] == ""


def test_what_is_cached_of_each_named_source(corpus: Path, bpeline: Command) -> None:
    files = [corpus / f"part-{number}.txt" for number in (0, 1)]
    command = ["train", *ASKED, "--source", f"en={files[0]}"]
    bpeline(*command)
    command += ["--source", f"de={files[1]}", "--dry-run"]
    plan = planned(bpeline(*command, "--json"))
    sizes = [path.stat().st_size for path in files]
    assert plan["sources"] == {
        "en": {"files": 1, "bytes": sizes[0], "chunks_reused": 1, "bytes_to_read": 0},
        "de": {"files": 1, "bytes": sizes[1], "chunks_reused": 0, "bytes_to_read": sizes[1]},
    }
    said = bpeline(*command).stdout
    assert "en: 1 file" in said
    assert "; 1 counted chunk, 0 " in said


def test_what_cannot_be_trained_cannot_be_planned(corpus: Path, bpeline: Command) -> None:
    assert bpeline("train", "missing.txt", *ASKED, "--dry-run").exit_code == 2
    assert bpeline("train", corpus, "--name", "A!", "--dry-run").exit_code == 2


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("", ()),
        ("<|e|><|e|>", ("--special-token", "<|e|>")),
        ('{"text": ""}\n', ("--deduplicate",)),
        ("words " * 300 + "seed 1", ("--held-out", 0.5)),
    ],
    ids=["empty", "separators", "no words", "held out"],
)
def test_a_corpus_without_a_word_is_refused_as_by_the_training(
    content: str, options: tuple[object, ...], tmp_path: Path, bpeline: Command
) -> None:
    """The plan said that merges would be learned; here, of new files and of counted ones."""
    path = tmp_path / ("a.jsonl" if content.startswith("{") else "a.txt")
    path.write_text(content)
    command = ("train", path, *ASKED, *options)
    refusals = [bpeline(*command, *more) for more in (("--dry-run",), (), ("--dry-run",))]
    assert [said.exit_code for said in refusals] == [2, 2, 2]
    assert len({said.stderr[said.stderr.index("error: ") :] for said in refusals}) == 1
    path.with_name("b.txt").write_text("and words " * 2000)
    more = bpeline(*command, path.with_name("b.txt"), "--dry-run")
    assert re.search(r"34[34] merges", more.output)


@pytest.mark.night
def test_other_algorithms_are_planned_too(corpus: Path, bpeline: Command) -> None:
    asked = ("train", corpus, "--name", "chars", "--algorithm", "char-bpe", "--merges", "50")
    before = planned(bpeline(*asked, "--dry-run", "--json"))
    assert not before["steps"][2]["reused"]
    bpeline(*asked)
    after = planned(bpeline(*asked, "--dry-run", "--json"))
    assert after["steps"][2]["reused"]
    assert (after["merges_reused"], after["version"]) == (50, "chars/1")


@pytest.mark.night
def test_a_plan_loads_neither_prefect_nor_mlflow(corpus: Path) -> None:
    program = (
        "import sys; from bpeline.flows.cli.main import cli; "
        f"cli(['train', {str(corpus)!r}, '--name', 'news', '--dry-run'], standalone_mode=False); "
        "print(*[m for m in ('prefect', 'mlflow', 'duckdb', 'pyarrow', 'pandas') "
        "if m in sys.modules])"
    )
    root = Path(__file__).parent.parent.parent
    environment = {**os.environ, "PYTHONPATH": str(root)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == ""
