"""Many small files cost what their text costs: few files, few questions, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from bpeline.flows.counting import word_counting
from bpeline.flows.counting.chunk_plan import CorpusPlan, plan_chunks
from bpeline.flows.counting.combining import add_up
from bpeline.flows.counting.word_counting import CountedCorpus, count_words, placed_shards
from bpeline.flows.requests.training_request import TrainingRequest
from bpeline.registry.opening import Registry, open_registry
from bpeline.registry.word_counts import WordCountStore, shards
from bpeline.tokenizer_core.corpus import DecontaminationSet, SmallFiles
from bpeline.tokenizer_core.counting import count_words as counted_by_core
from bpeline.tokenizer_core.errors import InvalidUtf8

pytestmark = pytest.mark.fake_mlflow

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


def counted(
    many: Path, home: Path, left_out: DecontaminationSet | None = None, **settings: Any
) -> tuple[CorpusPlan, CountedCorpus, str]:
    asked = {"paths": [str(many)], "name": "many", "held_out": 0.0, **settings}
    request, registry = TrainingRequest.checked(**asked), opened(home)
    plan = plan_chunks(request, registry, left_out)
    corpus = count_words(plan, request, registry)
    return plan, corpus, add_up(corpus, request, registry.workspace).table.counts_digest


def opened(home: Path) -> Registry:
    return open_registry(home)


@pytest.mark.night
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
    plain = shards.read_record

    def reading(path: Path, *more: object) -> object:
        read.append(path.name)
        return plain(path, *more)  # type: ignore[arg-type]

    shards._read.clear()
    monkeypatch.setattr(shards, "read_record", reading)
    with statements() as asked:
        plan, again, same = counted(many, home)
    assert (again.digest, same) == (corpus.digest, digest)
    assert not plan.bundles
    assert again.unread == FILES
    assert len(read) < FILES / 6
    assert len([one for one in asked if "file_readings" in one]) < 6


@pytest.mark.night
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


def together_and_alone(
    many: Path, home: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> list[Any]:
    """What is known of a corpus that was counted, and of its table: small files together, alone."""
    found: list[Any] = []
    for name, fewest in (("together", 2), ("alone", 1 << 30)):
        monkeypatch.setattr(word_counting, "_MANY", fewest)
        monkeypatch.setattr(word_counting, "_MANY_TO_COMPILE_FOR", fewest)
        numbers: list[int] = []
        read = SmallFiles.read

        def noting(
            files: Any, *more: Any, read: Any = read, numbers: list[int] = numbers
        ) -> SmallFiles:
            numbers.append(len(files))
            return read(files, *more)

        monkeypatch.setattr(SmallFiles, "read", noting)
        _, corpus, digest = counted(many, home / name, **settings)
        monkeypatch.setattr(SmallFiles, "read", read)
        assert bool(numbers) == (name == "together")
        store = WordCountStore(opened(home / name).workspace)
        keys = [ref.key for refs in placed_shards(corpus) for ref in refs]
        held_out = store.held_out_documents(keys, 1 << 30)
        found.append((corpus, digest, store.statistics(keys), held_out))
    return found


@pytest.mark.parametrize("held_out", [0.0, 0.2])
def test_a_corpus_is_the_same_whether_small_files_are_counted_together_or_alone(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_out: float
) -> None:
    (many / "1" / "0100.jsonl").write_text('{"text": "between"}\n')
    (many / "1" / "0101.txt").write_text("")
    (many / "1" / "0102.txt").write_bytes(b"\xef\xbb\xbfmarked")
    (many / "1" / "0103.txt").write_text("large " * 12_000)
    settings = {"held_out": held_out, "special_tokens": ["<|endoftext|>", "the"]}
    together, alone = together_and_alone(many, tmp_path, monkeypatch, **settings)
    assert together == alone
    corpus = together[0]
    assert corpus.reused == 1  # the copy
    assert len(corpus.chunks) == FILES  # one more, and one that is empty


def test_of_small_files_those_with_a_passage_of_the_evaluation_set_are_counted_alone(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [path.read_bytes() for path in sorted(many.rglob("*.txt"))]
    ends = texts[40][-100:], texts[41][:100]
    passages = [texts[7][50:250], texts[300], b"\0".join(ends), b"".join(ends)]
    _, before, _ = counted(many, tmp_path / "before", held_out=0.2)
    shards = [key for keys in before.keys[100:] for key in keys]
    left_out = DecontaminationSet.of(passages, shards)
    together, alone = together_and_alone(
        many, tmp_path, monkeypatch, held_out=0.2, left_out=left_out
    )
    assert together == alone
    assert together[0].keys[100:] == before.keys[100:]
    assert not {*together[0].keys[:100]} & {*before.keys[:100]}
    assert 200 <= together[2].left_out_bytes < 400, (
        "of texts[7], not of texts[300], nor between two"
    )


def test_small_files_are_counted_alone_where_a_corpus_decides_what_counts(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SmallFiles, "read", None)
    for number, settings in enumerate(
        [{"deduplicate": True}, {"invalid_utf8": "replace"}, {"text_form": "NFC"}]
    ):
        _, corpus, _ = counted(many, tmp_path / f"{number}", **settings)
        assert len(corpus.readings) == FILES


def test_what_was_counted_before_a_file_that_cannot_be_read_is_kept(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counting, "_TOGETHER", 1 << 14)
    bad = many / "4" / "0450.txt"
    good = bad.read_bytes()
    bad.write_bytes(b"low\xe6\x97")
    with pytest.raises(InvalidUtf8, match=r"0450\.txt.* 3\b"):
        counted(many, tmp_path / "home")
    bad.write_bytes(good)
    _, corpus, digest = counted(many, tmp_path / "home")
    assert 300 < corpus.reused < FILES
    _, fresh, expected = counted(many, tmp_path / "fresh")
    assert (corpus.digest, digest) == (fresh.digest, expected)
