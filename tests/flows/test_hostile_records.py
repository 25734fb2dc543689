"""Records of a workspace and files of a project as others might write them: loaded or refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from amounts import Amounts, numbers
from mutations import try_changes
from small_publications import publication_of

from bpeline.flows.publishing import extension_of
from bpeline.flows.requests.project import read_project
from bpeline.registry.certify.certificates import certificates_of
from bpeline.registry.evaluation.gates import read_rules
from bpeline.registry.evaluation.measured import read_evaluation, robustness_table
from bpeline.registry.evaluation_sets.kept_sets import read_documents, read_set
from bpeline.registry.evaluation_sets.measurements import kept_measurement
from bpeline.registry.records.publication import Publication
from bpeline.registry.versions.imported import chat_template_of, imported_in
from bpeline.registry.word_counts.corpus_records import corpus_record
from bpeline.registry.word_counts.store import WordCountStore
from bpeline.registry.word_counts.table_records import recorded_table
from bpeline.registry.workspace.store_records import known_stores
from bpeline.registry.workspace.workspace import Workspace
from bpeline.tokenizer_core import bounded_files
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.evaluation.metrics import read_gold
from bpeline.tokenizer_core.evaluation.serving_cost import model_shape
from bpeline.tokenizer_core.formats import read_manifest
from bpeline.tokenizer_core.merging.checkpoint import load_checkpoint
from bpeline.tokenizer_core.shards.token_shards import TokenShards
from bpeline.tokenizer_core.training.token_rules import read_token_list

FILES = {
    "bpeline.toml": """
        [train]
        name = "news"
        vocab_size = 400
        held_out = 0.1
        [[source]]
        name = "web"
        files = ["corpus.txt"]
        weight = 2
        language = "en"
        [sweep]
        sizes = [300, 400]
        [drift]
        paths = ["incoming/"]
        [schedule]
        retrain = "0 3 * * *"
        timezone = "Europe/Berlin"
        """,
    "rules.toml": """
        [[rule]]
        metric = "compression/bytes_per_token"
        direction = "higher"
        tolerance = 0.005
        """,
    "shape.json": """
        {"hidden_size": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_size": 16,
         "expert_size": 256, "context": 1024}
        """,
    "tokens.txt": " the\nhex:ff\n",
    "gold.tsv": "walked\twalk ed\n",
}


def workspace_of(path: Path) -> Workspace:
    return Workspace(next(one for one in path.parents if one.name == ".bpeline"))


def read_whole_set(path: Path) -> None:
    workspace = workspace_of(path)
    read_documents(workspace, made := read_set(workspace, path.parent.name))
    str(made)


def read_measurement(path: Path) -> None:
    workspace = workspace_of(path)
    kept_measurement(workspace, read_set(workspace, path.parents[1].name), path.stem)


def read_version(path: Path) -> None:
    robustness_table(read_evaluation(path.parent) or {})


def read_imported(path: Path) -> None:
    if (imported := imported_in(path.parent)) is not None:
        chat_template_of(imported, path.parent)


def read_shards(path: Path) -> None:
    shards = TokenShards(path.parent)
    shards.place(0)
    list(shards)


# Where a file is, the member that seals it, and what reads it.
KINDS: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "workspace": ("workspace.json", "seal", lambda path: Workspace.open(path.parent, sweep=False)),
    "stores": ("stores.json", "seal", known_stores),
    "set": ("evaluation-sets/*/set.json", "digest", read_whole_set),
    "measurement": ("evaluation-sets/*/measured/*.json", "digest", read_measurement),
    "evaluation": ("versions/*/evaluation.json", "seal", read_version),
    "certificate": ("versions/*/certificate-hf.json", "seal", lambda p: certificates_of(p.parent)),
    "provenance": ("versions/*/manifest.json", "seal", lambda path: read_manifest(path.parent)),
    "extension": ("versions/*/extension.json", "seal", lambda p: str(extension_of(p.parent))),
    "import": ("versions/*/imported.json", "seal", read_imported),
    "chunk": ("shards/*/*.json", "digest",
              lambda path: str(WordCountStore(workspace_of(path)).statistics([path.stem]))),
    "table": ("tables/*[0-9a-f].json", "digest",
              lambda path: recorded_table(workspace_of(path), path.stem)),
    "corpus": ("tables/*.corpus.json", "digest",
               lambda path: corpus_record(workspace_of(path), path.name.split(".")[0])),
    "checkpoint": ("runs/*/checkpoint", "", load_checkpoint),
    "publication": ("outbox.json", "seal", Publication.of_file),
    "token shards": ("../tokens/manifest.json", "seal", read_shards),
    "token shard": ("../tokens/shard-*.json", "seal", read_shards),
    "sources of a shard": ("../tokens/shard-*.sources.jsonl", "", read_shards),
    "project": ("../bpeline.toml", "", read_project),
    "rules": ("../rules.toml", "", read_rules),
    "shape": ("../shape.json", "", lambda path: model_shape(str(path))),
    "tokens": ("../tokens.txt", "", read_token_list),
    "gold": ("../gold.tsv", "", read_gold),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(folder_after: Callable[..., Path], english_and_code: str) -> Path:
    commands = [
        ("train", "corpus.txt", "--name", "news", "--vocab-size", 300, "--held-out", 0.2),
        ("derive", "extend", "news/1", "--vocab-size", 310),
        ("export", "news/1", "--format", "hf", "--output", "hf.json"),
        ("import", "hf.json", "--name", "ext"),
        ("encode", "news/1", "corpus.txt", "-o", "tokens"),
    ]
    made = folder_after({"corpus.txt": english_and_code[:60_000]}, commands)
    for name, text in FILES.items():
        (made / name).write_text(dedent(text))
    record = publication_of(made / "small", b"the").as_json()
    (made / ".bpeline/outbox.json").write_bytes(record)
    return made


@pytest.mark.night
@pytest.mark.parametrize("kind", KINDS)
def test_changed_records_are_read_or_refused(
    kind: str, folder: Path, amounts: Amounts, seed: int, point: int
) -> None:
    pattern, seal, load = KINDS[kind]
    path = sorted((folder / ".bpeline").glob(pattern))[0]
    load(path)
    try_changes(path, lambda: load(path), numbers(seed, amounts.mutations, point), seal)


@pytest.mark.night
@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_in_the_place_of_a_record_is_not_waited_for(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_files, "_PATIENCE", 0)
    pattern, _, load = KINDS[kind]
    path = sorted((folder / ".bpeline").glob(pattern))[0]
    content = path.read_bytes()
    path.unlink()
    os.mkfifo(path)
    with suppress(BpelineError):
        load(path)
    path.unlink(missing_ok=True)  # a damaged count is forgotten
    path.write_bytes(content)
