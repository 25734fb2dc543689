"""What runs in the forks of a `zygote`: trainings, publications, readings, to be killed or broken.

Each job opens its workspace anew, as a new process would, and says afterwards what the workspace
holds, in values that are equal when two histories led to the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

os.environ.update(MPLBACKEND="Agg", DO_NOT_TRACK="true", MLFLOW_DISABLE_TELEMETRY="true")

from faulty_disk import CountingDisk, CrashingDisk, FailingDisk, running_on

import flows.train_tokenizer
import flows.training.publish
from flows.resume import publish_waiting as flow_publish_waiting
from registry import environment, load_tokenizer, promote
from registry.exports import certificate_texts
from registry.opening import open_registry
from registry.word_counts.store import WordCountStore
from tokenizer_core.durable_files import DURABLE, is_temporary
from tokenizer_core.trainers import checkpoint_schedule, learning
from tokenizer_core.trainers.checkpoint import load_checkpoint

NAME, VOCAB_SIZE, END = "news", 330, "<|endoftext|>"
MERGES_PER_CHECKPOINT = 20
NOBODY = "http://127.0.0.1:9"  # a tracking server that refuses at once

# Of a version's and an outbox record's JSON what tells of the run and not of its result.
_VOLATILE = {"seal", "workers", "run", "run_id", "created_at", "mlflow_run_id", "seconds", "report"}


def warm_up() -> None:
    """Import, compile and prepare everything once, so that forks need not."""
    import matplotlib.figure  # noqa: F401
    import mlflow.pyfunc  # noqa: F401

    # Saved after so many merges and never by the clock: operations keep their numbers.
    schedule = learning.CheckpointSchedule
    learning.CheckpointSchedule = lambda path, blank, saved, _every: schedule(  # type: ignore
        path, blank, saved, MERGES_PER_CHECKPOINT
    )
    checkpoint_schedule._SECONDS = float("inf")
    # Matplotlib takes as long as all other steps together and keeps nothing of its own.
    flows.training.publish.draw_figures = _drawn  # type: ignore[assignment]
    # Exports are compared with other programs on thousands of texts: here on some.
    certificate_texts.MIXED, certificate_texts.MOST_TOKENS = 20, 50  # type: ignore[misc]
    with tempfile.TemporaryDirectory(prefix="bpeline-warm-") as place:
        make_corpus(place)
        train(f"{place}/workspace", f"{place}/corpus", registers=True)
        environment._configured = None


def _drawn(_summary: Any, _evaluated: Any, _tokenizer: Any, directory: Path) -> tuple[Path, ...]:
    paths = tuple(directory / name for name in ("compression.svg", "token-lengths.svg"))
    for path in paths:
        with DURABLE.writing_aside(path) as aside:
            aside.write_text("<svg/>")
    return paths


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
    assert registry.tracker.versions() == []
    registry.catalogue.close()
    return place


@contextmanager
def _disk(
    workspace: str, point: int | None, late: bool, error: int | None, lasting: bool
) -> Iterator[list[str]]:
    """Run on a disk that counts, and dies or fails at one point; yields what was done."""
    _let_a_minute_pass(workspace)
    disk = CountingDisk()
    if point is not None and error is not None:
        disk = FailingDisk(point, error, lasting=lasting)
    elif point is not None:
        disk = CrashingDisk(point, late=late)
    shown: list[str] = []
    with running_on(disk):
        yield shown
    shown += map(str, disk.operations)


def train(
    workspace: str,
    corpus: str,
    *,
    registers: bool = False,
    point: int | None = None,
    late: bool = False,
    error: int | None = None,
    lasting: bool = False,
    workers: int = 1,
    vocab_size: int = VOCAB_SIZE,
    name: str = NAME,
    tie_break: str | None = None,
    largest_file: int | None = None,
    looks: bool = True,
) -> dict[str, Any]:
    """Train; unless it registers, MLflow is out of reach and the result waits in the outbox.

    Args:
        registers: whether MLflow answers: a SQLite file in the workspace.
        looks: whether to say what the workspace holds; a damaged one cannot be looked at.
        largest_file: bytes that no file may exceed: the system refuses to write on.
        point, late: of the operation at which the process is killed, before or after it.
        error: the ``errno`` with which that operation fails instead; ``lasting``: all later too.

    Returns:
        ``operations``: what was done, numbered; ``state``: see `state_of`.
    """
    from tokenizer_core.errors import RegistryUnreachable

    _connect(workspace, registers=registers)
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))
    with _disk(workspace, point, late, error, lasting) as operations:
        try:
            flows.train_tokenizer.train_tokenizer(
                [corpus],
                name,
                vocab_size,
                workspace=workspace,
                special_tokens=[END],
                held_out=0.1,
                workers=workers,
                tie_break=tie_break,
            )
        except RegistryUnreachable:
            if registers or point is not None:
                raise
    return {"operations": operations, "state": state_of(workspace) if looks else {}}


def publish_waiting(
    workspace: str,
    *,
    point: int | None = None,
    late: bool = False,
    error: int | None = None,
    lasting: bool = False,
) -> dict[str, Any]:
    """Publish what waits in the outbox; returns as `train`."""
    _connect(workspace, registers=True)
    with _disk(workspace, point, late, error, lasting) as operations:
        flow_publish_waiting()
    return {"operations": operations, "state": state_of(workspace)}


def promote_version(
    workspace: str,
    reference: str,
    *,
    point: int | None = None,
    late: bool = False,
    error: int | None = None,
    lasting: bool = False,
) -> dict[str, Any]:
    """Let ``champion`` point to a version; returns as `train`."""
    _connect(workspace, registers=True)
    with _disk(workspace, point, late, error, lasting) as operations:
        promote(reference, by="a test", reason="it is better")
    return {"operations": operations, "state": _swept_state_of(workspace)}


def remove_leftovers(
    workspace: str,
    *,
    point: int | None = None,
    late: bool = False,
    error: int | None = None,
    lasting: bool = False,
) -> dict[str, Any]:
    """Remove what no version needs; returns as `train`."""
    from registry.workspace.retention import remove_leftovers as remove

    _connect(workspace, registers=False)
    with _disk(workspace, point, late, error, lasting) as operations:
        remove(open_registry(workspace), days=0)
    return {"operations": operations, "state": state_of(workspace)}


def encode(
    workspace: str,
    corpus: str,
    out: str,
    *,
    point: int | None = None,
    late: bool = False,
    error: int | None = None,
    lasting: bool = False,
) -> dict[str, Any]:
    """Encode the corpus into token shards; ``state`` is every file of them."""
    from tokenizer_core.shards.token_shards import TokenShards

    _connect(workspace, registers=False)
    tokenizer = load_tokenizer(next(iter(_version_digests(workspace))))
    with _disk(workspace, point, late, error, lasting) as operations:
        shards = tokenizer.encode_files(
            corpus, out, separator=END, end_of_text=END, shard_bytes=4_000, threads=1
        )
    shards.verify()
    read = [ids.tolist() for ids in TokenShards(out)]
    files = {path.name: _sha256(path.read_bytes()) for path in sorted(Path(out).iterdir())}
    return {"operations": operations, "state": {**files, "ids": _sha256(json.dumps(read).encode())}}


def make_workspace(
    workspace: str, *, point: int | None = None, late: bool = False
) -> dict[str, Any]:
    """Make a workspace where there is none; returns as `train`."""
    _connect(workspace, registers=False)
    with _disk(workspace, point, late, None, False) as operations:
        open_registry(workspace)
    return {"operations": operations, "state": _swept_state_of(workspace)}


def litter(workspace: str, corpus: str) -> None:
    """Leave behind what no version needs: a run that is over, under another name."""
    train(workspace, corpus, name="gone", tie_break="greatest-bytes", vocab_size=VOCAB_SIZE - 10)
    root = Path(workspace)
    for record in (root / "outbox").glob("gone.*"):
        record.unlink()
    with closing(sqlite3.connect(root / "catalogue.sqlite")) as connection, connection:
        connection.execute("DELETE FROM runs WHERE name = 'gone'")
    for path in list((root / "shards").rglob("*.json"))[:2]:  # of a chunk that no table adds up
        for file in path.parent.glob(f"{path.stem}*"):
            shutil.copyfile(file, file.with_name(f"0{file.name[1:]}"))


def read_version(workspace: str) -> dict[str, Any]:
    """Read the one version in every way there is; ``state`` is what was read."""
    from flows.versions.version_details import version_details
    from registry.exports.exporting import export
    from registry.loading.references import parse_registered
    from registry.loading.resolution import resolve
    from registry.measured import evidence_for

    _connect(workspace, registers=True)
    registry = open_registry()
    (version,) = registry.catalogue.versions()
    state: dict[str, Any] = {}
    for reference in (f"{NAME}/1", f"{NAME}@candidate", version.digest):
        tokenizer = load_tokenizer(reference)
        state[reference] = [tokenizer.digest, tokenizer.encode("Is this what was trained?")]
    details = version_details(f"{NAME}/1")
    state["details"] = {key: details[key] for key in ("digest", "metrics", "lineage", "parameters")}
    found = resolve(registry, parse_registered(f"{NAME}/1"))
    state["evidence"] = evidence_for(registry, found, None).version.get("all")
    with tempfile.TemporaryDirectory() as directory:
        for format in ("hf", "tiktoken"):
            path = export(f"{NAME}/1", f"{directory}/{format}", format)
            state[format] = _sha256(path.read_bytes())
    return {"operations": [], "state": json.loads(json.dumps(state, default=str))}


def train_into(workspace: str, shared: str, corpus: str, vocab_size: int) -> None:
    """Train in a workspace of one's own, with the catalogue and MLflow of another."""
    there = open_registry(shared).workspace
    environment._configured = None
    environment.configure(
        workspace=workspace, tracking_uri=there.mlflow_uri, catalogue_url=there.catalogue_url
    )
    flows.train_tokenizer.train_tokenizer(
        [corpus], NAME, vocab_size, workspace=workspace, special_tokens=[END], held_out=0.1,
        workers=1,
    )  # fmt: skip


def move_alias(workspace: str, times: int) -> None:
    """Let ``champion`` point to both versions by turns."""
    _connect(workspace, registers=True)
    for turn in range(times):
        promote(f"{NAME}/{turn % 2 + 1}", by="a test", reason="a turn")


def load_again(workspace: str, times: int) -> list[str]:
    """The digests of what ``champion`` was at each of several loads."""
    _connect(workspace, registers=True)
    return [load_tokenizer(f"{NAME}@champion").digest for _ in range(times)]


def load(workspace: str, reference: str = f"{NAME}/1") -> str:
    """The digest of a version that is loaded."""
    _connect(workspace, registers=True)
    return load_tokenizer(reference).digest


def read_tokens(out: str) -> dict[str, Any]:
    """Read token shards, verified; ``state`` is all that can be asked of them."""
    from tokenizer_core.shards.token_shards import TokenShards

    shards = TokenShards(out)
    shards.verify()
    ids = [document.tolist() for document in shards]
    return {"operations": [], "state": {"ids": ids, "manifest": shards.manifest}}


def look(workspace: str) -> dict[str, Any]:
    """What a workspace holds."""
    return {"operations": [], "state": state_of(workspace)}


def hold(workspace: str, seconds: float) -> None:
    """Hold the lock of a workspace for a while."""
    with open_registry(workspace).workspace.lock("holding it for a test"):
        time.sleep(seconds)


def _connect(workspace: str, *, registers: bool) -> None:
    """Work in a workspace with its own MLflow, or with one that does not answer."""
    os.environ.update(MLFLOW_HTTP_REQUEST_MAX_RETRIES="0", MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR="0")
    environment._configured = None
    address = {} if registers else {"tracking_uri": NOBODY}
    environment.configure(workspace=workspace, **address)


def _let_a_minute_pass(workspace: str) -> None:
    """What was written aside lately may be somebody's download; a minute later it is a leftover."""
    for path in Path(workspace).rglob(".tmp-*"):
        # Of several at work in the workspace another may have swept or renamed it by now.
        with suppress(FileNotFoundError):
            os.utime(path, (time.time() - 120,) * 2)


def _version_digests(workspace: str) -> list[str]:
    return [one.name for one in sorted((Path(workspace) / "versions").iterdir())]


# ---- what a workspace holds ----------------------------------------------------------------


def state_of(workspace: str) -> dict[str, Any]:
    """Everything in a workspace that must not depend on how it came about.

    Of DuckDB's files the rows, of SQLite's the rows that are ours, of the others their bytes; of
    records of runs all but ids, times and durations.
    """
    root = Path(workspace)
    state: dict[str, Any] = {"sound": _unsound(root)}
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        name = str(path.relative_to(root))
        if "mlflow-artifacts" in name or name.startswith(("catalogue.", "mlflow.")):
            continue
        said = _said_of(path)
        if said is not None:
            state[name] = said
    state["temporary"] = [path.name for path in (root / "temporary").glob("*")]
    state["half-written"] = [path.name for path in root.rglob("*") if is_temporary(path)]
    state["rows"] = _rows(root)
    return state


def _swept_state_of(workspace: str) -> dict[str, Any]:
    """After what the next run removes: those who need no lock leave what they wrote aside."""
    open_registry(workspace).workspace.sweep()
    return state_of(workspace)


def _said_of(path: Path) -> str | None:
    content = path.read_bytes()
    match path.name:
        case "lock" | "workspace.json" | "checkpoint.previous" | "report.html":
            return None
        case "checkpoint":
            return _sha256(load_checkpoint(path).left.tobytes())
        case "manifest.json" | "evaluation.json":
            return _sha256(json.dumps(_steady(json.loads(content)), sort_keys=True).encode())
    if path.suffix == ".duckdb":
        return _table_digest(path)
    if path.parent.name == "outbox":
        return _sha256(json.dumps(_steady(json.loads(content)), sort_keys=True).encode())
    return _sha256(content)


def _steady(value: Any) -> Any:
    """A JSON value without what tells of times and of the run."""
    if isinstance(value, dict):
        return {
            key: _steady(one)
            for key, one in value.items()
            if key not in _VOLATILE and not _is_a_time(key)
        }
    if isinstance(value, list):
        return [_steady(one) for one in value]
    return value.partition("/versions/")[2] or value if isinstance(value, str) else value


def _is_a_time(metric: str) -> bool:
    return metric.startswith("seconds/") or metric.endswith("_per_second")


def _table_digest(path: Path) -> str:
    store = WordCountStore(open_registry(path.parents[1]).workspace)
    handle = store.table(path.stem)
    return "no record" if handle is None else store.open_table(handle).digest


def _rows(root: Path) -> dict[str, Any]:
    """The rows of both databases that must come out the same."""
    catalogue = open_registry(root).catalogue
    names = catalogue.names()
    runs = sorted((run.name, run.state) for run in catalogue.runs())
    rows: dict[str, Any] = {
        "runs": runs,
        "tables": sorted((t.key, t.counts_digest, t.words) for t in catalogue.count_tables()),
        "versions": [(v.name, v.number, v.digest) for v in catalogue.versions()],
        "aliases": {name: catalogue.aliases(name) for name in names},
        "moves": {name: len(catalogue.alias_history(name)) for name in names},
        "metrics": {
            f"{v.name}/{v.number}": sorted(
                (m.key, m.step, m.value)
                for m in catalogue.metrics(v.name, v.number)
                if not _is_a_time(m.key)
            )
            for v in catalogue.versions()
        },
    }
    database = root / "mlflow.sqlite"
    if database.exists():
        with closing(sqlite3.connect(database)) as connection:
            rows["mlflow versions"] = connection.execute(
                "SELECT v.name, v.version, t.value FROM model_versions v"
                " JOIN model_version_tags t ON t.name = v.name AND t.version = v.version"
                " AND t.key = 'digest' WHERE v.current_stage != 'Deleted_Internal'"
                " ORDER BY 1, 2"
            ).fetchall()
            rows["mlflow aliases"] = connection.execute(
                "SELECT name, alias, version FROM registered_model_aliases ORDER BY 1, 2"
            ).fetchall()
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]


def _unsound(root: Path) -> list[str]:
    """Which databases SQLite finds damaged, and which write-ahead logs there are."""
    found = [str(path.name) for path in root.rglob("*.wal")]
    for name in ("catalogue.sqlite", "mlflow.sqlite"):
        if (root / name).exists():
            with closing(sqlite3.connect(root / name)) as connection:
                said = connection.execute("PRAGMA integrity_check").fetchall()
            if said != [("ok",)]:
                found.append(f"{name}: {said}")
    return found


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def copy_of(source: str, target: str) -> str:
    """Copy a workspace that nobody works in."""
    shutil.copytree(source, target)
    return target
