"""The workspace: private, of one format, swept when idle, held by one writer at a time."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from bpeline.registry.catalogue import Catalogue, Version
from bpeline.registry.workspace import lock as workspace_lock
from bpeline.registry.workspace.processes import Process, birth_of, this_process
from bpeline.registry.workspace.workspace import Workspace, workspace_root
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.durable_files import DURABLE
from bpeline.tokenizer_core.errors import (
    CorruptFile,
    InvalidOption,
    NotTrusted,
    StorageError,
    WorkspaceLocked,
)

ROOT = Path(__file__).parents[2]

HOLD_THE_LOCK = """
import sys, time
from bpeline.registry.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]).lock("training 'news'") as held:
    held.doing("merging")
    print("held", flush=True)
    time.sleep(60)
"""
HOLD_AND_FORK = """
import os, sys, time
from bpeline.registry.workspace.workspace import Workspace
with Workspace.open(sys.argv[1]).lock("training 'news'"):
    child = os.fork()
    if child == 0:
        os.close(1)  # or the reader of this program's output would wait for the child
        time.sleep(60)
        os._exit(0)
    print("held", child, flush=True)
    time.sleep(60)
"""


def start(program: str, root: Path) -> tuple[subprocess.Popen[str], list[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(root)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_every_path_lies_in_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "a" / "home")
    key = "ab" + "0" * 62
    paths = [
        workspace.shard_counts(key), workspace.shard_held_out(key), workspace.shard_manifest(key),
        workspace.table(key), workspace.table_manifest(key), workspace.checkpoint("r", "s"),
        workspace.version_directory(key), workspace.outbox_record("r"), workspace.mlflow_artifacts,
        Path(workspace.mlflow_uri.removeprefix("sqlite:///")),
        Path(workspace.catalogue_url.removeprefix("sqlite:///")),
    ]  # fmt: skip
    assert len(set(paths)) == len(paths)
    assert all(path.is_relative_to(workspace.root) and path.is_absolute() for path in paths)


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    before = workspace.manifest.read_bytes(), workspace.manifest.stat().st_mtime_ns
    assert Workspace.open(tmp_path / "home") == workspace
    assert (workspace.manifest.read_bytes(), workspace.manifest.stat().st_mtime_ns) == before


def test_a_relative_root_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Workspace.open(Path("home")).root == tmp_path / "home"


def test_another_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    newer = {"kind": "bpeline workspace", "format": 2}
    workspace.manifest.write_text(json.dumps(newer))
    with pytest.raises(StorageError, match=r"\b2\b"):
        Workspace.open(workspace.root)
    assert json.loads(workspace.manifest.read_text()) == newer


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"kind": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    workspace = Workspace.open(tmp_path / "home")
    workspace.manifest.write_bytes(content)
    with pytest.raises(CorruptFile, match=r"workspace\.json"):
        Workspace.open(workspace.root)


def test_other_peoples_directories_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    tmp_path.chmod(0o755)
    with pytest.raises(InvalidOption, match=r"thesis\.tex"):
        Workspace.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_folder_with_a_workspace_in_it_is_told_from_it(tmp_path: Path) -> None:
    Workspace.open(tmp_path / ".bpeline")
    with pytest.raises(InvalidOption, match=r"\.bpeline") as refused:
        Workspace.open(tmp_path)
    assert str(tmp_path / ".bpeline") in refused.value.next_step


def test_a_file_is_not_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidOption):
            Workspace.open(root)


@pytest.mark.parametrize("name", ["what?", "a%41b", "50%ff", os.fsdecode(b"\xff")])
def test_a_path_that_no_url_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption):
        Workspace.open(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def leftovers_of_a_killed_writer(workspace: Workspace) -> list[Path]:
    shards = workspace.shards / "ab"
    shards.mkdir()
    files = [
        shards / ".tmp-0011-x.parquet",
        workspace.tables / ".tmp-22-y.duckdb",
        workspace.tables / ".tmp-22-y.duckdb.wal",
        workspace.root / ".tmp-33-workspace.json",
        workspace.temporary / "duckdb-1-aa" / "spill.tmp",
        workspace.versions / ".tmp-44-digest" / "vocab.json",
    ]
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
        long_ago = time.time() - 600
        os.utime(path, (long_ago, long_ago))
        os.utime(path.parent, (long_ago, long_ago))
    return files


def test_what_killed_writers_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    leftovers = leftovers_of_a_killed_writer(workspace)
    kept = [workspace.shards / "ab" / "x.parquet", workspace.root / "notes.txt"]
    for path in kept:
        path.write_bytes(b"whole")
    Workspace.open(workspace.root)
    assert not any(path.exists() for path in leftovers)
    assert list(workspace.temporary.iterdir()) == []
    assert not (workspace.versions / ".tmp-44-digest").exists()
    assert all(path.read_bytes() == b"whole" for path in kept)


def test_what_a_reader_is_just_keeping_is_left_alone(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    fresh = workspace.versions / "digest" / ".tmp-55-vocab.json"
    fresh.parent.mkdir()
    fresh.write_bytes(b"half")
    assert workspace.sweep() == 0
    assert fresh.exists()


def test_a_live_writers_temporaries_are_not_swept(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    with workspace.lock("counting"):
        leftovers = leftovers_of_a_killed_writer(workspace)
        assert Workspace.open(workspace.root).sweep() == 0
        assert all(path.exists() for path in leftovers)
    assert workspace.sweep() == 6  # two of them are directories


def test_a_temporary_directory_is_private_and_removed_even_after_an_error(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")

    def fail() -> None:
        with workspace.temporary_directory("figures") as directory:
            assert directory.stat().st_mode & 0o777 == 0o700
            (directory / "picture").write_bytes(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(workspace.temporary.iterdir()) == []


def test_the_second_writer_is_told_who_holds_the_workspace(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    process, _ = start(HOLD_THE_LOCK, workspace.root)
    try:
        with pytest.raises(WorkspaceLocked) as caught, workspace.lock("counting"):
            pass
        holder = workspace.lock_holder()
        assert holder is not None
        assert (holder.process.pid, holder.purpose) == (process.pid, "merging")
        for known in (str(process.pid), this_process().host, holder.since, "merging"):
            assert known in caught.value.happened
    finally:
        kill(process)


def test_the_lock_of_a_killed_writer_is_taken_over(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    process, _ = start(HOLD_THE_LOCK, workspace.root)
    kill(process)
    assert workspace.lock_holder() is None
    with workspace.lock("counting"):
        holder = workspace.lock_holder()
    assert holder is not None
    assert holder.process == this_process()


def test_a_forked_child_does_not_keep_the_lock_alive(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    process, (_, child) = start(HOLD_AND_FORK, workspace.root)
    try:
        with pytest.raises(WorkspaceLocked), workspace.lock("counting"):
            pass
        kill(process)
        with workspace.lock("counting"):
            os.kill(int(child), 0)  # raises if the child were gone: then this proves nothing
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_the_lock_excludes_threads_of_the_same_process_and_is_given_back(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    for _ in range(3):
        with workspace.lock("counting"):
            with pytest.raises(WorkspaceLocked), workspace.lock("again"):
                pass
            assert workspace.lock_holder() is not None
        assert workspace.lock_holder() is None


def test_a_passing_sweep_does_not_look_like_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.open(tmp_path / "home")
    stale = {"pid": 2**22 + 5, "host": this_process().host, "birth": "", "since": "", "purpose": ""}
    workspace.lock_file.write_text(json.dumps(stale))
    sweeping = workspace_lock.take(workspace.lock_file)
    assert sweeping is not None
    waited: list[float] = []

    def pass_by(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            workspace_lock.release(sweeping)

    monkeypatch.setattr(workspace_lock, "time", SimpleNamespace(sleep=pass_by, monotonic=lambda: 0))
    with workspace.lock("counting"):
        assert len(waited) == 3


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in which others may look, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


needs_another_user = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("setpriv") and shutil.which("flock")),
    reason="only root can act as another user, with setpriv and flock of util-linux",
)


# Its exit code is 66 where the file that follows cannot be opened.
AS_ANOTHER = ("setpriv", "--reuid=65534", "--clear-groups", "flock", "--no-fork", "--nonblock")


@needs_another_user
def test_another_user_can_neither_enter_a_new_workspace_nor_hold_its_locks(shared: Path) -> None:
    workspace = Workspace.open(shared / "home")
    moves = Path(f"{workspace.catalogue_url.removeprefix('sqlite:///')}.moves")
    with Catalogue(workspace.catalogue_url).moving(), workspace.lock("counting"):
        assert workspace.root.stat().st_mode & 0o777 == 0o700
        for path in (workspace.manifest, workspace.lock_file, moves):
            assert subprocess.call([*AS_ANOTHER, path, "true"]) == 66
        workspace.root.chmod(0o755)  # as earlier releases made it
        for path in (workspace.lock_file, moves):
            assert subprocess.call([*AS_ANOTHER, path, "true"]) == 66
        assert subprocess.call([*AS_ANOTHER, workspace.manifest, "true"]) == 0
        assert workspace_lock.is_held(workspace.lock_file)
        os.seteuid(65534)
        try:  # who may not open a lock knows nothing of it
            assert workspace_lock.read_holder(workspace.lock_file) is None
            assert not workspace_lock.is_held(workspace.lock_file)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(("mode", "of_lock"), [(0o2770, 0o660), (0o755, 0o600), (0o2750, 0o600)])
def test_a_directory_that_exists_keeps_its_mode_and_its_group_shares_the_lock(
    tmp_path: Path, mode: int, of_lock: int
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(mode)
    workspace = Workspace.open(tmp_path / "home")
    workspace.lock_file.chmod(0o644)  # as earlier releases made it
    with workspace.lock("counting"):
        assert stat.S_IMODE(workspace.root.stat().st_mode) == mode
        assert stat.S_IMODE(workspace.lock_file.stat().st_mode) == of_lock


@needs_another_user
@pytest.mark.parametrize("trust", ["", "{0}", "{0}/home", "/srv:{0}/home", "*"])
@pytest.mark.parametrize("name", ["home", "link"])
def test_a_workspace_of_another_user_is_read_and_changed_only_where_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str, name: str
) -> None:
    home = tmp_path / "home"
    Catalogue(Workspace.open(home).catalogue_url).close()
    (tmp_path / "link").symlink_to(home)
    everything = [home, *home.rglob("*")]
    for path in everything:
        os.chown(path, 65534, 65534)
    before = {path: path.stat().st_mtime_ns for path in everything}
    monkeypatch.setenv("BPELINE_TRUST", trust.format(tmp_path))
    workspace = Workspace.open(tmp_path / name, sweep=False)
    catalogue = Catalogue(workspace.catalogue_url)
    assert catalogue.versions() == []
    for change in (
        lambda: DURABLE.write(workspace.root / "runs" / "a", b""),
        lambda: DURABLE.make_directories(workspace.root / "new"),
        lambda: DURABLE.remove(home / "runs" / "a"),
        lambda: catalogue.add_version(Version("news", "ab" * 32, vocab_size=300)),
        lambda: catalogue.moving().__enter__(),
        lambda: workspace.lock("counting").__enter__(),
        lambda: workspace.temporary_directory("counting").__enter__(),
        workspace.sweep,
    ):
        trusted = trust not in ("", "{0}")
        with nullcontext() if trusted else pytest.raises(NotTrusted, match="user"):
            change()
    after = {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]}
    assert (after == before) != trusted


@needs_another_user
@pytest.mark.parametrize("name", ["lock", "catalogue.sqlite.moves", "temporary", "versions"])
@pytest.mark.parametrize("owner", ["stranger", "this user", "owner of a trusted workspace"])
def test_links_in_a_workspace_count_if_they_are_of_its_owner_and_nothing_is_lost_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, owner: str
) -> None:
    workspace = Workspace.open(tmp_path / "home")
    path, kept = workspace.root / name, tmp_path / "disk" / ".tmp-kept"
    kept.parent.mkdir()
    kept.write_bytes(b"three days old")
    is_lock = not path.is_dir()
    path.unlink(missing_ok=True) if is_lock else path.rmdir()
    path.symlink_to(kept if is_lock else kept.parent)
    if owner != "this user":
        os.chown(path, 65534, 65534, follow_symlinks=False)
    if owner.startswith("owner"):
        os.chown(workspace.root, 65534, 65534)
        monkeypatch.setenv("BPELINE_TRUST", str(workspace.root))
    refused = NotTrusted if owner == "stranger" else StorageError
    with pytest.raises(refused) if is_lock or owner == "stranger" else nullcontext():
        Workspace.open(workspace.root).sweep()
        with Catalogue(workspace.catalogue_url).moving(), workspace.temporary_directory("a") as at:
            assert at.resolve().is_relative_to(kept.parent) == (name == "temporary")
    assert kept.read_bytes() == b"three days old"


@needs_another_user
@pytest.mark.parametrize("of_moves", [False, True], ids=["workspace", "moves"])
@pytest.mark.parametrize("terminal", [False, True], ids=["unattended", "terminal"])
def test_waiting_for_another_user_has_an_end_and_says_for_whom(
    shared: Path, monkeypatch: pytest.MonkeyPatch, of_moves: bool, terminal: bool
) -> None:
    workspace = Workspace.open(shared / "home")
    catalogue = Catalogue(workspace.catalogue_url)
    path = workspace.root / ("catalogue.sqlite.moves" if of_moves else "lock")
    path.touch()
    for one in (workspace.root, path):
        one.chmod(0o755)  # as earlier releases made them
    holder = subprocess.Popen(
        [*AS_ANOTHER, path, "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "\n", "it holds the lock"
    now = [0.0]
    reports: list[tuple[float, str]] = []
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: now.append(now.pop() + 0.4))
    report = SimpleNamespace(warn=lambda text, **_: reports.append((now[0], text)))
    monkeypatch.setattr(workspace_lock, "time", clock)
    monkeypatch.setattr(workspace_lock, "warnings", report)
    monkeypatch.setattr(workspace_lock.os, "isatty", lambda _: terminal)
    try:
        held = catalogue.moving() if of_moves else workspace.lock("counting")
        with pytest.raises(WorkspaceLocked) as caught, held:
            pass
    finally:
        kill(holder)
    [(seconds, text)] = reports
    assert seconds < 1
    known = f"process {holder.pid} of user" if Path("/proc/locks").exists() else "another user's"
    assert known in text
    assert known in caught.value.happened
    assert (60 if terminal else 600) <= now[0] < (61 if terminal else 601)


def test_processes_that_found_a_workspace_at_once_agree(tmp_path: Path) -> None:
    program = (
        "import sys; from bpeline.registry.workspace.workspace import Workspace; "
        "Workspace.open(sys.argv[1])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "home")]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    Workspace.open(tmp_path / "home")


def test_a_process_is_dead_when_its_id_is_free_or_belongs_to_another() -> None:
    here = this_process()
    assert not here.is_dead()
    finished = subprocess.Popen([sys.executable, "-c", ""])
    finished.wait()
    assert Process(finished.pid, here.host).is_dead()
    if birth_of(here.pid):
        assert Process(here.pid, here.host, "another boot:1").is_dead()
    assert not Process(finished.pid, f"not-{here.host}").is_dead()  # cannot be known


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="this system does not tell a process's state"
)
def test_a_killed_process_that_nobody_collected_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    process = Process(child.pid, socket.gethostname(), birth_of(child.pid))
    assert not process.is_dead()
    os.kill(child.pid, signal.SIGKILL)
    # Wait for its end without collecting it, so that it stays in the process table.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.is_dead()
    child.wait()
    assert process.is_dead()


def test_a_lock_that_cannot_be_opened_is_a_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace.open(tmp_path / "workspace")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(workspace_lock.os, "open", refuse)
    with pytest.raises(StorageError), workspace.lock("training"):
        pass


def test_a_place_above_is_named_without_dots_and_by_the_link_that_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far/deep").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here/link").symlink_to(tmp_path / "far/deep")
    monkeypatch.chdir(tmp_path / "here")
    assert workspace_root("../own") == tmp_path / "own"
    assert workspace_root("link/../own") == tmp_path / "far/own", "as the system finds it"
    assert workspace_root("link/own") == tmp_path / "here/link/own"


def test_no_link_leads_to_a_record(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home")
    manifest = workspace.manifest.rename(tmp_path / "elsewhere.json")
    workspace.manifest.symlink_to(manifest)
    with pytest.raises(OSError):
        read_json(workspace.manifest)
    linked = tmp_path / "linked"
    linked.symlink_to(workspace.root)
    workspace.manifest.unlink()
    manifest.rename(workspace.manifest)
    assert read_json(linked / workspace.manifest.name)["id"] == workspace.id
