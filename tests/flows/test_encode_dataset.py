"""A dataset as token shards of a registered version: what is on disk, and what MLflow knows."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from published import copied
from s3_server import S3Server

from bpeline.flows.encode_dataset import encode_dataset
from bpeline.flows.encoding import EncodedDataset
from bpeline.registry import export, load_tokenizer, open_registry
from bpeline.registry.workspace import Workspace, keep_standard_input
from bpeline.tokenizer_core.corpus import Source, search_sources
from bpeline.tokenizer_core.digests import MANIFEST
from bpeline.tokenizer_core.errors import (
    InvalidOption,
    MissingSource,
    RegistryUnreachable,
    UnknownVersion,
    WorkspaceLocked,
)
from bpeline.tokenizer_core.shards.shard_places import DirectoryPlace
from bpeline.tokenizer_core.shards.token_shards import TokenShards

pytestmark = pytest.mark.fake_mlflow

MakeFolder = Callable[[Mapping[str, str], Sequence[Sequence[object]]], Path]


@pytest.fixture(scope="module")
def trained(folder_after: MakeFolder) -> Path:
    """A folder with ``news/1`` and its corpus, to be copied."""
    return folder_after(begin="corpus")


@pytest.fixture
def registered(trained: Path, tmp_path: Path) -> Path:
    """``news/1``, and the corpus it was trained on, as the dataset to encode."""
    copied(trained, tmp_path)
    return tmp_path / "corpus"


def mlflow_run(dataset: EncodedDataset) -> Any:
    run_id = dataset.link.partition("/runs/")[2].partition("?")[0]
    return open_registry().tracker._client.get_run(run_id)


@pytest.mark.night
def test_what_bpeline_wrote_is_no_source_of_a_second_run(registered: Path) -> None:
    for format in ("gpt2", "transformers"):
        export("news/1", registered / "exports" / format, format)
    shutil.copytree(".bpeline", registered / "home")
    keep_standard_input(Workspace.open(registered / "home"), io.BytesIO(b"some words"), None)
    first = encode_dataset.fn("news/1", [str(registered)], str(registered / "tokens"))
    again = encode_dataset.fn("news/1", [str(registered)], str(registered / "tokens"))
    assert (first.documents, first.manifest_digest) == (3, again.manifest_digest)
    for kind in ("2 export of bpeline", "1 workspace of bpeline", "token shards of bpeline"):
        assert kind in again.notes[0]
    vocabulary = registered / "exports" / "gpt2" / "merges.txt"
    assert len(search_sources([Source(str(vocabulary))]).files) == 1


@pytest.mark.night
def test_every_version_has_a_directory_and_a_run_that_says_how_fast_it_was(
    registered: Path,
) -> None:
    made = encode_dataset.fn("news@candidate", [str(registered)], "tokens")
    assert made.reference == "news/1"
    assert Path(made.output) == Path("tokens/news-1").absolute()
    tokenizer = load_tokenizer("news/1")
    shards = TokenShards(made.output)
    texts = [path.read_text() for path in sorted(registered.glob("*.txt"))]
    assert [tokenizer.decode(ids.tolist()) for ids in shards] == texts
    assert made.tokens == sum(len(tokenizer.encode(text)) for text in texts)

    run = mlflow_run(made)
    assert run.info.status == "FINISHED"
    assert run.data.tags["kind"] == "dataset"
    assert run.data.tags["version"] == "news/1"
    assert run.data.tags["digest"] == tokenizer.digest
    assert run.data.tags["manifest_digest"] == made.manifest_digest
    assert run.data.tags["output"] == made.output
    metrics = run.data.metrics
    assert metrics["dataset/tokens"] == made.tokens
    assert metrics["dataset/documents"] == 3
    assert metrics["dataset/bytes"] == sum(len(text.encode()) for text in texts)
    rate = metrics["encode/bytes"] / 1e6 / metrics["encode/seconds"]
    assert metrics["encode/megabytes_per_second"] == pytest.approx(rate)
    assert metrics["encode/tokens_per_second"] > 0
    (source,) = run.inputs.dataset_inputs
    assert str(registered) in source.dataset.source
    (file,) = open_registry().tracker._client.list_artifacts(run.info.run_id, "dataset")
    assert file.path == f"dataset/{MANIFEST}"


@pytest.mark.night
def test_nothing_is_done_for_an_unchanged_dataset_and_version(registered: Path) -> None:
    first = encode_dataset.fn("news/1", [str(registered)])
    files = {path: path.stat().st_mtime_ns for path in Path(first.output).glob("shard-*")}
    again = encode_dataset.fn("news@candidate", [str(registered)])
    assert again.encoded_bytes == 0
    assert not again.newly_recorded
    assert again.link == first.link
    assert {path: path.stat().st_mtime_ns for path in files} == files


@pytest.mark.night
def test_added_files_are_encoded_and_damaged_shards_made_again(registered: Path) -> None:
    options: dict[str, Any] = {"output": "tokens", "shard_megabytes": 1}
    for name in ("b", "c"):
        (registered / f"{name}.txt").write_text("some text " * 90_000)
    first = encode_dataset.fn("news/1", [str(registered)], **options)
    assert first.shards == 2
    (registered / "z.txt").write_text("other text " * 90_000)
    grown = encode_dataset.fn("news/1", [str(registered)], **options)
    assert grown.encoded_bytes < grown.bytes
    assert grown.link != first.link
    victim = next(Path(grown.output).glob("shard-*.bin"))
    content = victim.read_bytes()
    victim.write_bytes(b"\xff" + content[1:])
    mended = encode_dataset.fn("news/1", [str(registered)], **options)
    assert victim.read_bytes() == content
    assert 0 < mended.encoded_bytes < mended.bytes


@pytest.mark.night
def test_an_interrupted_encoding_goes_on_behind_its_finished_shards(
    registered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (registered / f"more-{number}.txt").write_text(f"text {number} " * 120_000)
    published = DirectoryPlace.publish

    def interrupted(*arguments: Any) -> None:
        published(*arguments)
        raise KeyboardInterrupt

    options: dict[str, Any] = {"output": "tokens", "shard_megabytes": 1}
    monkeypatch.setattr(DirectoryPlace, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encode_dataset.fn("news/1", [str(registered)], **options)
    monkeypatch.setattr(DirectoryPlace, "publish", published)
    resumed = encode_dataset.fn("news/1", [str(registered)], **options)
    whole = encode_dataset.fn("news/1", [str(registered)], output="others", shard_megabytes=1)
    assert 0 < resumed.encoded_bytes < resumed.bytes == whole.bytes
    assert resumed.manifest_digest == whole.manifest_digest


@pytest.mark.night
def test_a_run_that_mlflow_did_not_hear_of_is_recorded_next_time(
    registered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bpeline.registry.tracking.mlflow_runs import Runs

    def silent(*_: Any) -> None:
        raise RegistryUnreachable("MLflow does not answer", "", "")

    recording = Runs.record
    monkeypatch.setattr(Runs, "record", silent)
    with pytest.raises(RegistryUnreachable):
        encode_dataset.fn("news/1", [str(registered)])
    monkeypatch.setattr(Runs, "record", recording)
    recorded = encode_dataset.fn("news/1", [str(registered)])
    assert recorded.newly_recorded
    assert recorded.encoded_bytes == 0
    assert "encode/megabytes_per_second" not in mlflow_run(recorded).data.metrics


@pytest.mark.night
def test_smaller_sizes_and_other_formats_are_datasets_of_their_own(registered: Path) -> None:
    made = encode_dataset.fn("news/1:280", [str(registered)], format="parquet")
    assert made.output.endswith("/tokens/news-1-280")
    assert made.vocab_size == 280
    assert json.loads((Path(made.output) / MANIFEST).read_text())["shard_format"] == "parquet"
    for_megatron = encode_dataset.fn("news/1", [str(registered)], format="megatron")
    shards = TokenShards(for_megatron.output)
    shards.verify()
    assert (shards.format.name, len(shards)) == ("megatron", made.documents)


def test_documents_end_at_the_separator_that_was_named(registered: Path) -> None:
    documents = ["one document", "another, with <|end|> in it", "the last"]
    path = registered.with_name("dataset.txt")
    path.write_text("<|next|>".join(documents), encoding="utf-8")
    made = encode_dataset.fn("news/1", [str(path)], separator="<|next|>")
    tokenizer = load_tokenizer("news/1")
    assert [tokenizer.decode(ids.tolist()) for ids in TokenShards(made.output)] == documents
    assert mlflow_run(made).data.params["separator"] == "<|next|>"


@pytest.mark.night
def test_documents_end_at_the_special_tokens_of_the_version(
    corpus: Path, bpeline: Callable[..., Result]
) -> None:
    asked = ("--name", "news", "--vocab-size", 300, "--special-token", "<|end|>")
    assert bpeline("train", corpus, *asked).exit_code == 0
    documents = ["one document", "another", "the last"]
    path = corpus / "part-0.txt"
    path.write_text("<|end|>".join(documents), encoding="utf-8")
    made = encode_dataset.fn("news/1", [str(path)])
    tokenizer = load_tokenizer("news/1")
    assert [tokenizer.decode(ids.tolist()) for ids in TokenShards(made.output)] == documents
    assert "<|end|>" in made.as_markdown()
    assert made.as_dict()["notes"] == made.notes
    whole = encode_dataset.fn("news/1", [str(path)], separator="none")
    assert (whole.documents, whole.notes) == (1, ())


@pytest.mark.night
def test_packed_sequences_are_what_is_recorded(registered: Path) -> None:
    plain = encode_dataset.fn("news/1", [str(registered)])
    made = encode_dataset.fn("news/1", [str(registered)], pack=16, seed=7)
    assert made.encoded_bytes == 0
    assert made.newly_recorded
    assert made.output == f"{plain.output}/packed-16-7"
    packed = TokenShards(made.output)
    assert made.sequences == len(packed) == made.tokens // 16
    run = mlflow_run(made)
    assert run.data.tags["manifest_digest"] == made.manifest_digest != plain.manifest_digest
    assert (run.data.params["pack"], run.data.params["seed"]) == ("16", "7")
    assert run.data.metrics["dataset/sequences"] == len(packed)
    assert "seed 7" in made.as_markdown()
    assert not encode_dataset.fn("news/1", [str(registered)], pack=16, seed=7).newly_recorded
    assert encode_dataset.fn("news/1", [str(registered)], pack=16, seed=8).newly_recorded
    with pytest.raises(InvalidOption, match=r"seed.*-1"):
        encode_dataset.fn("news/1", [str(registered)], pack=16, seed=-1)


@pytest.mark.night
def test_workers_of_a_cluster_encode_and_pack(registered: Path) -> None:
    rows = [{"text": f"row {n} of many"} for n in range(2_000)] + [{"text": "last"}]
    (registered / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options: dict[str, Any] = {"format": "parquet", "pack": 16, "seed": 3}
    paths = [str(registered / "rows.jsonl")]
    here = encode_dataset.fn("news/1", paths, "here", **options)
    there = encode_dataset.fn("news/1", paths, "there", engine="dask", threads=2, **options)
    assert here.sequences
    assert (there.sequences, there.tokens) == (here.sequences, here.tokens)
    assert there.manifest_digest == here.manifest_digest
    assert mlflow_run(there).data.params["engine"] == "dask"


@pytest.mark.night
def test_what_cannot_be_encoded_is_said(registered: Path) -> None:
    for reference, paths, error in (
        ("news@nobody", [str(registered)], UnknownVersion),
        ("./news", [str(registered)], InvalidOption),
        ("news/1", ["nowhere/*.txt"], MissingSource),
        ("news/1", [], InvalidOption),
    ):
        with pytest.raises(error):
            encode_dataset.fn(reference, paths)


@pytest.mark.night
@pytest.mark.parametrize("engine", ["dask", "local"])
def test_a_store_takes_the_shards_as_a_directory_does(
    engine: str, registered: Path, s3: S3Server, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"engine": engine, "threads": 1, "pack": 64, "seed": 7}
    here = encode_dataset.fn("news/1", [str(registered)], output="here", **asked)
    url = s3.url(f"tokens-{engine}")
    there = encode_dataset.fn("news/1", [str(registered)], output=url, **asked)
    assert there.output == f"{url}/news-1/packed-64-7"
    assert there.manifest_digest == here.manifest_digest
    assert there.encoded_bytes == here.encoded_bytes > 0
    run = mlflow_run(there)
    assert run.data.tags["output"] == there.output
    assert list(open_registry().tracker._client.list_artifacts(run.info.run_id))
    pairs = zip(TokenShards(there.output), TokenShards(here.output), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    again = encode_dataset.fn("news/1", [str(registered)], output=url, **asked)
    assert (again.encoded_bytes, again.newly_recorded, again.link) == (0, False, there.link)
    assert not [*tmp_path.glob("s3*")], "no directory of that name"


@pytest.mark.night
def test_two_do_not_write_one_directory(registered: Path, tmp_path: Path) -> None:
    with (
        DirectoryPlace(tmp_path / "tokens" / "news-1").alone(),
        pytest.raises(WorkspaceLocked),
    ):
        encode_dataset.fn("news/1", [str(registered)], output="tokens")
