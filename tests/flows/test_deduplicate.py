"""``--deduplicate``: a document of which copies follow is counted once, and made again so."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

pytestmark = pytest.mark.fake_mlflow

Command = Callable[..., Result]
OPTIONS = ("--vocab-size", 600, "--held-out", 0.1, "--special-token", "<|end|>", "--json")


@pytest.fixture
def here(
    folder_after: Callable[..., Path], english_and_code: str, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with two files, and one with copies of one of them and of some of its documents."""
    first, second = english_and_code[:30_000], english_and_code[200_000:230_000]
    parts = [second[at : at + 6000] for at in range(0, 30_000, 6000)]
    marked = "<|end|>".join(parts)
    files = {"once/a.txt": first, "once/b.txt": marked, "copied/a.txt": first}
    files |= {f"copied/{name}.txt": marked for name in "bcd"}
    files["copied/e.jsonl"] = "".join(json.dumps({"text": one}) + "\n" for one in parts[1:3])
    monkeypatch.chdir(folder_after(files, []))
    return Path()


def trained(bpeline: Command, *options: object) -> dict[str, Any]:
    done = bpeline("train", *options, *OPTIONS)
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.night
def test_copies_are_as_if_they_were_not_there(here: Path, bpeline: Command) -> None:
    once = trained(bpeline, "once", "--name", "once")
    one = trained(bpeline, "copied", "--name", "one", "--deduplicate", "--threads", 1)
    plain = trained(bpeline, "copied", "--name", "plain")
    assert one["digest"] == once["digest"] != plain["digest"]
    assert one["word_occurrences"] == once["word_occurrences"] < plain["word_occurrences"]
    assert any("12 documents of 18" in note for note in one["notes"])
    again = trained(bpeline, "copied", "--name", "two", "--deduplicate", "--threads", 2)
    assert again["digest"] == once["digest"]
    shown = json.loads(bpeline("show", "one/1", "--json").stdout)
    assert shown["lineage"]["copied_documents"] == 12
    assert shown["lineage"]["copied_bytes"] == 3 * 30_000 - 30_000 + 12_000
    of_plain = json.loads(bpeline("show", "plain/1", "--json").stdout)
    assert shown["lineage"]["corpus_digest"] != of_plain["lineage"]["corpus_digest"]
    assert "deduplicate" in json.dumps(shown["parameters"])
    assert bpeline("verify", "one/1").exit_code == 0


@pytest.mark.night
def test_copies_of_single_documents_are_said_without_it(
    here: Path, bpeline: Command, english_and_code: str
) -> None:
    """Each second document stands twice: once more in its own file, or in another one."""
    documents = [english_and_code[at : at + 700] for at in range(0, 280_000, 700)]
    folder = here / "records"
    folder.mkdir()
    lines = [json.dumps({"text": one}) for one in documents]
    files = {"a": lines[:200] + lines[:100], "b": lines[200:] + lines[100:200]}
    for name, its in files.items():
        (folder / f"{name}.jsonl").write_text("\n".join(its) + "\n")
    options = ("train", "records", "--name", "news", *OPTIONS)
    done = json.loads(bpeline(*options).stdout)
    held_out = done["metrics"]["evaluated/documents"]
    (note,) = (one for one in done["notes"] if "exact copies" in one)
    share = done["metrics"]["corpus/copied_sections_share"]
    assert done["metrics"]["corpus/copied_chunks_share"] == 0
    assert 0.15 < share < 0.5, "a third of the text"
    assert f"{share:.1%}" in note
    assert f"{held_out:,.0f}" in note
    assert note in json.loads(bpeline(*options, "--dry-run").stdout)["notes"]
    once = json.loads(bpeline(*options, "--deduplicate").stdout)
    assert "corpus/copied_sections_share" not in once["metrics"]
    assert once["metrics"]["corpus/copied_documents"] == 200
    assert not any("`--deduplicate`" in one for one in once["notes"])


@pytest.mark.night
def test_a_copy_is_counted_when_what_it_copies_is_gone(here: Path, bpeline: Command) -> None:
    """Counts of an earlier run were made without the copies; now the copies are all there is."""
    trained(bpeline, "copied", "--name", "before", "--deduplicate")
    (here / "copied/b.txt").unlink()
    once = trained(bpeline, "once", "--name", "once")
    after = trained(bpeline, "copied", "--name", "after", "--deduplicate")
    assert after["digest"] == once["digest"]
    (here / "copied/c.txt").write_text("Something else that comes first. " * 200)
    changed = trained(bpeline, "copied", "--name", "after", "--deduplicate")
    (here / "once/0.txt").write_text("Something else that comes first. " * 200)
    assert (
        changed["word_occurrences"] == trained(bpeline, "once", "--name", "x")["word_occurrences"]
    )
    plain = trained(bpeline, "copied", "--name", "plain")
    assert plain["word_occurrences"] > changed["word_occurrences"]


@pytest.mark.night
def test_tokens_of_one_document_are_those_of_text_without_copies(
    tmp_path: Path,
    english_and_code: str,
    bpeline: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compressed files are read again by whole chunks, whose digest tells of copies, too."""
    monkeypatch.chdir(tmp_path)
    parts = [english_and_code[at : at + 3_000] for at in range(0, 120_000, 3_000)]
    texts = {"once": parts, "a": parts[:25], "b": parts[15:]}
    for name, some in texts.items():
        content = "<|end|>".join(some).encode()
        Path(f"{name}.txt").write_bytes(content)
        Path(f"{name}.txt.gz").write_bytes(gzip.compress(content))
    Path("bad.txt").write_bytes("<|end|>".join(parts[15:]).encode() + b"\xff")

    def found(name: str, *files: str) -> float:
        done = bpeline("train", *files, "--name", name, *OPTIONS, "--vocab-size", 3_000)
        assert done.exit_code == 0, done.output
        metrics = json.loads(done.stdout)["metrics"]
        assert "privacy/one_document_tokens" in metrics, "the text was found again"
        return float(metrics["privacy/one_document_tokens"])

    once = found("once", "once.txt")
    assert once > 0
    deduplicated = ("--deduplicate", "--invalid-utf8", "replace")
    assert found("plain", "a.txt", "b.txt", *deduplicated) == once
    assert found("packed", "a.txt.gz", "b.txt.gz", *deduplicated) == once
    assert found("bad", "a.txt", "bad.txt", *deduplicated) == pytest.approx(once, abs=10)
    assert found("copied", "a.txt", "b.txt") < once, "of a copy there are two documents"
