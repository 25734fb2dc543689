"""A corpus that changes between runs: only the difference is counted, and the result is the same.

Every test trains on a corpus, changes it, trains again in the same workspace, and compares that
with a training in a fresh workspace that has never seen an earlier state.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flow_calls import train_tokenizer
from published import copied

from bpeline.flows.counting import word_counting
from bpeline.flows.publishing.summary import TrainingSummary
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.flows.running.progress import Progress, listening
from bpeline.flows.trainings.plan import TrainingPlan, plan_training
from bpeline.registry.opening import open_registry
from bpeline.registry.word_counts.shards import SmallShards
from bpeline.tokenizer_core.counting.chunk_counts import ChunkCounts, count_chunk
from bpeline.tokenizer_core.evaluation import SPEEDS

pytestmark = pytest.mark.fake_mlflow

CHUNK = 8 << 10
TIMES = ("provenance", "created_at", *SPEEDS, "seal")  # seals see them
SETTINGS: dict[str, Any] = {
    "vocab_size": 600,
    "special_tokens": ["<|end|>"],
    "held_out": 0.2,
    "chunk_bytes": CHUNK,
}


@dataclass
class Seen(Progress):
    """What a run read, and which chunks it counted."""

    bytes_read: int = 0
    chunks_read: int = 0
    counted: list[str] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)

    def step_advanced(self, name: str, amount: int) -> None:
        self.bytes_read += amount
        self.chunks_read += 1

    def step_finished(self, name: str, seconds: float, outcome: str) -> None:
        self.outcomes[name] = outcome


@pytest.fixture
def files(tmp_path: Path, english_and_code: str, fresh_workspace: Path) -> Path:
    """Four files of three to six chunks each, one of them of JSON lines; an empty workspace."""
    copied(fresh_workspace, tmp_path / ".bpeline")
    directory = tmp_path / "corpus"
    directory.mkdir()
    for number, size in enumerate((20_000, 30_000, 45_000)):
        text = english_and_code[number * 50_000 :][:size].replace("\n\n", "<|end|>\n")
        (directory / f"part-{number}.txt").write_text(text, encoding="utf-8")
    lines = english_and_code[200_000:230_000].splitlines()
    records = (json.dumps({"text": line}) + "\n" for line in lines)
    (directory / "records.jsonl").write_text("".join(records), encoding="utf-8")
    return directory


@pytest.fixture
def training(
    tmp_path: Path, fresh_workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[TrainingSummary, Seen]]:
    """``training(paths, name, fresh=False, **settings)``: a run, and what it read and counted.

    What ``--dry-run`` says before is compared with what the run then does.
    """
    scratches = (tmp_path / f"scratch-{number}" for number in itertools.count())

    def train(
        paths: list[Path], name: str = "news", *, fresh: bool = False, **settings: Any
    ) -> tuple[TrainingSummary, Seen]:
        seen = Seen()

        def counting(chunk: Any, *args: Any) -> ChunkCounts:
            seen.counted.append(chunk.digest)
            return count_chunk(chunk, *args)

        monkeypatch.setattr(word_counting, "count_chunk", counting)
        workspace = tmp_path / ".bpeline"
        if fresh:
            workspace = next(scratches)
            copied(fresh_workspace, workspace)
            take_over_evaluation_sets(tmp_path / ".bpeline", workspace)
        asked = {**SETTINGS, **settings, "paths": list(map(str, paths)), "name": name}
        plan = plan_training(TrainingRequest.checked(**asked), workspace)
        with listening(seen):
            summary = train_tokenizer(**asked, workspace=str(workspace))
        assert_as_planned(plan, summary, seen)
        return summary, seen

    return train


def take_over_evaluation_sets(before: Path, scratch: Path) -> None:
    """Let names have the sets that they have: all of their versions are measured on these."""
    if (before / "evaluation-sets").exists():
        shutil.copytree(before / "evaluation-sets", scratch / "evaluation-sets")
    for one in open_registry(before).catalogue.evaluation_sets():
        open_registry(scratch).catalogue.give_evaluation_set(
            one.name, one.digest, instead_of=one.number - 1
        )


Training = Callable[..., tuple[TrainingSummary, Seen]]


def assert_as_planned(plan: TrainingPlan, summary: TrainingSummary, seen: Seen) -> None:
    """A plan names exactly what is read, and what is reused unread; for the rest it has bounds."""
    assert plan.bytes_to_read == seen.bytes_read
    assert plan.chunks_reused == summary.chunks - seen.chunks_read
    assert plan.most_chunks_to_count is not None
    assert len(seen.counted) <= plan.most_chunks_to_count == seen.chunks_read
    counting, combining, learning = plan.steps[:3]
    assert counting.reused == (seen.bytes_read == 0)
    if plan.unread:
        assert not combining.reused
        assert not learning.reused
        assert not plan.version
        return
    assert combining.reused == ("there already" in seen.outcomes["combine counts"])
    taken_over = f"{plan.merges_reused:,} of them from the checkpoint"
    assert bool(plan.merges_reused) == (taken_over in seen.outcomes["learn merges"])
    assert learning.reused == (plan.merges_reused == summary.merges)
    assert plan.version == ("" if summary.newly_registered else summary.reference)


def timeless(value: Any) -> Any:
    """JSON without what tells when, how fast and by which run something was made."""
    if not isinstance(value, dict):
        return value
    return {
        name: timeless(one)
        for name, one in value.items()
        if name not in TIMES and not name.startswith("seconds/")
    }


def files_of_version(summary: TrainingSummary) -> dict[str, Any]:
    """Every file of a version, byte for byte but for the times in its records and its report."""
    root = Path(summary.directory)
    paths = [path for path in root.rglob("*") if path.is_file() and path.name != "report.html"]
    files: dict[str, Any] = {str(path.relative_to(root)): path.read_bytes() for path in paths}
    for name in ("manifest.json", "evaluation.json"):
        files[name] = timeless(json.loads(files[name]))
    return files


def figures(summary: TrainingSummary) -> dict[str, Any]:
    """Everything measured that is not a time."""
    curves = {"curve": summary.curve, **summary.curves}
    return {"metrics": timeless(summary.metrics), "curves": curves}


def assert_the_same(again: TrainingSummary, scratch: TrainingSummary) -> None:
    """Tokenizer, counts, corpus, figures and files are those of a run from scratch."""
    assert again.digest == scratch.digest
    assert lineage(again) == lineage(scratch)
    assert figures(again) == figures(scratch)
    if again.newly_registered:  # else its files are those of the first to have this behaviour
        assert files_of_version(again) == files_of_version(scratch)


def lineage(summary: TrainingSummary) -> tuple[str, str]:
    catalogue = open_registry(Path(summary.directory).parent.parent).catalogue
    run = catalogue.run(summary.run_id)
    assert run.corpus_digest
    assert run.counts_digest
    return run.corpus_digest, run.counts_digest


def size(*paths: Path) -> int:
    return sum(path.stat().st_size for path in paths)


def chunks(*paths: Path) -> int:
    return sum(-(-path.stat().st_size // CHUNK) for path in paths)


# ---- the cases ----------------------------------------------------------------------------------
# Each changes the corpus and says what must be read, and which part of it must be counted.


@dataclass(frozen=True)
class Difference:
    """What the second run must do, no more and no less.

    Attributes:
        read: files that it reads, each from its beginning to its end.
        counted: how many chunks it counts.
    """

    read: tuple[Path, ...] = ()
    counted: int = 0


def append(corpus: Path) -> Difference:
    """The chunk at the old end, and what is behind it."""
    path = corpus / "part-1.txt"
    before = chunks(path)
    with path.open("a") as file:
        file.write(" and a new story, told in words of its own." * 400)
    assert chunks(path) > before
    return Difference((path,), chunks(path) - before + 1)


def append_records(corpus: Path) -> Difference:
    path = corpus / "records.jsonl"
    before = chunks(path)
    with path.open("a") as file:
        file.writelines(f'{{"text": "record {n}{" recorded" * 60}"}}\n' for n in range(8))
    assert chunks(path) == before
    return Difference((path,), 1)


def overwrite_in_the_middle(corpus: Path) -> Difference:
    """Of a change that moves nothing, the one chunk it lies in."""
    path = corpus / "part-2.txt"
    content = bytearray(path.read_bytes())
    middle = 2 * CHUNK + CHUNK // 2
    content[middle : middle + 900] = b" 123456. " * 100
    path.write_bytes(content)
    return Difference((path,), 1)


def insert_in_the_middle(corpus: Path) -> Difference:
    """Behind an insertion the grid lies elsewhere: its chunk and all behind it."""
    path = corpus / "part-2.txt"
    content = path.read_bytes()
    middle = 2 * CHUNK + CHUNK // 2
    path.write_bytes(content[:middle] + b" something else" * 100 + content[middle:])
    return Difference((path,), chunks(path) - 2)


def truncate(corpus: Path) -> Difference:
    """The chunk in which the file now ends."""
    path = corpus / "part-2.txt"
    os.truncate(path, 3 * CHUNK + 100)
    return Difference((path,), 1)


def add_a_file(corpus: Path) -> Difference:
    path = corpus / "part-1-and-a-half.txt"
    path.write_text("a file in between that nobody has seen before, " * 300)
    return Difference((path,), chunks(path))


def add_a_copy(corpus: Path) -> Difference:
    """Its chunks are known by their bytes."""
    path = corpus / "part-9.txt"
    shutil.copy(corpus / "part-0.txt", path)
    return Difference((path,), 0)


def remove(corpus: Path) -> Difference:
    (corpus / "part-1.txt").unlink()
    return Difference()


def rename(corpus: Path) -> Difference:
    """Under another name a file is read, because another file may have had its times."""
    (corpus / "part-0.txt").rename(corpus / "part-5.txt")
    return Difference((corpus / "part-5.txt",), 0)


def touch(corpus: Path) -> Difference:
    os.utime(corpus / "part-2.txt")
    return Difference((corpus / "part-2.txt",), 0)


CHANGES = (
    append_records,
    overwrite_in_the_middle,
    insert_in_the_middle,
    truncate,
    add_a_file,
    add_a_copy,
    rename,
    touch,
    remove,
)
CHANGE_NOTHING = (rename, touch)  # of the tokenizer


@pytest.mark.night
def test_an_appended_file_costs_what_was_appended(files: Path, training: Training) -> None:
    first, seen = training([files])
    assert (seen.bytes_read, len(seen.counted)) == (size(*files.iterdir()), first.chunks)
    assert first.chunks == chunks(*files.iterdir())
    assert_that_only_the_difference_is_counted(append, files, training)


@pytest.mark.night
def test_night_after_night_only_the_difference_is_counted(files: Path, training: Training) -> None:
    training([files])
    for change in CHANGES:
        assert_that_only_the_difference_is_counted(change, files, training)


def assert_that_only_the_difference_is_counted(
    change: Callable[[Path], Difference], files: Path, training: Training
) -> None:
    difference = change(files)
    again, seen = training([files])
    assert again.newly_registered or change in CHANGE_NOTHING
    assert seen.bytes_read == size(*difference.read), change.__name__
    assert len(seen.counted) == difference.counted == again.chunks - again.chunks_reused

    scratch, seen = training([files], fresh=True)
    assert len(seen.counted) == scratch.chunks - scratch.chunks_reused
    assert_the_same(again, scratch)


@pytest.mark.night
def test_the_order_of_sight_is_that_of_the_files(files: Path, training: Training) -> None:
    """Ties by first sight see the order of files, so counts in another order are other counts."""
    paths = sorted(files.iterdir())
    first, _ = training(paths, tie_break="first-seen")
    again, seen = training(paths[::-1], tie_break="first-seen")
    assert (seen.bytes_read, seen.counted) == (0, [])
    assert lineage(again) != lineage(first)
    scratch, _ = training(paths[::-1], fresh=True, tie_break="first-seen")
    assert_the_same(again, scratch)


@pytest.mark.night
def test_other_names_and_sizes_read_nothing(files: Path, training: Training) -> None:
    first, _ = training([files])
    for settings in ({"vocab_size": 500}, {"vocab_size": 700}):
        again, seen = training([files], **settings)
        assert (seen.bytes_read, seen.counted) == (0, [])
        assert again.chunks_reused == again.chunks
        scratch, _ = training([files], fresh=True, **settings)
        assert_the_same(again, scratch)
    named, seen = training([files], "other")
    assert (seen.bytes_read, seen.counted) == (0, [])
    assert (named.directory, lineage(named)) == (first.directory, lineage(first))
    assert figures(named) == figures(first)


@pytest.mark.night
def test_another_way_of_reading_counts_anew(files: Path, training: Training) -> None:
    training([files])
    again, seen = training([files], held_out=0.1)
    assert len(seen.counted) == again.chunks
    scratch, _ = training([files], fresh=True, held_out=0.1)
    assert_the_same(again, scratch)


@pytest.mark.night
def test_going_back_to_an_earlier_state_counts_nothing(files: Path, training: Training) -> None:
    path = files / "part-1.txt"
    content = path.read_bytes()
    first, _ = training([files])
    append(files)
    training([files])
    path.write_bytes(content)
    back, seen = training([files])
    assert (seen.bytes_read, seen.counted) == (len(content), [])
    assert (back.reference, back.newly_registered) == (first.reference, False)


@pytest.mark.night
def test_what_is_held_out_stays_held_out_when_a_corpus_grows(
    files: Path, training: Training
) -> None:
    def held_out(summary: TrainingSummary) -> list[bytes]:
        store, registry = word_counting.WordCountStore(open_registry().workspace), open_registry()
        table = next(iter(registry.catalogue.count_tables(lineage(summary)[1])), None)
        assert table is not None
        return store.held_out_documents(store.shards_of(table.key), 1 << 30)

    first, _ = training([files])
    before = held_out(first)
    append(files)
    add_a_file(files)
    again, _ = training([files])
    after = held_out(again)
    # The section at the old end is another one now; all others are where they were.
    missing = [section for section in before if section not in set(after)]
    assert len(before) > 5
    assert len(missing) <= 1
    assert set(after) > set(before) - set(missing)


@pytest.mark.night
def test_an_interrupted_run_counts_what_is_left(
    files: Path, training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, kept = SmallShards.put, 0

    def fails_in_the_middle(*args: Any) -> None:
        nonlocal kept
        if kept == 5:
            raise OSError("the machine is switched off")
        kept += 1
        put(*args)

    with monkeypatch.context() as patched:
        patched.setattr(SmallShards, "put", fails_in_the_middle)
        with pytest.raises(OSError):
            training([files], workers=1)
    again, seen = training([files])
    assert again.chunks - len(seen.counted) == again.chunks_reused == 5
    scratch, _ = training([files], fresh=True)
    assert_the_same(again, scratch)
