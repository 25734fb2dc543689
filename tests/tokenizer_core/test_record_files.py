"""Files of records say what the same documents say as JSON lines, and break nothing when broken."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from record_files import (
    WRITERS,
    as_jsonl,
    as_parquet,
    datasets_cache,
    hub_cache,
    save_to_disk,
    table_of,
)

from bpeline.tokenizer_core.corpus import (
    ChunkGroup,
    ReadOptions,
    Source,
    chunking,
    column_files,
    column_worker,
    cut_chunks,
    documents_between,
    find_source_files,
    plan_chunk_groups,
    read_again,
    read_chunks,
    search_sources,
    sources_of,
)
from bpeline.tokenizer_core.counting import WordCounts, count_words, documents_of, sample_documents
from bpeline.tokenizer_core.errors import (
    CorpusChanged,
    EmptyCorpus,
    InvalidUtf8,
    UnreadableSource,
    WorkerLost,
)
from bpeline.tokenizer_core.machine import available_processors
from bpeline.tokenizer_core.shards import count_files, file_encoding_of
from bpeline.tokenizer_core.splitting import SplitPattern
from bpeline.tokenizer_core.tokenizer import Tokenizer
from bpeline.tokenizer_core.training import train_bpe
from bpeline.tokenizer_core.worker_processes import EXIT_SECONDS, Workers

END = "<|end|>"
READING = ReadOptions(SplitPattern.named("gpt2"), (END,), held_out=0.3)
PIECES = (
    *("", " ", "\n", "a\r\n\nb ", "Nüsse und ", "漢字仮名", f"one{END}two", "\x00", "\ufeffx"),
    *('"quoted", ', "\\", "e\u0301", "one two " * 200, "don't"),
)


@pytest.fixture(scope="module")
def documents() -> list[str]:
    random_ = random.Random(20)
    some = ["".join(random_.choices(PIECES, k=random_.randint(0, 6))) for _ in range(120)]
    return ["", *some, "", some[3], "the last one"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than a pipe holds."""
    some = [random.Random(number).randbytes(500).hex() for number in range(8000)]
    return WRITERS["one_row_group"](tmp_path_factory.mktemp("large"), some)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunking, "PART_BYTES", 1 << 10)


def in_order(counts: WordCounts) -> list[tuple[bytes, int]]:
    return list(counts.items())


@pytest.mark.parametrize("format", sorted(WRITERS))
@pytest.mark.usefixtures("small_parts")
def test_words_are_those_of_json_lines_in_the_same_order(
    format: str, documents: list[str], tmp_path: Path
) -> None:
    lines = as_jsonl(tmp_path, documents)
    path = WRITERS[format](tmp_path, documents)
    for options in ({}, {"deduplicate": True}, {"text_form": "NFC"}):
        expected = in_order(count_words(lines, special_tokens=[END], **options))
        for workers, chunk_bytes in ((1, 4 << 20), (2, 500)):
            found = count_words(
                path, special_tokens=[END], workers=workers, chunk_bytes=chunk_bytes, **options
            )
            assert in_order(found) == expected


@pytest.mark.parametrize("format", sorted(WRITERS))
@pytest.mark.usefixtures("small_parts")
def test_documents_and_what_is_held_out_are_those_of_json_lines(
    format: str, documents: list[str], tmp_path: Path
) -> None:
    def told(path: Path, chunk_bytes: int) -> tuple[list[bytes], list[list[bytes]]]:
        whole: list[bytes] = []
        shared: list[list[bytes]] = [[], []]
        (file,) = find_source_files(sources_of(path))
        for group in plan_chunk_groups([file], chunk_bytes):
            for _, text in read_chunks(group, READING, chunk_bytes):
                spans = documents_between(text, READING.special_bytes)[0]
                whole += [text.text.bytes(*span) for span in spans.tolist()]
                for kept, part in zip(shared, READING.share_out(text.text, spans)[:2], strict=True):
                    kept += [text.text.bytes(*span) for span in part.tolist()]
        return whole, shared

    expected = told(as_jsonl(tmp_path, documents), 1 << 20)
    assert expected[0] == [part.encode() for one in documents for part in one.split(END) if part]
    path = WRITERS[format](tmp_path, documents)
    assert told(path, 1 << 20) == expected
    assert told(path, 100) == expected


@pytest.mark.parametrize("format", sorted(WRITERS))
def test_ids_and_their_documents_are_those_of_json_lines(
    format: str, documents: list[str], tmp_path: Path
) -> None:
    path, lines = WRITERS[format](tmp_path, documents), as_jsonl(tmp_path, documents)
    tokenizer = train_bpe(count_words(lines), 300, special_tokens=[END])
    assert tokenizer.merges == train_bpe(count_words(path), 300, special_tokens=[END]).merges
    for threads in (1, 2):
        expected = tokenizer.encode_files_to_numpy(lines, threads=threads, end_of_text=END)
        found = tokenizer.encode_files_to_numpy(path, threads=threads, end_of_text=END)
        assert [one.tolist() for one in found] == [one.tolist() for one in expected]
    shards = tokenizer.encode_files(path, tmp_path / "out", shard_bytes=4096)
    assert [tokenizer.decode(ids.tolist()) for ids in shards] == [one for one in documents if one]


def test_all_formats_of_records_share_their_chunks(documents: list[str], tmp_path: Path) -> None:
    digests = set()
    for write in WRITERS.values():
        (file,) = find_source_files(sources_of(write(tmp_path, documents)))
        digests.add(tuple(chunk.digest for chunk, _ in cut_chunks(ChunkGroup(file), READING)))
    assert len(digests) == 1, "counted once, whatever they come in"


@pytest.mark.usefixtures("small_parts")
def test_row_groups_are_read_by_themselves_and_again(documents: list[str], tmp_path: Path) -> None:
    (file,) = find_source_files(sources_of(as_parquet(tmp_path, documents)))
    groups = plan_chunk_groups([file], 1)
    assert len(groups) > 3
    apart = [one for group in groups for one in cut_chunks(group, READING, 300)]
    whole = list(cut_chunks(ChunkGroup(file), READING, 300))
    assert [(c.ordinal, c.digest, c.size) for c, _ in apart] == [
        (c.ordinal, c.digest, c.size) for c, _ in whole
    ]
    assert [c.begin for c, _ in whole[1:]] == [c.end for c, _ in whole[:-1]]
    ordinals = [chunk.ordinal for chunk, _ in whole]
    assert ordinals == sorted(set(ordinals))
    wanted = whole[2::3]
    again = read_again(file.path, [chunk.ordinal for chunk, _ in wanted], READING, 300)
    assert [chunk.digest for chunk, _ in again] == [chunk.digest for chunk, _ in wanted]


def test_samples_are_of_the_whole_file(documents: list[str], tmp_path: Path) -> None:
    (file,) = find_source_files(sources_of(as_parquet(tmp_path, documents * 10)))
    every = list(documents_of([file], READING))
    size = sum(map(len, every))
    sample = list(sample_documents([(file, size)], READING, size // 4))
    assert 0 < sum(map(len, sample)) < size // 2
    assert set(sample) <= set(every)


def test_a_directory_of_row_groups_and_texts_is_one_corpus(
    documents: list[str], tmp_path: Path
) -> None:
    folder, other = tmp_path / "corpus", tmp_path / "lines"
    for place, write in ((folder, as_parquet), (other, as_jsonl)):
        for part in ("a", "b"):
            (place / part).mkdir(parents=True)
            write(place / part, documents[: 40 if part == "a" else 90])
        (place / "z.txt").write_text("and a text")
    assert in_order(count_words(folder)) == in_order(count_words(other))


# What is not text


def test_a_column_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(["one"], "content"), path)
    with pytest.raises(UnreadableSource, match=r"a\.parquet.*'text'") as refusal:
        count_words(path)
    assert "'id', 'content'" in refusal.value.accepted
    with pytest.raises(UnreadableSource, match=r"int64.*'token_count'"):
        count_words(path, text_field="token_count")
    assert count_words(path, text_field="content").to_mapping() == {b"one": 1}


def test_a_row_without_text_is_named_as_a_line_without_is(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [*["x"] * 30, None]}), path, row_group_size=20)
    with pytest.raises(UnreadableSource, match="row 30 "):
        count_words(path)


def test_bytes_that_are_not_utf8_are_treated_as_elsewhere(tmp_path: Path) -> None:
    contents = [b"good", b"a\xffb", b"\xe2\x82", b"\xff\xff", b"end \xf0\x9f\x98"]
    pq.write_table(pa.table({"text": pa.array(contents, pa.binary())}), tmp_path / "a.parquet")
    lines = b"".join(b'{"text": "%s"}\n' % one for one in contents)
    (tmp_path / "a.jsonl").write_bytes(lines)
    with pytest.raises(InvalidUtf8, match=r"a\.parquet"):
        count_words(tmp_path / "a.parquet")
    found = count_words(tmp_path / "a.parquet", invalid_utf8="replace")
    assert in_order(found) == in_order(count_words(tmp_path / "a.jsonl", invalid_utf8="replace"))


def test_empty_tables_are_empty_texts(tmp_path: Path, trained_on_nothing: Tokenizer) -> None:
    pq.write_table(table_of([]), tmp_path / "a.parquet")
    encoding = file_encoding_of(trained_on_nothing)
    (count,) = count_files(encoding, find_source_files(sources_of(tmp_path)), 1)
    assert (count.documents, count.tokens) == (0, 0)


@pytest.fixture
def trained_on_nothing() -> Tokenizer:
    return Tokenizer({byte: bytes([byte]) for byte in range(256)}, [])


def test_brotli_is_refused_by_name(documents: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    compression = {"text": "brotli", "id": "zstd", "token_count": "brotli"}
    pq.write_table(table_of(documents), path, compression=compression)
    with pytest.raises(UnreadableSource, match="CVE-2026-111497"):
        count_words(path)
    assert len(count_words(path, text_field="id"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "id,content\n1,x\n", "'text'.*'content'"),
        ("a.csv", "", "'text'"),
        ("a.csv", "text,text\na,b\n", "'text', 'text'"),
        ("a.csv", "id,text\n1,a,b\n", r"\b3\b.*line 2\b"),
        ("a.csv", 'text\n"never ends\n', r"line 2\b"),
        ("a.csv", 'id,text\n"1\n1","a ""b"""\n2,"never\n\nends\n', r"line 4\b"),
        ("a.tsv", 'id\ttext\n1\ta "b\n"2\n2"\t"never, "" ends\n', r"line 4\b"),
        ("a.csv", 'id,text\n1,"not ended\n2,"b"\n', r"line 2\b"),
        ("a.csv", 'id,text\n1,"a\nb",c\n', r"\b3\b.*line 2\b"),
        ("a.tsv", 'id\ttext\n1\t"a"b\n', r"line 2\b"),
        ("a.json", '{"data": [{"text": "a"}]}', "record 0 .*'text'.*'data'"),
        ("a.json", '[{"text": "a"}, {"text": 3}]', "record 1 .*'text'"),
        ("a.json", '[{"text": "a"}, 3]', "record 1 .*object"),
        ("a.json", '[{"text": "a"}', "record 1 "),
        ("a.json", '[{"text": "a"},\n]', "record 1 .*comma"),
        ("a.json", '[{"text": "a"} {"text": "b"}]', "record 1 .*comma"),
        ("a.json", '[{"text": "a"},,{"text": "b"}]', "record 1 .*object"),
        ("a.json", '[,{"text": "a"}]', "record 0 .*object"),
        ("a.json", '[{"text": "a",}]', "record 0 .*JSON"),
        ("a.json", '[{"text": "a"}] x', "record 1 "),
        ("a.json", '[{"text": "a}]', "record 0 .*JSON"),
        ("a.json", "", "words"),
    ],
)
def test_tables_and_arrays_that_are_broken_are_named(
    name: str, content: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((UnreadableSource, EmptyCorpus), match=said) as refusal:
        count_words(tmp_path / name)
    assert name in refusal.value.happened
    assert refusal.value.next_step


def test_json_of_many_reads_and_half_pairs_is_that_of_lines(tmp_path: Path) -> None:
    some = [f"word{n} " * 40000 for n in range(12)]
    (tmp_path / "a.json").write_text(json.dumps([{"text": one} for one in some]))
    assert in_order(count_words(tmp_path / "a.json")) == in_order(
        count_words(as_jsonl(tmp_path, some))
    )
    (tmp_path / "b.json").write_text('[{"text": "a \\ud83d b \\udcff"}]')
    (tmp_path / "b.jsonl").write_text('{"text": "a \\ud83d b \\udcff"}')
    with pytest.raises(InvalidUtf8):
        count_words(tmp_path / "b.json")
    found = (count_words(tmp_path / one, invalid_utf8="replace") for one in ("b.json", "b.jsonl"))
    assert in_order(next(found)) == in_order(next(found))


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_bzip2_and_xz_are_read_whole_or_refused(
    compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / f"a.txt.{'bz2' if compress is bz2.compress else 'xz'}"
    members = compress(b"one two ") + compress(b"three") + b"\0" * 8
    path.write_bytes(members)
    assert count_words(path).to_mapping() == {b"one": 1, b" two": 1, b" three": 1}
    for broken in (members[:-30], b"", members + b"garbage"):
        path.write_bytes(broken)
        with pytest.raises(UnreadableSource, match=path.name):
            count_words(path)


def test_tables_are_read_where_they_are_named_and_said_where_not(tmp_path: Path) -> None:
    WRITERS["csv"](tmp_path, ["one"])
    WRITERS["json"](tmp_path, ["two"])
    (tmp_path / "a.txt").write_text("three")
    for pattern in (tmp_path, tmp_path / "*"):
        found = search_sources(sources_of(pattern))
        assert found.skipped.kinds == {".csv": 1, ".json": 1}
        assert len(found.files) == 1
    (file,) = search_sources([Source(str(tmp_path / "*.csv"))]).files
    assert file.format == "csv"
    assert len(search_sources([Source(str(tmp_path), include=("*.json",))]).files) == 2


def test_a_saved_dataset_is_its_documents_and_nothing_else(
    documents: list[str], tmp_path: Path
) -> None:
    expected = in_order(count_words(as_jsonl(tmp_path, documents)))
    half = len(documents) // 2
    one = save_to_disk(tmp_path / "one", documents)
    two = save_to_disk(tmp_path / "two", documents, 2)
    splits = tmp_path / "splits"
    save_to_disk(splits / "a-test", documents[:half])
    save_to_disk(splits / "train", documents[half:])
    (splits / "dataset_dict.json").write_text('{"splits": ["train", "a-test"]}')
    for folder, about in ((one, 2), (two, 2), (splits, 5)):
        found = search_sources(sources_of(folder))
        found.skipped.refuse()
        assert {file.format for file in found.files} == {"arrow"}
        assert found.skipped.as_dict() == {
            "files": 0, "kinds": {}, "hidden": 0, "about_datasets": about,
        }  # fmt: skip
        assert str(about) in found.skipped.remark
        assert in_order(count_words(folder)) == expected
    assert in_order(count_words(tmp_path / "one" / "*")) == expected
    (one / "more.json").write_text("[]")
    with pytest.raises(UnreadableSource, match=r"1 \.json"):
        search_sources(sources_of(one)).skipped.refuse()
    only = search_sources([Source(str(one / "dataset_info.json"))])
    assert [file.format for file in only.files] == ["json"], "who names it means it"


def test_a_cache_of_datasets_is_read_once_without_what_was_derived(
    documents: list[str], tmp_path: Path
) -> None:
    expected = in_order(count_words(as_jsonl(tmp_path, documents)))
    cache = datasets_cache(tmp_path / "cache", documents)
    found = search_sources(sources_of(cache))
    assert [Path(file.path).name for file in found.files] == ["parquet-train.arrow"]
    assert found.skipped.kinds == {"cache-*.arrow (of the datasets library)": 3}
    assert found.skipped.about_datasets == 3
    assert in_order(count_words(cache)) == expected
    (named,) = cache.rglob("cache-0123456789abcdef.arrow")
    assert in_order(count_words(named)) == expected, "who names it means it"


def test_a_cache_of_the_hub_is_read_by_its_links(documents: list[str], tmp_path: Path) -> None:
    expected = in_order(count_words(as_jsonl(tmp_path, documents)))
    place = hub_cache(tmp_path / "hub", documents)
    found = search_sources(sources_of(place))
    names = [os.path.basename(file.path) for file in found.files]
    assert names == ["README.md", "train-00000-of-00001.parquet"]
    assert found.skipped.kinds == {"without an extension": 1}, "refs/main, and no file that is read"
    assert in_order(count_words(place / "snapshots" / "*" / "data")) == expected
    search_sources(sources_of(place / "snapshots")).skipped.refuse()


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("dictionary", [False, True])
def test_small_row_groups_are_decoded_together_and_say_the_same(
    rows: int, dictionary: bool, documents: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    table = table_of(documents)
    if dictionary:
        table = table.set_column(1, "text", table["text"].dictionary_encode())
    path = tmp_path / "groups.parquet"
    pq.write_table(table, path, row_group_size=rows)
    expected = in_order(count_words(as_jsonl(tmp_path, documents)))
    for part_bytes in (1 << 10, 1 << 24):
        monkeypatch.setattr(chunking, "PART_BYTES", part_bytes)
        assert in_order(count_words(path)) == expected
    state = os.stat(path)
    opened = column_worker._Opened()
    key = [state.st_size, state.st_mtime_ns]
    asked = "parquet", 0, state.st_size + 1, "text", None
    whole = [one[1:] for one in opened.messages(str(path), key, *asked)]
    if not dictionary:  # a batch has one dictionary, and each row group its own
        assert len(whole) == 1, "not one for each row group"
    monkeypatch.setattr(column_worker, "_MOST_ROWS", 7)
    parted = [one[1:] for one in opened.messages(str(path), key, *asked)]
    assert len(parted) >= len(documents) // 7
    assert b"\xff".join(bytes(text) for _, text in parted) == b"\xff".join(
        bytes(text) for _, text in whole
    )
    places = [spent for spent, _ in parted]
    assert places == sorted(places)
    assert places[-1] == state.st_size


# Broken files, and those that are made to break what reads them


def test_broken_files_are_named(documents: list[str], tmp_path: Path) -> None:
    for name in ("parquet", "arrow_file", "arrow_stream"):
        path = WRITERS[name](tmp_path, documents)
        content = path.read_bytes()
        for broken in (content[: len(content) // 2], b"", b"PAR1" + b"\xff" * 100 + b"PAR1"):
            path.write_bytes(broken)
            with pytest.raises(UnreadableSource) as refusal:
                count_words(path)
            assert str(path) in refusal.value.happened
            assert refusal.value.accepted
            assert refusal.value.next_step


def test_no_byte_of_a_file_can_end_this_process(documents: list[str], tmp_path: Path) -> None:
    path = as_parquet(tmp_path, documents)
    content = path.read_bytes()
    random_ = random.Random(4)
    for _ in range(25):
        spoilt = bytearray(content)
        for _ in range(random_.choice((1, 3, 20))):
            spoilt[random_.randrange(4, len(spoilt))] = random_.randrange(256)
        path.write_bytes(spoilt)
        try:
            count_words(path, invalid_utf8="replace")
        except UnreadableSource as refusal:
            assert str(path) in refusal.happened  # noqa: PT017


def as_bomb(path: Path) -> Path:
    """400 MB of text in a few kilobytes."""
    one = pa.DictionaryArray.from_arrays(pa.array([0] * 400, pa.int32()), ["x" * (1 << 20)])
    pq.write_table(pa.table({"text": one}), path, compression="zstd", write_statistics=False)
    return path


def test_a_bomb_ends_at_the_limit_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_bomb(tmp_path / "bomb.parquet")
    assert path.stat().st_size < 1 << 16
    monkeypatch.setattr(column_files, "_MEMORY", 200 << 20)
    with pytest.raises(UnreadableSource, match=r"bomb\.parquet.*200 MiB"):
        count_words(path)
    monkeypatch.undo()
    with pytest.raises(UnreadableSource, match="decompression bomb"):
        count_words(path)


def test_decoding_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_bomb(tmp_path / "slow.parquet")
    monkeypatch.setattr(column_files, "_SECONDS", 0.01)
    with pytest.raises(UnreadableSource, match=r"0\.01 s"):
        count_words(path)


def test_a_decoder_that_crashes_is_an_error_that_names_the_file(
    large: Path,
) -> None:
    (file,) = find_source_files(sources_of(large))
    chunks = read_chunks(ChunkGroup(file), READING, 4096)
    next(chunks)
    for worker in column_files._workers.all:
        os.kill(worker.process.pid, signal.SIGSEGV)
        worker.process.wait()  # of one that is about to end nobody knows it yet
    with pytest.raises(UnreadableSource, match=r"one\.parquet.*-11"):
        list(chunks)
    assert len(list(read_chunks(ChunkGroup(file), READING))) > 0, "and others go on"


def test_processes_that_are_done_serve_again_and_others_end(
    large: Path,
) -> None:
    (file,) = find_source_files(sources_of(large))
    for _ in range(3):
        list(read_chunks(ChunkGroup(file), READING))
    (worker,) = column_files._workers.idle[""][-1:]
    chunks = read_chunks(ChunkGroup(file), READING, 4096)
    next(chunks)
    chunks.close()
    assert worker.process.poll() is not None, "what is left in its pipe is for nobody"


def fresh_workers() -> Workers:
    return Workers(column_worker.__name__, "", "use .jsonl files", available_processors())


def test_processes_beyond_those_that_are_kept_are_not_waited_for() -> None:
    workers = fresh_workers()
    taken = [workers.take() for _ in range(available_processors() + 2)]
    begin = time.monotonic()
    for worker in taken:
        workers.give_back(worker)
    assert time.monotonic() - begin < EXIT_SECONDS
    assert len(workers.all) == available_processors()
    workers.end_all()


def test_without_a_python_tables_are_refused(
    documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_python: Path
) -> None:
    path = as_parquet(tmp_path, documents)
    monkeypatch.setattr(column_files, "_workers", fresh_workers())
    with pytest.raises(WorkerLost, match=str(without_python)) as refused:
        count_words([path])
    assert ".jsonl" in refused.value.next_step


def test_a_file_that_changes_meanwhile_is_refused(documents: list[str], tmp_path: Path) -> None:
    path = as_parquet(tmp_path, documents)
    (file,) = find_source_files(sources_of(path))
    as_parquet(tmp_path, documents[:50])
    with pytest.raises(CorpusChanged):
        list(read_chunks(ChunkGroup(file), READING))


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_column_that_a_shell_would_divide_is_suggested_in_quotes(
    tmp_path: Path, extension: str
) -> None:
    path = tmp_path / f"a.{extension}"
    if extension == "csv":
        path.write_text("my text\nwords\n")
    else:
        pq.write_table(pa.table({"my text": ["words"]}), path)
    with pytest.raises(UnreadableSource) as refusal:
        count_words(path)
    assert "`--text-field 'my text'`" in refusal.value.next_step
