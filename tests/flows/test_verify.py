"""``bpeline verify``: a version made again, and everything that can have changed since."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from published import copied

from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.registry.word_counts import ShardFiles

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def trained(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    """A folder with ``news/1``, trained on three files of two kinds, some of it held out."""
    lines = [json.dumps({"text": one}) for one in english_and_code[50_000:80_000].split("\n\n")]
    files = {
        "corpus/a.txt": english_and_code[:30_000],
        "corpus/b.txt": english_and_code[30_000:50_000],
        "corpus/c.jsonl": "\n".join(lines),
    }
    options = ["--name", "news", "--vocab-size", 700, "--held-out", 0.1]
    options += ["--special-token", "<|end|>", "--required-token", " bpeline"]
    options += ["--min-word-count", 2, "--tie-break", "first-seen", "--pattern", "cl100k"]
    return folder_after(files, [("train", "corpus", *options)])


@pytest.fixture
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder; what a test changes in its corpus is put back."""
    monkeypatch.chdir(trained)
    kept = {path: (path.read_bytes(), path.stat()) for path in (trained / "corpus").iterdir()}
    yield trained
    for path in (trained / "corpus").iterdir():
        path.unlink()
    for path, (content, status) in kept.items():
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def verified(bpeline: Command, *options: str, code: int) -> Any:
    answer = bpeline("verify", "news/1", *options, "--json")
    assert answer.exit_code == code, answer.output
    found = json.loads(answer.stdout)
    assert found["identical"] is (code == 0)
    return found


@pytest.mark.night
def test_it_comes_out_the_same(here: Path, bpeline: Command) -> None:
    before = {path: path.stat().st_mtime_ns for path in (here / ".bpeline").rglob("*.arrow")}
    found = verified(bpeline, code=0)
    assert found["verdict"] == "identical"
    assert found["recounted"] is True
    assert found["inputs"] == 3
    assert [one["what"] for one in found["checks"]] == [
        "corpus", "word counts", "tokenizer", "required tokens", "tokenizer.bin", "vocab.json",
        "merges.txt", "tokenizer.json", "news.tiktoken",
    ]  # fmt: skip
    assert all(one["holds"] and one["expected"] for one in found["checks"])
    after = {path: path.stat().st_mtime_ns for path in (here / ".bpeline").rglob("*.arrow")}
    assert before == after


@pytest.mark.night
def test_files_that_came_later_do_not_matter(here: Path, bpeline: Command) -> None:
    (here / "corpus" / "0-new.txt").write_text("quite another text, repeated " * 50)
    assert verified(bpeline, code=0)["inputs"] == 3


def test_the_counts_are_made_anew_even_if_the_workspace_has_them(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[set[str]] = []
    there = ShardFiles.there

    def watched(files: ShardFiles, keys: Iterable[str]) -> set[str]:
        found.append(there(files, keys))
        return found[-1]

    monkeypatch.setattr(ShardFiles, "there", watched)
    verified(bpeline, code=0)
    assert found
    assert not any(found)


def test_an_edit_that_leaves_size_and_time_alone_is_seen(here: Path, bpeline: Command) -> None:
    path = here / "corpus" / "b.txt"
    status, content = path.stat(), bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = verified(bpeline, code=1)
    assert found["verdict"] == "inputs changed"
    (changed,) = found["changed_inputs"]
    assert changed["what"] == str(path)
    assert changed["expected"] != changed["found"]
    said = bpeline("verify", "news/1")
    assert said.exit_code == 1
    assert "inputs have changed" in said.stdout
    for part in (str(path), changed["expected"], changed["found"], "--reuse-counts"):
        assert part in said.stdout
    assert verified(bpeline, "--reuse-counts", code=0)["recounted"] is False


def test_a_file_that_is_gone_is_named_with_its_digest(here: Path, bpeline: Command) -> None:
    expected = json.loads(bpeline("show", "news/1", "--json").stdout)["lineage"]["corpus_digest"]
    (here / "corpus" / "c.jsonl").unlink()
    found = verified(bpeline, code=1)
    assert found["verdict"] == "inputs gone"
    (gone,) = found["changed_inputs"]
    assert gone["what"].endswith("c.jsonl")
    assert (len(gone["expected"]), gone["found"]) == (len(expected), "gone")


def test_a_file_that_is_empty_now_has_changed(here: Path, bpeline: Command) -> None:
    for name in ("a.txt", "b.txt", "c.jsonl"):
        (here / "corpus" / name).write_bytes(b"")
    found = verified(bpeline, code=1)
    assert found["verdict"] == "inputs changed"
    assert len(found["changed_inputs"]) == 3


def test_kept_files_that_are_another_tokenizer_are_told(
    here: Path, bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = moved(here, tmp_path, monkeypatch)
    (merges,) = (workspace / "versions").glob("*/merges.txt")
    merges.write_bytes(merges.read_bytes() + b"x y\n")
    found = verified(bpeline, "--reuse-counts", code=1)
    assert found["verdict"] == "different"
    assert [one["what"] for one in found["checks"] if not one["holds"]] == ["merges.txt"]


def test_counts_that_are_gone_cannot_be_reused(
    here: Path, bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = moved(here, tmp_path, monkeypatch)
    remove(workspace / "tables", "*.duckdb")
    assert verified(bpeline, "--reuse-counts", code=1)["verdict"] == "counts gone"
    assert verified(bpeline, code=0)["recounted"] is True


def test_without_a_record_of_files_the_same_paths_are_read(
    here: Path, bpeline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = moved(here, tmp_path, monkeypatch)
    remove(workspace / "tables", "*.corpus.json")
    assert verified(bpeline, code=0)["inputs"] == 3
    (here / "corpus" / "a.txt").write_text("something else altogether")
    found = verified(bpeline, code=1)
    assert (found["verdict"], found["changed_inputs"]) == ("inputs changed", [])


def moved(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the workspace, to damage."""
    copied(here / ".bpeline", tmp_path / ".bpeline")
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".bpeline"


def remove(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink()


@pytest.mark.night
@pytest.mark.parametrize("algorithm", ["char-bpe", "wordpiece", "frequency-bpe"])
def test_other_algorithms_are_verified_too(corpus: Path, bpeline: Command, algorithm: str) -> None:
    options = ["--algorithm", algorithm, "--vocab-size", "500", "--name", "news"]
    assert bpeline("train", corpus, *options).exit_code == 0
    assert verified(bpeline, code=0)["verdict"] == "identical"


def test_what_was_not_trained_here_is_refused(
    here: Path, bpeline: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bpeline("verify", "./corpus").exit_code == 2
    assert bpeline("verify", "news/7").exit_code == 1
    monkeypatch.setattr(Catalogue, "find_version", lambda *_: None)
    refused = bpeline("verify", "news/1")
    assert refused.exit_code == 1
    assert "news/1" in refused.stderr
