"""What runs in the forks of a `zygote` to be killed or broken: trainings, publications, encodings.

Each job says afterwards what the workspace holds, in values that are equal when two histories led
to the same; what it may be told beside its own arguments says `disturbed`.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, nullcontext, suppress
from pathlib import Path
from typing import Any

from disturbed import disturbed
from flow_calls import train_tokenizer
from mlflow_tables import made_once
from workspace_state import sha256, swept_state_of

from bpeline.flows.deriving import superword_parameters
from bpeline.flows.resume import publish_waiting as flow_publish_waiting
from bpeline.registry import load_tokenizer, promote
from bpeline.registry.aliases.moves import remove_alias
from bpeline.registry.opening import open_registry
from bpeline.registry.records.references import ByNumber
from bpeline.registry.upkeep.deletion import delete_versions
from bpeline.registry.upkeep.deletion_notes import noted_deletions
from bpeline.registry.upkeep.retention import remove_leftovers as registry_remove_leftovers
from bpeline.tokenizer_core.errors import RegistryUnreachable, UnknownVersion
from bpeline.tokenizer_core.shards.token_shards import TokenShards

NAME, VOCAB_SIZE, END = "news", 330, "<|endoftext|>"


def train_in(
    workspace: str, corpus: str, vocab_size: int | str = VOCAB_SIZE, **options: Any
) -> None:
    """Train and register, or raise."""
    usual = {"name": NAME, "special_tokens": [END], "held_out": 0.1, "workers": 1}
    train_tokenizer([corpus], vocab_size=vocab_size, workspace=workspace, **usual | options)


@disturbed(registers=False)
def train(**named: Any) -> None:
    """Train; while MLflow is out of reach the result waits in the outbox."""
    with suppress(RegistryUnreachable):
        train_in(**named)


@disturbed(registers=False)
def train_superwords(workspace: str, words: str) -> None:
    """Learn merges across spaces behind the words of a version, named by its digest, likewise."""
    with suppress(RegistryUnreachable):
        asked = superword_parameters(words, VOCAB_SIZE + 40, transition_size=VOCAB_SIZE - 10)
        train_tokenizer(**asked)


@disturbed(state=swept_state_of)  # where nothing waits any more, nothing is written or swept
def publish_waiting(workspace: str) -> None:
    """Publish what waits in the outbox."""
    flow_publish_waiting()


@disturbed(state=swept_state_of)
def publish_first(workspace: str, tables: str = "") -> None:
    """Publish where MLflow has no database yet.

    Args:
        workspace: where a result waits.
        tables: an empty database to be copied in place of MLflow's migrations, which take seconds;
            it is made when it is missing. Without it they are run.
    """
    with made_once(Path(tables)) if tables else nullcontext():
        flow_publish_waiting()


@disturbed(state=swept_state_of)
def promote_version(workspace: str, reference: str) -> None:
    """Let ``champion`` point to a version."""
    promote(reference, by="a test", reason="it is better")


def _state_without_version(workspace: str) -> dict[str, Any]:
    """What a workspace holds, and what its MLflow shows and keeps of runs and models."""
    state = swept_state_of(workspace)
    registry = open_registry(workspace)
    state["noted"] = [str(one) for _, one in noted_deletions(registry.workspace)]
    state["tombstones"] = [
        (one.name, one.number, one.digest, one.reason) for one in registry.tracker.tombstones()
    ]
    with closing(sqlite3.connect(Path(workspace) / "mlflow.sqlite")) as connection:
        for table in ("runs", "logged_models"):
            query = f"SELECT lifecycle_stage FROM {table} ORDER BY 1"
            state[table] = connection.execute(query).fetchall()
    artifacts = registry.workspace.mlflow_artifacts
    state["artifacts"] = sum(path.is_file() for path in artifacts.rglob("*"))
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


@disturbed(state=_state_without_version)
def delete_version(workspace: str) -> None:
    """Remove the alias of the one version, and the version; done before is fine."""
    registry = open_registry(workspace)
    remove_alias(registry, NAME, "candidate", by="a test")
    with suppress(UnknownVersion):
        delete_versions(registry, ByNumber(NAME, 1), by="a test", reason="it holds an address")


@disturbed()
def remove_leftovers(workspace: str) -> None:
    """Remove what no version needs."""
    registry_remove_leftovers(open_registry(workspace), days=0)


@disturbed(registers=False, state=swept_state_of)
def make_workspace(workspace: str) -> None:
    """Make a workspace where there is none."""
    open_registry(workspace)


def _shards_of(out: str) -> dict[str, Any]:
    """Every file of token shards, and what is read from them."""
    shards = TokenShards(out)
    shards.verify()
    read = [ids.tolist() for ids in shards]
    files = {path.name: sha256(path.read_bytes()) for path in sorted(Path(out).iterdir())}
    return {**files, "ids": sha256(json.dumps(read).encode())}


@disturbed(registers=False, of="out", state=_shards_of)
def encode(workspace: str, corpus: str, out: str) -> None:
    """Encode the corpus into token shards."""
    (version,) = sorted((Path(workspace) / "versions").iterdir())
    load_tokenizer(version.name).encode_files(
        corpus, out, separator=END, end_of_text=END, shard_bytes=4_000, threads=1
    )
