"""The workspace directory: paths, format, lock and removal of leftovers."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bpeline.registry.environment import absolute_path, own_users, refusal
from bpeline.registry.workspace import lock as workspace_lock
from bpeline.registry.workspace.lock import HeldLock, LockHolder
from bpeline.registry.workspace.store_records import (
    remember_no_store,
    remembers_from_the_beginning,
)
from bpeline.tokenizer_core.bounded_files import read_json
from bpeline.tokenizer_core.digests import canonical_json, sealed, unsealed
from bpeline.tokenizer_core.durable_files import DURABLE, is_temporary
from bpeline.tokenizer_core.errors import CorruptFile, InvalidOption, NotTrusted, StorageError

FORMAT = 1
_KIND = "bpeline workspace"
# Errors of the machine, not of the workspace: passed on to the caller.
_OF_THE_MACHINE = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
}  # fmt: skip
_LONGEST_SHOWN = 200  # characters of a path
_ESCAPED = re.compile(rb"%[0-9A-Fa-f]{2}")
_PRIVATE = 0o700
_ID_BYTES = 8
_AN_INSTANT_SECONDS = 60
_WORK_DIRECTORIES = ("shards", "tables", "runs", "versions", "outbox", "temporary")
_SETS = "evaluation-sets"  # created with the first set, since an older workspace may be read-only


@dataclass(frozen=True, slots=True)
class Workspace:
    """The directory with all data of bpeline; `Workspace.open` opens or creates it.

    Attributes:
        store: URL of the store shared with other machines; empty for none.
    """

    root: Path
    store: str = ""

    @classmethod
    def open(cls, root: Path | str, *, store: str = "", sweep: bool = True) -> Workspace:
        """Open the workspace at ``root``; creates it if there is none.

        A new directory has mode 0700, an existing one keeps its mode; files follow the umask. A
        workspace of an untrusted user is read-only: changes raise `NotTrusted`.

        Args:
            sweep: remove files of killed writers, unless the lock is held.

        Raises:
            InvalidOption: ``root`` is a file, a directory with other files, or a path that cannot
                be part of a database URL.
            CorruptFile: its ``workspace.json`` cannot be read.
            NotTrusted: a link in it belongs to another user.
            StorageError: an unknown workspace format, or no permission.
        """
        workspace = cls(workspace_root(root), store)
        _require_an_address(workspace.root)
        try:
            workspace._look_at_owners()
            if not workspace.root.is_dir():
                DURABLE.make_directories(workspace.root.parent)
                workspace.root.mkdir(_PRIVATE, exist_ok=True)
                DURABLE.sync(workspace.root.parent)
            if not workspace.manifest.exists():
                workspace._found()
            workspace._check_format()
            missing = [n for n in _WORK_DIRECTORIES if not (workspace.root / n).is_dir()]
            missing = missing if DURABLE.is_changeable(workspace.root) else []
            for name in missing:
                (workspace.root / name).mkdir(exist_ok=True)
            if missing:  # make the new directories durable before files are written there
                DURABLE.sync(workspace.root)
            if sweep:
                workspace.sweep()
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidOption(
                f"{workspace.root} is not a directory",
                "expected a directory only for the workspace",
                "set BPELINE_HOME to a new or empty directory",
            ) from error
        except OSError as error:
            if error.errno in _OF_THE_MACHINE:
                raise
            raise StorageError(
                f"the workspace {shown_path(workspace.root)} cannot be written: {error.strerror}",
                "expected a directory that the current user owns or can create",
                "set BPELINE_HOME to such a directory",
            ) from error
        return workspace

    @staticmethod
    def is_at(root: Path | str) -> bool:
        """Whether there is a workspace at ``root``; creates nothing."""
        manifest = Workspace(workspace_root(root)).manifest
        try:
            manifest.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise StorageError(
                f"the workspace {shown_path(manifest.parent)} cannot be read: {error.strerror}",
                "expected a directory that the current user owns",
                "set BPELINE_HOME to such a directory",
            ) from error
        return True

    @property
    def id(self) -> str:
        """Its unique id in a shared catalogue; empty for workspaces of early releases."""
        try:
            return str(read_json(self.manifest).get("id", ""))
        except (OSError, ValueError, AttributeError):
            return ""

    @property
    def manifest(self) -> Path:
        return self.root / "workspace.json"

    @property
    def known_stores(self) -> Path:
        return self.root / "stores.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def catalogue_url(self) -> str:
        """URL of the default catalogue."""
        return f"sqlite:///{self.root / 'catalogue.sqlite'}"

    @property
    def had_a_catalogue(self) -> bool:
        """Whether a release that did not yet record stores has worked here."""
        directories = (self.tables, self.runs, self.outbox)
        has_files = any(True for directory in directories for _ in directory.glob("*"))
        return has_files and not remembers_from_the_beginning(self.known_stores)

    @property
    def mlflow_uri(self) -> str:
        """Default tracking and registry URI of MLflow: a SQLite file."""
        return f"sqlite:///{self.root / 'mlflow.sqlite'}"

    @property
    def lost_its_mlflow(self) -> bool:
        """Whether an MLflow of a release that did not yet record stores is gone."""
        database = self.root / "mlflow.sqlite"
        exists = database.exists() and database.stat().st_size
        had_artifacts = any(True for _ in self.mlflow_artifacts.glob("*"))
        return had_artifacts and not exists and not remembers_from_the_beginning(self.known_stores)

    @property
    def ui_port_file(self) -> Path:
        return self.root / "mlflow-ui-port"

    @property
    def served_ui_file(self) -> Path:
        return self.root / "mlflow-ui-served"

    @property
    def prefect_server_file(self) -> Path:
        return self.root / "prefect-server"

    @property
    def server_secret_file(self) -> Path:
        return self.root / "server-password"

    @property
    def mlflow_snapshot(self) -> Path:
        """Cache of MLflow's registry, see `registry.tracking.snapshot`."""
        return self.root / "mlflow-snapshot.json"

    @property
    def mlflow_places(self) -> Path:
        """Present and former paths of `mlflow_artifacts`, see `remember_place`."""
        return self.root / "mlflow-places.json"

    @property
    def mlflow_artifacts(self) -> Path:
        return self.root / "mlflow-artifacts"

    @property
    def shards(self) -> Path:
        return self.root / "shards"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def versions(self) -> Path:
        return self.root / "versions"

    @property
    def resolved_references(self) -> Path:
        # Inside a directory that every workspace has, since an older one may be read-only.
        return self.versions / "resolved"

    def resolved(self, reference: str) -> Path:
        return self.resolved_references / f"{reference.replace('/', '.')}.json"

    @property
    def evaluation_sets(self) -> Path:
        return self.root / _SETS

    def evaluation_set(self, digest: str) -> Path:
        return self.evaluation_sets / digest / "set.json"

    def evaluation_set_text(self, digest: str, number: int) -> Path:
        return self.evaluation_sets / digest / f"{number}.arrow"

    def measured_on(self, set_digest: str, digest: str) -> Path:
        return self.evaluation_sets / set_digest / "measured" / f"{digest}.json"

    @property
    def outbox(self) -> Path:
        return self.root / "outbox"

    @property
    def standard_input(self) -> Path:
        """Directory of corpora from standard input."""
        return self.root / "standard-input"

    @property
    def tokens(self) -> Path:
        """Default directory of encoded datasets, with a subdirectory for each version."""
        return self.root / "tokens"

    @property
    def words_database(self) -> Path:
        """The DuckDB database of `bpeline sql`, rebuilt when its sources change."""
        return self.root / "words.duckdb"

    @property
    def words_database_aside(self) -> Path:
        """Where `words_database` is built: without a lock, so `sweep` must not find it."""
        return self.root / "querying" / self.words_database.name

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    def shard_manifest(self, name: str) -> Path:
        """Path of the record of a shard, by its key, or of a pack, by ``packs/NAME``."""
        return Path(self._shard(name, ".json"))

    def has_shard_manifest(self, name: str) -> bool:
        """Whether `shard_manifest` exists; faster than `Path.exists`."""
        return os.path.exists(self._shard(name, ".json"))

    def shard_counts(self, name: str) -> Path:
        return Path(self._shard(name, ".parquet"))

    def shard_held_out(self, name: str) -> Path:
        return Path(self._shard(name, ".held-out.parquet"))

    def _shard(self, name: str, suffix: str) -> str:
        # 256 folders, because directories with very many files are slow.
        folder = "" if "/" in name else f"{name[:2]}/"
        return f"{self.shards}/{folder}{name}{suffix}"

    @property
    def packs(self) -> Path:
        """Directory of packs: shared files of small chunks."""
        return self.shards / "packs"

    def table(self, key: str) -> Path:
        return self.tables / f"{key}.duckdb"

    def source_statistics(self, table_key: str) -> Path:
        """DuckDB file with statistics of the sources of a word-count table."""
        return self.tables / f"{table_key}.sources.duckdb"

    def table_manifest(self, key: str) -> Path:
        return self.tables / f"{key}.json"

    def corpus_record(self, digest: str) -> Path:
        return self.tables / f"{digest}.corpus.json"

    def run_directory(self, run_id: str) -> Path:
        return self.runs / run_id

    def checkpoint(self, counts_digest: str, settings_digest: str) -> Path:
        """Checkpoint of the merges of a training."""
        return self._learning(counts_digest, settings_digest) / "checkpoint"

    def learned(self, counts_digest: str, settings_digest: str) -> Path:
        return self._learning(counts_digest, settings_digest) / "tokenizer"

    def _learning(self, counts_digest: str, settings_digest: str) -> Path:
        # The counts come first, so that `learns_from` finds the directories of a run.
        return self.runs / f"{counts_digest[:16]}-{settings_digest[:16]}"

    def learns_from(self, learning: Path, counts_digest: str) -> bool:
        """Whether a directory in `runs` belongs to these word counts."""
        return learning.name.startswith(f"{counts_digest[:16]}-")

    def version_directory(self, digest: str) -> Path:
        return self.versions / digest

    def outbox_record(self, run_id: str) -> Path:
        return self.outbox / f"{run_id}.json"

    def deletion_note(self, name: str, number: int) -> Path:
        return self.outbox / f"{name}.{number}.deletion"

    @contextmanager
    def temporary_directory(self, purpose: str) -> Iterator[Path]:
        """Create a private directory inside the workspace and remove it afterwards."""
        name = f"{purpose}-{os.getpid()}-{os.urandom(4).hex()}"
        directory = self.temporary / name
        DURABLE.require_changeable(directory)
        directory.mkdir(mode=_PRIVATE, parents=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    @contextmanager
    def lock(self, purpose: str) -> Iterator[HeldLock]:
        """Lock the workspace for writing, and remove files of killed writers.

        Readers need no lock. The kernel releases it when this process ends; child processes do
        not inherit it.

        Raises:
            WorkspaceLocked: another process holds the lock.
        """
        with workspace_lock.holding(self.lock_file, purpose) as held:
            self._remove_leftovers()
            yield held

    def lock_holder(self) -> LockHolder | None:
        """Return the present holder of the workspace lock, or None."""
        return workspace_lock.read_holder(self.lock_file)

    def _look_at_owners(self) -> None:
        """Make untrusted users' workspaces read-only, and reject links of other users."""
        reason = refusal(self.root)
        DURABLE.keep_unchanged(self.root, reason)
        if not self.root.is_dir():
            return
        owners = own_users() | ({self.root.stat().st_uid} if reason is None else set())
        with os.scandir(self.root) as entries:
            links = [entry for entry in entries if entry.is_symlink()]
        for link in links:
            if (owner := link.stat(follow_symlinks=False).st_uid) not in owners:
                raise reason or NotTrusted(
                    f"{link.path} is a link that belongs to another user ({owner})",
                    "expected a link of this user, of root or of a trusted workspace's owner",
                    f"remove it: `rm {shlex.quote(link.path)}`",
                )

    def _found(self) -> None:
        strangers = [
            path
            for path in self.root.iterdir()
            if path not in (self.lock_file, self.known_stores) and not is_temporary(path)
        ]
        if strangers and not self.manifest.exists():
            inside = self.root / ".bpeline"
            raise InvalidOption(
                f"{self.root} is not a workspace: it contains {sorted(strangers)[0].name}",
                "expected a workspace, or a new or empty directory",
                f"use the workspace inside it: {inside}"
                if self.is_at(inside)
                else "set BPELINE_HOME to such a directory",
            )
        # The lock protects the new manifest from the sweep of a process that starts just now.
        with workspace_lock.holding(self.lock_file, wait=True):
            if not self.manifest.exists():
                manifest = {"kind": _KIND, "format": FORMAT, "id": secrets.token_hex(_ID_BYTES)}
                remember_no_store(self.known_stores)
                DURABLE.write(self.manifest, canonical_json(sealed(manifest)))

    def _check_format(self) -> None:
        try:
            content = unsealed(read_json(self.manifest))
            kind, format_number = content["kind"], int(content["format"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFile(
                f"{self.manifest} cannot be read",
                f'expected {{"kind": "{_KIND}", "format": {FORMAT}}}',
                "restore it, or set BPELINE_HOME to a new directory",
            ) from error
        if kind != _KIND or format_number != FORMAT:
            raise StorageError(
                f"{self.root} has the workspace format {format_number}",
                f"this bpeline reads and writes format {FORMAT}",
                "install the bpeline that wrote it, or set BPELINE_HOME to a new directory",
            )

    def sweep(self) -> int:
        """Remove files of killed writers, unless the lock is held; returns their number."""
        descriptor = workspace_lock.take(self.lock_file)
        if descriptor is None:
            return 0
        try:
            return self._remove_leftovers()
        finally:
            workspace_lock.release(descriptor)

    def _remove_leftovers(self) -> int:
        """Remove temporary files and directories; the caller holds the lock."""
        removed = 0
        # By descriptors, so that no symbolic link is followed.
        for directory, names, files, descriptor in os.fwalk(f"{self.root}/."):
            folder = Path(directory)
            if folder == self.root:
                names[:] = [name for name in names if name in (*_WORK_DIRECTORIES, _SETS)]
            leftovers = [
                name
                for name in names + files
                if folder == self.temporary
                or (is_temporary(Path(name)) and not self._is_being_kept(folder / name))
            ]
            names[:] = [name for name in names if not is_temporary(Path(name))]
            for name in leftovers:
                with suppress(FileNotFoundError):
                    mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode):
                        shutil.rmtree(name, ignore_errors=True, dir_fd=descriptor)
                    else:
                        os.unlink(name, dir_fd=descriptor)
                    removed += 1
        return removed

    def _is_being_kept(self, path: Path) -> bool:
        """Whether a temporary file may be of a download in progress, which holds no lock."""
        try:
            age = time.time() - path.stat().st_mtime
        except OSError:
            return False
        return path.is_relative_to(self.versions) and 0 <= age < _AN_INSTANT_SECONDS


def workspace_root(root: Path | str) -> Path:
    """Return the absolute path of a workspace."""
    try:
        path = absolute_path(root)
    except RuntimeError as error:  # from pathlib, for ~ without a home directory
        raise _no_place(root, "there is no such user, or no home directory is known") from error
    except FileNotFoundError as error:
        raise _no_place(root, "the current directory does not exist") from error
    if "\0" in str(path):
        raise _no_place(root, "it contains a zero byte")
    return path


def shown_path(path: Path) -> str:
    """Return a path for messages, cut to 200 characters."""
    text = str(path)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _no_place(root: Path | str, why: str) -> InvalidOption:
    return InvalidOption(
        f"{str(root)!r} is not the path of a directory: {why}",
        "expected the path of a directory",
        "give --workspace an absolute path, or set BPELINE_HOME to one",
    )


def _require_an_address(root: Path) -> None:
    """Reject paths that change in a URL, since SQLite and MLflow use URLs.

    A question mark would end the path, and MLflow would decode ``%41``.
    """
    text = os.fsencode(root)
    escapes = b"?" in text or _ESCAPED.search(text) is not None
    if escapes or text.decode(errors="replace").encode() != text:
        raise InvalidOption(
            f"the directory {str(root)!r} cannot be a workspace",
            "expected a UTF-8 path without question mark and without % before two hexadecimal "
            "digits",
            "set BPELINE_HOME to another directory",
        )
