"""What runs in the forks of a `zygote` undisturbed: who makes, reads, litters, moves, looks.

Takes part in what is tested about the jobs of `crash_jobs`; nobody kills these or breaks their
disk.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import shutil
import signal
import sqlite3
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from crash_jobs import END, NAME, VOCAB_SIZE, train, train_in
from disturbed import connect
from workspace_state import sha256, state_of, unsound

from bpeline.flows.cli.diagnosis import examine
from bpeline.flows.versions.details import version_details
from bpeline.registry import environment, load_tokenizer, promote
from bpeline.registry.catalogue import AliasMove, Version
from bpeline.registry.evaluation.gates import Rule
from bpeline.registry.evaluation.measured import evidence_for
from bpeline.registry.exports.exporting import export
from bpeline.registry.loading.resolution import resolve
from bpeline.registry.opening import open_registry
from bpeline.registry.records.references import parse_registered
from bpeline.tokenizer_core.errors import BpelineError
from bpeline.tokenizer_core.shards.token_shards import TokenShards


def make_corpus(place: str, *, files: int = 3) -> str:
    """A few small files of real text in documents, some of which are held out."""
    text = Path(argparse.__file__).read_text(encoding="utf-8")
    paragraphs = text[10_000 : 10_000 + 5_000 * files].split("\n\n")
    corpus = Path(place) / "corpus"
    corpus.mkdir(parents=True)
    share = -(-len(paragraphs) // files)
    for number in range(files):
        some = paragraphs[number * share : (number + 1) * share]
        (corpus / f"{number}.txt").write_text(END.join(some), encoding="utf-8")
    return str(corpus)


def fresh_workspace(place: str) -> str:
    """An empty workspace with MLflow's database in it, to be copied."""
    registry = open_registry(place)
    registry.tracker.prepare()
    registry.catalogue.close()
    return place


def litter(workspace: str, corpus: str) -> None:
    """Leave behind what no version needs: a run that is over, under another name."""
    other = {"name": "gone", "tie_break": "greatest-bytes", "vocab_size": VOCAB_SIZE - 10}
    train(workspace=workspace, corpus=corpus, **other)
    root = Path(workspace)
    for record in (root / "outbox").glob("gone.*"):
        record.unlink()
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection, connection:
        for table in ("trainings", "lineage"):
            connection.execute(f"DELETE FROM {table} WHERE name = 'gone'")
    for path in list((root / "shards").rglob("*.json"))[:2]:  # of a chunk that no table adds up
        for file in path.parent.glob(f"{path.stem}*"):
            shutil.copyfile(file, file.with_name(f"0{file.name[1:]}"))


def read_version(workspace: str) -> dict[str, Any]:
    """Read the one version in every way there is; ``state`` is what was read."""
    connect(workspace)
    registry = open_registry()
    (version,) = registry.catalogue.versions()
    state: dict[str, Any] = {}
    for reference in (f"{NAME}/1", f"{NAME}@candidate", version.digest):
        tokenizer = load_tokenizer(reference)
        state[reference] = [tokenizer.digest, tokenizer.encode("Is this what was trained?")]
    details = version_details(f"{NAME}/1")
    state["details"] = {key: details[key] for key in ("digest", "metrics", "lineage", "parameters")}
    found = resolve(registry, parse_registered(f"{NAME}/1"))
    rules = [Rule("compression/bytes_per_token", "higher")]
    (evidence,) = evidence_for(registry, found, None, rules)
    state["evidence"] = [evidence.version.get("all"), evidence.measured_on]
    with tempfile.TemporaryDirectory() as directory:
        for format in ("hf", "tiktoken"):
            path = export(f"{NAME}/1", f"{directory}/{format}", format)
            state[format] = sha256(path.read_bytes())
    return {"operations": [], "state": json.loads(json.dumps(state, default=str))}


def train_into(workspace: str, shared: str, corpus: str, vocab_size: int) -> None:
    """Train in a workspace of one's own, with the catalogue and MLflow of another."""
    there = open_registry(shared).workspace
    environment._configured = None
    environment.configure(
        workspace=workspace, tracking_uri=there.mlflow_uri, catalogue_url=there.catalogue_url
    )
    train_in(workspace, corpus, vocab_size)


def move_alias(workspace: str, times: int) -> None:
    """Let ``champion`` point to both versions by turns."""
    connect(workspace)
    for turn in range(times):
        promote(f"{NAME}/{turn % 2 + 1}", by="a test", reason="a turn")


def load_again(workspace: str, times: int) -> list[str]:
    """The digests of what ``champion`` was at each of several loads."""
    connect(workspace)
    return [load_tokenizer(f"{NAME}@champion").digest for _ in range(times)]


def fail_again(workspace: str, corpus: str, points: list[int], error: int) -> list[list[int]]:
    """What this process holds after each of several trainings that its disk let fail.

    Returns:
        for each: how many files are open, threads alive, processes of its own.
    """
    held = []
    for point in points:
        with suppress(BpelineError):
            train(workspace=workspace, corpus=corpus, point=point, error=error, looks=False)
        gc.collect()
        itself = Path("/proc/self")
        children = [path.read_text().split() for path in itself.glob("task/*/children")]
        held.append([len(list((itself / "fd").iterdir())), threading.active_count(),
                     sum(map(len, children))])  # fmt: skip
    return held


def add_versions(workspace: str, times: int, acknowledged: str, dies_after: float) -> None:
    """Write versions and move an alias to each, saying so in a file of one's own.

    The system ends the process after so many seconds (SIGALRM), wherever it is; 0: it does not.
    """
    writer = Path(acknowledged).name
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    catalogue = open_registry(workspace).catalogue
    signal.setitimer(signal.ITIMER_REAL, dies_after)
    with Path(acknowledged).open("ab", buffering=0) as said:
        for turn in range(times):
            digest = hashlib.sha256(f"{writer}/{turn}".encode()).hexdigest()
            catalogue.add_version(Version(NAME, digest, run_id=writer))
            place = catalogue.training_ended(NAME, digest)
            with catalogue.moving():
                moves = catalogue.alias_history(NAME)
                before = moves[0].to_number if moves else None
                catalogue.add_move(AliasMove(NAME, "champion", before, place, by=writer))
            said.write(f"{place} {digest}\n".encode())
    signal.setitimer(signal.ITIMER_REAL, 0)


def versions_and_moves(workspace: str) -> dict[str, Any]:
    """What a catalogue holds of the versions and of the alias."""
    catalogue = open_registry(workspace).catalogue
    versions = [(one.trained, one.digest) for one in catalogue.versions(NAME)]
    moves = [(one.from_number, one.to_number) for one in catalogue.alias_history(NAME)[::-1]]
    damaged = unsound(Path(workspace))
    return {"versions": versions, "moves": moves, "damaged": damaged}


def load(workspace: str, reference: str = f"{NAME}/1") -> str:
    """The digest of a version that is loaded."""
    connect(workspace)
    return load_tokenizer(reference).digest


def read_tokens(out: str) -> dict[str, Any]:
    """Read token shards, verified; ``state`` is all that can be asked of them."""
    shards = TokenShards(out)
    shards.verify()
    ids = [document.tolist() for document in shards]
    return {"operations": [], "state": {"ids": ids, "manifest": shards.manifest}}


def prepare_mlflow(workspace: str, uri: str) -> list[str]:
    """Prepare to publish to an MLflow; the names of the models it has."""
    connect(workspace)
    environment.configure(tracking_uri=uri)
    tracker = open_registry().tracker
    tracker.prepare()
    return [one.name for one in tracker.versions()]


def doctor_on_mlflow(workspace: str) -> list[str]:
    """What `bpeline doctor` says of MLflow's database."""
    connect(workspace)
    (found,) = (one for one in examine() if one.subject == "mlflow database")
    return [found.state, found.found]


def look(workspace: str) -> dict[str, Any]:
    """What a workspace holds."""
    return {"operations": [], "state": state_of(workspace)}
