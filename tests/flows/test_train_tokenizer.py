"""The whole chain in this process, on real text of 100 kB."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flow_calls import train_tokenizer
from published import copied

from bpeline.flows.requests import TrainingRequest
from bpeline.flows.running.progress import Progress, listening
from bpeline.flows.trainings import plan_training
from bpeline.flows.verify_version import verify_version
from bpeline.flows.versions.details import version_details
from bpeline.registry import load_tokenizer
from bpeline.registry.opening import open_registry
from bpeline.tokenizer_core import reference
from bpeline.tokenizer_core.counting.chunk_counts import ChunkCounts, count_chunk
from bpeline.tokenizer_core.errors import CorpusError, EmptyCorpus, InvalidOption, WorkspaceLocked
from bpeline.tokenizer_core.splitting.split_patterns import SplitPattern

Command = Callable[..., Result]


class Heard(Progress):
    """Remembers what a flow said."""

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self.notes: list[str] = []
        self.advanced: dict[str, int] = {}

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        self.steps[name] = outcome

    def step_advanced(self, name: str, amount: int) -> None:
        self.advanced[name] = self.advanced.get(name, 0) + amount

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.night
def test_a_corpus_becomes_a_registered_tokenizer(corpus: Path) -> None:
    heard = Heard()
    with listening(heard):
        summary = train_tokenizer([str(corpus)], "news", 420, held_out=0.0)
    assert list(heard.steps) == [
        "plan chunks",
        "count words",
        "combine counts",
        "learn merges",
        "evaluate",
        "screen tokens",
        "publish",
    ]
    assert summary.reference == "news/1"
    assert summary.newly_registered
    assert (summary.vocab_size, summary.merges) == (420, 164)
    size = sum(path.stat().st_size for path in corpus.iterdir())
    assert summary.corpus_bytes == size == heard.advanced["count words"]
    assert summary.bytes_per_token > 1.5
    assert summary.seconds.keys() == heard.steps.keys()

    tokenizer = load_tokenizer("news@candidate")
    assert tokenizer.digest == summary.digest
    counts = reference.count_words(
        [path.read_text() for path in sorted(corpus.iterdir())], SplitPattern.named("gpt2").regex
    )
    expected = reference.train(counts, 164, tie_break="smallest-ids")
    assert tokenizer.merges == expected


@pytest.mark.night
def test_the_same_again_reads_nothing_and_registers_nothing(corpus: Path) -> None:
    first = train_tokenizer([str(corpus)], "news", 400)
    heard = Heard()
    with listening(heard):
        second = train_tokenizer([str(corpus)], "news", 400)
    assert second.digest == first.digest
    assert second.version == first.version == 1
    assert not second.newly_registered
    assert second.chunks_reused == second.chunks == 3
    assert "3 of 3 chunks" in heard.steps["count words"]
    assert heard.advanced == {}


@pytest.mark.night
def test_required_tokens_and_rare_words_reach_the_version_and_its_record(corpus: Path) -> None:
    plain = train_tokenizer([str(corpus)], "news", 400)
    summary = train_tokenizer(
        [str(corpus)], "news", 400, min_word_count=3, required_tokens=[" bpeline", "zyzzyva"]
    )
    assert summary.digest != plain.digest
    assert summary.chunks_reused == summary.chunks  # what is left out is decided after counting
    tokenizer = load_tokenizer(summary.reference)
    assert [len(tokenizer.encode(text)) for text in (" bpeline", "zyzzyva")] == [1, 1]
    manifest = json.loads((Path(summary.directory) / "manifest.json").read_text())
    request = manifest["provenance"]["request"]
    assert request["min_word_count"] == 3
    assert request["required_tokens"] == [" bpeline", "zyzzyva"]
    counts = reference.count_words(
        [path.read_text() for path in sorted(corpus.iterdir())], SplitPattern.named("gpt2").regex
    )
    assert summary.words == len(counts)
    rare = [count for count in counts.values() if count < 3]
    assert manifest["provenance"]["pruned"] == {"words": len(rare), "occurrences": sum(rare)}
    lineage = version_details(summary.reference)["lineage"]
    assert lineage["pruned_distinct_words"] == len(rare) > 0
    assert lineage["pruned_words"] == sum(rare)
    again = train_tokenizer([str(corpus)], "other", 300, min_word_count=3)
    assert again.metrics["corpus/pruned_words"] == sum(rare)


@pytest.mark.night
def test_another_vocabulary_size_does_not_read_the_corpus(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = train_tokenizer([str(corpus)], "news", 400)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file of the corpus was opened")

    monkeypatch.setattr("bpeline.flows.counting.word_counting.cut_chunks", refuse)
    second = train_tokenizer([str(corpus)], "news", 500)
    assert second.version == 2
    merges = load_tokenizer("news/2").merges
    assert merges[: first.merges] == load_tokenizer("news/1").merges


@pytest.mark.night
def test_a_file_that_changed_is_read_again_and_the_others_are_not(corpus: Path) -> None:
    train_tokenizer([str(corpus)], "news", 400)
    with (corpus / "part-1.txt").open("a") as file:
        file.write(" and something new at the end")
    summary = train_tokenizer([str(corpus)], "news", 400)
    assert (summary.chunks, summary.chunks_reused) == (3, 2)


@pytest.mark.night
def test_runs_are_remembered_with_their_lineage(corpus: Path) -> None:
    summary = train_tokenizer([str(corpus)], "news", 400, special_tokens=["<|end|>"])
    catalogue = open_registry().catalogue
    run = catalogue.run(summary.run_id)
    assert run.state == "finished"
    assert run.config["special_tokens"] == ["<|end|>"]
    assert run.config["vocab_size"] == 400
    (version,) = catalogue.versions("news")
    assert version.run_id == run.id
    assert version.corpus_digest == run.corpus_digest != ""
    assert version.counts_digest == run.counts_digest != ""


@pytest.mark.night
def test_a_vocabulary_larger_than_the_corpus_stops_early_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "tiny.txt").write_text("low low lower lowest " * 30)
    heard = Heard()
    with listening(heard):
        summary = train_tokenizer(["tiny.txt"], "tiny", 32_000, held_out=0.0)
    assert summary.vocab_size < 300
    said = f"stopped early at {summary.vocab_size} of 32,000 ids"
    assert any(note.startswith(said) for note in summary.notes)
    assert summary.notes == tuple(heard.notes)
    by_merges = train_tokenizer(
        ["tiny.txt"], "few", algorithm="char-bpe", options={"merges": 200}, held_out=0.0
    )
    said = f"stopped early at {by_merges.merges} of 200 merges"
    assert any(note.startswith(said) for note in by_merges.notes)


@pytest.mark.night
def test_without_held_out_documents_it_is_evaluated_on_training_text_and_says_so(
    corpus: Path,
) -> None:
    summary = train_tokenizer([str(corpus)], "news", 300, held_out=0.0)
    assert not summary.held_out
    assert any("training text" in note for note in summary.notes)


@pytest.mark.night
def test_held_out_documents_are_not_trained_on(corpus: Path) -> None:
    lines = [
        json.dumps({"text": f"{word} " * 40}) for word in (f"zebra{n}quagga" for n in range(60))
    ]
    path = corpus.parent / "documents.jsonl"
    path.write_text("\n".join(lines) + "\n")
    summary = train_tokenizer([str(path)], "zebras", 500, held_out=0.4)
    assert summary.held_out
    assert 0 < summary.evaluated_bytes < summary.corpus_bytes


@pytest.mark.night
def test_a_failed_run_says_why_and_leaves_the_workspace_good(corpus: Path) -> None:
    (corpus / "broken.txt").write_bytes(b"good text \xff\xfe bad text")
    with pytest.raises(CorpusError, match="UTF-8"):
        train_tokenizer([str(corpus)], "news", 400)
    run = open_registry().catalogue.runs()[0]
    assert run.state == "failed"
    assert "not UTF-8" in run.error
    assert open_registry().workspace.lock_holder() is None

    summary = train_tokenizer([str(corpus)], "news", 400, invalid_utf8="replace")
    assert any("U+FFFD" in note for note in summary.notes)
    manifest = json.loads((Path(summary.directory) / "manifest.json").read_text())
    assert "U+FFFD" in json.dumps(manifest)


@pytest.mark.night
def test_the_same_request_after_a_failure_continues_that_run(corpus: Path) -> None:
    broken = corpus / "broken.txt"
    broken.write_bytes(b"\xff")
    with pytest.raises(CorpusError):
        train_tokenizer([str(corpus)], "news", 400)
    failed = open_registry().catalogue.runs()[0]
    broken.unlink()
    assert train_tokenizer([str(corpus)], "news", 400).run_id == failed.id


def test_two_runs_at_once_are_refused(corpus: Path) -> None:
    with (
        open_registry().workspace.lock("testing"),
        pytest.raises(WorkspaceLocked, match="testing"),
    ):
        train_tokenizer([str(corpus)], "news", 400)


@pytest.mark.night
def test_a_corpus_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(EmptyCorpus):
        train_tokenizer(["empty.txt"], "nothing", 400)


@pytest.mark.night
@pytest.mark.parametrize("pattern", ["cl100k", r"\w+|\s+|[^\w\s]+"])
@pytest.mark.parametrize("tie_break", ["greatest-bytes", "first-seen"])
def test_patterns_and_tie_breaks_reach_the_merges(
    corpus: Path, pattern: str, tie_break: str
) -> None:
    path = corpus / "part-0.txt"
    train_tokenizer([str(path)], "news", 320, pattern, tie_break=tie_break, held_out=0.0)
    counts = reference.count_words([path.read_text()], SplitPattern.parse(pattern).regex)
    assert load_tokenizer("news/1").merges == reference.train(counts, 64, tie_break=tie_break)


@pytest.mark.night
def test_workers_do_not_change_the_result(corpus: Path, tmp_path: Path) -> None:
    digests = {
        train_tokenizer(
            [str(corpus)], "news", 400, tie_break="first-seen", workers=workers,
            workspace=str(tmp_path / f"workspace-{workers}"),
        ).digest
        for workers in (1, 3)
    }  # fmt: skip
    assert len(digests) == 1


@pytest.mark.night
def test_chunks_are_as_long_as_asked_and_words_the_same(corpus: Path) -> None:
    made = {
        size: train_tokenizer([str(corpus)], f"of-{size}", 400, held_out=0.0, chunk_bytes=size)
        for size in (1_000, 9_000, 64 << 20)
    }
    assert len({one.digest for one in made.values()}) == 1
    for size, summary in made.items():
        run = open_registry(make=False).catalogue.run(summary.run_id)
        assert run.config.get("chunk_bytes", 64 << 20) == size
        assert TrainingRequest.checked(**run.config).reading.chunk_bytes == size
    found = verify_version("of-9000/1")
    assert found.as_dict()["identical"]


@pytest.mark.night
def test_words_that_do_not_fit_into_memory_do_not_change_the_result(
    tmp_path: Path, fresh_workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = str.maketrans("0123456789", "ghijklmnop")  # the pattern would cut at digits
    known = [f"{number:x}".translate(letters) for number in range(60_000)]
    words = random.Random(1).choices(known, k=120_000)
    (tmp_path / "many.txt").write_text(" ".join(words))
    digests, parts = [], list[tuple[int, bool, int]]()
    settings: tuple[dict[str, Any], ...] = ({}, {"table_memory": 2})

    def counted(*arguments: Any) -> ChunkCounts:
        counts = count_chunk(*arguments)
        parts.append((arguments[3] >> 20, counts.parts > 1, len(counts.counts)))
        return counts

    monkeypatch.setattr("bpeline.flows.counting.word_counting.count_chunk", counted)
    for number, more in enumerate(settings):
        workspace = copied(fresh_workspace, tmp_path / f"workspace-{number}")
        path = str(tmp_path / "many.txt")
        summary = train_tokenizer([path], "news", 300, workspace=str(workspace), **more)
        digests.append(summary.digest)
    assert digests[0] == digests[1]
    in_one, in_several = parts
    assert in_one[:2] == (256, False)
    assert in_one[2] > 50_000
    assert in_several == (2, True, 0)  # each part was written before the next was counted


def test_a_smaller_vocabulary_than_bytes_is_refused_before_anything_is_read() -> None:
    with pytest.raises(InvalidOption, match="255"):
        train_tokenizer(["missing.txt"], "news", 255)


@pytest.mark.night
@pytest.mark.parametrize("damage", ["shards", "tables", "checkpoints"])
def test_damaged_files_of_earlier_runs_are_made_again(corpus: Path, damage: str) -> None:
    first = train_tokenizer([str(corpus)], "news", 400)
    workspace = open_registry().workspace
    checkpoints = list(workspace.runs.rglob("checkpoint*"))
    damaged = {
        "shards": list(workspace.shards.rglob("*.parquet")),
        "tables": list(workspace.tables.glob("*.duckdb")),
        "checkpoints": checkpoints,
    }[damage]
    assert damaged
    for path in damaged:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    if damage == "shards":  # else nobody looks at them again
        shutil.rmtree(workspace.tables)
        workspace.tables.mkdir()
    if damage != "checkpoints":  # else nobody looks at the counts again
        for path in checkpoints:
            path.unlink()
    again = train_tokenizer([str(corpus)], "news", 400)
    assert again.digest == first.digest
    if damage != "checkpoints":
        assert any("trying again" in note for note in again.notes)
    if damage == "shards":
        assert again.chunks_reused < again.chunks


@pytest.mark.night
def test_damaged_held_out_documents_are_counted_again(corpus: Path) -> None:
    first = train_tokenizer([str(corpus)], "news", 400, held_out=0.3)
    assert first.held_out
    shards = open_registry().workspace.shards
    damaged = [path for path in shards.rglob("*.parquet") if "held" in path.name]
    assert damaged
    for path in damaged:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    again = train_tokenizer([str(corpus)], "news", 400, held_out=0.3)
    assert again.digest == first.digest
    assert again.bytes_per_token == first.bytes_per_token
    assert any("trying again" in note for note in again.notes)


@pytest.mark.night
def test_files_that_are_copies_are_reported_with_their_share(corpus: Path) -> None:
    text = (corpus / "part-1.txt").read_bytes()
    size = sum(path.stat().st_size for path in corpus.iterdir()) + 2 * len(text)
    plain = train_tokenizer([str(corpus)], "news", 400)
    assert not any("copies" in note for note in plain.notes)
    for name in ("copy-1.txt", "copy-2.txt"):
        (corpus / name).write_bytes(text)
    summary = train_tokenizer([str(corpus)], "news", 400)
    said = next(note for note in summary.notes if "copies" in note)
    assert f"{2 * len(text):,} bytes" in said
    assert f"{2 * len(text) / size:.1%}" in said
    request = TrainingRequest.checked(paths=[str(corpus)], name="news", vocab_size=400)
    assert said in plan_training(request, open_registry().workspace.root).notes
