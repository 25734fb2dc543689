"""`bpeline train -`: a corpus from a pipe, kept by the workspace because it is read again."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from bpeline import TokenShards
from bpeline.registry import load_tokenizer

Command = Callable[..., Result]
MAIN = "from bpeline.flows.cli.main import main; main()"
TEXT = "".join(f"line {n} of the text, {n * n} in all\n" for n in range(2_000))


@pytest.mark.night
def test_a_pipe_is_the_corpus_that_a_file_would_be(tmp_path: Path, bpeline: Command) -> None:
    (tmp_path / "same.txt").write_text(TEXT)
    options = ["--name", "piped", "--vocab-size", 300, "--held-out", 0, "--json"]
    trained = bpeline("train", "-", *options, input=TEXT)
    assert trained.exit_code == 0, trained.output
    assert "standard input" in trained.stderr
    (kept,) = Path(".bpeline/standard-input").iterdir()
    assert kept.read_text() == TEXT
    from_file = bpeline("train", tmp_path / "same.txt", *options)
    assert json.loads(from_file.stdout)["digest"] == json.loads(trained.stdout)["digest"]
    # The same text again is the same corpus: nothing is read, and no second file is kept.
    again = bpeline("train", "-", *options, input=TEXT)
    assert json.loads(again.stdout)["chunks_reused"] == json.loads(again.stdout)["chunks"] > 0
    assert [*kept.parent.iterdir()] == [kept]
    verified = bpeline("verify", "piped/1")
    assert verified.exit_code == 0, verified.output

    assert bpeline("gc", "--days", 0, "--yes").exit_code == 0
    assert kept.exists(), "a version was made of it"
    planned = bpeline("train", "-", "--name", "other", "--dry-run", input="never trained on")
    assert planned.exit_code == 0, planned.output
    removed = bpeline("gc", "--days", 0, "--yes")
    assert "standard input" in removed.output
    assert [*kept.parent.iterdir()] == [kept]


@pytest.mark.night
def test_json_lines_are_seen(bpeline: Command) -> None:
    lines = "".join(json.dumps({"id": n, "body": f"text {n}"}) + "\n" for n in range(300))
    options = ["--name", "lines", "--vocab-size", 270, "--held-out", 0]
    trained = bpeline("train", "-", *options, "--text-field", "body", input=lines)
    assert trained.exit_code == 0, trained.output
    assert "JSON lines" in trained.stderr
    assert "id" not in "".join(map(str, load_tokenizer("lines/1").merges))
    # Objects without that field are no text by accident.
    refused = bpeline("train", "-", *options, "--dry-run", input=lines)
    assert refused.exit_code == 2
    assert "'id', 'body'" in refused.stderr


@pytest.mark.night
def test_every_format_is_the_corpus_that_its_file_would_be(
    tmp_path: Path, bpeline: Command
) -> None:
    documents = [f"text {n}, and {n * n} more\n" for n in range(400)]
    lines = "".join(json.dumps({"text": one}) + "\n" for one in documents).encode()
    parquet = io.BytesIO()
    pq.write_table(pa.table({"text": documents}), parquet)
    piped = [lines, gzip.compress(lines), json.dumps([{"text": one} for one in documents]),
             parquet.getvalue()]  # fmt: skip
    options = ["--name", "piped", "--vocab-size", 290, "--held-out", 0, "--json"]
    trained = [bpeline("train", "-", *options, input=one) for one in piped]
    digests = {json.loads(one.stdout)["digest"] for one in trained}
    assert len(digests) == 1, [one.stderr for one in trained]
    kinds = ("JSON lines, and", "JSON lines, compressed (gz)", "JSON, and", "Parquet, and")
    for one, kind in zip(trained, kinds, strict=True):
        assert kind in one.stderr
    counted = [json.loads(bpeline("count", "piped/1", "-", "--json", input=one).stdout)
               for one in piped]  # fmt: skip
    assert {one["total"]["documents"] for one in counted} == {400}
    assert len({one["total"]["tokens"] for one in counted}) == 1
    assert "Parquet" in counted[3]["notes"][0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "standard input is empty"),
        (gzip.compress(b"a\0b", mtime=0), "looks like binary within gzip"),
        (b"%PDF-1.7", "looks like PDF"),
        (b"a\0b", "looks like binary"),
    ],
)
def test_what_is_no_corpus_is_refused(content: bytes, said: str, bpeline: Command) -> None:
    refused = bpeline("train", "-", "--name", "piped", input=content)
    assert refused.exit_code == 2
    assert said in refused.output
    assert not Path(".bpeline/standard-input").exists()


@pytest.mark.night
def test_a_pipe_is_taken_wherever_files_of_text_are(tmp_path: Path, bpeline: Command) -> None:
    (tmp_path / "same.txt").write_text(TEXT)
    options = ["--name", "piped", "--vocab-size", 300, "--held-out", 0.2]
    assert bpeline("train", "same.txt", *options).exit_code == 0
    asked = ["encode", "piped/1", "-", "-o"]
    assert bpeline(*asked, "piped", input=TEXT).exit_code == 0
    assert bpeline("encode", "piped/1", "same.txt", "-o", "read").exit_code == 0
    piped, read = (TokenShards(tmp_path / one) for one in ("piped", "read"))
    assert [*piped[0]] == [*read[0]]
    compared = bpeline("compare", "piped/1", "piped/1", "--eval", "-", input=TEXT)
    assert compared.exit_code == 0, compared.output
    assert "saved as" in compared.stderr
    swept = bpeline("sweep", "-", "--name", "piped", "--sizes", 290, "--json", input=TEXT)
    assert json.loads(swept.stdout)["combinations"], swept.output
    assert bpeline("count", "piped/1", "-", input=TEXT).exit_code == 0
    drifted = bpeline("drift", "piped@candidate", "-", input=TEXT)
    assert "saved as" in drifted.stderr


@pytest.mark.night
@pytest.mark.parametrize(
    "words",
    [
        ["train", "-", "--name", "a name", "--vocab-size", "300"],
        ["compare", "news/1", "news/2", "--eval", "-", "--workspace", "of its own"],
    ],
)
def test_nothing_in_the_pipe_is_said_with_the_command_that_was_typed(words: list[str]) -> None:
    ours, terminal = os.openpty()
    with os.fdopen(ours, "wb"), os.fdopen(terminal, "rb"):
        command = [sys.executable, "-c", MAIN, *words, "--json"]
        refused = subprocess.run(command, stdin=terminal, capture_output=True, text=True)
    assert refused.returncode == 2
    assert f"`zstdcat corpus.txt.zst | bpeline {shlex.join(words)}`" in refused.stderr
