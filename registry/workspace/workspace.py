"""The workspace: every path under its root by name, its format, its lock, its sweep.

Nobody else joins paths. Where the root is, is decided by whoever opens it; what the files hold,
by those who write them.
"""

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
# What refuses no workspace in particular: whoever calls says so better.
_OF_THE_MACHINE = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
}  # fmt: skip
_LONGEST_SHOWN = 200  # characters of a path
_ESCAPED = re.compile(rb"%[0-9A-Fa-f]{2}")
_PRIVATE = 0o700
_ID_BYTES = 8
_AN_INSTANT_SECONDS = 60
_WORK_DIRECTORIES = ("shards", "tables", "runs", "versions", "outbox", "temporary")
_SETS = "evaluation-sets"  # made with the first of them: an older workspace may be read-only


@dataclass(frozen=True, slots=True)
class Workspace:
    """One directory that holds everything bpeline remembers on this machine.

    Open it with `Workspace.open`; the constructor only names paths.

    Attributes:
        root: absolute path of the directory.
        store: URL under which finished files are shared with other machines; empty for none.
    """

    root: Path
    store: str = ""

    @classmethod
    def open(cls, root: Path | str, *, store: str = "", sweep: bool = True) -> Workspace:
        """Open the workspace at ``root``, making it if there is none.

        A new directory is its owner's alone (0700), one that exists keeps its mode; files in it
        follow the umask. What killed writers left half-written is removed, unless the lock is held.
        One of another user that is not trusted is only read: what changes it raises `NotTrusted`.

        Args:
            root: its directory; made absolute.
            store: where finished files are shared.
            sweep: look for leftovers.

        Raises:
            InvalidOption: ``root`` is a file, a directory with other people's files in it, or a
                path that cannot be part of a database's URL.
            CorruptFile: its ``workspace.json`` cannot be read.
            NotTrusted: a link in it belongs to another user.
            StorageError: another version's format, or no permission.
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
            if missing:  # what is kept in them later would be lost along with them
                DURABLE.sync(workspace.root)
            if sweep:
                workspace.sweep()
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidOption(
                f"{workspace.root} is not a directory",
                "a workspace is a directory of its own",
                "set BPELINE_HOME to a new or empty directory",
            ) from error
        except OSError as error:
            if error.errno in _OF_THE_MACHINE:
                raise
            raise StorageError(
                f"the workspace {shown_path(workspace.root)} cannot be written: {error.strerror}",
                "a workspace is a directory that the current user owns, or can make",
                "set BPELINE_HOME to such a directory",
            ) from error
        return workspace

    @staticmethod
    def is_at(root: Path | str) -> bool:
        """Whether there is a workspace at ``root``; nothing is made.

        Raises:
            InvalidOption: no directory can be called so.
            StorageError: this user may not look.
        """
        manifest = Workspace(workspace_root(root)).manifest
        try:
            manifest.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise StorageError(
                f"the workspace {shown_path(manifest.parent)} cannot be read: {error.strerror}",
                "a workspace is a directory that the current user owns",
                "set BPELINE_HOME to such a directory",
            ) from error
        return True

    @property
    def id(self) -> str:
        """What tells this workspace from others in a catalogue they share; moves along with it.

        Empty for workspaces made before they had one.
        """
        try:
            return str(read_json(self.manifest).get("id", ""))
        except (OSError, ValueError, AttributeError):
            return ""

    # ---- paths -----------------------------------------------------------------------------

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
        """URL of the catalogue in this workspace (another one may be configured)."""
        return f"sqlite:///{self.root / 'catalogue.sqlite'}"

    @property
    def had_a_catalogue(self) -> bool:
        """Whether a release that did not remember stores yet has worked here."""
        made = (self.tables, self.runs, self.outbox)
        worked = any(True for one in made for _ in one.glob("*"))
        return worked and not remembers_from_the_beginning(self.known_stores)

    @property
    def mlflow_uri(self) -> str:
        """MLflow's tracking and registry URI for this workspace: a SQLite file."""
        return f"sqlite:///{self.root / 'mlflow.sqlite'}"

    @property
    def lost_its_mlflow(self) -> bool:
        """Whether a release that did not remember stores yet had an MLflow here that is gone."""
        database = self.root / "mlflow.sqlite"
        there = database.exists() and database.stat().st_size
        had = any(True for _ in self.mlflow_artifacts.glob("*"))
        return had and not there and not remembers_from_the_beginning(self.known_stores)

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
        """What MLflow's registry held when it was asked last: a cache."""
        return self.root / "mlflow-snapshot.json"

    @property
    def mlflow_places(self) -> Path:
        """Where `mlflow_artifacts` was, and is: see `remember_place`."""
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
        # Below a directory that every workspace has: an older one may be read-only.
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
        """Where corpora are kept that came on standard input."""
        return self.root / "standard-input"

    @property
    def tokens(self) -> Path:
        """Where datasets go that nobody named a place for: a directory for each version."""
        return self.root / "tokens"

    @property
    def words_database(self) -> Path:
        """What SQL reads: made of what else is here, and made again when that has changed."""
        return self.root / "words.duckdb"

    @property
    def words_database_aside(self) -> Path:
        """Where it is made: readers hold no lock, so that a sweep must not see it."""
        return self.root / "querying" / self.words_database.name

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    def shard_manifest(self, name: str) -> Path:
        """The record of the counts of a chunk, by its key, or of several, by ``packs/NAME``."""
        return Path(self._shard(name, ".json"))

    def has_shard_manifest(self, name: str) -> bool:
        """Whether it is here, for thousands of keys: a `Path` takes longer than the look."""
        return os.path.exists(self._shard(name, ".json"))

    def shard_counts(self, name: str) -> Path:
        return Path(self._shard(name, ".parquet"))

    def shard_held_out(self, name: str) -> Path:
        return Path(self._shard(name, ".held-out.parquet"))

    def _shard(self, name: str, suffix: str) -> str:
        # 256 folders: ten thousand files do not make one slow directory
        folder = "" if "/" in name else f"{name[:2]}/"
        return f"{self.shards}/{folder}{name}{suffix}"

    @property
    def packs(self) -> Path:
        """Where counts of small chunks lie together."""
        return self.shards / "packs"

    def table(self, key: str) -> Path:
        return self.tables / f"{key}.duckdb"

    def source_statistics(self, table_key: str) -> Path:
        """What is known of the named sources that became a word-count table, for people."""
        return self.tables / f"{table_key}.sources.duckdb"

    def table_manifest(self, key: str) -> Path:
        return self.tables / f"{key}.json"

    def corpus_record(self, digest: str) -> Path:
        return self.tables / f"{digest}.corpus.json"

    def run_directory(self, run_id: str) -> Path:
        return self.runs / run_id

    def checkpoint(self, counts_digest: str, settings_digest: str) -> Path:
        """Where merges are kept while they are learned."""
        return self._learning(counts_digest, settings_digest) / "checkpoint"

    def learned(self, counts_digest: str, settings_digest: str) -> Path:
        return self._learning(counts_digest, settings_digest) / "tokenizer"

    def _learning(self, counts_digest: str, settings_digest: str) -> Path:
        # Both are told apart: an unfinished run needs what is learned from its counts.
        return self.runs / f"{counts_digest[:16]}-{settings_digest[:16]}"

    def learns_from(self, learning: Path, counts_digest: str) -> bool:
        """Whether a directory of `runs` may hold what a run with these counts continues."""
        return learning.name.startswith(f"{counts_digest[:16]}-")

    def version_directory(self, digest: str) -> Path:
        return self.versions / digest

    def outbox_record(self, run_id: str) -> Path:
        return self.outbox / f"{run_id}.json"

    def deletion_note(self, name: str, number: int) -> Path:
        return self.outbox / f"{name}.{number}.deletion"

    @contextmanager
    def temporary_directory(self, purpose: str) -> Iterator[Path]:
        """A private directory inside the workspace, removed afterwards with all it holds.

        Args:
            purpose: a word that begins its name, for people who find it.
        """
        name = f"{purpose}-{os.getpid()}-{os.urandom(4).hex()}"
        directory = self.temporary / name
        DURABLE.require_changeable(directory)
        directory.mkdir(mode=_PRIVATE, parents=True)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    # ---- the lock --------------------------------------------------------------------------

    @contextmanager
    def lock(self, purpose: str) -> Iterator[HeldLock]:
        """Hold the workspace for writing, rid of what killed writers left; readers need no lock.

        The kernel releases it when this process ends, however it ends. Child processes do not
        inherit it.

        Args:
            purpose: what this process is doing, for those who find the workspace locked.

        Yields:
            The lock; its method ``doing`` changes the purpose.

        Raises:
            WorkspaceLocked: somebody else holds it: who, where, since when, doing what.
        """
        with workspace_lock.holding(self.lock_file, purpose) as held:
            self._remove_leftovers()
            yield held

    def lock_holder(self) -> LockHolder | None:
        """Who holds the workspace now, or None; may be out of date as soon as it is told."""
        return workspace_lock.read_holder(self.lock_file)

    # ---- owners, format and sweep ----------------------------------------------------------

    def _look_at_owners(self) -> None:
        """Keep another user's workspace as it is, and refuse others' links in any workspace."""
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
        # Waiting is short: without a manifest nobody can be at work here. The lock keeps the sweep
        # of a process that starts at the same moment away from our half-written manifest.
        strangers = [
            path
            for path in self.root.iterdir()
            if path not in (self.lock_file, self.known_stores) and not is_temporary(path)
        ]
        if strangers and not self.manifest.exists():
            inside = self.root / ".bpeline"
            raise InvalidOption(
                f"{self.root} is not a workspace: it holds {sorted(strangers)[0].name}",
                "a workspace is a directory of its own, new or empty",
                f"name the one that is in it: {inside}"
                if self.is_at(inside)
                else "set BPELINE_HOME to such a directory",
            )
        with workspace_lock.holding(self.lock_file, wait=True):
            if not self.manifest.exists():
                manifest = {"kind": _KIND, "format": FORMAT, "id": secrets.token_hex(_ID_BYTES)}
                remember_no_store(self.known_stores)
                DURABLE.write(self.manifest, canonical_json(sealed(manifest)))

    def _check_format(self) -> None:
        try:
            content = unsealed(read_json(self.manifest))
            kind, found = content["kind"], int(content["format"])
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptFile(
                f"{self.manifest} cannot be read",
                f'it holds {{"kind": "{_KIND}", "format": {FORMAT}}}',
                "restore it, or set BPELINE_HOME to a new directory",
            ) from error
        if kind != _KIND or found != FORMAT:
            raise StorageError(
                f"{self.root} has the workspace format {found}",
                f"this bpeline reads and writes format {FORMAT}",
                "install the bpeline that wrote it, or set BPELINE_HOME to a new directory",
            )

    def sweep(self) -> int:
        """Remove what killed writers left; does nothing while somebody holds the lock.

        Returns:
            How many leftovers were removed.
        """
        descriptor = workspace_lock.take(self.lock_file)
        if descriptor is None:
            return 0
        try:
            return self._remove_leftovers()
        finally:
            workspace_lock.release(descriptor)

    def _remove_leftovers(self) -> int:
        """Remove temporary files and directories; only while holding the lock."""
        removed = 0
        # By descriptors, so that no link that is put in the way is followed.
        for directory, names, files, descriptor in os.fwalk(f"{self.root}/."):
            here = Path(directory)
            if here == self.root:
                names[:] = [name for name in names if name in (*_WORK_DIRECTORIES, _SETS)]
            leftovers = [
                name
                for name in names + files
                if here == self.temporary
                or (is_temporary(Path(name)) and not self._is_being_kept(here / name))
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
        """Loading keeps downloaded versions without holding the lock, each file in an instant."""
        try:
            age = time.time() - path.stat().st_mtime
        except OSError:
            return False
        return path.is_relative_to(self.versions) and 0 <= age < _AN_INSTANT_SECONDS


def workspace_root(root: Path | str) -> Path:
    """The absolute path that a workspace's name means.

    Raises:
        InvalidOption: it means none.
    """
    try:
        path = absolute_path(root)
    except RuntimeError as error:  # what pathlib says of ~ without a home
        raise _no_place(root, "there is no such user, or no home is known") from error
    except FileNotFoundError as error:
        raise _no_place(root, "the directory in which it was typed is gone") from error
    if "\0" in str(path):
        raise _no_place(root, "it has a zero byte in it")
    return path


def shown_path(path: Path) -> str:
    """A path as messages name it: thousands of characters say no more than the first."""
    text = str(path)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _no_place(root: Path | str, why: str) -> InvalidOption:
    return InvalidOption(
        f"{str(root)!r} names no directory: {why}",
        "the path of a directory",
        "give --workspace an absolute path, or set BPELINE_HOME to one",
    )


def _require_an_address(root: Path) -> None:
    """SQLite's files are reached by URL, where a question mark ends the path, and so are MLflow's.

    MLflow reads ``%41`` in the path of a folder as the letter that this stands for in a URL.
    """
    text = os.fsencode(root)
    escapes = b"?" in text or _ESCAPED.search(text) is not None
    if escapes or text.decode(errors="replace").encode() != text:
        raise InvalidOption(
            f"the directory {str(root)!r} cannot be a workspace",
            "its path is UTF-8 and has no question mark, and no % before two hexadecimal digits",
            "set BPELINE_HOME to another directory",
        )
