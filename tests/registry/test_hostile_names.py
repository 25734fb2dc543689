"""Names of files that are no text: a database, MLflow and a manifest keep them all the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bpeline.registry.catalogue import ChunkRecord, FileReading
from bpeline.registry.catalogue.catalogue import Catalogue
from bpeline.registry.opening import Registry
from bpeline.registry.publishing.publish import publish_version, waiting_records
from bpeline.registry.records.publication import CorpusInput, Publication
from bpeline.tokenizer_core.corpus.sources import SourceFile
from bpeline.tokenizer_core.formats import bpeline as bpeline_format
from bpeline.tokenizer_core.tokenizer import Tokenizer

Made = Callable[..., Publication]

NAMES = (
    b"/corpus/caf\xe9.txt", b"/corpus/caf\xe8.txt", b"/corpus/caf\xc3\xa9.txt", b"/corpus/\xff\xfe",
    b"/corpus/two\nlines.txt", b"/corpus/'; DROP TABLE file_readings; --", b"/corpus/100%.txt",
    b"/corpus/caf%E9.txt", b"/corpus/\\xe9.txt", b"/corpus/\\udce9.txt", b"//escaped=/corpus/a",
    b"/corpus/\x1b[31mred.txt", b"/corpus/%\xe9.txt", b"/corpus/-rf",
)  # fmt: skip
DIGEST = "9" * 64


def reading(name: bytes, size: int) -> FileReading:
    file = SourceFile(os.fsdecode(name), "corpus", "text", None, size, 1, 2, 3)
    return FileReading.of(file, 64, DIGEST, [ChunkRecord(f"{size:064x}", 0, size, 0)])


def test_every_name_is_recalled_as_itself(catalogue: Catalogue) -> None:
    readings = [reading(name, size) for size, name in enumerate(NAMES, 1)]
    catalogue.remember_file_readings(readings)
    files = [SourceFile(one.path, "corpus", "text", None, one.size, 1, 2, 3) for one in readings]
    assert catalogue.recall_file_readings(files, 64, DIGEST) == {one.path: one for one in readings}
    assert sorted(one.path for one in catalogue.file_readings(DIGEST)) == sorted(
        os.fsdecode(name) for name in NAMES
    )
    again = reading(NAMES[0], 99)
    catalogue.remember_file_readings([again])
    assert len(catalogue.file_readings(DIGEST)) == len(NAMES)
    assert again in catalogue.file_readings(DIGEST)


@pytest.mark.parametrize("name", [os.fsdecode(NAMES[0]), os.fsdecode(NAMES[4]), "a\x1b]0;x\x07"])
def test_a_version_of_a_corpus_with_such_a_name_is_published(
    registry: Registry, made: Made, name: str
) -> None:
    publication = replace(
        made(b"the"),
        params={"sources": [name]},
        inputs=(CorpusInput(name, name, "e" * 64),),
        report=f"# news\n\nfrom {name}\n",
        tags={"sources": name},
    )
    version = publish_version(registry, publication)
    assert version.reference == "news/1"
    assert waiting_records(registry.workspace) == []
    shown = registry.tracker._client.get_run(version.mlflow_run_id).data.params
    assert shown["sources"] == name.encode(errors="backslashreplace").decode()


def test_a_manifest_says_where_a_tokenizer_comes_from_whatever_its_name(
    tmp_path: Path,
) -> None:
    tokenizer = Tokenizer({i: bytes([i]) for i in range(256)}, [])
    names = [os.fsdecode(name) for name in NAMES]
    directory = tmp_path / "kept"
    bpeline_format.save(tokenizer, directory, {"files": names})
    assert Tokenizer.load(directory).digest == tokenizer.digest
    manifest = json.loads((directory / "manifest.json").read_bytes())
    assert manifest["provenance"]["files"] == names
