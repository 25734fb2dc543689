"""Many small files cost what their text costs: few files, few questions, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.flows.steps.chunk_plan import CorpusPlan, plan_chunks
from bpeline.flows.steps.combining import add_up
from bpeline.flows.steps.counting import CountedCorpus, count_words
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.word_counts import packs, shards
from bpeline.tokenizer_core.counting import count_words as counted_by_core

FILES = 600


@pytest.fixture
def many(tmp_path: Path, english_and_code: str) -> Path:
    """Files of some sentences each, two of them with the same text."""
    directory = tmp_path / "many"
    step = len(english_and_code) // FILES
    for number in range(FILES):
        path = directory / f"{number // 100}" / f"{number:04}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(english_and_code[number * step : (number + 1) * step])
    (directory / "0" / "0001.txt").write_text((directory / "0" / "0000.txt").read_text())
    return directory


@contextmanager
def statements() -> Iterator[list[str]]:
    """What is asked of databases inside the block; one that has many rows is one."""
    asked: list[str] = []

    def hear(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


def counted(many: Path, home: Path) -> tuple[CorpusPlan, CountedCorpus, str]:
    request, registry = (
        TrainingRequest.checked(paths=[str(many)], name="many", held_out=0.0),
        opened(home),
    )
    plan = plan_chunks(request, registry)
    corpus = count_words(plan, request, registry)
    return plan, corpus, add_up(corpus, request, registry.workspace).table.counts_digest


def opened(home: Path) -> Registry:
    return open_registry(home)


@pytest.mark.slow
def test_many_files_are_a_few_on_disk_and_a_few_questions(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    with statements() as asked:
        _, corpus, digest = counted(many, home)
    written = [path for path in opened(home).workspace.shards.rglob("*") if path.is_file()]
    assert len(written) < FILES / 2
    assert len([one for one in asked if "file_readings" in one]) < 15
    assert digest == counted_by_core([str(many)]).digest

    read: list[str] = []
    plain = packs.read_record

    def reading(path: Path, *more: object) -> object:
        read.append(path.name)
        return plain(path, *more)  # type: ignore[arg-type]

    packs._read.clear()
    for module in (packs, shards):
        monkeypatch.setattr(module, "read_record", reading)
    with statements() as asked:
        plan, again, same = counted(many, home)
    assert (again.digest, same) == (corpus.digest, digest)
    assert not plan.bundles
    assert again.unread == FILES
    assert len(read) < FILES / 6
    assert len([one for one in asked if "file_readings" in one]) < 6


@pytest.mark.slow
def test_of_many_files_only_what_is_new_is_counted(many: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    counted(many, home)
    workspace = opened(home).workspace
    before = {path: path.read_bytes() for path in workspace.packs.glob("*")}
    assert before
    (many / "2" / "0250-and-a-half.txt").write_text("between the others\n")
    (many / "3" / "0333.txt").write_text("not what it was\n")
    (many / "5" / "0599.txt").unlink()
    plan, corpus, digest = counted(many, home)
    read = {Path(group.file.path).name for bundle in plan.bundles for group in bundle}
    assert read == {"0250-and-a-half.txt", "0333.txt"}
    assert len(corpus.chunks) - corpus.reused == 2
    assert {path: path.read_bytes() for path in before} == before
    _, fresh, expected = counted(many, tmp_path / "fresh")
    assert (corpus.digest, digest) == (fresh.digest, expected)
